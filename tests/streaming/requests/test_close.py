"""
Ending subscriptions and connections.
"""

from __future__ import annotations

import pytest

from natsbroker.interfaces.records import StoreFull
from natsbroker.streaming import errors, protocol
from natsbroker.subjects.permissions import PermissionSet
from natsbroker.wire.grants import Grant
from tests.streaming.stores import HeldStore
from tests.streaming.support import Client, Inbox, Stage

UNSUB, SUBCLOSE = b"_STAN.unsub.test-cluster", b"_STAN.subclose.test-cluster"
BOTH = pytest.mark.parametrize("subject", [UNSUB, SUBCLOSE])


def held(stage: Stage) -> HeldStore:
    """A store whose commits can wait."""
    return HeldStore(Stage.makeStore(stage))


def end(client: Client, where: bytes, /, **fields: str) -> str:
    """Send a request to end a subscription; return the error."""
    request = protocol.UnsubscribeRequest(clientID=client.clientID, **fields)
    return str(client.ask(where, request, protocol.SubscriptionResponse).error)


class TestSubscriptions:
    """Unsubscribing, and closing a subscription."""

    @BOTH
    def test_errors(self, subject: bytes) -> None:
        """Each wrong request to end a subscription gets its own error."""
        stage = Stage()
        client = stage.client()
        listener = client.subscribe("foo")
        inbox = listener.ackInbox.decode()
        assert end(client, subject, subject="bar", inbox=inbox) == errors.UNKNOWN_CHANNEL
        assert end(client, subject, subject="foo", inbox="x") == errors.INVALID_SUBSCRIPTION
        assert end(client, subject, subject="foo") == errors.INVALID_SUBSCRIPTION
        response = stage.ask(subject, b"\xff", protocol.SubscriptionResponse)
        assert response.error == errors.INVALID_UNSUBSCRIBE_REQUEST
        client.clientID = "unknown"
        assert end(client, subject, subject="foo", inbox=inbox) == errors.UNKNOWN_CLIENT_ID

    @BOTH
    def test_inboxes(self, subject: bytes) -> None:
        """A subscription is known by its ackInbox and by its inbox."""
        client = Stage().client()
        for name in ("ackInbox", "inbox"):
            listener = client.subscribe("foo")
            inbox = listener.ackInbox if name == "ackInbox" else listener.inbox.subject
            assert end(client, subject, subject="foo", inbox=inbox.decode()) == ""
            assert end(client, subject, subject="foo", inbox=inbox.decode()) != ""

    @BOTH
    def test_othersSubscription(self, subject: bytes) -> None:
        """A subscription cannot be ended by another client or another user."""
        stage = Stage()
        alice = stage.client("alice", grant=Grant(user="alice"))
        inbox = alice.subscribe("foo").ackInbox.decode()
        bob = stage.client("bob", grant=Grant(user="bob"))
        assert end(bob, subject, subject="foo", inbox=inbox) == errors.UNKNOWN_CLIENT_ID
        bob.clientID = "alice"
        assert end(bob, subject, subject="foo", inbox=inbox) == errors.UNKNOWN_CLIENT_ID
        assert end(alice, subject, subject="foo", inbox=inbox) == ""

    def test_permissions(self) -> None:
        """A client that may close a subscription is not automatically allowed to unsubscribe it."""
        allowed = PermissionSet([b"_STAN.sub.>", b"_STAN.subclose.test-cluster.foo"])
        client = Stage().client(grant=Grant(user="u", publish=allowed))
        listener = client.subscribe("foo", durableName="d")
        assert listener.unsubscribe() == errors.NOT_AUTHORIZED
        assert listener.close() == ""

    @BOTH
    def test_nothingMore(self, subject: bytes) -> None:
        """A subscription that was ended gets no message, and no redelivery."""
        stage = Stage()
        client = stage.client()
        listener = client.subscribe("foo", isAcking=False, ackWaitInSecs=1)
        client.publish("foo", b"1")
        assert listener.sequences == [1]
        end(client, subject, subject="foo", inbox=listener.ackInbox.decode())
        client.publish("foo", b"2")
        stage.advance(5)
        assert listener.sequences == []
        assert stage.model.channel("foo").subs_count == 0

    def test_durableClosed(self) -> None:
        """A durable subscription that was closed is offline."""
        stage = Stage()
        client = stage.client()
        assert client.subscribe("foo", durableName="d").close() == ""
        [figures] = stage.model.channelSubscriptions("foo")
        assert (figures.is_offline, figures.client_id) == (True, "me")

    def test_durableUnsubscribed(self) -> None:
        """
        A durable name that was unsubscribed can be used for a new subscription, from the beginning.
        """
        stage = Stage()
        client = stage.client()
        client.publish("foo", b"1")
        listener = client.subscribe("foo", durableName="d")
        assert listener.unsubscribe() == ""
        assert stage.model.channelSubscriptions("foo") == []
        assert client.subscribe("foo", durableName="d").sequences == [1]

    @BOTH
    def test_memberLeaves(self, subject: bytes) -> None:
        """
        The pending messages of a member that leaves a queue group are soon redelivered to the other
        members.
        """
        stage = Stage()
        client = stage.client()
        members = [client.subscribe("foo", qGroup="q", isAcking=False) for _ in range(3)]
        client.publishMany("foo", [b"%d" % number for number in range(9)])
        stage.settle()
        lost = members[0].sequences
        for member in members[1:]:
            member.ackNow(*member.sequences)
        end(client, subject, subject="foo", inbox=members[0].ackInbox.decode())
        assert [member.taken() for member in members] == [[], [], []]
        stage.advance(0.2)
        again = members[1].again + members[2].again
        assert sorted(again) == [(sequence, 1) for sequence in lost]

    def test_durableQueueUnsubscribed(self) -> None:
        """A durable queue group ends when its last member unsubscribes, not before."""
        client = Stage().client()
        one = client.subscribe("foo", qGroup="q", durableName="d")
        two = client.subscribe("foo", qGroup="q", durableName="d")
        client.publish("foo", b"1")
        assert one.unsubscribe() == ""
        assert client.subscribe("foo", qGroup="q", durableName="d").close() == ""
        assert two.unsubscribe() == ""
        assert client.subscribe("foo", qGroup="q", durableName="d").sequences == [1]

    @BOTH
    def test_durableFirst(self, subject: bytes) -> None:
        """A request to end a durable subscription is answered when its end is durable."""
        stage = Stage(makeStore=held)
        client = stage.client()
        listener = client.subscribe("foo", durableName="d")
        inbox = Inbox(stage)
        stage.store.isHeld = True
        request = protocol.UnsubscribeRequest(
            clientID="me", subject="foo", inbox=listener.ackInbox.decode()
        )
        stage.send(subject, request, inbox.subject, client.origin)
        stage.settle()
        assert inbox.got == []
        stage.store.commit()
        stage.settle()
        assert len(inbox.got) == 1

    def test_storeFails(self) -> None:
        """
        If the end of a subscription cannot be stored, the client receives the error; the
        subscription is gone in any case.
        """
        stage = Stage(makeStore=held)
        client = stage.client()
        listener = client.subscribe("foo", durableName="d")
        stage.store.failing = StoreFull("no space")
        assert listener.unsubscribe() == "no space"
        stage.store.failing = None
        stage.advance(2)
        stage.crash()
        stage.restart()
        assert stage.model.channelSubscriptions("foo") == []


