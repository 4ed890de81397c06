"""
Reading a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred, ensureDeferred, succeed
from zope.interface import alsoProvides

from natsbroker.interfaces import IShortcutLog
from natsbroker.interfaces.records import Entry, Matching
from natsbroker.jetstream.model.streamconfig import StorageType
from natsbroker.jetstream.streams import stream as streams
from natsbroker.jetstream.streams import streamcore
from natsbroker.jetstream.streams import streamrecords as reading
from natsbroker.jetstream.streams.stream import Stream
from natsbroker.jetstream.streams.streamrecords import GAP
from natsbroker.storage import memory
from tests.jetstream.support import ReplacingLog, Stage, WorkCounter, filled
from tests.storage.encodings import encodedBlock
from tests.support import COMPILED


def test_read() -> None:
    """
    Messages are found by sequence, by subject, as the last or next of a subject, and as the last of
    each.
    """
    stage = Stage()
    stream = stage.stream()
    filled(stage)
    for clears in (False, True):
        matching = stage.wait(stream.read((b"s.b",), 3))
        assert [record.sequence for record in matching.records] == [4]
        assert matching.next == 6
        if not clears:
            stream.change(stream.log.append([]))
    assert stage.wait(stream.get(3)) is not None
    assert stage.wait(stream.get(9)) is None
    last = stage.wait(stream.lastMatching(b"s.b"))
    assert last is not None and last.sequence == 4
    last = stage.wait(stream.lastMatching(b"s.*"))
    assert last is not None and last.sequence == 5
    following = stage.wait(stream.nextMatching(b"s.b", 3))
    assert following is not None and following.sequence == 4
    assert stage.wait(stream.lastPerSubject((b"s.*",))) == [4, 5]
    assert stage.wait(stream.countSubjects()) == 2


def test_firstTime() -> None:
    """The time of the oldest message is correct after each append and removal."""
    stage = Stage()
    stream = stage.stream()
    times = []

    def note() -> None:
        times.append(stage.wait(ensureDeferred(stream.firstTime())))

    note()
    stage.wait(stream.log.append([(b"s.a", b"", b"", time) for time in (10, 20, 30, 40)]))
    note()
    for sequence in (2, 1, 3, 4):
        stage.wait(stream.remove([sequence]))
        note()
    stage.wait(stream.log.append([(b"s.a", b"", b"", 50)]))
    note()
    assert times == [0, 10, 10, 30, 40, 0, 50]


def test_firstTimeIsKept() -> None:
    """The time of the oldest message is not read again after an append."""
    stage = Stage()
    stream = stage.stream()
    filled(stage)
    first = stage.wait(ensureDeferred(stream.firstTime()))
    stream.log = counter = WorkCounter(stream.log)
    stage.wait(stream.log.append([(b"s.a", b"", b"", 1)]))
    assert stage.wait(ensureDeferred(stream.firstTime())) == first
    assert counter.work == 0


@pytest.mark.parametrize("pattern", [b"s.*.nope", b"s.*.late"])
def test_sparse(pattern: bytes) -> None:
    """A search for a rare subject does not read most of the other messages."""
    stage = Stage()
    stream = stage.stream()
    entries: list[Entry] = [(b"s.%d.x" % (number % 10), b"", b"", 1) for number in range(30_000)]
    stage.wait(stream.log.append([*entries, (b"s.3.late", b"", b"", 1)]))
    stream.log = counter = WorkCounter(stream.log)
    record = stage.wait(stream.nextMatching(pattern, 1))
    sequences = stage.wait(stream.sequencesOf(pattern, stream.last + 1))
    isThere = pattern.endswith(b"late")
    assert (record and record.sequence) == (30_001 if isThere else None)
    assert sequences == ([30_001] if isThere else [])
    assert counter.work < 5000


def test_readEncoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    For delivery, a log may give encoded records, which have no length in front of their header
    blocks.
    """
    stage = Stage()
    stream = stage.stream()
    filled(stage)
    stage.publish(b"s.c", b"payload", A="1")
    stream.change(stream.log.append([]))
    expected = stage.wait(stream.read((b"s.*",), 2))
    assert expected.records[-1].headers == b"NATS/1.0\r\nA: 1\r\n\r\n"
    assert stage.wait(stream.readEncoded((b"s.*",), 2, 256, 1 << 20)) == expected
    if COMPILED is None:
        return
    asked: list[Any] = []

    def collect(collector: Any, *arguments: Any) -> Deferred[int]:
        asked.append(arguments)
        count = len(expected.records)
        encodedBlock(expected.records, 4).select(collector, 0, count, None, count, 1 << 20)
        return succeed(expected.next)

    monkeypatch.setattr(stream.log, "collect", collect, raising=False)
    alsoProvides(stream.log, IShortcutLog)
    matching = stage.wait(stream.readEncoded((b"s.*",), 2, 256, 1 << 20))
    assert (list(matching.records), matching.next) == (list(expected.records), expected.next)
    assert asked == [((b"s.*",), 2, 256, 1 << 20)]


