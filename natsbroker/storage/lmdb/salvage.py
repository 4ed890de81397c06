"""
Salvages the whole values of a damaged database into a new one.

The damaged file stays in its own directory with a report. As long as the report is there, each
opening of the store warns that something may have been lost. Lost records are known by log and
sequence. No used sequence is ever used again.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import lmdb

from natsbroker.files import syncDirectory
from natsbroker.storage.blocks import chunks
from natsbroker.storage.lmdb.encryption.codec import PlainCodec
from natsbroker.storage.lmdb.environment import Environment
from natsbroker.storage.lmdb.files import Marks, readPiece
from natsbroker.storage.lmdb.finding import Finder, FoundLog, RecordPlace, Trust, merged, trustIn
from natsbroker.storage.lmdb.journal import JournalFrame, runsIn
from natsbroker.storage.lmdb.layout import (
    FORMAT_KEY,
    LogRow,
    Tally,
    blockKey,
    identityOf,
    lostKey,
    packFormat,
    packRanges,
    rowKey,
    spaceAndKey,
    unpackRanges,
)
from natsbroker.storage.lmdb.reports import keep, lossOf
from natsbroker.storage.records import HEAD_SIZE, sequenceOf, subjectOf, timestampOf

MOST_IN_ONE_COMMIT = 32 << 20

STRETCH = 1 << 20
PAGE = 4096
"""
The bytes read at once from a file that is unreadable in part: in the first attempt, and in the
second.
"""

LISTED = 1024
"""The sequences that a tally lists when it is made again."""


class DatabaseBuilder:
    def __init__(
        self, path: Path, mark: bytes, base: int, expected: int, codec: PlainCodec
    ) -> None:
        """About C{expected} bytes will be written at most."""
        self._step = 2 * min(MOST_IN_ONE_COMMIT, expected)
        self._environment = Environment(path)
        self._codec = codec
        self._mark = mark
        self._base = base
        self._txn: lmdb.Transaction[bytes] | None = None
        self._weight = 0
        self.put(FORMAT_KEY, packFormat(base, codec.formatVersion))

    def put(self, key: bytes, value: bytes) -> None:
        txn = self._room(len(value))
        txn.put(key, self._codec.fold(self._mark, self._base + txn.id(), key, value))

    def putState(self, space: str, key: bytes, value: bytes) -> None:
        txn = self._room(len(key) + len(value))
        generation = self._base + txn.id()
        txn.put(*self._codec.foldState(self._mark, generation, space, key, value))

    def putTally(self, identity: int, tally: Tally) -> None:
        self.put(self._codec.tallyKey(identity, tally.subject), tally.pack())

    def putBlocks(self, identity: int, sequences: Sequence[int], blobs: Sequence[bytes]) -> None:
        for contents in chunks(sequences, blobs):
            txn = self._room(sum(contents.lengths))
            raw = self._codec.block(self._mark, identity, self._base + txn.id(), contents)
            txn.put(blockKey(identity, contents.sequences[0]), raw)

    def copyBlock(self, key: bytes, raw: bytes) -> None:
        txn = self._room(len(raw))
        txn.put(key, self._codec.closeBlock(raw, identityOf(key)))

    def _room(self, weight: int) -> lmdb.Transaction[bytes]:
        self._weight += weight + 200
        if self._txn is not None and self._weight > MOST_IN_ONE_COMMIT:
            self._txn.commit()
            self._txn = None
        if self._txn is None:
            self._weight = weight + 200
            self._environment.prepare(self._step + 2 * weight)
            self._txn = self._environment.begin()
        return self._txn

    def close(self) -> None:
        if self._txn is not None:
            self._txn.commit()
        self._environment.close()


def salvage(
    path: Path,
    mark: bytes,
    marks: Marks,
    generation: int,
    newest: int,
    frames: Sequence[JournalFrame],
    codec: PlainCodec,
) -> list[str]:
    """
    Replace a damaged database by a new one with all that could be found.

    @param path: of the database; it may be missing.
    @param generation: that of the last commit, or 0 if it is not known.
    @param newest: the newest generation that is known.
    @return: the losses, in words.
    @raise OSError: if the disk fails; then nothing has changed.
    """
    fresh = path.with_name("data.salvage")
    for leftover in (fresh, path.with_name("data.salvage-lock")):
        leftover.unlink(missing_ok=True)
    journalled: dict[int, list[bytes]] = {}
    for identity, blobs in runsIn(frames):
        journalled.setdefault(identity, []).extend(blobs)
    size = path.stat().st_size if path.exists() else 0
    if not size:
        finder = Finder(b"", mark, Trust(), codec)
        report = _rebuild(finder, fresh, mark, marks, generation, newest, journalled, codec)
    else:
        with _readable(path) as whole:
            trust = trustIn(whole)
            with whole.open("rb") as file:
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
                    finder = Finder(raw, mark, trust, codec)
                    finder.search()
                    report = _rebuild(
                        finder, fresh, mark, marks, generation, newest, journalled, codec
                    )
    keep(path, ["The database was damaged; what could be found is in a new one.", *report])
    os.replace(fresh, path)
    fresh.with_name(fresh.name + "-lock").unlink(missing_ok=True)
    syncDirectory(path.parent)
    return report


@contextmanager
def _readable(path: Path) -> Iterator[Path]:
    """
    A file that can be read to its end without danger. This is the file itself, or a copy with zeros
    where the disk cannot read it.
    """
    copy = path.with_name("data.readable")
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        starts = range(0, size, STRETCH)
        if all(readPiece(descriptor, start, STRETCH) is not None for start in starts):
            yield path
            return
        with copy.open("wb") as out:
            for start in range(0, size, PAGE):
                out.seek(start)
                out.write(readPiece(descriptor, start, PAGE) or b"")
            out.truncate(size)
        yield copy
    finally:
        os.close(descriptor)
        copy.unlink(missing_ok=True)


def _rebuild(
    finder: Finder,
    fresh: Path,
    mark: bytes,
    marks: Marks,
    generation: int,
    newest: int,
    journalled: Mapping[int, Sequence[bytes]],
    codec: PlainCodec,
) -> list[str]:
    base = max(finder.generation, newest) + 16
    certain = bool(generation) and finder.generation == generation
    builder = DatabaseBuilder(fresh, mark, base, finder.size, codec)
    report = []
    known = set(marks.logs) if marks.known else set(finder.logs)
    current = marks.newest()
    for identity, blobs in journalled.items():
        finder.logs.setdefault(identity, FoundLog()).journalled = blobs
    for identity in sorted(known | set(finder.logs)):
        log = finder.logs.get(identity, FoundLog())
        if marks.known and identity not in marks.logs:
            continue
        if identity not in finder.logs and current[marks.logs[identity].name] != identity:
            continue  # Never made; another log has its name.
        if log.row is not None and log.row.dropped:
            continue
        report += _rebuildLog(finder, builder, identity, log, marks, certain and log.current)
    for key, (_, value) in finder.values.items():
        if key[:1] == b"S":
            builder.putState(*spaceAndKey(key), value)
        elif key[:1] != b"X" and identityOf(key) in known:
            builder.put(key, value)
    builder.close()
    return report


def _rebuildLog(
    finder: Finder,
    builder: DatabaseBuilder,
    identity: int,
    log: FoundLog,
    marks: Marks,
    certain: bool,
) -> list[str]:
    records = finder.recordsOf(identity, log, log.blocks)
    row = log.row
    expected = -1 if row is None else row.count
    first = 1 if row is None else row.first
    records = {key: record for key, record in records.items() if key >= first}
    if len(records) != expected:
        for sequence, place in finder.looseRecords(identity):
            if sequence >= first and sequence not in log.dead and not log.covers(sequence):
                records.setdefault(sequence, place)
    if log.older and (expected < 0 or len(records) < expected):
        # A record of a damaged block that is nowhere else may be in an older block.
        older = finder.recordsOf(identity, log, log.older)
        records |= {key: older[key] for key in older.keys() - records if key >= first}
    row = row or _unknown(identity, marks, records)
    lost = []
    if not certain or len(records) != expected:
        lost = _lostRanges(row, records, log.dead, expected)
    lost += _extend(finder, row, records, log.journalled)
    lost += _jump(row, records, marks, certain)
    _write(finder, builder, row, records)
    before = finder.values.get(lostKey(identity), (0, b""))[1]
    lost = merged([(a, b - 1) for a, b in [*unpackRanges(before), *lost] if a < b])
    ranges = [(a, b + 1) for a, b in lost]
    if ranges:
        builder.put(lostKey(identity), packRanges(ranges))
    return [lossOf(row.name, start, stop) for start, stop in ranges]


def _unknown(identity: int, marks: Marks, records: dict[int, RecordPlace]) -> LogRow:
    """
    The row of a log whose own row was lost. It has its name if that is marked; otherwise it can
    only be read.
    """
    last = max(records, default=0)
    first = min(records, default=last + 1)
    mark = marks.logs.get(identity)
    if mark is not None:
        return LogRow(identity, mark.name, first, last, indexed=True)
    name = f"quarantine/{identity:016x}"
    return LogRow(identity, name, first, last, indexed=True, quarantined=True)


def _lostRanges(
    row: LogRow, records: dict[int, RecordPlace], dead: set[int], expected: int
) -> list[tuple[int, int]]:
    """The lost ranges of a log. C{expected} is the number of records that it should have, or -1."""
    lost = []
    following = row.first if expected >= 0 else 1
    for sequence in sorted([*records, *(later for later in dead if later >= following)]):
        if sequence > following:
            lost.append((following, sequence))
        following = max(following, sequence + 1)
    if following <= row.last:
        lost.append((following, row.last + 1))
    return lost


def _extend(
    finder: Finder, row: LogRow, records: dict[int, RecordPlace], blobs: Sequence[bytes]
) -> list[tuple[int, int]]:
    """Extend the lost ranges to where records may be missing before those of the journal."""
    lost = []
    for blob in blobs:
        sequence = sequenceOf(blob, 0)
        if sequence <= row.last:
            continue
        if sequence > row.last + 1:
            lost.append((row.last + 1, sequence))
        if not (row.indexed or row.sole):
            row.sole = subjectOf(blob, 0)
        row.last, row.lastTime = sequence, timestampOf(blob, 0)
        records[sequence] = finder.add(blob)
    return lost


def _jump(
    row: LogRow, records: dict[int, RecordPlace], marks: Marks, certain: bool
) -> list[tuple[int, int]]:
    """Skip every sequence that may have been used."""
    row.last = max(row.last, max(records, default=0))
    mark = marks.logs.get(row.identity)
    if certain or mark is None or mark.reserved <= row.last:
        return []
    lost = (row.last + 1, mark.reserved + 1)
    row.last = mark.reserved
    return [lost]


def _write(
    finder: Finder, builder: DatabaseBuilder, row: LogRow, records: dict[int, RecordPlace]
) -> None:
    sequences = sorted(records)
    row.count, row.size = len(sequences), 0
    row.first = sequences[0] if sequences else row.last + 1
    tallies: dict[bytes, Tally] = {}
    for start in range(0, len(sequences), 4096):
        some = sequences[start : start + 4096]
        blobs = [finder.blob(records[sequence]) for sequence in some]
        row.size += sum(map(len, blobs)) - HEAD_SIZE * len(blobs)
        builder.putBlocks(row.identity, some, blobs)
        if row.indexed:
            _countAll(tallies, some, blobs)
    for tally in tallies.values():
        builder.putTally(row.identity, tally)
    builder.put(rowKey(row.identity), row.pack())


def _countAll(
    tallies: dict[bytes, Tally], sequences: Sequence[int], blobs: Sequence[bytes]
) -> None:
    for sequence, blob in zip(sequences, blobs, strict=True):
        subject = subjectOf(blob, 0)
        tally = tallies.get(subject)
        if tally is None:
            tally = tallies[subject] = Tally(subject)
        tally.add((sequence,), LISTED)
