"""
Tests for the state of the service after a restart.
"""

from __future__ import annotations

import pytest

from natsbroker.interfaces.records import StoreFailed
from natsbroker.streaming import errors, protocol
from natsbroker.streaming.ledger import DELAY, SubscriptionState
from natsbroker.wire.grants import Grant
from tests.streaming.stores import HeldStore
from tests.streaming.support import Client, Listener, Stage

STOPS = pytest.mark.parametrize("how", ["stop", "crash"])


def held(stage: Stage) -> HeldStore:
    """A store whose reads are seen."""
    return HeldStore(Stage.makeStore(stage))


def again(stage: Stage, how: str) -> None:
    """End the service by stopping or crashing, and start it again."""
    getattr(stage, how)()
    stage.restart()


class TestClients:
    """Clients after a restart."""

    @STOPS
    def test_connected(self, how: str) -> None:
        """A client is connected as before: it can ping, publish and subscribe."""
        stage = Stage()
        client = stage.client()
        again(stage, how)
        assert client.ping() == ""
        assert client.publish("foo", b"x") == ""
        assert client.subscribe("foo").data == [b"x"]
        assert stage.client("other").ping() == ""

    @STOPS
    def test_closed(self, how: str) -> None:
        """A client that had closed its connection does not exist after a restart."""
        stage = Stage()
        client = stage.client()
        client.close()
        again(stage, how)
        assert client.ping() == errors.REPLACED

    def test_heartbeats(self) -> None:
        """A recovered client gets heartbeats, and is removed if it does not answer."""
        stage = Stage()
        client = stage.client()
        again(stage, "crash")
        stage.advance(31)
        assert client.beats == 1
        client.heartbeats.close()
        stage.advance(400)
        assert stage.model.clientNames() == []

    def test_owner(self) -> None:
        """A recovered client still belongs to its user."""
        stage = Stage()
        stage.client(grant=Grant(user="alice"))
        again(stage, "crash")
        mallory = Client(stage, "me", Grant(user="mallory"), connID=b"")
        assert mallory.publish("foo", b"x") == errors.INVALID_PUBLISH_REQUEST