@pytest.mark.parametrize(
    ("filters", "sequence", "count"),
    [
        ((), 1, 4),
        ((), 3, 3),
        ((), 4, 2),
        ((), 6, 0),
        ((b"s.a",), 1, 3),
        ((b"s.a",), 2, 2),
        ((b"s.b",), 3, 1),
        ((b"s.a", b"s.b"), 2, 3),
    ],
)
def test_count(filters: tuple[bytes, ...], sequence: int, count: int) -> None:
    """Messages from a sequence on are counted without deleted ones."""
    stage = Stage()
    stream = stage.stream()
    filled(stage)
    assert stage.wait(stream.remove([2])) == 1
    assert stage.wait(stream.count(filters, sequence)) == count


def test_gaps() -> None:
    """Gaps are the missing sequences between first and last message."""
    stage = Stage()
    stream = stage.stream()
    filled(stage)
    stage.wait(stream.remove([1, 3, 4]))
    assert stream.first == 2
    gaps: list[int] = []

    def take(gap: range) -> bool:
        gaps.extend(gap)
        return True

    stage.wait(stream.eachGap(take))
    assert gaps == [3, 4]


def test_largeGap() -> None:
    """A large gap is reported in pieces, one a turn, until the caller has enough."""
    stage = Stage()
    stream = stage.stream()
    stage.publish(b"s.a")
    stage.wait(stream.log.skipTo(50_000_000))
    stage.publish(b"s.b")
    pieces: list[range] = []
    turns: list[int] = []
    taking: Any = stage.jetstream.turns
    turn = taking.turn

    def taken(*cost: int) -> Deferred[None]:
        turns.append(len(pieces))
        waiting: Deferred[None] = turn(*cost)
        return waiting

    def look(gap: range) -> bool:
        pieces.append(gap)
        return len(pieces) < 5

    taking.turn = taken
    stage.wait(stream.eachGap(look))
    assert [len(piece) for piece in pieces] == [GAP] * 5
    assert (pieces[0].start, pieces[-1].stop) == (2, 2 + 5 * GAP)
    assert turns == [1, 2, 3, 4]


