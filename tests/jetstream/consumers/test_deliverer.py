"""
Which message is delivered, and when.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred

from natsbroker.interfaces.records import Record
from natsbroker.jetstream.consumers.consumer import Consumer
from natsbroker.jetstream.consumers.deliverer import ConsumerDeliverer, headersOnly, withHeader
from natsbroker.jetstream.model.consumerconfig import AckPolicy, ReplayPolicy
from natsbroker.jetstream.model.streamconfig import RetentionPolicy
from tests.jetstream.consumers.support import (
    BEGINNING,
    SECOND,
    ConsumerStage,
    DelayedStates,
    numbers,
)


@pytest.fixture
def stage() -> ConsumerStage:
    """A stage with an empty stream."""
    return ConsumerStage()


def test_headers() -> None:
    """A header is added at the end of a block, or makes one."""
    assert withHeader(b"", b"A", b"1") == b"NATS/1.0\r\nA: 1\r\n\r\n"
    assert withHeader(b"NATS/1.0\r\nA: 1\r\n\r\n", b"B", b"2") == (
        b"NATS/1.0\r\nA: 1\r\nB: 2\r\n\r\n"
    )


def test_headersOnly() -> None:
    """Without the payload, its size is a header."""
    record = headersOnly(Record(1, 2, b"s.a", b"", b"four"))
    assert (record.headers, record.payload) == (b"NATS/1.0\r\nNats-Msg-Size: 4\r\n\r\n", b"")


class TestRedelivery:
    """Messages that are not acknowledged."""

    def test_afterWait(self, stage: ConsumerStage) -> None:
        """Redeliveries come in order of sequence, before new messages."""
        stage.publish(3)
        stage.consumer(ack_wait=SECOND)
        inbox = stage.inbox()
        stage.pull(inbox, b"2")
        stage.advance(0.5)
        stage.pull(inbox, b"1")
        inbox.take()
        stage.advance(1.1)
        stage.publish(1)
        stage.pull(inbox, b"9")
        assert [numbers(message)[:2] for message in inbox.take()] == [
            (2, 1),
            (2, 2),
            (2, 3),
            (1, 4),
        ]

    def test_whenTooMany(self, stage: ConsumerStage) -> None:
        """At max_ack_pending, pending messages are still redelivered."""
        stage.publish(3)
        stage.consumer(ack_wait=SECOND, max_ack_pending=1)
        inbox = stage.inbox()
        stage.pull(inbox, b"9")
        stage.advance(1.1)
        assert inbox.texts() == ["1", "1"]

    def test_backoff(self, stage: ConsumerStage) -> None:
        """With a backoff, redeliveries come after its waits in order, and the last wait repeats."""
        stage.publish(1)
        stage.consumer(
            backoff=(SECOND // 10, SECOND * 3 // 10), max_deliver=4, ack_wait=SECOND // 10
        )
        inbox = stage.inbox()
        stage.pull(inbox, b"9")
        times = []
        for _ in range(200):
            times += [round(stage.clock.seconds(), 1)] * len(inbox.take())
            stage.advance(0.01)
        assert times == [0.0, 0.1, 0.4, 0.7]
        assert stage.advisories == ["max_deliver"]

    def test_countsAreShown(self, stage: ConsumerStage) -> None:
        """C{num_redelivered} counts redelivered messages until they are settled."""
        stage.publish(2)
        consumer = stage.consumer(ack_wait=SECOND)
        inbox = stage.inbox()
        stage.pull(inbox, b"4")
        stage.advance(1.1)
        assert consumer.info()["num_redelivered"] == 2
        stage.ack(inbox.take()[-1])
        assert consumer.info()["num_redelivered"] == 1

    def test_missingAtRedelivery(self, stage: ConsumerStage) -> None:
        """
        A pending message that is missing in the log is terminated when it is to be redelivered.
        """
        stage.publish(2)
        consumer = stage.consumer(ack_wait=SECOND)
        inbox = stage.inbox()
        stage.pull(inbox, b"9")
        stage.stream.log.delete([1])
        stage.advance(1.1)
        assert inbox.texts() == ["1", "2", "2"]
        assert stage.advisories == ["terminated"]
        assert consumer.info()["ack_floor"]["stream_seq"] == 1

    def test_slowReads(self, stage: ConsumerStage) -> None:
        """Messages that are read slowly are delivered, and redelivered, in their order."""
        stage.publish(600)
        stage.stream.lag = 0.01
        stage.clock.callLater(0, lambda: None)
        consumer = stage.config(ack_wait=SECOND)
        started = stage.startLater(consumer)
        stage.advance(0.1)
        assert started == [None]
        inbox = stage.inbox()
        stage.pull(inbox, b"600")
        stage.advance(0.2)
        assert [numbers(message)[1] for message in inbox.take()] == list(range(1, 601))
        stage.pull(inbox, b"600")
        stage.advance(1.2)
        assert [numbers(message)[:2] for message in inbox.take()] == [(2, n) for n in range(1, 601)]


def test_largeMessages(stage: ConsumerStage) -> None:
    """Large messages are delivered over several turns, so that other work is not held up."""
    for _ in range(12):
        stage.stream.publish("s.a", "x" * (1 << 20))
    inbox = stage.inbox(subject=b"d")
    started = stage.startLater(stage.config(deliver_subject="d"))
    assert (started, len(inbox.take())) == ([None], 1)
    stage.settle()
    assert len(inbox.take()) == 11


class TestMaxDeliver:
    """The limit of deliveries."""

    def test_one(self, stage: ConsumerStage) -> None:
        """With max_deliver 1, a message is given up after ack_wait."""
        stage.publish(1)
        consumer = stage.consumer(ack_wait=SECOND, max_deliver=1)
        inbox = stage.inbox()
        stage.pull(inbox, b"9")
        assert inbox.texts() == ["1"]
        assert stage.advisories == []
        stage.advance(1.1)
        assert stage.advisories == ["max_deliver"]
        info = consumer.info()
        assert (info["num_ack_pending"], info["num_redelivered"]) == (0, 0)
        assert inbox.texts() == []

    def test_two(self, stage: ConsumerStage) -> None:
        """With max_deliver above 1, a message is given up when a request would get it once more."""
        stage.publish(1)
        consumer = stage.consumer(ack_wait=SECOND, max_deliver=2)
        inbox = stage.inbox()
        stage.pull(inbox, b"2")
        stage.advance(1.1)
        assert inbox.texts() == ["1", "1"]
        stage.advance(5)
        assert stage.advisories == []
        assert consumer.info()["num_ack_pending"] == 1
        stage.pull(inbox)
        assert stage.fakeAccount.advisories == [
            ("max_deliver", {"stream": "S", "consumer": "C", "stream_seq": 1, "deliveries": 2})
        ]
        info = consumer.info()
        assert (info["num_ack_pending"], info["num_redelivered"]) == (0, 1)
        assert consumer.needs(1)

    def test_lateAck(self) -> None:
        """A message that was given up stays in a work queue until it is acknowledged."""
        stage = ConsumerStage(RetentionPolicy.WORKQUEUE)
        stage.publish(1)
        consumer = stage.consumer(ack_wait=SECOND, max_deliver=1)
        inbox = stage.inbox()
        stage.pull(inbox)
        (message,) = inbox.take()
        stage.advance(1.1)
        assert (stage.stream.settledSequences, consumer.needs(1)) == ([], True)
        stage.ack(message)
        assert (stage.stream.settledSequences, consumer.needs(1)) == ([1], False)

    def test_nak(self, stage: ConsumerStage) -> None:
        """At max_deliver, a negative acknowledgement causes no redelivery."""
        stage.publish(1)
        stage.consumer(max_deliver=1)
        inbox = stage.inbox()
        stage.pull(inbox)
        stage.ack(inbox.take()[0], b"-NAK")
        stage.pull(inbox)
        assert inbox.texts() == []
        assert stage.advisories == ["nak", "max_deliver"]

    @pytest.mark.parametrize("limit", [1, 2, 3, 4])
    @pytest.mark.parametrize("isRefused", [False, True])
    def test_lowered(self, stage: ConsumerStage, limit: int, isRefused: bool) -> None:
        """
        Lowering max_deliver below the deliveries so far gives pending messages up, with one
        advisory each.
        """
        stage.publish(1)
        consumer = stage.consumer(ack_wait=SECOND)
        inbox = stage.inbox()
        stage.pull(inbox, b"9")
        stage.advance(3.1)
        consumer.update(stage.config(ack_wait=SECOND, max_deliver=limit))
        got = inbox.take()
        if isRefused:
            stage.ack(got[-1], b"-NAK")
        stage.advance(9)
        assert (len(got), inbox.texts()) == (4, [])
        deliveries = [
            fields["deliveries"] for kind, fields in stage.fakeAccount.advisories if kind != "nak"
        ]
        assert deliveries == [4]
        assert consumer.info()["num_ack_pending"] == 0

    def slow(self, stage: ConsumerStage) -> None:
        """Start a consumer whose state takes two seconds to write."""
        stage.publish(1)
        stage.stream.states = DelayedStates(stage.stream.states, stage.clock, 2.0)
        started = stage.startLater(stage.config(max_deliver=3))
        stage.advance(2)
        assert started == [None]

    def test_recordedFirst(self, stage: ConsumerStage) -> None:
        """
        With max_deliver, a delivery is durable before it is sent. The status of its request follows
        it.
        """
        self.slow(stage)
        inbox = stage.inbox()
        stage.pull(inbox, b'{"batch":2,"expires":1000000000}')
        stage.advance(1.9)
        assert inbox.texts() == []
        stage.advance(0.1)
        assert inbox.texts() == ["1", "408 Request Timeout"]
        assert stage.stream.consumers[0].info()["num_ack_pending"] == 1

    def test_statusWithoutDelivery(self, stage: ConsumerStage) -> None:
        """The status of a request that gets no message waits for the deliveries before it."""
        self.slow(stage)
        first, second = stage.inbox(), stage.inbox()
        stage.pull(first)
        stage.publish(1)
        stage.pull(second, b'{"batch":1,"max_bytes":1}')
        assert (first.texts(), second.texts()) == ([], [])
        stage.advance(5)
        assert (first.texts(), second.texts()) == (["1"], ["409 Message Size Exceeds MaxBytes"])

    def test_notReceived(self, stage: ConsumerStage) -> None:
        """A message that is still held back when its client leaves goes to another request."""
        self.slow(stage)
        first, second = stage.inbox(), stage.inbox()
        stage.pull(first)
        stage.pull(second)
        first.close()
        stage.advance(5)
        assert second.texts() == ["1"]


class TestCrashes:
    """A consumer with a limit of deliveries whose process dies at a delivery."""

    def die(self, stage: ConsumerStage, consumer: Consumer) -> Consumer:
        """Kill the process after it has counted a delivery and before it sends it; start again."""
        states = stage.stream.states
        written = states.put

        def put(key: bytes, value: bytes) -> Deferred[None]:
            written(key, value)
            return Deferred()

        inbox = stage.inbox()
        with patch.object(states, "put", put):
            stage.pull(inbox)
        assert inbox.texts() == []
        return stage.restart(consumer)

    @pytest.mark.parametrize("limit", [2, 3])
    def test_killedBeforeSending(self, stage: ConsumerStage, limit: int) -> None:
        """
        After several kills just before a message is sent, the message is still delivered, though
        only once.
        """
        stage.publish(1)
        consumer = stage.consumer(ack_wait=SECOND, max_deliver=limit)
        for _ in range(limit + 2):
            consumer = self.die(stage, consumer)
            stage.advance(1.1)
        inbox = stage.inbox()
        stage.pull(inbox, b"9")
        stage.advance(9)
        assert inbox.texts() == ["1"]
        consumer = stage.restart(consumer)
        stage.pull(inbox, b"9")
        stage.advance(9)
        assert inbox.texts() == []

    def test_killedAfterSending(self, stage: ConsumerStage) -> None:
        """
        A delivery that was sent counts, even if the process is killed before the next one is sent.
        """
        stage.publish(1)
        consumer = stage.consumer(ack_wait=SECOND, max_deliver=2)
        inbox = stage.inbox()
        stage.pull(inbox)
        assert inbox.texts() == ["1"]
        consumer = stage.restart(consumer)
        stage.advance(1.1)
        consumer = self.die(stage, consumer)
        stage.advance(1.1)
        stage.pull(inbox)
        assert inbox.texts() == []
        assert consumer.info()["num_ack_pending"] == 0

    def test_nextDeliveryIsNotCountedEarly(self, stage: ConsumerStage) -> None:
        """
        While the write that counts a delivery is under way, it does not count the following one.
        """
        stage.publish(1)
        consumer = stage.consumer(ack_wait=SECOND, max_deliver=2)
        states, inbox = stage.stream.states, stage.inbox()
        written = states.put
        writes: list[Deferred[None]] = []

        def put(key: bytes, value: bytes) -> Deferred[None]:
            written(key, value)
            writes.append(Deferred())
            return writes[-1]

        with patch.object(states, "put", put):
            consumer.core.writer.touched()
            consumer.core.writer.flush()
            stage.pull(inbox, b"2")
            stage.advance(1.1)
            writes[0].callback(None)
            writes[1].callback(None)
            assert inbox.texts() == ["1"]
            writes[2].callback(None)
            assert inbox.texts() == ["1"]
        stage.restart(consumer)
        stage.advance(1.1)
        stage.pull(inbox, b"9")
        stage.advance(9)
        assert inbox.texts() == []

    def test_once(self, stage: ConsumerStage) -> None:
        """
        With max_deliver 1, a kill before sending uses the only delivery, and an advisory is
        published.
        """
        stage.publish(1)
        consumer = self.die(stage, stage.consumer(ack_wait=SECOND, max_deliver=1))
        inbox = stage.inbox()
        stage.pull(inbox)
        stage.advance(1.1)
        assert inbox.texts() == []
        assert stage.advisories == ["max_deliver"]
        assert consumer.needs(1)


class TestPace:
    """When messages are delivered."""

    def test_original(self, stage: ConsumerStage) -> None:
        """A replay at the original pace keeps the gaps between stored messages."""
        for wait in (0.0, 2.0, 0.5):
            stage.advance(wait)
            stage.publish(1)
        stage.consumer(replay_policy=ReplayPolicy.ORIGINAL)
        inbox = stage.inbox()
        stage.pull(inbox, b"9")
        assert inbox.texts() == ["1"]
        stage.advance(1.9)
        assert inbox.texts() == []
        stage.advance(0.1)
        assert inbox.texts() == ["2"]
        stage.advance(0.5)
        assert inbox.texts() == ["3"]
        stage.advance(3)
        stage.publish(1)
        assert inbox.texts() == ["4"]

    def test_paused(self, stage: ConsumerStage) -> None:
        """A consumer that is paused delivers nothing; requests wait, and expire."""
        stage.publish(2)
        consumer = stage.consumer()
        consumer.pause(BEGINNING + 5 * SECOND)
        waiting, expiring, impatient = stage.inbox(), stage.inbox(), stage.inbox()
        stage.pull(waiting)
        stage.pull(expiring, b'{"batch":1,"expires":1000000000}')
        stage.pull(impatient, b'{"batch":1,"no_wait":true}')
        assert impatient.texts() in (["404 No Messages"], ["408 Requests Pending"])
        stage.advance(2)
        assert expiring.texts() == ["408 Request Timeout"]
        info = consumer.info()
        assert (info["paused"], info["pause_remaining"]) == (True, 3 * SECOND)
        stage.advance(3)
        assert waiting.texts() == ["1"]
        assert "paused" not in consumer.info()
        assert stage.advisories == ["consumer_pause", "consumer_pause"]

    def test_resumed(self, stage: ConsumerStage) -> None:
        """
        Pausing until a time in the past resumes the consumer. The configuration keeps the time.
        """
        stage.publish(1)
        consumer = stage.consumer()
        consumer.pause(BEGINNING + 5 * SECOND)
        inbox = stage.inbox()
        stage.pull(inbox)
        consumer.pause(BEGINNING - 1)
        stage.settle()
        assert inbox.texts() == ["1"]
        assert consumer.config.pause_until == BEGINNING - 1
        stage.advance(9)
        assert len(stage.advisories) == 2

    def test_pauseOfConfiguration(self, stage: ConsumerStage) -> None:
        """A consumer may begin paused."""
        stage.publish(1)
        stage.consumer(pause_until=stage.timestamp(4))
        inbox = stage.inbox()
        stage.pull(inbox)
        stage.advance(3.9)
        assert inbox.texts() == []
        stage.advance(0.2)
        assert inbox.texts() == ["1"]


CONFIGS: list[dict[str, Any]] = [
    {},
    {"max_ack_pending": 3},
    {"filter_subject": "s.a"},
    {"ack_policy": AckPolicy.NONE},
    {"max_deliver": 2},
    {"backoff": (SECOND, 2 * SECOND), "max_deliver": 4},
    {"deliver_subject": "d"},
    {"deliver_subject": "d", "max_ack_pending": 2, "idle_heartbeat": SECOND},
    {"deliver_subject": "d", "flow_control": True, "ack_policy": AckPolicy.NONE},
    {"deliver_subject": "d", "rate_limit_bps": 8000},
]

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 5)),
        st.tuples(st.just("pull"), st.sampled_from([b"1", b"4", b'{"batch":3,"max_bytes":150}'])),
        st.tuples(st.just("pull"), st.just(b'{"batch":9,"expires":2000000000}')),
        st.tuples(st.just("ack"), st.integers(1, 4)),
        st.tuples(st.just("nak"), st.just(0)),
        st.tuples(st.just("advance"), st.sampled_from([0.5, 31.0])),
        st.tuples(st.just("delete"), st.integers(1, 5)),
    ),
    max_size=10,
)


def history(config: dict[str, Any], events: list[tuple[str, Any]]) -> list[object]:
    """The deliveries to clients in the course of some events, and the consumer's info."""
    stage = ConsumerStage()
    inbox, other = stage.inbox(subject=b"d"), stage.inbox()
    consumer = stage.consumer(ack_wait=3 * SECOND, **config)
    shown: list[object] = []
    for name, argument in events:
        got = [*inbox.got, *other.got]
        acked = [delivery for delivery in got if delivery.reply.startswith(b"$JS.ACK.")]
        if name == "publish":
            stage.publish(argument, "s.a")
            stage.publish(1, "s.b")
        elif name == "pull" and not config.get("deliver_subject"):
            stage.pull(inbox, argument)
            stage.pull(other, argument)
        elif name == "ack":
            for message in acked[:argument]:
                stage.ack(message)
        elif name == "nak" and acked:
            stage.ack(acked[-1], b"-NAK")
        elif name == "delete" and argument <= stage.stream.last:
            stage.stream.delete(argument)
            stage.settle()
        elif name == "advance":
            stage.advance(argument)
        shown.append([(delivery.subject, delivery.reply, delivery.body) for delivery in inbox.got])
        shown.append([(delivery.subject, delivery.reply, delivery.body) for delivery in other.got])
        shown.append(consumer.info())
    return shown


@given(st.sampled_from(CONFIGS), EVENTS)
def test_runs(config: dict[str, Any], events: list[tuple[str, Any]]) -> None:
    """Messages that are delivered together are the same as those delivered one by one."""
    together = history(config, events)
    with patch.object(ConsumerDeliverer, "_deliverRun", lambda self, limit: 0):
        assert history(config, events) == together