class TestSubscriptions:
    """Subscriptions after a restart."""

    @STOPS
    def test_goesOn(self, how: str) -> None:
        """
        Every kind of subscription continues on its old inbox, without any action of the client.
        """
        stage = Stage()
        client = stage.client()
        kinds: list[dict[str, str]] = [
            {},
            {"durableName": "d"},
            {"qGroup": "q"},
            {"qGroup": "q", "durableName": "d"},
        ]
        listeners = [client.subscribe("foo", **kind) for kind in kinds]
        client.publish("foo", b"1")
        for listener in listeners:
            assert listener.sequences == [1]
        stage.advance(DELAY)
        again(stage, how)
        client.publish("foo", b"2")
        for listener in listeners:
            assert listener.sequences == [2]
        assert [
            subscription.pending_count for subscription in stage.model.channelSubscriptions("foo")
        ] == [0] * 4

    @STOPS
    def test_publishedMeanwhile(self, how: str) -> None:
        """Messages that were stored but not sent before the restart are sent; none is left out."""
        stage = Stage()
        client = stage.client()
        client.publishMany("foo", [b"%d" % number for number in range(1, 31)])
        listener = client.subscribe("foo", maxInFlight=10, isAcking=False)
        assert listener.sequences == list(range(1, 11))
        listener.ackNow(*range(1, 11))
        stage.advance(DELAY)
        again(stage, how)
        listener.isAcking = True
        stage.advance(31)
        assert set(listener.sequences) == set(range(11, 31))

    @STOPS
    def test_unacknowledged(self, how: str) -> None:
        """
        An unacknowledged message is redelivered when its ack wait has passed; an acknowledged one
        is not.
        """
        stage = Stage()
        client = stage.client()
        client.publishMany("foo", [b"1", b"2", b"3"])
        listener = client.subscribe("foo", isAcking=False, ackWaitInSecs=10)
        listener.ackNow(2)
        listener.taken()
        stage.advance(5)
        again(stage, how)
        stage.advance(4.9)
        assert listener.again == []
        stage.advance(0.2)
        assert listener.again == [(1, 1), (3, 1)]

    def test_overdue(self) -> None:
        """A message whose ack wait passed during the restart is redelivered at once."""
        stage = Stage()
        client = stage.client()
        client.publish("foo", b"1")
        listener = client.subscribe("foo", isAcking=False, ackWaitInSecs=10)
        listener.taken()
        stage.stop()
        stage.clock.advance(60)
        stage.restart()
        stage.settle()
        assert listener.again == [(1, 1)]

    def test_clockSetBack(self) -> None:
        """If the wall clock was set back, no client waits longer than the ack wait."""
        stage = Stage()
        client = stage.client()
        client.publish("foo", b"1")
        listener = client.subscribe("foo", isAcking=False, ackWaitInSecs=10)
        listener.taken()
        stage.advance(DELAY)
        stage.steps = -3600
        again(stage, "crash")
        stage.advance(10.1)
        assert listener.again == [(1, 1)]

    def test_notWrittenDown(self) -> None:
        """
        After a crash, a message that was sent after the last write of progress is marked as
        redelivered.
        """
        stage = Stage()
        client = stage.client()
        listener = client.subscribe("foo")
        stage.advance(DELAY)
        client.publishMany("foo", [b"1", b"2"])
        assert listener.again == [(1, 0), (2, 0)]
        again(stage, "crash")
        assert listener.again == [(1, 1), (2, 1)]
        client.publish("foo", b"3")
        assert listener.again == [(3, 0)]

    def test_writtenDown(self) -> None:
        """After a proper stop, a message that was not sent before is not marked as redelivered."""
        stage = Stage()
        client = stage.client()
        client.publishMany("foo", [b"1", b"2", b"3"])
        listener = client.subscribe("foo", maxInFlight=1, isAcking=False)
        listener.ackNow(1)
        assert listener.again == [(1, 0), (2, 0)]
        again(stage, "stop")
        listener.ackNow(2)
        assert listener.again == [(3, 0)]

    @STOPS
    def test_oldAcks(self, how: str) -> None:
        """An acknowledgement of a message delivered before the restart counts."""
        stage = Stage()
        client = stage.client()
        client.publish("foo", b"1")
        listener = client.subscribe("foo", isAcking=False)
        listener.taken()
        stage.advance(DELAY)
        again(stage, how)
        listener.ackNow(1)
        assert [
            subscription.pending_count for subscription in stage.model.channelSubscriptions("foo")
        ] == [0]

    @STOPS
    def test_ended(self, how: str) -> None:
        """A subscription that had ended does not exist after a restart."""
        stage = Stage()
        client = stage.client()
        client.subscribe("foo").close()
        client.subscribe("foo", durableName="d").unsubscribe()
        client.subscribe("foo", qGroup="q").unsubscribe()
        again(stage, how)
        assert stage.model.channelSubscriptions("foo") == []

    @STOPS
    def test_offlineDurable(self, how: str) -> None:
        """An offline durable subscription is still offline, and can be resumed at its position."""
        stage = Stage()
        client = stage.client()
        client.publishMany("foo", [b"1", b"2"])
        for more in ({"durableName": "d"}, {"qGroup": "q", "durableName": "d"}):
            listener = client.subscribe("foo", isAcking=False, **more)
            listener.ackNow(1)
            listener.close()
        again(stage, how)
        assert all(
            subscription.is_offline for subscription in stage.model.channelSubscriptions("foo")
        )
        client.publish("foo", b"3")
        for more in ({"durableName": "d"}, {"qGroup": "q", "durableName": "d"}):
            assert client.subscribe("foo", **more).again == [(2, 1), (3, 0)]

    def test_numbersGoOn(self) -> None:
        """New subscriptions get numbers that were never used."""
        stage = Stage()
        client = stage.client()
        client.subscribe("foo")
        again(stage, "crash")
        client.subscribe("foo")
        stage.stop()
        stage.restart()
        assert stage.model.channel("foo").subs_count == 2

    def test_otherClusters(self) -> None:
        """Two clusters in one store are independent."""
        stage = Stage()
        stage.client().publish("foo", b"1")
        stage.stop()
        stage.restart(type(stage.settings)(cluster_id="other"))
        assert (stage.model.clientNames(), stage.model.channelNames()) == ([], [])

    def test_cannotReadPending(self) -> None:
        """If pending messages cannot be read at the restart, they are redelivered later."""
        stage = Stage(makeStore=held)
        client = stage.client()
        client.publish("foo", b"1")
        listener = client.subscribe("foo", isAcking=False, ackWaitInSecs=1)
        listener.taken()
        stage.stop()
        stage.store.unreadable = StoreFailed("broken")
        stage.restart()
        stage.advance(1)
        stage.store.unreadable = None
        stage.advance(2.2)
        assert listener.again[0] == (1, 1)


