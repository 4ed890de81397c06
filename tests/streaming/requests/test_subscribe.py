"""
Making subscriptions.
"""

from __future__ import annotations

import pytest

from natsbroker.config.settings.streaming import Streaming
from natsbroker.interfaces.records import StoreFailed, StoreFull
from natsbroker.streaming import errors, protocol
from natsbroker.subjects.permissions import PermissionSet, SubscribePermissions
from natsbroker.wire.grants import Grant
from tests.streaming.stores import HeldStore
from tests.streaming.support import SECOND, Client, Listener, Stage

SUB = b"_STAN.sub.test-cluster"


def held(stage: Stage) -> HeldStore:
    """A store whose commits can wait."""
    return HeldStore(Stage.makeStore(stage))


def published(stage: Stage, count: int, channel: str = "foo") -> Client:
    """A client that published some messages, one a second."""
    client = stage.client()
    for number in range(1, count + 1):
        assert client.publish(channel, b"%d" % number) == ""
        stage.advance(1)
    return client


class TestChecks:
    """Refused subscriptions, and the order of the checks."""

    ORDER = (
        ({"clientID": ""}, errors.CLIENT_ID_MISSING),
        ({"ackWaitInSecs": 0}, errors.INVALID_ACK_WAIT),
        ({"ackWaitInSecs": -5}, errors.INVALID_ACK_WAIT),
        ({"maxInFlight": 0}, errors.INVALID_MAX_IN_FLIGHT),
        ({"maxInFlight": -1}, errors.INVALID_MAX_IN_FLIGHT),
        ({"startPosition": 5}, errors.INVALID_START),
        ({"startPosition": -1}, errors.INVALID_START),
        ({"subject": ""}, errors.INVALID_SUBJECT),
        ({"subject": "foo.*"}, errors.INVALID_SUBJECT),
        ({"subject": "foo..bar"}, errors.INVALID_SUBJECT),
        ({"subject": "foo/bar"}, errors.INVALID_SUBJECT),
        ({"clientID": "unknown"}, errors.UNKNOWN_CLIENT_ID),
        ({"qGroup": "q", "durableName": "a:b"}, errors.INVALID_DURABLE_NAME),
    )

    @pytest.mark.parametrize(("more", "error"), ORDER)
    def test_errors(self, more: dict[str, object], error: str) -> None:
        """Each wrong subscription request gets its own error."""
        client = Stage().client()
        assert Listener(client, "foo").subscribe(**more) == error

    def test_firstMistake(self) -> None:
        """Of several mistakes the first in nats-streaming-server's order is reported."""
        client = Stage().client()
        wrong: dict[str, object] = {}
        for more, error in reversed(self.ORDER):
            wrong = {**wrong, **more}
            assert Listener(client, "foo").subscribe(**wrong) == error

    @pytest.mark.parametrize("payload", [b"\xff", b"garbage"])
    def test_garbage(self, payload: bytes) -> None:
        """Bytes that are no request are refused."""
        response = Stage().ask(SUB, payload, protocol.SubscriptionResponse)
        assert response.error == errors.INVALID_SUBSCRIPTION_REQUEST

    def test_emptyRequest(self) -> None:
        """A subscription request without a client id is refused."""
        response = Stage().ask(SUB, b"", protocol.SubscriptionResponse)
        assert response.error == errors.CLIENT_ID_MISSING

    def test_colon(self) -> None:
        """A durable name without a queue group may have a colon."""
        assert Stage().client().subscribe("foo", durableName="a:b")

    def test_tooManyChannels(self) -> None:
        """A subscription is refused if its channel would exceed the limit of channels."""
        client = Stage(Streaming(max_channels=1)).client()
        client.subscribe("foo")
        assert Listener(client, "bar").subscribe() == errors.TOO_MANY_CHANNELS

    def test_tooManySubscriptions(self) -> None:
        """Offline durable subscriptions count for the limit; resuming one does not add one."""
        settings = Streaming(max_subs=2)
        client = Stage(settings).client()
        client.subscribe("foo", durableName="d").close()
        client.subscribe("foo")
        too = errors.TOO_MANY_SUBSCRIPTIONS
        assert Listener(client, "foo").subscribe() == too
        assert Listener(client, "foo").subscribe(qGroup="q") == too
        assert Listener(client, "foo").subscribe(durableName="e") == too
        assert client.subscribe("bar")
        assert client.subscribe("foo", durableName="d")

    def test_tooManyMembers(self) -> None:
        """Every member of a queue group counts for the limit of subscriptions."""
        settings = Streaming(max_subs=2)
        client = Stage(settings).client()
        client.subscribe("foo", qGroup="q")
        client.subscribe("foo", qGroup="q")
        assert Listener(client, "foo").subscribe(qGroup="q") == errors.TOO_MANY_SUBSCRIPTIONS