class TestClose:
    """Closing a connection."""

    def test_closes(self) -> None:
        """
        A client that closes its connection is gone, with its subscriptions; durable ones are
        offline.
        """
        stage = Stage()
        client = stage.client()
        client.subscribe("foo")
        client.subscribe("foo", durableName="d")
        client.subscribe("foo", qGroup="q")
        client.subscribe("foo", qGroup="q", durableName="d")
        assert client.close() == ""
        assert stage.model.clientNames() == []
        names = [
            subscription.durable_name or subscription.queue_name
            for subscription in stage.model.channelSubscriptions("foo")
        ]
        assert names == ["d", "d:q"]

    def test_errors(self) -> None:
        """A close request of an unknown client, or with garbage, gets its own error."""
        stage = Stage()
        client = stage.client()
        assert client.close("unknown") == errors.UNKNOWN_CLIENT_ID
        subject = b"_STAN.close.test-cluster"
        response = stage.ask(subject, b"\xff", protocol.CloseResponse)
        assert response.error == errors.INVALID_CLOSE_REQUEST
        assert client.close() == ""
        assert client.close() == errors.UNKNOWN_CLIENT_ID

    def test_othersClient(self) -> None:
        """A user cannot close the client of another user."""
        stage = Stage()
        alice = stage.client("alice", grant=Grant(user="alice"))
        mallory = Client(stage, "mallory", Grant(user="mallory"))
        assert mallory.close("alice") == errors.UNKNOWN_CLIENT_ID
        assert alice.ping() == ""

    def test_afterWhatWasPublished(self) -> None:
        """The close request is answered after all earlier publishes."""
        stage = Stage(makeStore=held)
        client = stage.client()
        client.publish("foo", b"0")
        stage.store.isHeld = True
        came: list[str] = []
        acks = Inbox(stage, lambda message: came.append("ack"))
        message = client.pubMsg("foo", b"1")
        stage.send(b"_STAN.pub.test-cluster.foo", message, acks.subject, client.origin)
        closed = Inbox(stage, lambda message: came.append("closed"))
        request = protocol.CloseRequest(clientID="me")
        stage.send(b"_STAN.close.test-cluster", request, closed.subject, client.origin)
        stage.settle()
        assert came == []
        stage.store.isHeld = False
        stage.store.commit()
        stage.settle()
        assert came == ["ack", "closed"]

    def test_acksBeforeCount(self) -> None:
        """
        A message that was acknowledged in the same chunk of input as the close request is not
        redelivered.
        """
        stage = Stage()
        client = stage.client()
        client.publishMany("foo", [b"1", b"2"])
        listener = client.subscribe("foo", durableName="d", isAcking=False)
        listener.ack(1)
        client.close()
        assert stage.client().subscribe("foo", durableName="d").again == [(2, 1)]

    def test_storeFails(self) -> None:
        """
        If the end of a client cannot be stored, the client receives the error; it is gone in any
        case.
        """
        stage = Stage(makeStore=held)
        client = stage.client()
        stage.store.failing = StoreFull("no space")
        assert client.close() == "no space"
        assert stage.model.clientNames() == []
