"""
Tests for L{natsbroker.pure.collector} and its compiled twin.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from natsbroker.wire.values import Message, Run
from tests.support import COMPILED, PURE, Names, RunRecorder, needsCompiled, onEach, using

ORIGINS = (object(), object())


class Broken(RunRecorder):
    """A subscriber that raises."""

    def deliverRuns(self, runs: list[tuple[Run, Any]]) -> None:
        """Fail."""
        raise ZeroDivisionError


def message(body: bytes, subject: bytes = b"s", reply: bytes = b"") -> Message:
    """A message."""
    return Message(subject, body, reply)


@onEach
def test_oneCall(names: Names) -> None:
    """
    The messages of a turn are delivered together at its end, in runs of equal subject, reply
    subject and tag.
    """
    recorder = RunRecorder()
    batch = names.FlushBatch(lambda call: None)
    collector = names.Collector(recorder, batch, print)
    batch.enter()
    for delivery in (message(b"a"), message(b"b"), message(b"c", reply=b"r"), message(b"d")):
        collector.deliver(delivery, b"1")
    collector.deliver(message(b"e"), b"2")
    assert recorder.runs == []
    batch.leave()
    assert recorder.runs == [[b"a", b"b"], [b"c"], [b"d"], [b"e"]]
    assert recorder.tags == [b"1"] * 4 + [b"2"]
    batch.enter()
    collector.deliver(message(b"f"), b"2")
    batch.leave()
    assert recorder.runs[4:] == [[b"f"]]


@onEach
def test_endedSubscription(names: Names) -> None:
    """When a subscription ends, its collected messages are delivered first."""
    recorder = RunRecorder()
    later: list[Any] = []
    collector = names.Collector(recorder, names.FlushBatch(later.append), print)
    collector.deliver(message(b"a"), b"1")
    collector.subscriptionEnded(b"1")
    assert (recorder.runs, recorder.ended) == ([[b"a"]], [b"1"])
    later[0]()
    assert recorder.runs == [[b"a"]]


@onEach
def test_raises(names: Names) -> None:
    """An exception of a subscriber is reported, and the next turn is not affected."""
    failures: list[str] = []
    batch = names.FlushBatch(lambda call: None)
    collector = names.Collector(Broken(), batch, failures.append)
    for count in (1, 2):
        batch.enter()
        collector.deliver(message(b"a"), b"1")
        batch.leave()
        assert failures == ["A batch subscriber failed"] * count


@needsCompiled
@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"s", b"s", b"t"]),
            st.sampled_from([b"", b"r", b"R"]),
            st.sampled_from([0, 0, 12]),
            st.sampled_from(ORIGINS),
            st.sampled_from("xy"),
        ),
        max_size=12,
    )
)
def test_sameRuns(sent: list[tuple[bytes, bytes, int, object, str]]) -> None:
    """Both implementations make the same runs, with the messages unchanged."""
    runs = []
    for names in (PURE, COMPILED):
        assert names is not None
        recorder = RunRecorder()
        batch = names.FlushBatch(lambda call: None)
        with using(names):
            collector = names.Collector(recorder, batch, print)
            batch.enter()
            for place, (subject, reply, header, origin, tag) in enumerate(sent):
                body = b"NATS/1.0\r\n\r\n"[:header] + b"%d" % place
                collector.deliver(Message(subject, body, reply, header, origin), tag)
            batch.leave()
        runs.append((recorder.runs, [fields(delivery, tag) for delivery, tag in recorder.got]))
    assert runs[0] == runs[1]
    assert [run[:5] for run in runs[0][1]] == sent


def fields(delivery: Message, tag: str) -> tuple[Any, ...]:
    """The fields of a delivery."""
    return (
        delivery.subject,
        delivery.reply,
        delivery.headerLength,
        delivery.origin,
        tag,
        delivery.payload,
    )


@onEach
def test_cost(names: Names) -> None:
    """
    A message for the readable path counts as work on arrival, so that its publisher is slowed down.
    """
    recorder: Any = RunRecorder()
    recorder.steps = SimpleNamespace(cost=300, isIdle=False)
    batch = names.FlushBatch(lambda call: None)
    collector = names.Collector(recorder, batch, print)
    headers = b"NATS/1.0\r\nNats-Schedule: @hourly\r\n\r\n"

    def cost(tag: object, body: bytes, headerLength: int = 0) -> int:
        before = batch.work
        collector.deliver(Message(b"s", body, b"", headerLength), tag)
        return int(batch.work - before)

    assert cost(None, b"x") == 0
    assert cost(None, headers, len(headers)) == 300
    assert cost(SimpleNamespace(cost=40), b"x") == 40
    batch.flush()
    recorder.steps.isIdle = True
    assert cost(None, b"x") == 300


@needsCompiled
def test_knownHeaders() -> None:
    """Headers that the compiled step understands have no extra cost."""
    recorder: Any = RunRecorder()
    recorder.steps = SimpleNamespace(cost=300, isIdle=False)
    compiled: Any = COMPILED
    batch = compiled.FlushBatch(lambda call: None)
    headers = b"NATS/1.0\r\nNats-Msg-Id: 1\r\nX: y\r\n\r\n"
    compiled.Collector(recorder, batch, print).deliver(
        Message(b"s", headers, b"", len(headers)), None
    )
    assert batch.work == 0
