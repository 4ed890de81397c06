"""
Reading the messages of a consumer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred, fail

from natsbroker.interfaces.records import Matching, Record, StoreFailed
from natsbroker.jetstream.consumers.cursor import (
    LARGE_PIECE,
    PIECE,
    RecordCursor,
    fetchRecords,
)
from natsbroker.jetstream.streams.streamrecords import StreamRecords
from tests.jetstream.api.support import ApiStage
from tests.jetstream.consumers.support import ConsumerStage


@pytest.fixture
def stage() -> ConsumerStage:
    """A stage with an empty stream."""
    return ConsumerStage()


class Reader:
    """A cursor, and a count of the calls that announced a message."""

    def __init__(self, stage: ConsumerStage, *filters: bytes) -> None:
        self.stage = stage
        self.ready = 0
        self.queue: list[int] = []
        self.cursor = RecordCursor(
            stage.stream, filters, self._isReady, lambda limit: self.queue[:limit]
        )
        self.restart(1)

    def restart(self, *position: Any) -> None:
        """Continue at another position."""
        self.cursor.restart(*position)
        ensureDeferred(self.cursor.recount())
        self.stage.advance(1)

    def _isReady(self) -> None:
        self.ready += 1

    def take(self) -> int:
        """The sequence of the next message; 0 for none."""
        record = self.cursor.peek()
        if record is None:
            return 0
        self.cursor.take(record.sequence)
        return record.sequence


def test_fetchRecords(stage: ConsumerStage) -> None:
    """Single messages are fetched by their sequences; deleted ones are left out."""
    stage.publish(40)
    stage.stream.delete(3, 30)
    results: list[dict[int, Any]] = []
    wanted = [1, 2, 3, 5, 20, 30, 31, 39, 50]
    ensureDeferred(fetchRecords(stage.stream, wanted)).addCallback(results.append)
    assert sorted(results[0]) == [1, 2, 5, 20, 31, 39]


def test_countGoesWithDelivery(stage: ConsumerStage) -> None:
    """The number of pending messages falls with deliveries and rises with new messages."""
    stage.publish(3)
    reader = Reader(stage)
    assert reader.cursor.numPending == 3
    assert [reader.take(), reader.cursor.numPending] == [1, 2]
    stage.stream.publish("s.a")
    (record,) = stage.stream.records()[3:]
    reader.cursor.stored([record], 4, True)
    assert reader.cursor.numPending == 3
    assert [reader.take() for _ in range(4)] == [2, 3, 4, 0]
    assert (reader.cursor.numPending, reader.cursor.isAtEnd) == (0, True)


def test_filters(stage: ConsumerStage) -> None:
    """A cursor with filters counts and reads only matching messages."""
    for subject in ("s.a", "s.b", "s.a"):
        stage.stream.publish(subject)
    reader = Reader(stage, b"s.a")
    assert reader.cursor.numPending == 2
    stage.stream.publish("s.b")
    stage.stream.consumers.announced = 4
    assert [reader.take() for _ in range(3)] == [1, 3, 0]
    assert reader.cursor.position == 5


def test_manySubjects(stage: ConsumerStage) -> None:
    """A filter decides about thousands of different subjects."""
    cursor = Reader(stage, b"s.*.x").cursor
    wanted = [cursor.wants(b"s.%d.%b" % (n, b"xy"[n % 2 : n % 2 + 1])) for n in range(10_000)]
    assert wanted == [True, False] * 5000


def test_storedBeforeNotice(stage: ConsumerStage) -> None:
    """A message that is read before its notice comes is counted once."""
    reader = Reader(stage)
    stage.stream.publish("s.a")
    assert reader.take() == 1
    reader.cursor.stored(stage.stream.records(), 1, True)
    stage.stream.publish("s.a")
    reader.cursor.stored(stage.stream.records()[1:], 2, True)
    assert (reader.cursor.numPending, reader.take()) == (1, 2)


def test_storedBelowPosition(stage: ConsumerStage) -> None:
    """New messages below the cursor's position are not counted as pending."""
    reader = Reader(stage)
    reader.restart(3)
    stage.publish(4)
    for record in stage.stream.records():
        reader.cursor.stored([record], record.sequence, True)
    assert reader.cursor.numPending == 2
    assert [reader.take() for _ in range(3)] == [3, 4, 0]


def test_unbufferedMessagesAreRead(stage: ConsumerStage) -> None:
    """A message that was announced but not kept is read from the stream later."""
    reader = Reader(stage)
    stage.publish(2)
    records = stage.stream.records()
    reader.cursor.stored(records[:1], 1, False)
    reader.cursor.stored(records[1:], records[-1].sequence, True)
    assert [reader.take() for _ in range(3)] == [1, 2, 0]


