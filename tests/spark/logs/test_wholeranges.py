"""
Reading ranges: whole, or not at all.

Replicas that lag are played where the test says when, and real in tests/spark/test_conformance.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from natsbroker.spark.errors import DataLoss, DataSourceError
from natsbroker.spark.logs import wholeranges as reading
from natsbroker.spark.logs.apis import StreamState
from natsbroker.spark.logs.columns import MessageRows
from natsbroker.spark.logs.wholeranges import (
    Loss,
    OnLoss,
    RangeReader,
    ReadOptions,
    SequenceRange,
    checkStream,
    logLoss,
)
from tests.spark.support import Station, Stream


def rangeOf(station: Station, stream: Stream, start: int = 1, stop: int = 0) -> SequenceRange:
    """
    @return: a range of a stream; the whole range by default.
    """
    state = station.streams.state(stream.name)
    return SequenceRange(stream.name, state.created, start, stop or state.stop)


def readSeqs(
    station: Station,
    bounds: SequenceRange,
    options: ReadOptions | None = None,
    onLoss: OnLoss | None = None,
) -> list[int]:
    """
    @return: the sequences that are read.
    """
    reader = RangeReader(station.streams, bounds, options or ReadOptions(), onLoss)
    return [seq for rows in reader.read() for seq in rows.seqs]


class TestStored:
    """The messages that nats-server has stored."""

    @pytest.mark.parametrize(
        "options", [ReadOptions(), ReadOptions(batchRows=3), ReadOptions(fetchBytes=1024)]
    )
    def test_everyRangeOnce(self, station: Station, options: ReadOptions) -> None:
        """
        Every half-open range gives its own sequences once, in order, with any kind of fetching.
        """
        stream = station.stream()
        stream.fill([b"x" * 400] * 10)
        for start in range(1, 12):
            for stop in range(start, 12):
                expected = list(range(start, stop))
                assert readSeqs(station, rangeOf(station, stream, start, stop), options) == expected

    def test_fewGaps(self, station: Station) -> None:
        """Deleted messages are skipped, also at the ends of a range."""
        stream = station.stream()
        stream.fill([b"x"] * 12)
        stream.delete(3, 4, 7, 8, 12)
        assert readSeqs(station, rangeOf(station, stream)) == [1, 2, 5, 6, 9, 10, 11]
        assert readSeqs(station, rangeOf(station, stream, 3, 9)) == [5, 6]
        assert readSeqs(station, rangeOf(station, stream, 7, 9)) == []

    def test_manyGaps(self, station: Station) -> None:
        """A stream with many deleted messages is read."""
        stream = station.stream()
        stream.fill([b"x"] * 100)
        stream.delete(*range(2, 100, 2))
        assert readSeqs(station, rangeOf(station, stream)) == [*range(1, 100, 2), 100]

    @pytest.mark.parametrize(("gaps", "most"), [(5, 12), (400, 12)])
    def test_cheap(
        self, gaps: int, most: int, station: Station, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The number of requests about deleted messages is limited, however many there are."""
        stream = station.stream()
        stream.fill([b"x"] * 1000)
        stream.delete(*range(2, 2 + 2 * gaps, 2))
        bounds = rangeOf(station, stream)
        asked: list[str] = []
        request = station.connection.request

        def counted(subject: str, payload: bytes = b"") -> bytes:
            asked.append(subject)
            return request(subject, payload)

        monkeypatch.setattr(station.connection, "request", counted)
        assert len(readSeqs(station, bounds, ReadOptions(batchRows=300))) == 1000 - gaps
        assert len(asked) <= most

    def test_patterns(self, station: Station) -> None:
        """Filters give their matching messages. One that matches two filters comes once."""
        stream = station.stream()
        for subject in ("a.1", "b.1", "a.2", "c", "b.2"):
            stream.add(subject, b"")
        name = stream.name
        bounds = rangeOf(station, stream)
        assert readSeqs(station, bounds, ReadOptions((f"{name}.a.*",))) == [1, 3]
        both = ReadOptions((f"{name}.a.*", f"{name}.*.2"))
        assert readSeqs(station, bounds, both) == [1, 3, 5]
        assert readSeqs(station, replace(bounds, stop=4), replace(both, batchRows=1)) == [1, 3]
        assert readSeqs(station, bounds, ReadOptions((f"{name}.z",))) == []

    def test_orderOfRows(self, station: Station) -> None:
        """Rows of several filters are in the order of the stream."""
        stream = station.stream()
        for number in range(100):
            stream.add(f"{'abc'[number % 3]}.{number}", b"x" * 300)
        bounds = rangeOf(station, stream)
        patterns = tuple(f"{stream.name}.{letter}.>" for letter in "cab")
        for options in (ReadOptions(patterns), ReadOptions(patterns, batchRows=4)):
            assert readSeqs(station, bounds, options) == list(range(1, 101))

    @pytest.mark.parametrize("pattern", [(), ("even",), ("even", "odd")])
    def test_mirrors(self, pattern: tuple[str, ...], station: Station) -> None:
        """Answers of a mirror with fewer messages do not count for the stream."""
        stream = station.stream()
        mirror = Stream(station.connection, f"{stream.name}M")
        mirror.make(subjects=[], mirror={"name": stream.name}, max_msgs=20, mirror_direct=True)
        for number in range(200):
            stream.add("odd" if number % 2 else "even", b"")
        while station.streams.state(mirror.name).messages < 20:
            pass
        bounds = rangeOf(station, stream)
        options = ReadOptions(tuple(f"{stream.name}.{token}" for token in pattern), batchRows=10)
        step = 2 if len(pattern) == 1 else 1
        assert readSeqs(station, bounds, options) == list(range(1, 201, step))
        mirror.api("DELETE")

    def test_onlyMirror(self, station: Station, monkeypatch: pytest.MonkeyPatch) -> None:
        """If only a mirror answers, the error says so."""
        stream = station.stream()
        stream.fill([b"x"])
        monkeypatch.setattr(reading, "fetch", lambda *_: None)
        with pytest.raises(DataSourceError, match="only a mirror of it gave sequence 1"):
            readSeqs(station, rangeOf(station, stream), ReadOptions(patience=0.01))


