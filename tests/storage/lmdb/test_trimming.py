"""
Limits per subject on logs whose records are in the journal: the log shows at once what the database
will have.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from natsbroker.interfaces.records import Retention, SubjectTally
from natsbroker.storage.jobs import Job
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.testing.pumped import PumpedReactor

SUBJECTS = [b"k.%d" % number for number in range(12)]


class Bucket:
    """
    A log that keeps the newest records of each subject, and what it should have.
    """

    def __init__(self, path: Path, limit: int) -> None:
        self.path = path
        self.limit = limit
        self.expected: dict[int, tuple[bytes, bytes]] = {}
        self.open()

    def open(self) -> None:
        self.reactor = PumpedReactor()
        self.store: Any = self.wait(openLMDB(self.reactor, self.path))
        self.log: Any = self.wait(self.store.open("log"))
        self.log.retain(Retention(perSubject=self.limit))
        self.wait(self.log.append([]))

    def wait(self, deferred: Any) -> Any:
        return self.reactor.wait(deferred)

    def close(self) -> None:
        self.wait(self.store.close())

    def put(self, *subjects: bytes, size: int = 3) -> None:
        first = self.log.nextSequence
        entries = [
            (subject, b"", b"%d" % number * size, 0)
            for number, subject in enumerate(subjects, first)
        ]
        assert self.wait(self.log.append(entries)).start == first
        for sequence, entry in enumerate(entries, first):
            self.expected[sequence] = entry[0], entry[2]
        self.trim()

    def trim(self) -> None:
        """Remove the records that the limit does not keep from the expected ones."""
        bySubject: dict[bytes, list[int]] = {}
        for sequence, (subject, _) in self.expected.items():
            bySubject.setdefault(subject, []).append(sequence)
        for sequences in bySubject.values():
            for number in sequences[: -self.limit]:
                del self.expected[number]

    def check(self) -> None:
        """Compare all that the log shows."""
        log, wait, expected = self.log, self.wait, self.expected
        bounds = log.bounds()
        assert bounds.first == min(expected)
        assert bounds.count == len(expected)
        assert bounds.size == sum(len(a) + len(b) for a, b in expected.values())
        records = wait(log.read(1, 10_000, 1 << 24))
        assert {record.sequence: (record.subject, record.payload) for record in records} == expected
        tallies = wait(log.subjects(b">"))
        assert list(tallies) == sorted({subject for subject, _ in expected.values()})
        for subject, tally in tallies.items():
            own = [sequence for sequence, (other, _) in expected.items() if other == subject]
            assert tally == SubjectTally(len(own), own[0], own[-1])
        subject = next(iter(tallies))
        assert wait(log.lastFor(subject)).sequence == tallies[subject].last
        records = wait(log.readMatching([subject], 1)).records
        assert [record.sequence for record in records][-1] == tallies[subject].last
        exported: list[int] = []
        start = 1
        while start <= bounds.last:
            columns = wait(log.exportRange(start, bounds.last + 1))
            exported += columns.sequences
            start = columns.next
        assert exported == list(expected)
        assert wait(log.sequenceAt(0)) == min(expected)

    @property
    def ahead(self) -> int:
        """The number of records that the journal has and the database does not."""
        return len(self.log._ahead.blobs)


@pytest.fixture(params=[1, 3])
def bucket(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bucket]:
    """A bucket, which is closed afterwards."""
    bucket = Bucket(tmp_path / "store", request.param)
    bucket.put(*SUBJECTS)
    yield bucket
    bucket.close()


def test_newestStay(bucket: Bucket) -> None:
    """
    Records in the journal replace those in the database and each other at once, and the first
    sequence rises.
    """
    for number in range(60):
        bucket.put(SUBJECTS[number % 12])
        if number % 7 == 0:
            bucket.check()
    assert bucket.ahead > 30
    bucket.check()


def test_sameSubjects(bucket: Bucket) -> None:
    """
    Messages that are replaced again and again count once for the room that the database needs, and
    the database counts the last ones only.
    """
    for _ in range(200):
        bucket.put(*SUBJECTS)
    assert bucket.ahead > 2000
    bucket.check()
    bucket.wait(bucket.store.ask(Job()))
    assert not bucket.ahead
    bucket.check()


def test_cachedBlocks(bucket: Bucket) -> None:
    """Cached blocks do not show records that were replaced since."""
    for number in range(40):
        bucket.put(SUBJECTS[number % 5])
    bucket.wait(bucket.log.delete([]))
    bucket.check()
    for number in range(10):
        bucket.put(SUBJECTS[number % 3])
        bucket.check()
    assert bucket.ahead


def test_history(tmp_path: Path) -> None:
    """A random history of appends, deletes, discards, limits and restarts shows what it should at
    every step."""
    random = Random(4)
    bucket = Bucket(tmp_path / "store", 2)
    ahead = 0
    for step in range(400):
        choice = random.random()
        if choice < 0.9 or len(bucket.expected) < 5:
            count = random.choice((1, 1, 2, 5))
            names = SUBJECTS if random.random() < 0.7 else SUBJECTS[:2]
            bucket.put(*(random.choice(names) for _ in range(count)), size=random.choice((1, 90)))
        elif choice < 0.93:
            gone = random.sample(list(bucket.expected), 2)
            assert bucket.wait(bucket.log.delete(gone)) == 2
            for sequence in gone:
                del bucket.expected[sequence]
        elif choice < 0.95:
            stop = sorted(bucket.expected)[2]
            bucket.wait(bucket.log.discardBefore(stop))
            bucket.expected = {key: v for key, v in bucket.expected.items() if key >= stop}
        elif choice < 0.97:
            bucket.limit = random.choice((1, 2, 3))
            bucket.log.retain(Retention(perSubject=bucket.limit))
            bucket.wait(bucket.log.append([]))
            bucket.trim()
        elif choice < 0.98:
            bucket.put(*SUBJECTS, size=4000)
        elif choice < 0.99:
            bucket.close()
            bucket.open()
        else:
            bucket.wait(bucket.store.states("space").put(b"k", b"%d" % step))
        ahead += bucket.ahead
        bucket.check()
    assert ahead > 400
    bucket.close()


def test_killed(tmp_path: Path) -> None:
    """After a kill, the limit is applied to the journal's records before anything else is done."""
    bucket = Bucket(tmp_path / "open", 1)
    for number in range(50):
        bucket.put(SUBJECTS[number % 10], SUBJECTS[number % 7])
    assert bucket.ahead
    shutil.copytree(tmp_path / "open", tmp_path / "killed")
    bucket.close()
    bucket.path = tmp_path / "killed"
    bucket.open()
    bucket.check()
    bucket.put(SUBJECTS[0])
    bucket.check()
    bucket.close()