def test_damaged(stage: ConsumerStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged message is not delivered, and is not counted as pending after the last read."""
    stage.publish(3)
    readEncoded = stage.stream.readEncoded

    def read(*arguments: Any) -> Deferred[Matching]:
        return readEncoded(*arguments).addCallback(
            lambda matching: Matching(
                [one for one in matching.records if one.sequence != 2], matching.next
            )
        )

    monkeypatch.setattr(stage.stream, "readEncoded", read)
    reader = Reader(stage)
    assert reader.cursor.numPending == 3
    pending = [(reader.take(), reader.cursor.numPending) for _ in range(3)]
    assert pending == [(1, 1), (3, 0), (0, 0)]


def test_slowRead(stage: ConsumerStage) -> None:
    """While a read is under way, a cursor has no message and is not at the end."""
    stage.publish(2)
    reader = Reader(stage)
    stage.stream.lag = 1.0
    assert (reader.take(), reader.cursor.isAtEnd, reader.ready) == (0, False, 0)
    stage.advance(1)
    assert (reader.ready, reader.take(), reader.take()) == (1, 1, 2)


def test_pieces(stage: ConsumerStage) -> None:
    """A consumer that takes all messages of a read gets larger reads, until it does not."""
    stage.publish(LARGE_PIECE + 3 * PIECE)
    reader = Reader(stage)
    cursor, everything = reader.cursor, 10 * LARGE_PIECE
    assert len(cursor.upcoming(everything)) == PIECE
    cursor.takeRun(PIECE, PIECE)
    assert len(cursor.upcoming(everything)) == LARGE_PIECE
    cursor.takeRun(LARGE_PIECE - 1, PIECE + LARGE_PIECE - 1)
    assert len(cursor.upcoming(everything)) == PIECE + 1
    cursor.takeRun(1, PIECE + LARGE_PIECE)
    assert [reader.take() for _ in range(2 * PIECE)][-1] == LARGE_PIECE + 3 * PIECE
    assert cursor.isAtEnd


def test_restartDuringRead(stage: ConsumerStage) -> None:
    """A restart of the cursor drops the messages of a read that is under way."""
    stage.publish(5)
    reader = Reader(stage)
    stage.stream.lag = 1.0
    assert reader.take() == 0
    reader.cursor.restart(4)
    stage.advance(3)
    stage.stream.lag = 0.0
    assert [reader.take() for _ in range(3)] == [4, 5, 0]
    assert reader.cursor.numPending == 0


def test_removedDuringCount(stage: ConsumerStage) -> None:
    """A count during which messages are removed is repeated."""
    stage.publish(5)
    reader = Reader(stage)
    stage.stream.lag = 1.0
    reader.cursor.restart(1)
    assert reader.take() == 0
    stage.advance(0.5)
    stage.stream.log.discardBefore(4)
    reader.cursor.removed((), 4)
    stage.advance(5)
    assert reader.cursor.isCounted
    assert reader.cursor.numPending == 2


def test_skipList(stage: ConsumerStage) -> None:
    """Up to a given sequence only listed messages are delivered, and all messages after it."""
    stage.publish(8)
    reader = Reader(stage)
    reader.restart(2, 6, [2, 4, 5])
    assert reader.cursor.numPending == 5
    stage.stream.log.delete([4])
    reader.cursor.removed([4], 0)
    assert [reader.take() for _ in range(5)] == [2, 5, 7, 8, 0]
    assert reader.cursor.numPending == 0


def test_skipListOfOldMessages(stage: ConsumerStage) -> None:
    """Listed messages that were removed from the stream are skipped."""
    stage.publish(8)
    reader = Reader(stage)
    reader.restart(2, 6, [2, 4, 5])
    stage.stream.log.delete([4])
    assert [reader.take() for _ in range(5)] == [2, 5, 7, 8, 0]
    assert reader.cursor.numPending == 0
    reader.restart(2, 6, [2, 4, 5])
    stage.stream.log.discardBefore(5)
    reader.cursor.removed((), 5)
    assert [reader.take() for _ in range(4)] == [5, 7, 8, 0]


def test_deliveredAgain(stage: ConsumerStage) -> None:
    """Messages that are redelivered are read together. A missing one is recorded as missing."""
    stage.publish(5)
    stage.stream.log.delete([4])
    reader = Reader(stage)
    reader.queue = [4, 2]
    assert reader.cursor.again(4) == (True, None)
    isKnown, record = reader.cursor.again(2)
    assert isKnown and record is not None and record.sequence == 2
    reader.cursor.removed([2], 0)
    assert reader.cursor.again(2) == (True, None)
    reader.cursor.forgetAgain(2)
    stage.stream.lag = 1.0
    assert reader.cursor.again(2) == (False, None)


def test_failedRead(
    stage: ConsumerStage,
    monkeypatch: pytest.MonkeyPatch,
    flushLoggedErrors: Callable[..., list[Any]],
) -> None:
    """A read that fails is repeated."""
    stage.publish(1)
    reader = Reader(stage)

    def broken(*arguments: Any) -> Deferred[Matching]:
        return fail(StoreFailed("broken"))

    monkeypatch.setattr(stage.stream, "readEncoded", broken)
    assert (reader.take(), reader.cursor.isAtEnd) == (0, False)
    monkeypatch.undo()
    assert reader.take() == 0
    stage.advance(1)
    assert (reader.ready, reader.take()) == (1, 1)


@pytest.mark.parametrize("isLast", [True, False])
def test_replaced(stage: ConsumerStage, isLast: bool) -> None:
    """
    Messages that newer ones of their subjects have replaced are neither delivered nor counted.
    """
    stage.publish(2, "s.a")
    stage.publish(1, "s.b")
    stage.stream.delete(1)
    reader = Reader(stage)
    reader.cursor.peek()
    stage.advance(1)
    stage.publish(1, "s.a")
    stage.stream.delete(2)
    record = Record(4, 0, b"s.a", b"", b"")
    reader.cursor.stored([record], record.sequence, False)
    reader.cursor.replaced([record], isLast)
    taken = []
    for _ in range(8):
        taken.append(reader.take())
        stage.advance(1)
    assert [sequence for sequence in taken if sequence] == [3, 4]
    assert reader.cursor.numPending == 0


def test_notReplaced(stage: ConsumerStage) -> None:
    """A replacement behind the cursor's position causes no new count."""
    stage.publish(1)
    reader = Reader(stage)
    reader.cursor.peek()
    stage.advance(1)
    assert reader.take() == 1
    reader.cursor.replaced([Record(2, 0, b"s.a", b"", b"")], False)
    assert reader.cursor.count()


class Looks:
    """A record of the reads and counts of all streams."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        for name in ("count", "read", "readEncoded"):
            monkeypatch.setattr(
                StreamRecords, name, self._noted(name, getattr(StreamRecords, name))
            )

    def _noted(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(stream: StreamRecords, *arguments: Any) -> Any:
            self.calls.append(name)
            return original(stream, *arguments)

        return call


def pushed(stage: ApiStage, count: int, **config: Any) -> list[Any]:
    """The inboxes of push consumers of one subject each."""
    inboxes = []
    for number in range(count):
        name, subject = f"p{number}", f"_INBOX.p{number}"
        inboxes.append(stage.inbox(subject.encode()))
        shown = {"name": name, "filter_subject": f"s.{number}", "deliver_subject": subject}
        body = {"stream_name": "S", "config": {**shown, **config}}
        assert "error" not in stage.ask(f"CONSUMER.CREATE.S.{name}.s.{number}", body)
    return inboxes


def test_acknowledgedOneByOne(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Acknowledging the messages of a work queue one by one causes no count or read of the stream.
    """
    stage = ApiStage()
    stage.make(retention="workqueue")
    for number in range(24):
        stage.send(b"s.%d" % (number % 3))
    stage.settle()
    inboxes = pushed(stage, 3, ack_policy="explicit", max_ack_pending=1)
    stage.settle()
    looks = Looks(monkeypatch)
    for _ in range(7):
        for inbox in inboxes:
            stage.send(inbox.got[-1].reply, b"+ACK")
            stage.settle()
    assert looks.calls == []
    assert [[int(m.reply.split(b".")[5]) for m in inbox.got] for inbox in inboxes] == [
        list(range(first, 25, 3)) for first in (1, 2, 3)
    ]
    assert [int(inbox.got[0].reply.split(b".")[8]) for inbox in inboxes] == [7] * 3
    assert [int(inbox.got[-1].reply.split(b".")[8]) for inbox in inboxes] == [0] * 3
    assert stage.jetstream.streams["S"].messages == 3


def test_watchedKeys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Updating the keys of a bucket with watchers causes no count or read of the stream."""
    stage = ApiStage()
    stage.make(max_msgs_per_subject=1)
    inboxes = pushed(stage, 3, ack_policy="none", deliver_policy="new")
    stage.settle()
    looks = Looks(monkeypatch)
    for number in range(12):
        stage.send(b"s.%d" % (number % 3 if number < 6 else 2 - number % 3))
        stage.settle()
    assert looks.calls == []
    assert [len(inbox.got) for inbox in inboxes] == [4] * 3
    assert [stage.ask(f"CONSUMER.INFO.S.p{n}")["num_pending"] for n in range(3)] == [0] * 3


def test_deletedUndelivered(stage: ConsumerStage) -> None:
    """A deleted message is counted and delivered no more, whether it was read or not."""
    stage.publish(3, "s.a")
    reader = Reader(stage, b"s.a")
    reader.cursor.peek()
    stage.publish(2, "s.a")
    reader.cursor.stored(stage.stream.records()[3:], 5, False)
    for gone, pending in ((2, 4), (5, 3)):
        stage.stream.log.delete([gone])
        reader.cursor.removed([gone], 0)
        assert not reader.cursor.isCounted
        ensureDeferred(reader.cursor.recount())
        assert reader.cursor.numPending == pending
    taken = []
    for _ in range(5):
        taken.append(reader.take())
        stage.advance(1)
    assert [sequence for sequence in taken if sequence] == [1, 3, 4]
