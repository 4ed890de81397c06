"""
Getting everything out of a damaged database that is still whole, into a new one.

All values begin with the store's random mark and carry their own keys and checksums, so they are
found by searching the file for the mark, without its tree. Where several copies of a value are
found, the one of the newest generation counts. Pages that the database lists as free hold old
copies only and are left out, as long as that list can be trusted. Records whose blocks cannot be
read are found by their log's identity.

The damaged file is kept in a directory of its own, beside the new one.

Promises: nothing is deleted. What could not be found is known by log and sequence. No sequence
that was ever used is given again.
Must never know: why the database is damaged.
"""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from struct import error

import lmdb

from natsbroker.store.blocks import Head, build, chunks, parseHead, readBlock
from natsbroker.store.envelopes import unwrapAt, wrap
from natsbroker.store.lmdb.environment import Environment
from natsbroker.store.lmdb.files import Marks, syncDirectory
from natsbroker.store.lmdb.layout import (
    FORMAT_KEY,
    FORMAT_TEXT,
    LogRow,
    Tally,
    blockKey,
    identityOf,
    lostKey,
    packFormat,
    packRanges,
    rowKey,
    sequenceOf,
    tallyKey,
    unpackRanges,
)
from natsbroker.store.lmdb.pages import PageFile
from natsbroker.store.records import (
    HEAD_SIZE,
    IDENTITY,
    IDENTITY_OFFSET,
    Damaged,
    decode,
    lengthAt,
    subjectOf,
)

__all__ = ["findMark", "salvage"]

MOST_IN_ONE_COMMIT = 32 << 20

LISTED = 1024
"""How many sequences a tally lists that is made anew."""


@dataclass(frozen=True, slots=True)
class _Place:
    """
    Where a block was found.
    """

    head: Head
    offset: int


@dataclass
class _Log:
    """
    What was found of one log.

    @ivar generation: of the row.
    @ivar records: where each record lies, by sequence: offset and length.
    """

    row: LogRow | None = None
    generation: int = -1
    blocks: list[_Place] = field(default_factory=list)
    dead: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    lost: list[tuple[int, int]] = field(default_factory=list)
    holdsGeneration: int = -1


def findMark(path: Path) -> bytes | None:
    """
    Find out with which mark the values of a file begin, from the value that says what it is.
    """
    with path.open("rb") as file:
        data = file.read()
    position = data.find(FORMAT_TEXT)
    while position >= 0:
        start = position - 28 - len(FORMAT_KEY)
        try:
            envelope, _ = unwrapAt(data, start)
        except (Damaged, error):
            pass
        else:
            if start >= 0 and envelope.key == FORMAT_KEY:
                return data[start : start + 8]
        position = data.find(FORMAT_TEXT, position + 1)
    return None


