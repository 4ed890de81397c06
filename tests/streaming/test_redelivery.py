"""
Sending again what was not acknowledged.
"""

from __future__ import annotations

import pytest

from natsbroker.config.settings.streaming import Streaming
from natsbroker.interfaces.records import StoreFailed
from natsbroker.streaming.redelivery import SLICE
from tests.export.support import TurnClock
from tests.streaming.stores import HeldStore
from tests.streaming.support import Client, Listener, Stage


def held(stage: Stage) -> HeldStore:
    """A store whose reads are seen."""
    return HeldStore(Stage.makeStore(stage))


def subscribed(stage: Stage, count: int = 3, **more: object) -> tuple[Client, Listener]:
    """A client with some messages, and a subscription that waits a second for each."""
    client = stage.client()
    client.publishMany("foo", [b"%d" % (number + 1) for number in range(count)])
    return client, client.subscribe("foo", isAcking=False, **{"ackWaitInSecs": 1, **more})


class TestAckWait:
    """Messages whose ack wait has passed."""

    def test_comesAgain(self) -> None:
        """
        Unacknowledged messages are redelivered, marked and counted, each time the ack wait passes,
        and not earlier.
        """
        stage = Stage()
        _, listener = subscribed(stage, maxInFlight=2)
        assert listener.again == [(1, 0), (2, 0)]
        stage.advance(0.99)
        assert listener.again == []
        stage.advance(0.05)
        assert listener.again == [(1, 1), (2, 1)]
        stage.advance(1)
        assert listener.again == [(1, 2), (2, 2)]
        listener.ackNow(1)
        assert listener.again == [(3, 0)]
        stage.advance(1)
        assert sorted(listener.again) == [(2, 3), (3, 1)]

    def test_eachByItself(self) -> None:
        """Each message has its own ack wait."""
        stage = Stage()
        client, listener = subscribed(stage, 1, ackWaitInSecs=2)
        stage.advance(1)
        client.publish("foo", b"2")
        listener.taken()
        stage.advance(1.1)
        assert listener.again == [(1, 1)]
        stage.advance(1)
        assert listener.again == [(2, 1)]

    def test_acknowledged(self) -> None:
        """An acknowledged message is not redelivered, and no timer is left."""
        stage = Stage()
        _, listener = subscribed(stage)
        listener.ackNow(1, 2, 3)
        listener.taken()
        stage.advance(10)
        assert listener.again == []

    def test_countEndsWithAck(self) -> None:
        """An acknowledgement resets the message's count of redeliveries."""
        stage = Stage()
        _, listener = subscribed(stage, 1)
        stage.advance(3.1)
        listener.ackNow(1)
        [group] = stage.service.context.channels.demand("foo").groups.values()
        assert group.counts == {}

    def test_clockSet(self) -> None:
        """Setting the wall clock makes no redelivery come early, or never."""
        stage = Stage()
        _, listener = subscribed(stage, 1)
        stage.steps = 3600
        stage.advance(0.9)
        assert listener.again == [(1, 0)]
        stage.steps = -3600
        stage.advance(0.2)
        assert listener.again == [(1, 1)]

    def test_nothingNewWhileStalled(self) -> None:
        """Redelivery makes no room for new messages."""
        stage = Stage()
        _, listener = subscribed(stage, 2, maxInFlight=1)
        stage.advance(5.5)
        assert [sequence for sequence, _ in listener.again] == [1] * 6


class TestWhatIsGone:
    """Pending messages that are not in the channel any more."""

    def test_evicted(self) -> None:
        """A message that the channel's limits have removed is not pending any more."""
        settings = Streaming(max_msgs=2)
        stage = Stage(settings)
        client, listener = subscribed(stage, 2, maxInFlight=2)
        client.publish("foo", b"3")
        listener.taken()
        stage.advance(1.1)
        assert (2, 1) in listener.again
        [figures] = stage.model.channelSubscriptions("foo")
        assert figures.pending_count <= 2
        assert 1 not in [sequence for sequence, _ in listener.again]

    def test_deleted(self) -> None:
        """A deleted or unreadable message is not redelivered; the others are."""
        stage = Stage(makeStore=held)
        _, listener = subscribed(stage, 3)
        listener.taken()
        channel = stage.service.context.channels.demand("foo")
        channel.log.delete([2])  # type: ignore[attr-defined]
        stage.advance(1.1)
        assert listener.again == [(1, 1), (3, 1)]
        assert [
            subscription.pending_count for subscription in stage.model.channelSubscriptions("foo")
        ] == [2]

    def test_cannotRead(self) -> None:
        """If the store cannot be read now, the message stays pending and is redelivered later."""
        stage = Stage(makeStore=held)
        _, listener = subscribed(stage, 2)
        listener.taken()
        stage.store.unreadable = StoreFailed("broken")
        stage.advance(3)
        assert listener.again == []
        assert [
            subscription.pending_count for subscription in stage.model.channelSubscriptions("foo")
        ] == [2]
        stage.store.unreadable = None
        stage.advance(1.1)
        assert listener.again == [(1, 1), (2, 1)]

    def test_sparse(self) -> None:
        """Redelivered messages far apart are read without the messages between."""
        stage = Stage(makeStore=held)
        _, listener = subscribed(stage, 3000, maxInFlight=5000)
        for sequence in listener.sequences:
            if sequence not in (1, 1500, 2999):
                listener.ack(sequence)
        stage.settle()
        stage.store.reads.clear()
        stage.advance(1.1)
        assert listener.again == [(1, 1), (1500, 1), (2999, 1)]
        assert sum(limit for _, limit in stage.store.reads) <= 3