class TestPermissions:
    """Permissions to subscribe to channels."""

    def test_channel(self) -> None:
        """The grant decides by the channel that the request names."""
        grant = Grant(user="u", publish=PermissionSet([b"_STAN.sub.test-cluster.mine"]))
        client = Stage().client(grant=grant)
        assert client.subscribe("mine")
        assert Listener(client, "yours").subscribe() == errors.NOT_AUTHORIZED

    def test_othersClient(self) -> None:
        """A user cannot subscribe in the name of another user's client."""
        stage = Stage()
        stage.client("alice", grant=Grant(user="alice"))
        mallory = Client(stage, "alice", Grant(user="mallory"))
        assert Listener(mallory, "foo").subscribe() == errors.UNKNOWN_CLIENT_ID

    def test_inbox(self) -> None:
        """An inbox to which the subscriber may not subscribe is refused."""
        grant = Grant(
            user="u", subscribe=SubscribePermissions([b"_INBOX.>"], [b"_INBOX.private.>"])
        )
        client = Stage().client(grant=grant)
        for inbox in ("$SYS.REQ.SERVER.PING", "_INBOX.private.1"):
            assert Listener(client, "foo").subscribe(inbox=inbox) == errors.NOT_AUTHORIZED
        assert client.subscribe("foo")

    def test_durableOfAnother(self) -> None:
        """A durable subscription is not resumed by another user with the same client id."""
        stage = Stage()
        alice = stage.client(grant=Grant(user="alice"))
        alice.subscribe("foo", durableName="d")
        alice.close()
        mallory = stage.client(grant=Grant(user="mallory"))
        assert Listener(mallory, "foo").subscribe(durableName="d") == errors.NOT_AUTHORIZED
        mallory.close()
        again = stage.client(grant=Grant(user="alice"))
        assert again.subscribe("foo", durableName="d")

    def test_queueIsShared(self) -> None:
        """A durable queue group is open to every user who may subscribe."""
        stage = Stage()
        alice = stage.client("alice", grant=Grant(user="alice"))
        alice.subscribe("foo", qGroup="q", durableName="d").close()
        bob = stage.client("bob", grant=Grant(user="bob"))
        assert bob.subscribe("foo", qGroup="q", durableName="d")


