"""Deletions and values of state that are in the journal before the database has them."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from natsbroker.interfaces.records import Retention, SubjectTally
from natsbroker.storage.changes import Changes, isChange, packChanges, unpackChanges
from natsbroker.storage.jobs import Job
from natsbroker.storage.lmdb import files
from natsbroker.storage.lmdb.backlog import MOST_DELETED
from natsbroker.storage.lmdb.journal import Journal
from natsbroker.storage.lmdb.layout import CHANGING_VERSION, FORMAT_VERSION
from natsbroker.storage.lmdb.opening import STORE
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.storage.records import Damaged, encodeBatch
from natsbroker.testing.pumped import PumpedReactor

SUBJECTS = [b"w.%d" % number for number in range(4)]


def test_packed() -> None:
    """Changes are read as they were written; of one value the last counts."""
    written = packChanges({7: {3, 1 << 40}}, {("space", b"k"): b"v", ("space", b"x"): b"y"})
    written += packChanges({7: [9], 8: []}, {("space", b"k"): None})
    assert all(map(isChange, written))
    changes = unpackChanges(written)
    assert sorted(changes.deleted.pop(7)) == [3, 9, 1 << 40]
    assert changes == Changes({}, {("space", b"k"): None, ("space", b"x"): b"y"})


def test_recordsAreNoChanges() -> None:
    """A record is not taken for a change."""
    assert not isChange(encodeBatch(7, 1, [(b"s", b"", b"p", 0)], 5, 0, b"").blobs[0])


def test_unknownKind() -> None:
    """A change that another version wrote is not skipped, but an error."""
    entry = packChanges({7: [1]}, {})[0]
    with pytest.raises(Damaged, match="kind 9"):
        unpackChanges([entry[:6] + b"\x09\0" + entry[8:]])


class Queue:
    """A log of messages that are deleted one by one, and what it should show."""

    def __init__(self, path: Path, retention: Retention) -> None:
        self.path = path
        self.retention = retention
        self.expected: dict[int, bytes] = {}
        self.states: dict[bytes, bytes] = {}
        self.open()

    def open(self) -> None:
        self.reactor = PumpedReactor()
        self.store: Any = self.wait(openLMDB(self.reactor, self.path))
        self.log: Any = self.wait(self.store.open("log"))
        self.log.retain(self.retention)
        self.wait(self.store.ask(Job()))

    def wait(self, deferred: Any) -> Any:
        return self.reactor.wait(deferred)

    def close(self) -> None:
        self.wait(self.store.close())

    def crash(self) -> None:
        """Continue with what is on disk, as after a kill."""
        copy = self.path.with_name(self.path.name + "+")
        shutil.copytree(self.path, copy)
        self.close()
        self.path = copy
        self.open()

    def put(self, *subjects: bytes) -> None:
        entries = [(subject, b"", subject * 3, 0) for subject in subjects]
        for sequence, subject in zip(self.wait(self.log.append(entries)), subjects, strict=True):
            self.expected[sequence] = subject

    def delete(self, *sequences: int) -> None:
        deleted = self.wait(self.log.delete(sequences))
        assert deleted == len(self.expected.keys() & set(sequences))
        for sequence in sequences:
            self.expected.pop(sequence, None)

    def keep(self, key: bytes, value: bytes) -> None:
        self.wait(self.store.states("space").put(key, value))
        self.states[key] = value

    def check(self) -> None:
        """Compare the log with the expected messages, also those in the journal."""
        bounds = self.log.bounds()
        assert bounds.count == len(self.expected)
        assert bounds.size == sum(4 * len(subject) for subject in self.expected.values())
        assert bounds.first == min(self.expected, default=bounds.last + 1)
        records = self.wait(self.log.read(1, 10_000))
        assert {record.sequence: record.subject for record in records} == self.expected
        for subject in SUBJECTS[:2]:
            own = [sequence for sequence, other in self.expected.items() if other == subject]
            matching = self.wait(self.log.readMatching([subject], 1)).records
            assert [record.sequence for record in matching] == own
        gone = set(range(1, bounds.last + 1)) - self.expected.keys()
        assert not any(map(self.log.recall, gone))

    def checkSubjects(self) -> None:
        """Compare the subjects, for which the database has to catch up."""
        subjects = sorted(set(self.expected.values()))
        tallies = self.wait(self.log.subjects(b">"))
        assert self.wait(self.log.countSubjects()) == len(subjects) == len(tallies)
        for subject in SUBJECTS:
            own = [sequence for sequence, other in self.expected.items() if other == subject]
            last = self.wait(self.log.lastFor(subject))
            assert (last.sequence if last else 0) == max(own, default=0)
            if own:
                assert tallies[subject] == SubjectTally(len(own), own[0], own[-1])
        assert self.wait(self.store.states("space").load()) == self.states

    @property
    def isAhead(self) -> bool:
        return bool(self.log._ahead.deleted)

    @property
    def version(self) -> int:
        """The format of the store, which decides whether a version may open it."""
        said = files.readFormat(self.path / STORE)
        assert said is not None
        return said.version


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    """A queue that is closed afterwards. Its database has twenty messages."""
    queue = Queue(tmp_path / "store", Retention())
    queue.put(*SUBJECTS * 5)
    queue.delete(2, 3)
    yield queue
    queue.close()


def test_deletedAhead(queue: Queue) -> None:
    """Deletions go into the journal and are seen by all who read."""
    queue.delete(1)
    assert queue.isAhead
    queue.check()
    queue.put(b"w.0")
    queue.delete(21, 4, 4, 20)
    queue.check()
    assert queue.isAhead
    queue.checkSubjects()
    queue.check()


def test_comeAndGone(queue: Queue) -> None:
    """Messages that were appended and deleted while they were in the journal are in no tally."""
    queue.put(*SUBJECTS, b"w.8", b"w.9")
    queue.delete(21, 25)
    queue.put(b"w.9", *SUBJECTS[:2])
    queue.delete(26, 28)
    states = [queue.isAhead]
    queue.checkSubjects()
    states.append(queue.isAhead)
    assert states == [True, False]
    queue.delete(*sorted(queue.expected)[:6])
    queue.check()
    queue.crash()
    queue.check()
    queue.checkSubjects()


def test_crash(queue: Queue) -> None:
    """After a kill, deletions and values of state are what was acknowledged."""
    queue.keep(b"a", b"1")
    queue.put(b"w.0", b"w.9")
    queue.delete(1, 7, 22)
    queue.keep(b"a", b"2")
    queue.keep(b"b", b"3")
    assert queue.isAhead
    queue.crash()
    queue.check()
    queue.checkSubjects()


def test_stateDeleted(queue: Queue) -> None:
    """A value of state that was deleted in the journal does not come back."""
    queue.keep(b"a", b"1")
    queue.wait(queue.store.ask(Job()))
    queue.wait(queue.store.states("space").delete(b"a"))
    del queue.states[b"a"]
    queue.crash()
    queue.checkSubjects()


def test_shorterState(queue: Queue) -> None:
    """
    A long value in the journal that a shorter one replaces is not taken for damage at the next
    start.
    """
    queue.keep(b"a", b"1" * 10_000)
    queue.wait(queue.store.states("space").change({b"a": b"2", b"b": b"3" * 20_000}))
    queue.states = {b"a": b"2", b"b": b"3" * 20_000}
    queue.crash()
    assert not list(queue.path.glob("damaged-*"))
    queue.checkSubjects()


def test_allDeleted(queue: Queue) -> None:
    """A queue can become empty, and be filled again."""
    for sequence in list(queue.expected):
        queue.delete(sequence)
    assert queue.isAhead
    queue.check()
    queue.put(b"w.0")
    queue.check()
    queue.checkSubjects()


def test_many(queue: Queue) -> None:
    """
    Many messages are deleted in the database at once, also some that the journal has already
    deleted.
    """
    queue.put(*SUBJECTS * MOST_DELETED)
    queue.delete(50)
    queue.delete(*range(1, 50 + MOST_DELETED))
    assert not queue.isAhead
    queue.check()


def test_limitPerSubject(tmp_path: Path) -> None:
    """
    With a limit per subject, deletions go into the database, as the journal cannot know which
    records the limit removes.
    """
    queue = Queue(tmp_path / "store", Retention(perSubject=5))
    queue.put(*SUBJECTS * 3)
    queue.delete(2)
    queue.delete(5)
    assert not queue.isAhead
    queue.check()
    queue.close()


def test_olderVersions(tmp_path: Path) -> None:
    """
    A store that may have changes in the journal refuses versions that do not know them; after it
    was closed, they open it again.
    """
    queue = Queue(tmp_path / "store", Retention())
    queue.put(*SUBJECTS)
    queue.delete(1)
    assert (queue.isAhead, queue.version) == (True, CHANGING_VERSION)
    queue.crash()
    assert queue.version == CHANGING_VERSION
    queue.delete(2)
    queue.close()
    assert queue.version == FORMAT_VERSION
    queue.open()
    queue.check()
    queue.close()


def test_noSpaceForFormat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Deletions go into the database while there is no space to mark the store against older versions.
    """
    queue = Queue(tmp_path / "store", Retention())
    queue.close()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patched:
        patched.setattr(files, "writeFormat", full)
        queue.open()
        queue.put(*SUBJECTS)
        queue.delete(1)
        assert (queue.isAhead, queue.version) == (False, FORMAT_VERSION)
        queue.check()
    queue.delete(2)
    queue.delete(3)
    assert (queue.isAhead, queue.version) == (True, CHANGING_VERSION)
    queue.check()
    queue.close()


