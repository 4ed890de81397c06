"""
The newest messages of a stream.
"""

from __future__ import annotations

from natsbroker.interfaces.records import Record
from natsbroker.jetstream.streams.tail import NEAR, RECORDS, StreamTail
from tests.counting import callsOf


def records(start: int, stop: int) -> list[Record]:
    """Messages. Every second one has the subject C{odd}."""
    return [Record(n, n, b"odd" if n % 2 else b"even", b"", b"x") for n in range(start, stop)]


def sequences(tail: StreamTail, filters: tuple[bytes, ...], start: int, limit: int) -> list[int]:
    """The sequences that a read gives, and where it continues."""
    matching = tail.read(filters, start, limit)
    assert matching is not None
    return [*(record.sequence for record in matching.records), matching.next]


def test_read() -> None:
    """A read gives the matching records and the sequence to continue at."""
    tail = StreamTail()
    tail.add(records(5, 10))
    assert sequences(tail, (), 5, 3) == [5, 6, 7, 8]
    assert sequences(tail, (), 8, 3) == [8, 9, 10]
    assert sequences(tail, (b"odd",), 6, 10) == [7, 9, 10]
    assert sequences(tail, (b"odd",), 5, 1) == [5, 6]


def test_skippedOnes() -> None:
    """A read after the last record has to ask the log, because sequences may have been skipped."""
    tail = StreamTail()
    tail.add(records(5, 10))
    assert tail.read((), 10, 3) is None
    assert tail.read((b"odd",), 11, 3) is None


def test_olderOnes() -> None:
    """A read before the first kept record has to ask the log."""
    tail = StreamTail()
    assert tail.read((), 1, 1) is None
    tail.add(records(5, 10))
    assert tail.read((), 4, 1) is None
    tail.discardBefore(7)
    assert tail.read((), 6, 1) is None
    tail.clear()
    assert tail.read((), 9, 1) is None


def test_trimmed() -> None:
    """A tail does not grow without bound."""
    tail = StreamTail()
    for start in range(1, 4 * RECORDS, 100):
        tail.add(records(start, start + 100))
    assert tail.read((), 1, 1) is None
    assert sequences(tail, (), 4 * RECORDS - RECORDS, 1)[0] == 3 * RECORDS


def test_far() -> None:
    """No more than some records are compared with filters; the log has an index for the others."""
    tail = StreamTail()
    tail.add([Record(n, n, b"s.%d" % n, b"", b"x") for n in range(1, 3 * NEAR)])
    assert tail.read((b"s.700",), 1, 10) is None
    assert sequences(tail, (b"s.9", b"s.700"), 1, 10) == [9, NEAR + 1]
    assert sequences(tail, (b"s.700",), 600, 10) == [700, 3 * NEAR]
    assert sequences(tail, (b"nope.*",), 2 * NEAR, 10) == [3 * NEAR]
    compared = callsOf(lambda: tail.read((b"*.nope",), 1, 10))
    assert compared < 20 * NEAR