class TestStart:
    """Where a subscription begins."""

    @pytest.mark.parametrize(
        ("more", "expected"),
        [
            ({"startPosition": protocol.NEW_ONLY}, []),
            ({"startPosition": protocol.LAST_RECEIVED}, [5]),
            ({"startPosition": protocol.FIRST}, [1, 2, 3, 4, 5]),
            ({"startPosition": protocol.SEQUENCE_START, "startSequence": 4}, [4, 5]),
            ({"startPosition": protocol.SEQUENCE_START, "startSequence": 0}, [1, 2, 3, 4, 5]),
            ({"startPosition": protocol.SEQUENCE_START, "startSequence": 5}, [5]),
            ({"startPosition": protocol.SEQUENCE_START, "startSequence": 6}, []),
            ({"startPosition": protocol.SEQUENCE_START, "startSequence": 2**64 - 1}, []),
            ({"startPosition": protocol.TIME_DELTA_START, "startTimeDelta": 2 * SECOND}, [4, 5]),
            ({"startPosition": protocol.TIME_DELTA_START, "startTimeDelta": 0}, []),
            ({"startPosition": protocol.TIME_DELTA_START, "startTimeDelta": -SECOND}, []),
            (
                {"startPosition": protocol.TIME_DELTA_START, "startTimeDelta": 2**63 - 1},
                [1, 2, 3, 4, 5],
            ),
        ],
    )
    def test_startPositions(self, more: dict[str, object], expected: list[int]) -> None:
        """Each start position begins at its message; later messages follow."""
        client = published(Stage(), 5)
        listener = client.subscribe("foo", **more)
        assert listener.sequences == expected
        client.publish("foo", b"6")
        assert listener.sequences == [6]

    @pytest.mark.parametrize("position", range(5))
    def test_emptyChannel(self, position: int) -> None:
        """In an empty channel, every start position is the beginning."""
        client = Stage().client()
        listener = client.subscribe("foo", startPosition=position, startSequence=3)
        client.publish("foo", b"1")
        assert listener.sequences == [1]

    @pytest.mark.parametrize(
        ("more", "expected"),
        [
            ({"startPosition": protocol.FIRST}, [4, 5]),
            ({"startPosition": protocol.SEQUENCE_START, "startSequence": 2}, [4, 5]),
            ({"startPosition": protocol.TIME_DELTA_START, "startTimeDelta": 60 * SECOND}, [4, 5]),
            ({"startPosition": protocol.LAST_RECEIVED}, [5]),
        ],
    )
    def test_afterRetention(self, more: dict[str, object], expected: list[int]) -> None:
        """If the requested start was removed, the subscription begins at the oldest message."""
        settings = Streaming(max_msgs=2)
        client = published(Stage(settings), 5)
        assert client.subscribe("foo", **more).sequences == expected

    def test_countsFromTheRequest(self) -> None:
        """
        For "new only", a message that was published before the request is not new, even while it is
        being stored; a later one is.
        """
        stage = Stage(makeStore=held)
        client = stage.client()
        client.publish("foo", b"0")
        stage.store.isHeld = True
        client.publishMany("foo", [b"1", b"2"])
        listener = Listener(client, "foo")
        assert listener.subscribe(startPosition=protocol.NEW_ONLY) == "no answer"
        client.publishMany("foo", [b"3"])
        stage.store.isHeld = False
        stage.settle()
        stage.store.commit()
        stage.settle()
        assert listener.data == [b"3"]

    def test_beforeRequestNotStored(self) -> None:
        """
        If a message before the request could not be stored, only later messages are delivered.
        """
        stage = Stage(makeStore=held)
        client = stage.client()
        client.publish("foo", b"0")
        stage.store.isHeld, stage.store.failing = True, StoreFull("full")
        client.publishMany("foo", [b"1"])
        listener = Listener(client, "foo")
        listener.subscribe(startPosition=protocol.NEW_ONLY)
        stage.store.commit()
        stage.store.isHeld, stage.store.failing = False, None
        stage.store.commit()
        stage.settle()
        assert listener.answer is not None and not listener.answer.error
        client.publish("foo", b"2")
        assert listener.data == [b"2"]

    def test_unknown(self) -> None:
        """If the start position cannot be read, the client receives the error."""
        stage = Stage(makeStore=held)
        client = published(stage, 1)
        stage.store.unreadable = StoreFailed("cannot read")
        listener = Listener(client, "foo")
        assert listener.subscribe(startPosition=protocol.TIME_DELTA_START) == "cannot read"