@pytest.mark.parametrize("seed", range(6))
def test_anyOrder(tmp_path: Path, seed: int) -> None:
    """The log shows all requests, in whatever order they came, also after a kill."""
    random = Random(seed)
    queue = Queue(tmp_path / "store", Retention())
    wasAhead = False
    for _ in range(60):
        step = random.random()
        if step < 0.35:
            queue.put(*random.choices(SUBJECTS, k=random.randint(1, 4)))
        elif step < 0.8 and queue.expected:
            known = range(1, queue.log.bounds().last + 1)
            queue.delete(*random.choices(known, k=random.randint(1, 3)))
        elif step < 0.9:
            queue.keep(b"%d" % random.randint(1, 3), b"%d" % random.randint(1, 9))
        elif step < 0.93:
            queue.crash()
        elif step < 0.96:
            queue.checkSubjects()
        wasAhead = wasAhead or queue.isAhead
        queue.check()
    queue.checkSubjects()
    assert wasAhead
    queue.close()


def test_relaxed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    With an interval between syncs, a deletion and a state that are requested together are not
    synced; all other changes are.
    """
    synced: list[bool] = []
    written = Journal.written

    def note(journal: Journal, frame: bytes, mustSync: bool) -> None:
        synced.append(mustSync)
        written(journal, frame, mustSync)

    monkeypatch.setattr(Journal, "written", note)
    reactor = PumpedReactor()
    store: Any = reactor.wait(openLMDB(reactor, tmp_path / "store", syncInterval=60))
    log: Any = reactor.wait(store.open("log"))
    space = store.states("space")
    reactor.wait(space.put(b"first", b"1"))
    reactor.wait(log.append([(b"s", b"", b"x", 0)] * 4))
    synced.clear()
    asked: list[Any] = []

    def settle() -> None:
        asked.extend((log.delete([1]), space.put(b"key", b"a")))

    log.together(settle)
    for deferred in asked:
        reactor.wait(deferred)
    assert synced == [False]
    reactor.wait(log.delete([2]))
    reactor.wait(space.put(b"key", b"b"))
    assert synced == [False, True, True]
    log.together(settle)
    reactor.wait(space.put(b"other", b"c"))
    assert synced[3:] in ([True], [False, True])
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    reactor.wait(store.close())
    store = reactor.wait(openLMDB(reactor, tmp_path / "copy"))
    log = reactor.wait(store.open("log"))
    assert [record.sequence for record in reactor.wait(log.read(1))] == [3, 4]
    assert reactor.wait(store.states("space").load())[b"key"] == b"a"
    reactor.wait(store.close())
