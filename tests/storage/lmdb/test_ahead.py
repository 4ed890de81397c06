"""
The view that logs of several subjects give of records in the journal only.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed

from natsbroker.interfaces.records import LogBounds, Retention, SubjectTally
from natsbroker.storage.blocks import Block
from natsbroker.storage.jobs import Job
from natsbroker.storage.lmdb.ahead import QUICK, LastSequences, RecordsAhead, tighten
from natsbroker.storage.lmdb.environment import SLOW, QuickReads
from natsbroker.storage.lmdb.fetching import TallyPage
from natsbroker.storage.lmdb.layout import Tally
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.storage.records import decode, encodeBatch
from natsbroker.testing.pumped import PumpedReactor


class Stage:
    """
    A store on disk with one log of several subjects, which the database has.
    """

    def __init__(self, path: Path) -> None:
        self.reactor = PumpedReactor()
        self.store: Any = self.wait(openLMDB(self.reactor, path))
        self.store._quickReads = QuickReads(lambda: 0)
        self.log: Any = self.wait(self.store.open("log"))
        self.put(b"a", b"b")

    def wait(self, deferred: Any) -> Any:
        return self.reactor.wait(deferred)

    def put(self, *subjects: bytes) -> None:
        """Append a record of each subject, at a time of its own."""
        first = self.log.nextSequence
        self.wait(
            self.log.append(
                [
                    (subject, b"", b"%d" % sequence, 1000 * sequence)
                    for sequence, subject in enumerate(subjects, first)
                ]
            )
        )

    @property
    def isAhead(self) -> bool:
        """Whether the journal has records that the database does not have."""
        return bool(self.store._committer._backlog.rows)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A store, which is closed afterwards."""
    stage = Stage(tmp_path / "store")
    yield stage
    stage.wait(stage.store.close())


def test_severalSubjects(stage: Stage) -> None:
    """Appends to a log of several subjects go into the journal and are seen by all who read."""
    for subject in (b"c", b"a", b"d.e", b"a"):
        stage.put(subject)
    assert stage.isAhead
    log, wait = stage.log, stage.wait
    assert [record.payload for record in wait(log.read(1))] == [
        b"%d" % number for number in range(1, 7)
    ]
    tallies = {
        b"a": SubjectTally(3, 1, 6),
        b"b": SubjectTally(1, 2, 2),
        b"c": SubjectTally(1, 3, 3),
        b"d.e": SubjectTally(1, 5, 5),
    }
    assert list(wait(log.subjects(b">")).items()) == list(tallies.items())
    assert wait(log.subjects(b"*")) == {name: tallies[name] for name in (b"a", b"b", b"c")}
    assert wait(log.subjects(b"d.e")) == {b"d.e": tallies[b"d.e"]}
    assert wait(log.subjects(b"x")) == {}
    assert wait(log.countSubjects()) == 4
    assert wait(log.lastFor(b"a")).sequence == 6
    assert wait(log.lastFor(b"b")).sequence == 2
    assert wait(log.lastFor(b"x")) is None
    matching = wait(log.readMatching([b"a", b"d.>"], 2))
    assert [record.sequence for record in matching.records] == [4, 5, 6]
    few = wait(log.readMatching([b"a"], 2, 1))
    assert ([record.sequence for record in few.records], few.next) == ([4], 6)
    assert [record.sequence for record in wait(log.readMatching([b"a"], 5)).records] == [6]
    assert wait(log.sequenceAt(3500)) == 4
    assert wait(log.exportRange(2, 6)).next == 3
    assert wait(log.exportRange(3, 6)).sequences.tolist() == [3, 4, 5]


def test_pagesOfSubjects(stage: Stage) -> None:
    """Subjects in the journal and in the database are listed page by page, each once."""
    names = [b"s.%d" % (number * 7 % 40) for number in range(40)]
    stage.put(*names[:20])
    for number in range(20, 40, 4):
        stage.put(*names[number : number + 4])
    assert stage.isAhead
    subjects: list[bytes] = []
    while page := list(
        stage.wait(stage.log.subjects(b"s.*", subjects[-1] if subjects else b"", 3))
    ):
        assert len(page) <= 3
        subjects += page
    assert subjects == sorted(names)


def test_caughtUp(stage: Stage) -> None:
    """After the database has caught up, no record is counted twice."""
    stage.put(b"a")
    before = stage.wait(stage.log.subjects(b">"))
    stage.wait(stage.store.ask(Job()))
    assert not stage.isAhead
    assert stage.wait(stage.log.subjects(b">")) == before
    assert stage.wait(stage.log.countSubjects()) == 2