class TestResponse:
    """The response to a subscription request, and its time."""

    def test_ackInbox(self) -> None:
        """Every subscription has an ackInbox of its own."""
        client = Stage().client()
        inboxes = {client.subscribe("foo").ackInbox for _ in range(3)}
        assert len(inboxes) == 3
        assert all(inbox.startswith(b"_INBOX.") for inbox in inboxes)

    def test_durableFirst(self) -> None:
        """The response and the messages come after the subscription is durable."""
        stage = Stage(makeStore=held)
        client = published(stage, 2)
        stage.store.isHeld = True
        listener = Listener(client, "foo")
        assert listener.subscribe() == "no answer"
        stage.store.commit()
        stage.settle()
        assert (listener.answer.error, listener.sequences) == ("", [1, 2])

    def test_notStored(self) -> None:
        """A durable subscription that cannot be stored is refused."""
        stage = Stage(makeStore=held)
        client = published(stage, 1)
        stage.store.failing = StoreFull("no space")
        assert Listener(client, "foo").subscribe(durableName="d") == "no space"
        assert stage.model.channel("foo").subs_count == 0
        assert stage.model.client("me").subs_count == 0

    def test_storeTakesNoWrites(self) -> None:
        """
        While the store accepts no writes, a client may subscribe with a subscription that is not
        durable; it is stored later.
        """
        stage = Stage(makeStore=held)
        client = published(stage, 3)
        stage.store.failing = StoreFull("no space")
        listener = client.subscribe("foo")
        assert listener.sequences == [1, 2, 3]
        stage.store.failing = None
        stage.advance(2)
        stage.crash()
        stage.restart()
        client.publish("foo", b"new")
        assert listener.sequences == [4]

    def test_notResumed(self) -> None:
        """
        A durable subscription whose resumption cannot be stored is refused, and can be resumed
        later.
        """
        stage = Stage(makeStore=held)
        client = stage.client()
        client.subscribe("foo", durableName="d").close()
        client.publish("foo", b"1")
        stage.store.failing = StoreFull("no space")
        assert Listener(client, "foo").subscribe(durableName="d") == "no space"
        stage.store.failing = None
        assert client.subscribe("foo", durableName="d").sequences == [1]

    def test_clientLeavesMeanwhile(self) -> None:
        """If a client leaves while its subscription is being stored, the subscription ends."""
        stage = Stage(makeStore=held)
        client = published(stage, 1)
        stage.store.isHeld = True
        listener = Listener(client, "foo")
        listener.subscribe()
        request = protocol.CloseRequest(clientID="me")
        stage.send(b"_STAN.close.test-cluster", request, b"x", client.origin)
        stage.settle()
        stage.store.isHeld = False
        stage.store.commit()
        stage.settle()
        assert listener.answer.error == errors.UNKNOWN_CLIENT_ID
        assert (listener.got, stage.model.channel("foo").subs_count) == ([], 0)

    def test_noInbox(self) -> None:
        """A subscription without an inbox is accepted, but gets no messages."""
        stage = Stage()
        client = published(stage, 1)
        assert Listener(client, "foo").subscribe(inbox="") == ""
        assert stage.model.figures().out_msgs == 0