def test_noteWhatIsUnknown(tmp_path: Path) -> None:
    """
    For subjects with more records than are listed, the database decides which records are removed.
    """
    bucket = Bucket(tmp_path / "store", 70)
    for _ in range(4):
        bucket.put(*SUBJECTS[:3] * 10)
    for number in range(40):
        bucket.put(SUBJECTS[number % 3], SUBJECTS[0])
        bucket.check()
    bucket.close()


def test_keptOrLookedUp(tmp_path: Path) -> None:
    """
    After the database caught up, the limit holds for subjects that were in memory, that were not,
    and that are new.
    """
    bucket = Bucket(tmp_path / "store", 1)
    bucket.put(*(b"k.%d" % number for number in range(40)))
    for turn in range(6):
        for number in range(turn, turn + 12):
            bucket.put(b"k.%d" % (number * 3 % 40), b"k.%d" % (38 + turn + number % 4))
            bucket.check()
        if turn % 2:
            bucket.wait(bucket.store.ask(Job()))
        else:
            bucket.put(*(b"k.%d" % number for number in range(5)), size=5000)
        bucket.check()
        assert not bucket.ahead or turn % 2 == 0
    bucket.close()


def test_highLimits(tmp_path: Path) -> None:
    """An emptied log with a high limit per subject counts records, and keeps no list of them."""
    bucket = Bucket(tmp_path / "store", 1000)
    bucket.put(*SUBJECTS)
    bucket.wait(bucket.log.discardBefore(bucket.log.nextSequence))
    bucket.expected = {}
    for _ in range(30):
        bucket.put(*SUBJECTS[:3])
    bucket.check()
    [log] = bucket.store._committer._trimmed.values()
    assert log.subjects[SUBJECTS[0]] == (30, None)
    bucket.close()