class TestWork:
    """The work of one turn is limited, however long the stream is."""

    MESSAGES = 120
    LIMIT = 40
    """Messages and subjects that are looked at in one turn, at most."""

    @pytest.fixture(autouse=True)
    def slices(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Limit the work of a turn to a tenth of the stream."""
        monkeypatch.setattr(reading, "SLICE", 12)
        monkeypatch.setattr(reading, "SUBJECTS", 12)
        monkeypatch.setattr(streams, "SLICE", 12)
        monkeypatch.setattr(streamcore, "SLICE", 12)
        monkeypatch.setattr(memory, "SCANNED", 12)

    def filled(self, stage: Stage, **config: Any) -> Stream:
        """
        Create a stream in which some subjects have two messages, and every fifth message is
        deleted.
        """
        stream = stage.stream(**config)
        entries = [
            (b"s.%d" % (place if place % 4 else place // 8), b"", b"x", 0)
            for place in range(self.MESSAGES)
        ]
        stage.wait(stream.log.append(entries))
        stage.wait(stream.log.delete(range(5, self.MESSAGES, 5)))
        return stream

    @pytest.mark.parametrize(
        "look",
        [
            lambda stream: stream.count((b"s.*",), 60),
            lambda stream: stream.count((b"s.1", b"s.2"), 1),
            lambda stream: stream.eachGap(lambda gap: True),
            lambda stream: stream.lastPerSubject(()),
            lambda stream: stream.lastMatching(b"s.*"),
            lambda stream: stream.nextMatching(b"*.none", 1),
            lambda stream: stream.sequencesOf(b"s.*", 100),
            lambda stream: stream.keeping(7),
        ],
    )
    def test_looking(self, look: Callable[[Stream], Deferred[Any]]) -> None:
        """A search over several turns has the same result as in one turn."""
        stage = Stage()
        stream = self.filled(stage)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reading, "SLICE", 10**6)
            patch.setattr(reading, "SUBJECTS", 10**6)
            patch.setattr(memory, "SCANNED", 10**6)
            expected = look(self.filled(Stage())).result
        outcome, busiest = stage.busiest(stream, lambda: look(stream))
        assert outcome == expected
        assert 0 < busiest <= self.LIMIT

    def test_countSubjects(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Subjects are counted by the log if it can do so, and otherwise over several turns."""
        stage = Stage()
        stream = self.filled(stage)
        assert stage.busiest(stream, stream.countSubjects) == (79, 0)
        stage.wait(stream.log.append([(b"s.new", b"", b"", 0)]))
        monkeypatch.setattr(reading, "ICountedLog", IShortcutLog)
        count, busiest = stage.busiest(stream, stream.countSubjects)
        assert count == 80
        assert 0 < busiest <= self.LIMIT

    @pytest.mark.parametrize("keep", [0, 3])
    def test_purge(self, keep: int) -> None:
        """A purge by a pattern finds and removes messages over several turns."""
        stage = Stage()
        stream = self.filled(stage)
        count = stream.messages
        removed: list[int] = []
        delete = stream.log.delete

        def noted(sequences: Collection[int]) -> Deferred[int]:
            removed.append(len(sequences))
            return cast("Deferred[int]", delete(sequences))

        stream.log.delete = noted
        purged, busiest = stage.busiest(stream, lambda: stream.purge(b"s.*", keep=keep))
        assert (purged, stream.messages) == (count - keep, keep)
        assert busiest <= self.LIMIT
        assert max(removed) <= 12

    def test_purgeInMemory(self) -> None:
        """A stream in memory is emptied some messages at a time."""
        stage = Stage()
        stream = self.filled(stage, storage=StorageType.MEMORY)
        count = stream.messages
        purged, busiest = stage.busiest(stream, lambda: stream.purge())
        assert (purged, stream.messages) == (count, 0)
        assert 0 < busiest <= self.LIMIT

    def test_oneSubject(self) -> None:
        """A purge of one subject does not look at other messages."""
        stage = Stage()
        stream = self.filled(stage)
        purged, _ = stage.busiest(stream, lambda: stream.purge(b"s.1"))
        assert purged == 3
        matching = stage.wait(stream.read((b"s.119",), 1))
        assert [record.sequence for record in matching.records] == [120]

    def test_shrink(self) -> None:
        """A lower limit of bytes removes messages in parts."""
        stage = Stage()
        stream = self.filled(stage)
        config = replace(stream.config, max_bytes=stream.size // 10)
        _, busiest = stage.busiest(stream, lambda: stream.applyConfig(config))
        assert stream.size <= config.max_bytes
        assert 0 < busiest <= 64

    @pytest.mark.parametrize("key", ["allow_msg_ttl", "allow_msg_schedules"])
    def test_times(self, key: str) -> None:
        """
        When an update allows times to live or schedules, the stored messages are read over several
        turns.
        """
        stage = Stage()
        stream = self.filled(stage)
        changes: dict[str, Any] = {key: True}
        config = replace(stream.config, **changes)
        _, busiest = stage.busiest(stream, lambda: stream.applyConfig(config))
        assert 0 < busiest <= self.LIMIT


SUBJECTS = (b"s.a", b"s.b")


def replacing(times: int) -> tuple[Stage, Stream]:
    """A stream with one message a subject, of which each is replaced during reads."""
    stage = Stage()
    stream = stage.stream(max_msgs_per_subject=1)
    for subject in SUBJECTS:
        stage.publish(subject)
    stream.log = ReplacingLog(stream.log, SUBJECTS, times)
    return stage, stream


@pytest.mark.parametrize("times", range(1, 6))
class TestReplaced:
    """Messages that are replaced while they are looked for."""

    def test_last(self, times: int) -> None:
        """The last message of a subject or pattern is found while messages are being replaced."""
        for pattern in (b"s.a", b"s.*"):
            stage, stream = replacing(times)
            record = stage.wait(stream.lastMatching(pattern))
            assert record is not None
            assert record.sequence >= 1

    def test_next(self, times: int) -> None:
        """The next message of a subject is always found."""
        stage, stream = replacing(times)
        record = stage.wait(stream.nextMatching(b"s.a", 1))
        assert record is not None and record.subject == b"s.a"

    def test_count(self, times: int) -> None:
        """Each subject is counted, with the messages that arrive meanwhile."""
        stage, stream = replacing(times)
        assert stage.wait(stream.count((b"s.*",), 1)) >= len(SUBJECTS)


def test_countAgain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal counts for many consumers search the log once, until a message is added or removed."""
    stage = Stage()
    stream = stage.stream()
    filled(stage)
    asked: list[bytes] = []
    subjects = stream.log.subjects

    def noted(pattern: bytes, *args: Any) -> Any:
        asked.append(pattern)
        return subjects(pattern, *args)

    monkeypatch.setattr(stream.log, "subjects", noted)
    counts = [stage.wait(stream.count((b"s.b",), 1)) for _ in range(20)]
    assert (len(set(counts)), len(asked)) == (1, 1)
    stage.publish(b"s.b")
    assert stage.wait(stream.count((b"s.b",), 1)) == counts[0] + 1
    stage.wait(stream.remove([stream.last]))
    assert stage.wait(stream.count((b"s.b",), 1)) == counts[0]
    assert len(asked) == 3


def test_countMeanwhile() -> None:
    """Messages that arrive during a count are counted once."""
    stage = Stage()
    stream = stage.stream()
    filled(stage)
    log = stream.log
    stream.log = ReplacingLog(log, (b"s.a", b"s.c"), 1)
    counted = stage.wait(stream.count((b"s.a",), 1))
    assert counted == stage.wait(log.subjects(b"s.a"))[b"s.a"].count == 4


def test_damagedLast() -> None:
    """A last message that cannot be read is not looked for without end."""
    stage = Stage()
    stream = stage.stream()
    filled(stage)
    log = stream.log
    log.lastFor = lambda subject: succeed(None)
    log.read = lambda *arguments: succeed([])
    log.readMatching = lambda *arguments: succeed(Matching([], 6))
    stream.change(log.append([]))
    assert stage.wait(stream.lastMatching(b"s.*")) is None