class TestLoss:
    """Messages that are missing."""

    @pytest.mark.parametrize("pattern", [(), (">",)])
    def test_deletedFirst(self, pattern: tuple[str, ...], station: Station) -> None:
        """A deleted first message is no loss, unless a limit may have removed it."""
        for config, isLost in (({}, False), ({"max_msgs": 100}, True)):
            stream = station.stream(**config)
            stream.fill([b"x"] * 5)
            bounds = rangeOf(station, stream)
            stream.delete(1)
            losses: list[str] = []
            seqs = readSeqs(station, bounds, ReadOptions(pattern), losses.append)
            assert (seqs, bool(losses)) == ([2, 3, 4, 5], isLost)

    def test_purgedBetween(self, station: Station) -> None:
        """Messages that were purged by subject after planning are data loss, or are reported."""
        stream = station.stream()
        for number in range(20):
            stream.add(str(number % 2), b"")
        stream.delete(4, 5, 6)
        state = station.streams.state(stream.name)
        bounds = reading.planned(state, 1, state.stop)
        stream.delete(9)
        assert len(readSeqs(station, bounds)) == 16
        stream.api("PURGE", {"filter": f"{stream.name}.1"})
        with pytest.raises(DataLoss, match="9 messages have been removed from among others"):
            readSeqs(station, bounds)
        losses: list[str] = []
        assert len(readSeqs(station, bounds, onLoss=losses.append)) == 8
        assert len(losses) == 1

    def test_replaced(self, station: Station) -> None:
        """Messages that were replaced by newer ones of their subjects are not returned."""
        stream = station.stream(max_msgs_per_subject=1)
        stream.add("first", b"")
        for number in range(10):
            stream.add(str(number), b"")
        state = station.streams.state(stream.name)
        for number in range(10):
            stream.add(str(number), b"")
        assert readSeqs(station, reading.planned(state, 1, state.stop)) == [1]

    def test_trimmedBefore(self, station: Station) -> None:
        """A range whose beginning was trimmed after it was planned is a loss, or is reported."""
        stream = station.stream()
        stream.fill([b"x"] * 10)
        bounds = rangeOf(station, stream)
        stream.api("PURGE", {"seq": 5})
        with pytest.raises(DataLoss, match="sequences 1 to 4 are not stored any more"):
            readSeqs(station, bounds)
        losses: list[str] = []
        seqs = readSeqs(station, bounds, onLoss=losses.append)
        assert seqs == [5, 6, 7, 8, 9, 10]
        assert len(losses) == 1
        assert "sequences 1 to 4" in losses[0]

    @pytest.mark.parametrize("pattern", [(), (">",)])
    def test_trimmedMeanwhile(self, pattern: tuple[str, ...], station: Station) -> None:
        """A message trimmed while the range is being read is a loss, with and without a filter."""
        stream = station.stream()
        stream.fill([b"x"] * 10)
        reader = RangeReader(
            station.streams, rangeOf(station, stream), ReadOptions(pattern, batchRows=2), None
        ).read()
        assert next(reader).seqs == [1, 2]
        stream.api("PURGE", {"seq": 8})
        with pytest.raises(DataLoss, match="sequences 3 to 7"):
            list(reader)

    def test_purgedMeanwhile(self, station: Station) -> None:
        """A purge while the range is being read is a loss."""
        stream = station.stream()
        stream.fill([b"x"] * 4)
        bounds = rangeOf(station, stream)
        stream.api("PURGE")
        with pytest.raises(DataLoss, match="sequences 1 to 4"):
            readSeqs(station, bounds)

    def test_madeAgain(self, station: Station) -> None:
        """A stream that is gone or was created again is data loss."""
        stream = station.stream()
        stream.fill([b"x"] * 4)
        bounds = rangeOf(station, stream)
        stream.api("DELETE")
        with pytest.raises(DataLoss, match=f"stream {stream.name} is gone"):
            readSeqs(station, bounds)
        stream.make()
        stream.fill([b"y"] * 4)
        with pytest.raises(DataLoss, match="deleted and made again"):
            readSeqs(station, bounds, onLoss=print)

    def test_madeAgainMeanwhile(self, station: Station) -> None:
        """A stream that is made again during the last fetch is noticed at the end."""
        stream = station.stream()
        stream.fill([b"x"] * 4)
        reader = RangeReader(station.streams, rangeOf(station, stream), ReadOptions(), None).read()
        next(reader)
        stream.api("DELETE")
        stream.make()
        with pytest.raises(DataLoss, match="made again"):
            next(reader)