def test_countedMeanwhile(stage: Stage) -> None:
    """
    The count of subjects is right although the database catches up with the journal meanwhile.
    """
    stage.put(b"c")
    counting = stage.log.countSubjects()
    stage.wait(stage.store.ask(Job()))
    assert not stage.isAhead
    assert stage.wait(counting) == 3


def test_databaseCaughtUpBefore() -> None:
    """
    A page of tallies that the database read after it caught up is not changed; an older page gets
    the journal's records.
    """
    ahead = RecordsAhead()
    ahead.add(encodeBatch(1, 5, [(b"a", b"", b"", 0)], 7, 7, b"a").blobs, {})
    page = TallyPage([Tally(b"a", 3, 1, 5)], b"", 5)
    assert ahead.merged(page, b"a", b"", 10) == page.tallies
    [tally] = ahead.merged(TallyPage([Tally(b"a", 2, 1, 3)], b"", 4), b"a", b"", 10)
    assert (tally.count, tally.first, tally.last) == (3, 1, 5)


def test_lastSequences(stage: Stage) -> None:
    """
    The last record of a subject is found after appends, deletions and a discard, and while a new
    one is being appended.
    """
    log, wait = stage.log, stage.wait
    assert wait(log.lastFor(b"a")).sequence == 1
    stage.put(b"a", b"c")
    assert wait(log.lastFor(b"a")).sequence == 3
    asked = [log.lastFor(name) for name in (b"b", b"a", b"c")]
    appending = log.append([(b"b", b"", b"new", 0)])
    assert [wait(deferred).subject for deferred in asked] == [b"b", b"a", b"c"]
    wait(appending)
    assert wait(log.lastFor(b"b")).payload == b"new"
    assert wait(log.delete([5, 3])) == 2
    assert wait(log.lastFor(b"b")).sequence == 2
    assert wait(log.lastFor(b"a")).sequence == 1
    wait(log.discardBefore(2))
    assert wait(log.lastFor(b"a")) is None
    assert wait(log.lastFor(b"c")).sequence == 4


def test_lookUpsAfterForgetting() -> None:
    """
    A look-up from before the memory was cleared is not remembered, nor is one older than an append.
    """
    lasts = LastSequences()
    epoch = lasts.epoch
    lasts.appended([b"a"], range(7, 8))
    lasts.found(b"a", 5, epoch)
    assert lasts.find(b"a") == 7
    lasts.clear()
    lasts.found(b"b", 5, epoch)
    assert lasts.find(b"b") == 0


class TestRecalled:
    """Encoded records in memory."""

    def find(self, stage: Stage, *sequences: int) -> list[Any]:
        """Sequence and payload of each record that is in memory."""
        results = []
        for raw, start, end in [
            stage.log.recall(sequence) or (b"", 0, 0) for sequence in sequences
        ]:
            results.append(decode(raw, start, end, stage.log.identity)[::4] if raw else None)
        return results

    def test_journal(self, stage: Stage) -> None:
        """Records in the journal are recalled, and those that the database returns at once."""
        stage.put(b"a", b"b")
        assert stage.isAhead
        expected = [None, (1, b"1"), (3, b"3"), (4, b"4"), None]
        assert self.find(stage, 0, 1, 3, 4, 5) == expected
        assert self.find(stage, 1, 2) == [(1, b"1"), (2, b"2")]

    def test_leftToThreads(self, stage: Stage) -> None:
        """While reads wait for the disk, records are recalled once a thread has read them."""
        times = iter(range(0, 10**12, 2 * SLOW))
        stage.store._quickReads = QuickReads(lambda: next(times), count().__next__)
        assert self.find(stage, 1, 2) == [(1, b"1"), None]
        assert stage.wait(stage.log.lastFor(b"b")).payload == b"2"
        assert self.find(stage, 1, 2) == [(1, b"1"), (2, b"2")]

    def test_gone(self, stage: Stage) -> None:
        """A record that was deleted, or removed by a limit, is not recalled."""
        stage.wait(stage.log.read(1))
        stage.put(b"a", b"b", b"c", b"d")
        stage.wait(stage.log.delete([1]))
        assert self.find(stage, 1) == [None]
        stage.log.retain(Retention(perSubject=1))
        for _ in range(3):
            stage.put(b"b", b"c")
        assert stage.isAhead
        last = stage.log.nextSequence - 1
        assert self.find(stage, last - 3, last) == [None, (last, b"%d" % last)]

    def test_lastSequences(self, stage: Stage) -> None:
        """The last sequence of a subject is known once it was asked for or appended."""
        assert stage.log.recallLast(b"z") == 0
        assert stage.log.recallLast(b"a") == 1
        stage.put(b"a")
        assert stage.log.recallLast(b"a") == 3
        assert stage.wait(stage.log.lastFor(b"a")).payload == b"3"

    def test_lastWhenGone(self, stage: Stage) -> None:
        """A record that was read with its sequence is not returned after its removal."""
        assert stage.log.recallLast(b"a") == 1
        stage.wait(stage.log.delete([1]))
        assert self.find(stage, 1) == [None]
        assert stage.log.recallLast(b"a") == 0

    def test_secondRecordOfBlock(self, stage: Stage) -> None:
        """A block is kept in memory when a second of its records is requested."""
        assert stage.store.cache.find(stage.log.identity, 1) is None
        assert self.find(stage, 1) == [(1, b"1")]
        assert stage.store.cache.find(stage.log.identity, 1) is None
        assert self.find(stage, 2) == [(2, b"2")]
        assert stage.store.cache.find(stage.log.identity, 1) is not None

    def test_closed(self, stage: Stage) -> None:
        """A closed log returns nothing."""
        stage.put(b"a")
        stage.wait(stage.store.close())
        assert self.find(stage, 3) == [None]


