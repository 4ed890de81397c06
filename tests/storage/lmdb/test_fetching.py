"""
Single records and last sequences, found by the readable path and by the compiled steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import lmdb
import pytest

from natsbroker import hot
from natsbroker.storage.blocks import build, chunks, packDead
from natsbroker.storage.envelopes import wrap, wrapTwice
from natsbroker.storage.lmdb.encryption.codec import PLAIN
from natsbroker.storage.lmdb.fetching import fetchTallies, findRecord, lastIn
from natsbroker.storage.lmdb.layout import Tally, blockKey, deadKey, tallyKey
from natsbroker.storage.records import encodeBatch
from tests.support import COMPILED, Names, needsCompiled, onEach, using

MARK = b"mark-abc"
LONG = b"s" * 500
IDENTITIES = (1, 9, (1 << 64) - 1)
GAP = 1 << 33


def block(identity: int, sequences: Sequence[int]) -> tuple[bytes, list[bytes]]:
    """A block with these records, and the records."""
    blobs = [
        encodeBatch(identity, sequence, [(b"s", b"", b"%d" % sequence, 1)], 1, 0, b"s").blobs[0]
        for sequence in sequences
    ]
    return build(MARK, identity, 1, next(chunks(sequences, blobs))), blobs


class Database:
    """
    Blocks with and without gaps and deleted records, and tallies.
    """

    def __init__(self, path: Path) -> None:
        self.env: Any = lmdb.Environment(str(path), subdir=False, map_size=1 << 24, sync=False)
        self.records: dict[tuple[int, int], bytes] = {}
        self.firsts: dict[tuple[int, int], int] = {}
        for identity in IDENTITIES:
            for sequences in (range(5, 25), range(30, 60, 3), [GAP], [GAP + 1, GAP + 9]):
                raw, blobs = block(identity, sequences)
                self.put(blockKey(identity, sequences[0]), raw)
                for sequence, blob in zip(sequences, blobs, strict=True):
                    self.records[identity, sequence] = blob
                    self.firsts[identity, sequence] = sequences[0]
            for first, dead in ((30, 36), (GAP + 1, GAP + 1)):
                key = deadKey(identity, first)
                self.put(key, wrapTwice(MARK, b"G", 1, key, packDead(first, [dead])))
                del self.records[identity, dead]
            for place, subject in enumerate((b"a", b"a.b", LONG)):
                tally = Tally(subject)
                tally.add([7, GAP + place], 1)
                self.putTally(identity, subject, tally.pack())

    def put(self, key: bytes, value: bytes) -> None:
        """Store a value."""
        with self.env.begin(write=True) as txn:
            txn.put(key, value)

    def putTally(self, identity: int, subject: bytes, value: bytes) -> None:
        """Store the value of a tally in its envelope."""
        key = tallyKey(identity, subject)
        self.put(key, wrap(MARK, b"T", 1, key, value))

    def find(self, identity: int, sequence: int) -> tuple[int, bytes] | None:
        """Read a record."""
        with self.env.begin(buffers=True) as txn:
            return findRecord(txn, identity, sequence)

    def last(self, identity: int, subject: bytes) -> int:
        """Look up a last sequence."""
        with self.env.begin(buffers=True) as txn:
            return lastIn(txn, identity, subject)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A database, which is closed afterwards."""
    made = Database(tmp_path / "data")
    yield made
    made.env.close()


@onEach
def test_findRecord(database: Database, names: Names) -> None:
    """Existing records are found with the beginning of their block; others are not found."""
    with using(names):
        for identity in (*IDENTITIES, 2):
            for sequence in (*range(70), *range(GAP - 1, GAP + 12)):
                expected = None
                if record := database.records.get((identity, sequence)):
                    expected = database.firsts[identity, sequence], record
                assert database.find(identity, sequence) == expected


@onEach
def test_lastIn(database: Database, names: Names) -> None:
    """The last sequence of a subject is in its tally, whatever the length of the subject."""
    with using(names):
        for identity in IDENTITIES:
            lasts = [
                database.last(identity, subject) for subject in (b"a", b"a.b", LONG, b"b", b"")
            ]
            assert lasts == [GAP, GAP + 1, GAP + 2, 0, 0]
        assert database.last(2, b"a") == 0


@onEach
def test_damagedTally(database: Database, names: Names) -> None:
    """A tally with any bit changed, cut off, or of another subject counts as none."""
    key, other = tallyKey(9, b"a.b"), tallyKey(9, b"a.c")
    with database.env.begin() as txn:
        whole = txn.get(key)
    assert whole is not None
    bits = (
        whole[:place] + bytes((whole[place] ^ 1 << bit,)) + whole[place + 1 :]
        for place in range(len(whole))
        for bit in range(8)
    )
    with using(names):
        for damaged in (*bits, *(whole[:length] for length in range(len(whole))), whole + b"\0"):
            database.put(key, damaged)
            assert database.last(9, b"a.b") == 0
        database.put(other, whole)
        assert database.last(9, b"a.c") == 0
        database.putTally(9, b"a.c", Tally(b"a.c").pack()[:20])
        assert database.last(9, b"a.c") == 0


@needsCompiled
def test_damagedBlock(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    An unverified block is checked in the same way on both paths: the compiled step reads no other
    bytes, and not beyond.
    """
    random = Random(11)
    assert COMPILED is not None
    for sequences in (range(5, 25), range(30, 60, 3)):
        raw, _ = block(9, sequences)
        for _ in range(400):
            damaged = bytearray(raw[: random.choice((len(raw), random.randrange(len(raw))))])
            for _ in range(random.randrange(4)):
                if damaged:
                    damaged[random.randrange(min(len(damaged), 200))] = random.randrange(256)
            database.put(blockKey(9, sequences[0]), bytes(damaged))
            wanted = [random.randrange(80) for _ in range(5)]
            monkeypatch.setattr(hot, "findRecord", COMPILED.findRecord)
            quick = [database.find(9, key) for key in wanted]
            monkeypatch.setattr(hot, "findRecord", None)
            assert quick == [database.find(9, key) for key in wanted]


class _Reading:
    """An environment that is only read."""

    def __init__(self, env: Any) -> None:
        self.reading = env.begin
        self.codec = PLAIN


@pytest.mark.parametrize(("pattern", "most"), [(b"a.*.nope", 800), (b"a.*.7", 1200)])
def test_sparsePattern(database: Database, pattern: bytes, most: int) -> None:
    """For a pattern that matches few of many subjects, only few subjects are looked at."""
    with database.env.begin(write=True) as txn:
        for area in range(10):
            for device in range(2000):
                subject = b"a.%02d.%d" % (area, device)
                tally = Tally(subject)
                tally.add([1], 1)
                key = tallyKey(7, subject)
                txn.put(key, wrap(MARK, b"T", 1, key, tally.pack()))
    environment: Any = _Reading(database.env)
    page = fetchTallies(environment, 7, pattern, b"", 1000, most)
    assert page.following == b""
    expected = [b"a.%02d.7" % area for area in range(10)] if pattern.endswith(b"7") else []
    assert [entry.subject for entry in page.tallies] == expected