class TestLeftovers:
    """Inconsistent state, which an unclean end can leave."""

    def put(self, stage: Stage, **fields: object) -> None:
        """Write a subscription's state."""
        given = {"channel": "foo", "inbox": "x", "ackInbox": "y", "maxInFlight": 5, **fields}
        state = SubscriptionState(ackWaitInSecs=5, **given)
        key = b"subscription/%016x" % state.id
        stage.store.states("stan/test-cluster").put(key, state.SerializeToString())

    def written(self, stage: Stage) -> list[bytes]:
        """The keys of stored subscriptions."""
        values = stage.store.states("stan/test-cluster").load().result
        return [entry for entry in values if entry.startswith(b"subscription/")]

    def test_channelGone(self) -> None:
        """A subscription of a deleted channel is removed."""
        stage = Stage()
        stage.stop()
        self.put(stage, id=1, channel="gone", clientID="me", durableName="d", isDurable=True)
        stage.restart()
        assert self.written(stage) == []

    def test_clientGone(self) -> None:
        """Without its client, a durable subscription is offline and any other is removed."""
        stage = Stage()
        stage.client("other").publishMany("foo", [b"1", b"2"])
        stage.settle()
        stage.stop()
        self.put(stage, id=1, clientID="me", durableName="d", isDurable=True, lastSent=1)
        self.put(stage, id=2, clientID="me")
        stage.restart()
        [figures] = stage.model.channelSubscriptions("foo")
        assert (figures.durable_name, figures.is_offline) == ("d", True)
        assert self.written(stage) == [b"subscription/0000000000000001"]
        assert stage.client().subscribe("foo", durableName="d").sequences == [2]

    def test_memberGone(self) -> None:
        """
        A pending message of a lost member of a durable queue group goes to the existing members.
        """
        stage = Stage()
        client = stage.client()
        client.publishMany("foo", [b"1", b"2", b"3"])
        member = client.subscribe("foo", qGroup="q", durableName="d", ackWaitInSecs=1)
        member.taken()
        stage.stop()
        queue = {"queue": "d:q", "isDurable": True, "clientID": "gone"}
        self.put(stage, id=8, pending=[2], lastSent=3, **queue)
        self.put(stage, id=9, pending=[3], lastSent=3, **queue)
        stage.restart()
        stage.advance(2)
        assert sorted(member.again) == [(2, 1), (3, 1)]
        assert len(self.written(stage)) == 1

    def test_twoOffline(self) -> None:
        """
        If a group has two offline subscriptions, one is kept, with the pending messages of both.
        """
        stage = Stage()
        client = stage.client()
        client.publishMany("foo", [b"1", b"2", b"3"])
        stage.settle()
        stage.stop()
        queue = {"queue": "d:q", "isDurable": True, "isOffline": True}
        self.put(stage, id=8, pending=[1], lastSent=2, **queue)
        self.put(stage, id=9, pending=[2], lastSent=1, **queue)
        stage.restart()
        back = client.subscribe("foo", qGroup="q", durableName="d")
        assert back.again == [(1, 1), (2, 1), (3, 0)]

    def test_aheadOfTheChannel(self) -> None:
        """
        A position beyond the channel's end counts as the end, so that no new message is left out.
        """
        stage = Stage()
        stage.client("other").publish("foo", b"1")
        stage.stop()
        self.put(
            stage,
            id=1,
            clientID="me",
            durableName="d",
            isDurable=True,
            lastSent=99,
            mayBeSent=2000,
            isOffline=True,
        )
        stage.restart()
        listener = Listener(stage.client(), "foo")
        assert listener.subscribe(durableName="d") == ""
        listener.client.publish("foo", b"2")
        assert listener.again == [(2, 0)]

    @pytest.mark.parametrize("seconds", [0, DELAY])
    def test_neverSent(self, seconds: float) -> None:
        """
        After a crash, messages that did not fit into maxInFlight before it are not marked as
        redelivered.
        """
        stage = Stage()
        client = stage.client()
        client.publishMany("foo", [b"%d" % number for number in range(1, 7)])
        listener = client.subscribe("foo", maxInFlight=2, isAcking=False, ackWaitInSecs=5)
        assert listener.again == [(1, 0), (2, 0)]
        stage.advance(seconds)
        stage.crash()
        listener.isAcking = True
        stage.restart()
        stage.advance(6)
        assert listener.again == [(1, 1), (2, 1), (3, 0), (4, 0), (5, 0), (6, 0)]

    def test_stoppedAcknowledging(self) -> None:
        """
        After a pause without acknowledgements, a crash marks only messages as redelivered that were
        sent.
        """
        stage = Stage()
        client = stage.client()
        client.publishMany("foo", [b"%d" % number for number in range(1, 7)])
        listener = client.subscribe("foo", maxInFlight=2, isAcking=False, ackWaitInSecs=5)
        listener.ackNow(1, 2)
        assert listener.sequences == [1, 2, 3, 4]
        stage.advance(3 * DELAY)
        stage.crash()
        stage.restart()
        listener.isAcking = True
        stage.advance(6)
        assert listener.again == [(3, 1), (4, 1), (5, 0), (6, 0)]

    def test_refusedRequest(self) -> None:
        """A refused subscription request leaves no state."""
        stage = Stage()
        assert stage.ask(b"_STAN.sub.test-cluster", b"", protocol.SubscriptionResponse).error
        stage.stop()
        stage.restart()
        assert self.written(stage) == []