class TestOnlySubjects:
    """Whether a pattern matches all subjects."""

    @pytest.mark.parametrize(
        ("pattern", "isSure"),
        [(b">", True), (b"a.>", True), (b"a.b.>", False), (b"*.>", False), (b"a.*", False)],
    )
    def test_database(self, stage: Stage, pattern: bytes, isSure: bool) -> None:
        """The subject of a pattern with a fixed beginning is found by the subjects at both ends."""
        log = stage.wait(stage.store.open("other"))
        for subject in (b"a.b.c", b"a.c", b"a.b"):
            stage.wait(log.append([(subject, b"", b"", 0)]))
        assert stage.wait(log.hasOnly(pattern)) is isSure

    def test_withoutThreads(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        """Both ends, and the tallies of a few subjects, are read without a thread."""
        log = stage.wait(stage.store.open("other"))
        for subject in (b"a.b.c", b"a.c", b"b.d"):
            stage.wait(log.append([(subject, b"", b"", 0)]))
        monkeypatch.setattr(stage.store, "fetch", None)
        assert not stage.wait(log.hasOnly(b"a.>"))
        assert list(stage.wait(log.subjects(b"a.>"))) == [b"a.b.c", b"a.c"]

    def test_manySubjects(self, stage: Stage) -> None:
        """If a pattern matches many subjects, threads look at those beyond the first few."""
        log = stage.wait(stage.store.open("other"))
        subjects = [b"a.%03d.x" % number for number in range(2 * QUICK)]
        stage.wait(log.append([(subject, b"", b"", 0) for subject in subjects]))
        assert list(stage.wait(log.subjects(b"a.*.x"))) == subjects

    def test_otherLogAndJournal(self, stage: Stage) -> None:
        """Subjects of another log do not count; a subject that is only in the journal does."""
        log = stage.wait(stage.store.open("other"))
        stage.wait(log.append([(b"b.1", b"", b"", 0), (b"b.2", b"", b"", 0)]))
        assert stage.wait(log.hasOnly(b"b.>"))
        stage.wait(log.append([(b"c.1", b"", b"", 0)]))
        assert stage.isAhead
        assert not stage.wait(log.hasOnly(b"b.>"))

    def test_sole(self, stage: Stage) -> None:
        """A log of one subject has no index."""
        log = stage.wait(stage.store.open("other"))
        stage.wait(log.append([(b"b.1", b"", b"", 0)]))
        assert stage.wait(log.hasOnly(b"b.*"))
        assert not stage.wait(log.hasOnly(b"a.>"))


def test_tighten(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The first record behind removed ones is found without looking at records before or after it.
    """
    ahead = RecordsAhead()
    batch = [(b"%d" % (number % 4), b"", b"", 1) for number in range(400)]
    ahead.add(encodeBatch(1, 1, batch, 1, 0, b"").blobs, {})
    looked: list[int] = []
    original = Block.subject

    def subject(block: Block, index: int) -> bytes:
        looked.append(block.sequences[index])
        return original(block, index)

    def fetch(sequence: int, enough: int) -> Deferred[list[Block]]:
        return succeed(ahead.block(1, sequence, enough))

    monkeypatch.setattr(Block, "subject", subject)
    tallies = [Tally(b"0", 80, 202), Tally(b"3", 80, 203), Tally(b"none", 1, 399)]
    done: list[None] = []
    tighten(tallies[:2], LogBounds(100, 400, 301, 3010, 1), fetch).addCallback(done.append)
    assert done == [None]
    assert [tally.first for tally in tallies] == [205, 204, 399]
    assert looked == [202, 203, 204, 205]
    tighten(tallies[2:], LogBounds(100, 400, 301, 3010, 1), fetch).addCallback(done.append)
    assert done == [None, None] and tallies[2].first == 399
