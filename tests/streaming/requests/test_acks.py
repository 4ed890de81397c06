"""
Tests for acknowledgements of messages.
"""

from __future__ import annotations

import pytest

from natsbroker.streaming import protocol
from natsbroker.streaming.permissions import channelPermissions
from natsbroker.wire.grants import Grant
from tests.streaming.support import Client, Listener, Stage


def pending(stage: Stage) -> list[int]:
    """The number of messages that each subscription to C{foo} has pending."""
    return [subscription.pending_count for subscription in stage.model.channelSubscriptions("foo")]


def subscribed(stage: Stage, **more: object) -> tuple[Client, Listener]:
    """A client with three messages and a subscription that does not acknowledge by itself."""
    client = stage.client()
    client.publishMany("foo", [b"1", b"2", b"3"])
    return client, client.subscribe("foo", isAcking=False, **more)


class TestAcknowledging:
    """The effects of an acknowledgement."""

    def test_settles(self) -> None:
        """An acknowledged message is not pending; acknowledging it again does nothing."""
        stage = Stage()
        _, listener = subscribed(stage)
        listener.ackNow(2)
        assert pending(stage) == [2]
        listener.ackNow(2, 99)
        assert pending(stage) == [2]

    def test_makesRoom(self) -> None:
        """Each acknowledgement makes room for one more message."""
        stage = Stage()
        _, listener = subscribed(stage, maxInFlight=1)
        assert listener.sequences == [1]
        listener.ackNow(1)
        assert listener.sequences == [2]
        listener.ackNow(1)
        assert listener.sequences == []

    @pytest.mark.parametrize("payload", [b"\xff", b""])
    def test_garbage(self, payload: bytes) -> None:
        """A text that is no acknowledgement does nothing."""
        stage = Stage()
        client, listener = subscribed(stage)
        stage.send(listener.ackInbox, payload, origin=client.origin)
        stage.settle()
        assert pending(stage) == [3]

    def test_otherChannel(self) -> None:
        """An acknowledgement that names another channel does nothing."""
        stage = Stage()
        client, listener = subscribed(stage)
        ack = protocol.Ack(subject="bar", sequence=1)
        stage.send(listener.ackInbox, ack, origin=client.origin)
        stage.settle()
        assert pending(stage) == [3]

    def test_otherUser(self) -> None:
        """An acknowledgement that another user sends to the ackInbox does nothing."""
        stage = Stage()
        alice = stage.client("alice", grant=Grant(user="alice"))
        alice.publish("foo", b"1")
        listener = alice.subscribe("foo", isAcking=False)
        mallory = stage.client("mallory", grant=Grant(user="mallory"))
        ack = protocol.Ack(subject="foo", sequence=1)
        stage.send(listener.ackInbox, ack, origin=mallory.origin)
        stage.settle()
        assert pending(stage) == [1]
        listener.ackNow(1)
        assert pending(stage) == [0]

    def test_afterTheEnd(self) -> None:
        """An acknowledgement after the subscription was closed does nothing."""
        stage = Stage()
        _, listener = subscribed(stage, durableName="d")
        listener.close()
        listener.ackNow(1)
        assert pending(stage) == [3]

    def test_beforeTheEnd(self) -> None:
        """An acknowledgement right before the close request counts."""
        stage = Stage()
        _, listener = subscribed(stage, durableName="d")
        listener.ack(1)
        listener.close()
        assert pending(stage) == [2]


class TestQueues:
    """Acknowledgements in queue groups."""

    def test_fromAnotherMember(self) -> None:
        """A member can acknowledge messages that another member received."""
        stage = Stage()
        client = stage.client()
        one = client.subscribe("foo", qGroup="q", isAcking=False)
        two = client.subscribe("foo", qGroup="q", isAcking=False)
        client.publishMany("foo", [b"1", b"2"])
        stage.settle()
        theirs = one.sequences
        two.ackNow(*theirs)
        assert sorted(pending(stage)) == [0, 1]

    def test_relieves(self) -> None:
        """When one member has room, it receives the group's next message."""
        stage = Stage()
        client = stage.client()
        members = [
            client.subscribe("foo", qGroup="q", isAcking=False, maxInFlight=1) for _ in range(2)
        ]
        client.publishMany("foo", [b"%d" % number for number in range(4)])
        stage.settle()
        [first] = members[0].sequences
        assert len(members[1].sequences) == 1
        members[0].ackNow(first)
        assert (members[0].sequences, members[1].sequences) == ([3], [])


class TestWithdrawn:
    """Clients that may not subscribe to the channel any more."""

    def withdrawn(self, **more: object) -> tuple[Stage, Client, Listener]:
        """A client that has lost the permission since it subscribed, with three messages."""
        stage = Stage()
        subscribe, _ = channelPermissions(publish=["foo"], subscribe=["foo"])
        publish, _ = channelPermissions(publish=["foo"])
        client = stage.client(grant=Grant(user="u", publish=subscribe))
        client.publishMany("foo", [b"1", b"2", b"3"])
        listener = client.subscribe("foo", isAcking=False, maxInFlight=1, **more)
        client.origin.grant = Grant(user="u", publish=publish)
        return stage, client, listener

    def test_subscriptionEnds(self) -> None:
        """
        The first acknowledgement after the permission was lost counts, and ends the subscription.
        """
        stage, client, listener = self.withdrawn()
        assert listener.sequences == [1]
        listener.ackNow(1)
        assert client.publish("foo") == ""
        assert listener.sequences == []
        assert stage.model.channelSubscriptions("foo") == []
        stage.stop()
        stage.restart()
        assert stage.model.channelSubscriptions("foo") == []

    def test_durable(self) -> None:
        """
        The durable subscription is closed, and resumes at its position when the client has the
        permission again.
        """
        stage, client, listener = self.withdrawn(durableName="d")
        assert listener.sequences == [1]
        listener.ackNow(1)
        assert [
            subscription.is_offline for subscription in stage.model.channelSubscriptions("foo")
        ] == [True]
        client.origin.grant = Grant(user="u")
        assert client.subscribe("foo", durableName="d").sequences == [2, 3]

    def test_queue(self) -> None:
        """A pending message of a queue group goes to a member that still has the permission."""
        stage, _, listener = self.withdrawn(qGroup="q")
        other = stage.client("other").subscribe("foo", qGroup="q")
        assert listener.sequences == [1]
        listener.ackNow(99)
        stage.advance(1)
        assert sorted(other.sequences) == [1, 2, 3]