class Leader:
    """
    A stream's leader that knows which sequences are stored.
    """

    prefix = "$JS.API."
    connection = None

    def __init__(self, stored: set[int], stop: int) -> None:
        self.stored = stored
        self.stop = stop

    def state(self, name: str, withDeleted: bool = False) -> StreamState:
        first = min(self.stored, default=self.stop)
        deleted = frozenset(range(first, self.stop)) - self.stored
        return StreamState(name, "then", first, self.stop, len(self.stored), 0, True, deleted)

    def next(self, name: str, seq: int, pattern: str = ">") -> int | None:
        return min((record for record in self.stored if record >= seq), default=None)


def replica(stored: Iterator[set[int]] | list[set[int]]) -> Any:
    """@return: a replacement for C{fetch} that answers from these sets of sequences in turn."""
    turns = iter(stored)

    def fetch(
        connection: object, subject: str, start: int, count: int, size: int, pattern: str
    ) -> tuple[MessageRows, bool]:
        known = sorted(seq for seq in next(turns) if seq >= start)
        seqs = known[:count]
        empty = [b""] * len(seqs)
        times = [b"2026-11-20T08:00:00Z"] * len(seqs)
        rows = MessageRows(seqs, [b"x"] * len(seqs), times, empty, empty[:])
        return rows, len(known) <= count

    return fetch


ALL = set(range(1, 31))


class TestReplicas:
    """Replicas that do not have all messages."""

    def seqs(self, known: list[set[int]], stored: set[int], pattern: tuple[str, ...] = ()) -> Any:
        """
        @return: the sequences of C{known}, one after the other, for which C{stored} is true.
        """
        pauses: list[float] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reading, "fetch", replica(known))
            reader = RangeReader(
                Leader(stored, 31),  # type: ignore[arg-type]
                SequenceRange("S", "then", 1, 31),
                ReadOptions(pattern),
                None,
                pauses.append,
            )
            return [seq for rows in reader.read() for seq in rows.seqs], len(pauses)

    @pytest.mark.parametrize("pattern", [(), ("x",)])
    def test_earlyEnd(self, pattern: tuple[str, ...]) -> None:
        """An end that the leader does not confirm is ignored: reading continues from there."""
        known = [set(range(1, 11)), set(), set(range(1, 21)), ALL]
        assert self.seqs(known, ALL, pattern) == (sorted(ALL), 3)

    @pytest.mark.parametrize("holes", [{5}, set(range(4, 30, 2))])
    def test_falseGaps(self, holes: set[int]) -> None:
        """A gap that the leader does not confirm is read again."""
        assert self.seqs([ALL - holes, ALL], ALL) == (sorted(ALL), 1)

    @pytest.mark.parametrize("holes", [{5, 9}, set(range(4, 30, 2))])
    def test_someFalse(self, holes: set[int]) -> None:
        """Confirmed gaps are skipped, and unconfirmed ones are not."""
        stored = ALL - holes
        expected = sorted(stored)
        assert self.seqs([stored - {11, 27}, stored - {27}, stored], stored)[0] == expected

    def test_timeout(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        A range that no replica returns in time is an error, and its first part is not used as the
        whole.
        """
        clock = iter(range(1000))
        monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
        with pytest.raises(DataSourceError, match="sequence 11 or one behind it is stored, and no"):
            self.seqs([set(range(1, 11))] * 50, ALL)


def test_checkStream(station: Station) -> None:
    """The state of a stream is returned if it is the planned one."""
    stream = station.stream()
    created = station.streams.state(stream.name).created
    assert checkStream(station.streams, stream.name, created).stop == 1


def test_logLoss(caplog: pytest.LogCaptureFixture) -> None:
    """A range that is skipped is logged."""
    logLoss(Loss("sequences 1 to 4 are gone"))
    assert caplog.messages == ["sequences 1 to 4 are gone"]