class TestDurable:
    """Durable subscriptions."""

    def test_resumes(self) -> None:
        """
        A durable subscription continues at its position, whatever start position is requested.
        """
        client = published(Stage(), 3)
        client.subscribe("foo", durableName="d").close()
        client.publish("foo", b"4")
        again = client.subscribe("foo", durableName="d", startPosition=protocol.NEW_ONLY)
        assert again.sequences == [4]

    def test_unackedFirst(self) -> None:
        """The unacknowledged messages come first, marked as redelivered, then the new ones."""
        client = published(Stage(), 3)
        first = client.subscribe("foo", durableName="d", isAcking=False)
        first.ackNow(2)
        first.close()
        client.publish("foo", b"4")
        again = client.subscribe("foo", durableName="d", startPosition=protocol.FIRST)
        assert again.again == [(1, 1), (3, 1), (4, 0)]

    def test_beyondMaxInFlight(self) -> None:
        """
        All unacknowledged messages are redelivered, even if they are more than the new maxInFlight.
        """
        client = published(Stage(), 3)
        client.subscribe("foo", durableName="d", isAcking=False).close()
        client.publish("foo", b"4")
        again = client.subscribe("foo", durableName="d", maxInFlight=1, isAcking=False)
        assert again.again == [(1, 1), (2, 1), (3, 1)]
        again.ackNow(1, 2)
        assert again.taken() == []
        again.ackNow(3)
        assert again.sequences == [4]

    def test_duplicate(self) -> None:
        """
        An active durable name is refused in the same channel and client; other channels, names and
        clients are accepted.
        """
        stage = Stage()
        client = stage.client()
        client.subscribe("foo", durableName="d")
        assert Listener(client, "foo").subscribe(durableName="d") == errors.DUPLICATE_DURABLE
        assert client.subscribe("bar", durableName="d")
        assert client.subscribe("foo", durableName="e")
        assert stage.client("other").subscribe("foo", durableName="d")

    def test_atTheSameTime(self) -> None:
        """Of two simultaneous requests for one durable name, one is refused."""
        stage = Stage(makeStore=held)
        client = stage.client()
        client.publish("foo", b"1")
        stage.store.isHeld = True
        one, two = Listener(client, "foo"), Listener(client, "foo")
        one.subscribe(durableName="d")
        assert two.subscribe(durableName="d") == errors.DUPLICATE_DURABLE
        stage.store.commit()
        stage.settle()
        assert one.answer.error == ""

    def test_replaced(self) -> None:
        """
        If the configuration allows it, a second request replaces an active durable subscription.
        """
        stage = Stage(Streaming(replace_durable=True))
        client = published(stage, 2)
        first = client.subscribe("foo", durableName="d", isAcking=False)
        first.taken()
        second = client.subscribe("foo", durableName="d")
        assert second.again == [(1, 1), (2, 1)]
        client.publish("foo", b"3")
        assert (first.taken(), second.sequences) == ([], [3])

    def test_newOptions(self) -> None:
        """A client that resumes a durable subscription sets maxInFlight and the ack wait again."""
        stage = Stage()
        client = published(stage, 3)
        client.subscribe("foo", durableName="d", maxInFlight=1, isAcking=False).close()
        client.subscribe("foo", durableName="d", maxInFlight=2, ackWaitInSecs=5, isAcking=False)
        [figures] = stage.model.channelSubscriptions("foo")
        assert (figures.max_inflight, figures.ack_wait, figures.pending_count) == (2, 5, 2)


class TestQueues:
    """Queue groups."""

    def test_shares(self) -> None:
        """Each message goes to one member."""
        stage = Stage()
        client = stage.client()
        members = [client.subscribe("foo", qGroup="q") for _ in range(3)]
        client.publishMany("foo", [b"%d" % number for number in range(30)])
        stage.settle()
        got = [member.sequences for member in members]
        assert sorted(message for some in got for message in some) == list(range(1, 31))
        assert all(len(batch) == 10 for batch in got)

    def test_newMember(self) -> None:
        """A new member joins at the group's position, whatever start position it requests."""
        client = published(Stage(), 3)
        first = client.subscribe("foo", qGroup="q")
        assert first.sequences == [1, 2, 3]
        second = client.subscribe("foo", qGroup="q", startPosition=protocol.FIRST)
        assert second.sequences == []

    def test_groups(self) -> None:
        """Two groups, and a durable group of the same name, are independent."""
        client = published(Stage(), 2)
        listeners = [
            client.subscribe("foo", qGroup="q"),
            client.subscribe("foo", qGroup="r"),
            client.subscribe("foo", qGroup="q", durableName="d"),
        ]
        assert [listener.sequences for listener in listeners] == [[1, 2]] * 3

    def test_endsWithLastMember(self) -> None:
        """A group that is not durable ends with its last member."""
        client = published(Stage(), 2)
        client.subscribe("foo", qGroup="q").close()
        assert client.subscribe("foo", qGroup="q").sequences == [1, 2]

    def test_durable(self) -> None:
        """A durable group outlives its members, and their clients."""
        stage = Stage()
        client = published(stage, 2)
        client.subscribe("foo", qGroup="q", durableName="d", isAcking=False)
        client.close()
        other = stage.client("other")
        other.publish("foo", b"3")
        back = other.subscribe("foo", qGroup="q", durableName="d")
        assert back.again == [(1, 1), (2, 1), (3, 0)]

    def test_durableNamed(self) -> None:
        """A durable group is identified by its durable name and its group name."""
        stage = Stage()
        stage.client().subscribe("foo", qGroup="q", durableName="d")
        [figures] = stage.model.channelSubscriptions("foo")
        assert (figures.queue_name, figures.durable_name) == ("d:q", "")
        assert figures.is_durable