def _freePages(path: Path) -> tuple[set[int], int]:
    """
    The pages that hold nothing that counts, and the size of a page. None, unless both pages that
    say where everything is agree that they are of two transactions in a row.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        file = PageFile(descriptor)
        metas = file.metas()
        if len(metas) == 2 and metas[0].transaction == metas[1].transaction + 1:
            try:
                return file.freePages(metas[0]), metas[0].pageSize
            except (Damaged, error):
                pass
        return set(), 4096
    finally:
        os.close(descriptor)


class _Finder:
    """
    Searches a file.
    """

    def __init__(self, raw: mmap.mmap | bytes, mark: bytes, free: set[int], pageSize: int) -> None:
        self._raw = raw
        self._mark = mark
        self._free = free
        self._pageSize = pageSize
        self.logs: dict[int, _Log] = {}
        self.values: dict[bytes, tuple[int, bytes]] = {}
        self.generation = 0

    def search(self) -> None:
        """
        Find all blocks and values.
        """
        raw = self._raw
        position = raw.find(self._mark)
        while position >= 0:
            length = 1
            if position // self._pageSize not in self._free:
                length = self._lookAt(position)
            position = raw.find(self._mark, position + length)

    def _lookAt(self, position: int) -> int:
        """
        See what begins at a position.

        @return: how long it is; 1 if it is nothing.
        """
        try:
            if self._raw[position + 8 : position + 9] == b"B":
                return self._block(position)
            return self._value(position)
        except (Damaged, error):
            return 1

    def _block(self, position: int) -> int:
        """
        Take a block.
        """
        head = parseHead(self._raw[position : position + 128])
        if position + head.length > len(self._raw):
            return 1
        self.generation = max(self.generation, head.generation)
        self._log(head.identity).blocks.append(_Place(head, position))
        return head.length

    def _value(self, position: int) -> int:
        """
        Take a value that is no block.
        """
        head = self._raw[position : position + 28]
        length = 28 + int.from_bytes(head[10:12], "little") + int.from_bytes(head[12:16], "little")
        envelope, end = unwrapAt(self._raw[position : position + length], 0)
        key, generation = envelope.key, envelope.generation
        self.generation = max(self.generation, generation)
        if envelope.kind == b"L":
            self._row(identityOf(key), generation, envelope.value)
        elif envelope.kind == b"G":
            dead = self._log(identityOf(key)).dead
            if generation >= dead.get(sequenceOf(key), (0, b""))[0]:
                dead[sequenceOf(key)] = (generation, envelope.value)
        elif envelope.kind in (b"S", b"H", b"X"):
            if generation >= self.values.get(key, (0, b""))[0]:
                self.values[key] = (generation, envelope.value)
        return end

    def _row(self, identity: int, generation: int, value: bytes) -> None:
        """
        Take the row of a log.
        """
        log = self._log(identity)
        if generation >= log.generation:
            log.row, log.generation = LogRow.unpack(identity, value), generation

    def _log(self, identity: int) -> _Log:
        """
        What was found of a log up to now.
        """
        return self.logs.setdefault(identity, _Log())

    def recordsOf(self, identity: int, log: _Log) -> dict[int, tuple[int, int]]:
        """
        The records of a log that were not deleted: offset and length by sequence.
        """
        found: dict[int, tuple[int, int]] = {}
        covered: list[tuple[int, int]] = []
        for place in sorted(log.blocks, key=lambda each: -each.head.generation):
            first, last = place.head.first, place.head.last
            older = any(first <= stop and start <= last for start, stop in covered)
            for sequence, offset, length in self._inBlock(identity, log, place):
                if not (older and any(start <= sequence <= stop for start, stop in covered)):
                    found[sequence] = (offset, length)
            covered = _merged([*covered, (first, last)])
        return found

    def _inBlock(self, identity: int, log: _Log, place: _Place) -> Iterator[tuple[int, int, int]]:
        """
        The living records of a block: sequence, offset in the file and length.
        """
        head = place.head
        raw = self._raw[place.offset : place.offset + head.length]
        generation, dead = log.dead.get(head.first, (0, b""))
        block = readBlock(raw, identity, head.first, dead if generation >= head.generation else b"")
        if block is None:
            return
        if block.raw is raw:
            for index in block.living():
                start, end = block.starts[index], block.starts[index + 1]
                yield block.sequences[index], place.offset + start, end - start
            return
        alive = {block.sequences[each] for each in block.living()}
        for found in self._loose(identity, place.offset, place.offset + head.length):
            if found[0] in alive:
                yield found

    def _loose(self, identity: int, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """
        The whole records between two offsets, found by the log's identity.
        """
        raw, needle = self._raw, IDENTITY.pack(identity)
        found = raw.find(needle, start, stop)
        while found >= 0:
            position = found - IDENTITY_OFFSET
            length = self._wholeAt(position, identity)
            if length:
                sequence = int.from_bytes(raw[position + 24 : position + 32], "little")
                yield sequence, position, length
            found = raw.find(needle, found + max(length, 1), stop)

    def _wholeAt(self, position: int, identity: int) -> int:
        """
        How long the record is that begins at a position; 0 if there is none.
        """
        raw = self._raw
        if position < 0 or position // self._pageSize in self._free:
            return 0
        length = lengthAt(raw[position : position + HEAD_SIZE], 0)
        if not length or position + length > len(raw):
            return 0
        blob = raw[position : position + length]
        try:
            decode(blob, 0, length, identity)
        except Damaged:
            return 0
        return length

    def looseRecords(self, identity: int) -> Iterator[tuple[int, int, int]]:
        """
        All whole records of a log, anywhere in the file.
        """
        return self._loose(identity, 0, len(self._raw))

    def blob(self, offset: int, length: int) -> bytes:
        """
        The bytes of a record.
        """
        return self._raw[offset : offset + length]


def _merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """
    Ranges, those that touch made one.
    """
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


class _Builder:
    """
    Writes the new database.
    """

    def __init__(self, path: Path, mark: bytes, base: int) -> None:
        self._environment = Environment(path)
        self._mark = mark
        self._base = base
        self._txn: lmdb.Transaction[bytes] | None = None
        self._weight = 0
        self.put(FORMAT_KEY, packFormat(base))

    def put(self, key: bytes, value: bytes) -> None:
        """
        Write a value that is no block.
        """
        txn = self._room(len(value))
        txn.put(key, wrap(self._mark, key[:1], self._base + txn.id(), key, value))

    def putBlocks(self, identity: int, sequences: Sequence[int], blobs: Sequence[bytes]) -> None:
        """
        Write records.
        """
        for contents in chunks(sequences, blobs):
            txn = self._room(sum(contents.lengths))
            raw = build(self._mark, identity, self._base + txn.id(), contents)
            txn.put(blockKey(identity, contents.sequences[0]), raw)

    def _room(self, weight: int) -> lmdb.Transaction[bytes]:
        """
        The transaction to write into.
        """
        self._weight += weight + 200
        if self._txn is not None and self._weight > MOST_IN_ONE_COMMIT:
            self._txn.commit()
            self._txn = None
        if self._txn is None:
            self._weight = weight + 200
            self._environment.prepare(2 * MOST_IN_ONE_COMMIT + 2 * weight)
            self._txn = self._environment.begin()
        return self._txn

    def close(self) -> None:
        """
        Have it all on disk.
        """
        if self._txn is not None:
            self._txn.commit()
        self._environment.close()


def salvage(path: Path, mark: bytes, marks: Marks, generation: int) -> list[str]:
    """
    Replace a damaged database by a new one with all that could be found.

    @param path: of the database; it may be missing.
    @param generation: that of the last commit, or 0 if it is not known.
    @return: what was lost, in words.
    @raise OSError: if the disk does not let it; then nothing was changed.
    """
    fresh = path.with_name("data.salvage")
    for leftover in (fresh, path.with_name("data.salvage-lock")):
        leftover.unlink(missing_ok=True)
    size = path.stat().st_size if path.exists() else 0
    if not size:
        finder = _Finder(b"", mark, set(), 4096)
        report = _rebuild(finder, fresh, mark, marks, generation)
    else:
        free, pageSize = _freePages(path)
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
            finder = _Finder(raw, mark, free, pageSize)
            finder.search()
            report = _rebuild(finder, fresh, mark, marks, generation)
    _replace(path, fresh)
    return report


def _rebuild(finder: _Finder, fresh: Path, mark: bytes, marks: Marks, generation: int) -> list[str]:
    """
    Write everything that was found.
    """
    base = max(finder.generation, generation) + 16
    certain = bool(generation) and finder.generation == generation
    builder = _Builder(fresh, mark, base)
    report = []
    known = set(marks.logs) if marks.known else set(finder.logs)
    for identity in sorted(known | set(finder.logs)):
        log = finder.logs.get(identity, _Log())
        if marks.known and identity not in marks.logs:
            continue
        if log.row is not None and log.row.dropped:
            continue
        report += _rebuildLog(finder, builder, identity, log, marks, certain)
    for key, (_, value) in finder.values.items():
        if key[:1] == b"S" or identityOf(key) in known:
            if key[:1] != b"X":
                builder.put(key, value)
    builder.close()
    return report


def _rebuildLog(
    finder: _Finder, builder: _Builder, identity: int, log: _Log, marks: Marks, certain: bool
) -> list[str]:
    """
    Write one log.
    """
    records = finder.recordsOf(identity, log)
    row = log.row
    expected = -1 if row is None else row.count
    if row is not None:
        records = {key: each for key, each in records.items() if key >= row.first}
    if len(records) != expected:
        first = 1 if row is None else row.first
        for sequence, offset, length in finder.looseRecords(identity):
            if sequence >= first and not _isKnown(log, sequence):
                records.setdefault(sequence, (offset, length))
    row = row or _unknown(identity, marks, records)
    lost = _lostRanges(row, records, expected)
    lost += _jump(row, records, marks, certain)
    _write(finder, builder, row, records)
    before = finder.values.get(lostKey(identity), (0, b""))[1]
    lost = _merged([(a, b - 1) for a, b in [*unpackRanges(before), *lost] if a < b])
    ranges = [(a, b + 1) for a, b in lost]
    if ranges:
        builder.put(lostKey(identity), packRanges(ranges))
    return [f"{row.name}: {start} to {stop - 1} may be lost" for start, stop in ranges]


def _isKnown(log: _Log, sequence: int) -> bool:
    """
    Whether a block that was found says what became of a record.
    """
    return any(each.head.first <= sequence <= each.head.last for each in log.blocks)


def _unknown(identity: int, marks: Marks, records: dict[int, tuple[int, int]]) -> LogRow:
    """
    The row of a log whose own was lost: under its name if that is marked, else to be read only.
    """
    last = max(records, default=0)
    first = min(records, default=last + 1)
    mark = marks.logs.get(identity)
    if mark is not None:
        return LogRow(identity, mark.name, first, last, indexed=True)
    name = f"quarantine/{identity:016x}"
    return LogRow(identity, name, first, last, indexed=True, quarantined=True)


def _lostRanges(
    row: LogRow, records: dict[int, tuple[int, int]], expected: int
) -> list[tuple[int, int]]:
    """
    Where records are missing, if some are.
    """
    if len(records) == expected:
        return []
    lost = []
    following = row.first if expected >= 0 else min(records, default=row.last + 1)
    for sequence in sorted(records):
        if sequence > following:
            lost.append((following, sequence))
        following = sequence + 1
    if following <= row.last:
        lost.append((following, row.last + 1))
    return lost


def _jump(
    row: LogRow, records: dict[int, tuple[int, int]], marks: Marks, certain: bool
) -> list[tuple[int, int]]:
    """
    Go beyond every sequence that may have been used.
    """
    row.last = max(row.last, max(records, default=0))
    mark = marks.logs.get(row.identity)
    if certain or mark is None or mark.reserved <= row.last:
        return []
    lost = (row.last + 1, mark.reserved + 1)
    row.last = mark.reserved
    return [lost]


def _write(
    finder: _Finder, builder: _Builder, row: LogRow, records: dict[int, tuple[int, int]]
) -> None:
    """
    Write a log's records, its tallies and its row.
    """
    sequences = sorted(records)
    row.count, row.size = len(sequences), 0
    row.first = sequences[0] if sequences else row.last + 1
    tallies: dict[bytes, Tally] = {}
    for start in range(0, len(sequences), 4096):
        some = sequences[start : start + 4096]
        blobs = [finder.blob(*records[each]) for each in some]
        row.size += sum(map(len, blobs)) - HEAD_SIZE * len(blobs)
        builder.putBlocks(row.identity, some, blobs)
        if row.indexed:
            _countAll(tallies, some, blobs)
    for subject, tally in tallies.items():
        builder.put(tallyKey(row.identity, subject), tally.pack())
    builder.put(rowKey(row.identity), row.pack())


def _countAll(
    tallies: dict[bytes, Tally], sequences: Sequence[int], blobs: Sequence[bytes]
) -> None:
    """
    Count records by subject.
    """
    for sequence, blob in zip(sequences, blobs, strict=True):
        subject = subjectOf(blob, 0)
        tally = tallies.get(subject)
        if tally is None:
            tally = tallies[subject] = Tally(subject)
        tally.add((sequence,), LISTED)


def _replace(path: Path, fresh: Path) -> None:
    """
    Put the new database in the place of the old one, which is kept.
    """
    directory = path.parent
    if path.exists():
        number = 1
        while (directory / f"damaged-{number}").exists():
            number += 1
        kept = directory / f"damaged-{number}"
        kept.mkdir(mode=0o700)
        try:
            os.link(path, kept / path.name)
        except OSError:
            shutil.copy2(path, kept / path.name)
        syncDirectory(kept)
        syncDirectory(directory)
    os.replace(fresh, path)
    fresh.with_name(fresh.name + "-lock").unlink(missing_ok=True)
    syncDirectory(directory)