class TestUnwell:
    """Clients that leave heartbeats unanswered."""

    OPTIONS = Streaming(hb_interval=2.0, hb_timeout=1.0)

    def test_singleSubscription(self) -> None:
        """A single subscription gets no redelivery until its client answers again."""
        stage = Stage(self.OPTIONS)
        client, listener = subscribed(stage, 1, ackWaitInSecs=4)
        client.isAlive = False
        listener.taken()
        stage.advance(9)
        assert listener.again == []
        client.isAlive = True
        stage.advance(7)
        assert listener.again[0] == (1, 1)

    def test_queue(self) -> None:
        """In a queue group, the message goes to a member whose client answers."""
        stage = Stage(self.OPTIONS)
        ill, well = stage.client("ill"), stage.client("well")
        first = ill.subscribe("foo", qGroup="q", isAcking=False, ackWaitInSecs=4)
        ill.publish("foo", b"1")
        assert first.sequences == [1]
        second = well.subscribe("foo", qGroup="q", ackWaitInSecs=4)
        ill.isAlive = False
        stage.advance(5)
        assert (first.again, second.again) == ([], [(1, 1)])
        assert (
            sum(
                subscription.pending_count
                for subscription in stage.model.channelSubscriptions("foo")
            )
            == 0
        )


class TestQueues:
    """Redelivery in queue groups."""

    def test_goesToAnotherMember(self) -> None:
        """
        A message that one member does not acknowledge is redelivered to another member, and is then
        pending for that one.
        """
        stage = Stage()
        client = stage.client()
        lazy = client.subscribe("foo", qGroup="q", isAcking=False, ackWaitInSecs=1, maxInFlight=2)
        client.publishMany("foo", [b"1", b"2"])
        stage.settle()
        assert lazy.sequences == [1, 2]
        busy = client.subscribe("foo", qGroup="q", ackWaitInSecs=1)
        stage.advance(1.1)
        assert sorted(lazy.again + busy.again) == [(1, 1), (2, 1)]
        assert busy.taken() == []

    def test_onlyMember(self) -> None:
        """A member that is alone in its group gets its message redelivered itself."""
        stage = Stage()
        client = stage.client()
        alone = client.subscribe("foo", qGroup="q", isAcking=False, ackWaitInSecs=1)
        client.publish("foo", b"1")
        stage.advance(2.2)
        assert alone.again == [(1, 0), (1, 1), (1, 2)]

    @pytest.mark.parametrize("count", [1, 7, 50])
    def test_leavers(self, count: int) -> None:
        """While members join and leave, every message is acknowledged in the end."""
        stage = Stage()
        client = stage.client()
        client.publishMany("foo", [b"%d" % number for number in range(count)])
        seen: set[int] = set()
        for _ in range(4):
            member = client.subscribe(
                "foo", qGroup="q", durableName="d", isAcking=False, ackWaitInSecs=1, maxInFlight=20
            )
            got = member.sequences
            member.ackNow(*got[::2])
            seen.update(got[::2])
            member.close()
        last = client.subscribe("foo", qGroup="q", durableName="d")
        stage.advance(2)
        seen.update(last.sequences)
        assert seen == set(range(1, count + 1))


def test_slices() -> None:
    """The due messages of many subscriptions are redelivered in parts, and completely."""
    stage = Stage(clock=TurnClock())
    client = stage.client()
    for _ in range(40):
        client.subscribe("foo", isAcking=False, ackWaitInSecs=1)
    for number in range(100):
        client.publish("foo", b"%d" % number)
    stage.settle()
    sent = stage.service.context.traffic
    before, most = sent.outMessages, 0
    stage.clock.advance(1)
    while sent.outMessages - before < 4000:
        last = sent.outMessages
        stage.clock.advance(0)
        most = max(most, sent.outMessages - last)
    assert most <= 10 * SLICE
