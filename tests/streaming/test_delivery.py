"""
Sending the messages of channels to subscribers.
"""

from __future__ import annotations

import pytest

from natsbroker.config.settings.streaming import Streaming
from natsbroker.interfaces.records import StoreFailed
from natsbroker.streaming import model
from tests.streaming.stores import HeldStore
from tests.streaming.support import Client, Stage


def held(stage: Stage) -> HeldStore:
    """A store whose reads are seen."""
    return HeldStore(Stage.makeStore(stage))


def filled(stage: Stage, count: int) -> Client:
    """A client, and a channel C{foo} with that many messages."""
    client = stage.client()
    for start in range(0, count, 500):
        client.publishMany(
            "foo", [b"%d" % (number + 1) for number in range(start, min(start + 500, count))]
        )
        stage.settle()
    return client


class TestNew:
    """Messages that are delivered as they come."""

    def test_everySubscriber(self) -> None:
        """Every subscription gets every message, in order, with all its fields."""
        stage = Stage()
        client = stage.client()
        listeners = [client.subscribe("foo") for _ in range(3)]
        client.publishMany("foo", [b"%d" % number for number in range(1, 6)])
        stage.settle()
        for listener in listeners:
            got = listener.taken()
            assert [(message.sequence, message.data) for message in got] == [
                (number, b"%d" % number) for number in range(1, 6)
            ]
            assert {message.subject for message in got} == {"foo"}
            assert not any(message.redelivered for message in got)

    def test_otherChannels(self) -> None:
        """A subscription gets no messages of another channel."""
        client = Stage().client()
        listener = client.subscribe("foo.bar")
        for channel in ("foo", "foo.baz", "foo.bar.baz"):
            client.publish(channel, b"x")
        assert listener.taken() == []

    def test_maxInFlight(self) -> None:
        """No more messages are sent than maxInFlight allows to be unacknowledged."""
        stage = Stage()
        client = filled(stage, 10)
        listener = client.subscribe("foo", maxInFlight=3, isAcking=False)
        assert listener.sequences == [1, 2, 3]
        client.publish("foo", b"11")
        assert listener.sequences == []
        listener.ackNow(2)
        assert listener.sequences == [4]
        listener.ackNow(1, 3, 4)
        assert listener.sequences == [5, 6, 7]

    def test_window(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The unacknowledged bytes of a subscription are limited by its window."""
        monkeypatch.setattr(model, "LARGEST_WINDOW", 25)
        stage = Stage()
        client = stage.client()
        client.publishMany("foo", [b"x" * 10] * 5)
        listener = client.subscribe("foo", isAcking=False)
        assert listener.sequences == [1, 2, 3]
        listener.ackNow(1)
        assert listener.sequences == [4]

    def test_noReplySubject(self) -> None:
        """A message is delivered without a NATS reply subject."""
        client = Stage().client()
        listener = client.subscribe("foo")
        client.publish("foo", b"x")
        assert [message.reply for message in listener.inbox.got] == [b""]


class TestCatchingUp:
    """Messages from the store."""

    def test_longChannel(self) -> None:
        """A long channel is read in parts, and all messages come in order."""
        stage = Stage(makeStore=held)
        client = filled(stage, 1500)
        listener = client.subscribe("foo", maxInFlight=10_000)
        assert listener.sequences == list(range(1, 1501))
        assert all(limit <= 256 for _, limit in stage.store.reads)

    def test_inStepsOfAcks(self) -> None:
        """A subscriber with a small maxInFlight catches up as it acknowledges."""
        stage = Stage(makeStore=held)
        client = filled(stage, 600)
        listener = client.subscribe("foo", maxInFlight=7)
        stage.settle()
        assert listener.sequences == list(range(1, 601))

    def test_whilePublishing(self) -> None:
        """A message published while a subscriber catches up comes after the earlier ones."""
        stage = Stage(makeStore=held)
        client = filled(stage, 500)
        listener = client.subscribe("foo", maxInFlight=100, isAcking=False)
        for number in range(501, 520):
            client.publish("foo", b"%d" % number)
        while got := listener.taken():
            assert [message.sequence for message in got] == list(
                range(got[0].sequence, got[0].sequence + len(got))
            )
            listener.ackNow(*[message.sequence for message in got])
            last = got[-1].sequence
        assert last == 519

    def test_fromMemory(self) -> None:
        """A subscriber that keeps up gets its messages from memory."""
        stage = Stage(makeStore=held)
        client = stage.client()
        listener = client.subscribe("foo")
        for _ in range(100):
            client.publish("foo", b"x")
        assert (len(listener.taken()), stage.store.reads) == (100, [])

    def test_memoryIsBounded(self) -> None:
        """Only the end of a long channel is kept in memory."""
        stage = Stage()
        client = stage.client()
        client.subscribe("foo")
        filled_ = [b"x" * 5000] * 500
        for _ in range(3):
            client.publishMany("foo", filled_)
            stage.settle()
        assert len(stage.service.context.channels.demand("foo").tail) < 300

    def test_gapAtTheBeginning(self) -> None:
        """
        If the oldest messages of a channel were removed, delivery begins at the first existing one.
        """
        settings = Streaming(max_msgs=3)
        stage = Stage(settings)
        client = stage.client()
        listener = client.subscribe("foo", maxInFlight=1, isAcking=False)
        for number in range(1, 11):
            client.publish("foo", b"%d" % number)
        assert listener.sequences == [1]
        listener.ackNow(1)
        assert listener.sequences == [8]

    def test_gapInTheMiddle(self) -> None:
        """Deleted messages in the middle, or at the end, are left out."""
        stage = Stage(makeStore=held)
        client = filled(stage, 10)
        log = stage.service.context.channels.demand("foo").log
        log.delete([3, 4, 9, 10])  # type: ignore[attr-defined]
        listener = client.subscribe("foo")
        assert listener.sequences == [1, 2, 5, 6, 7, 8]
        client.publish("foo", b"11")
        assert listener.sequences == [11]

    def test_cannotRead(self) -> None:
        """If the store cannot be read, the read is repeated later, and no message is skipped."""
        stage = Stage(makeStore=held)
        client = filled(stage, 3)
        stage.store.unreadable = StoreFailed("broken")
        listener = client.subscribe("foo")
        client.publish("foo", b"4")
        stage.advance(3)
        assert listener.sequences == []
        stage.store.unreadable = None
        stage.advance(1.1)
        assert listener.sequences == [1, 2, 3, 4]

    def test_closedMeanwhile(self) -> None:
        """A subscription that ends while it catches up is sent nothing more."""
        stage = Stage(makeStore=held)
        client = filled(stage, 2000)
        listener = client.subscribe("foo", maxInFlight=300, isAcking=False)
        listener.ack(*listener.sequences)
        listener.close()
        assert len(listener.taken()) <= 300

    def test_manyAtOnce(self) -> None:
        """Several subscriptions catch up side by side."""
        stage = Stage()
        client = filled(stage, 700)
        listeners = [client.subscribe("foo", maxInFlight=50) for _ in range(3)]
        assert [listener.sequences for listener in listeners] == [list(range(1, 701))] * 3
