"""
Blocks: runs of records that are written, found and deleted as one value. Their layout is in
docs/reference/store-format.md. The whole records of a damaged block can still be read.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from struct import Struct
from typing import NamedTuple

from natsbroker import hot
from natsbroker.interfaces.records import Record, RecordList
from natsbroker.storage.records import (
    HEAD_SIZE,
    IDENTITY,
    IDENTITY_OFFSET,
    Damaged,
    crc32c,
    decode,
    lengthAt,
    subjectOf,
    timestampOf,
)
from natsbroker.subjects.verdicts import SubjectVerdicts

HEAD = Struct("<8sBBHIIQQQQqqQI")
HEAD_LENGTH = HEAD.size + 4
KIND = ord("B")
VERSION = 1
GAPS = 1

LARGEST_BLOCK = 65536
"""Records are put into blocks up to this size; a larger record has one for itself."""

FARTHEST = (1 << 32) - 1
"""The largest distance of a sequence in a block from the block's first."""

NONE: frozenset[int] = frozenset()
"""No dead records, as in most blocks."""

_CRC = Struct("<I")
_END = Struct("<I")


class Head(NamedTuple):
    """
    @ivar gaps: whether sequences are missing between the first and the last.
    @ivar size: bytes of all subjects, headers and payloads.
    """

    mark: bytes
    kind: int
    version: int
    gaps: int
    records: int
    length: int
    generation: int
    identity: int
    first: int
    last: int
    firstTime: int
    lastTime: int
    size: int
    tableChecksum: int


def parseHead(raw: bytes, start: int = 0) -> Head:
    """The head of a block. L{Damaged} if it is not whole."""
    if len(raw) - start < HEAD_LENGTH:
        raise Damaged(f"{len(raw) - start} bytes are not a block")
    end = start + HEAD.size
    if crc32c(bytes(raw[start:end])) != _CRC.unpack_from(raw, end)[0]:
        raise Damaged("the head of a block does not match its checksum")
    head = Head._make(HEAD.unpack_from(raw, start))
    if head.kind != KIND:
        raise Damaged(f"a value of kind {head.kind} is not a block")
    return head


class Contents(NamedTuple):
    """
    Records that become a block.

    @ivar sequences: rising.
    @ivar lengths: of each record, with its head.
    @ivar pieces: the records' bytes, in order; a piece may hold several.
    """

    sequences: Sequence[int]
    lengths: Sequence[int]
    pieces: Sequence[bytes]


def _table(numbers: Sequence[int]) -> bytes:
    table = array("I", numbers)
    if sys.byteorder != "little":
        table.byteswap()
    return table.tobytes()


def numbersIn(raw: bytes | memoryview) -> array[int]:
    table: array[int] = array("I")
    table.frombytes(raw)
    if sys.byteorder != "little":
        table.byteswap()
    return table


def build(
    mark: bytes, identity: int, generation: int, contents: Contents, overhead: int = 0
) -> bytes:
    """
    Build a block. C{overhead} is the size of a record beside its subject, headers and payload.
    """
    sequences, lengths, pieces = contents
    first, last, count = sequences[0], sequences[-1], len(sequences)
    ends = list(accumulate(lengths))
    table = _table(ends)
    gaps = last - first + 1 != count
    if gaps:
        table += _table([sequence - first for sequence in sequences])
    lastPiece = pieces[-1]
    head = HEAD.pack(
        mark,
        KIND,
        VERSION,
        GAPS if gaps else 0,
        count,
        HEAD_LENGTH + len(table) + ends[-1],
        generation,
        identity,
        first,
        last,
        timestampOf(pieces[0], 0),
        timestampOf(lastPiece, len(lastPiece) - lengths[-1]),
        ends[-1] - (HEAD_SIZE + overhead) * count,
        crc32c(table),
    )
    return b"".join((head, _CRC.pack(crc32c(head)), table, *pieces))


def chunks(sequences: Sequence[int], blobs: Sequence[bytes]) -> Iterator[Contents]:
    lengths = list(map(len, blobs))
    if not lengths:
        return
    ends = list(accumulate(lengths))
    start, base, count = 0, 0, len(ends)
    while start < count:
        stop = max(start + 1, bisect_right(ends, base + LARGEST_BLOCK, start))
        while sequences[stop - 1] - sequences[start] > FARTHEST:
            stop -= 1
        yield Contents(sequences[start:stop], lengths[start:stop], blobs[start:stop])
        start, base = stop, ends[stop - 1]


@dataclass(slots=True, eq=False)
class Block:
    """
    @ivar sequences: of the records that were found, rising.
    @ivar starts: the beginning of each record in C{raw} after C{offset}, and as one more item the
        end of the last one. Typecode C{I}.
    @ivar dead: sequences of records in it that were deleted.
    @ivar missingSize: bytes of their subjects, headers and payloads, deleted ones included.
    """

    raw: bytes
    identity: int
    sequences: Sequence[int]
    starts: array[int]
    dead: frozenset[int] = NONE
    missing: Sequence[int] = ()
    missingSize: int = 0
    offset: int = 0

    @property
    def first(self) -> int:
        return self.sequences[0]

    @property
    def last(self) -> int:
        return self.sequences[-1]

    def indexOf(self, sequence: int) -> int:
        sequences = self.sequences
        if isinstance(sequences, range):
            return min(max(sequence - sequences.start, 0), len(sequences))
        return bisect_left(sequences, sequence)

    def livingOf(self, wanted: Sequence[int]) -> list[int]:
        """The indexes of those of some rising sequences that are here and not deleted."""
        sequences, dead = self.sequences, self.dead
        if isinstance(sequences, range):
            first = sequences.start
            return [
                sequence - first
                for sequence in wanted
                if sequence in sequences and sequence not in dead
            ]
        count = len(sequences)
        return [
            index
            for sequence in wanted
            if (index := bisect_left(sequences, sequence)) < count
            and sequences[index] == sequence
            and sequence not in dead
        ]

    def place(self, index: int) -> tuple[int, int]:
        return self.offset + self.starts[index], self.offset + self.starts[index + 1]

    def record(self, index: int) -> Record:
        """The record of a sequence. L{Damaged} if it is not whole."""
        record = decode(self.raw, *self.place(index), self.identity)
        if record.sequence != self.sequences[index]:
            raise Damaged(f"record {record.sequence} stands in the place of another")
        return record

    def select(
        self,
        records: RecordList,
        first: int,
        last: int,
        wanted: SubjectVerdicts | None,
        limit: int,
        maxBytes: int,
    ) -> tuple[int, int]:
        """
        Append the wanted records from one index to before another.

        @param limit: the most records that C{records} may have afterwards.
        @param maxBytes: end with the record with which subjects, headers and payloads reach this
            size.
        @return: the index of the first record that was not examined, or of a wanted record that is
            not whole; and the rest of C{maxBytes}.
        """
        sequences, dead = self.sequences, self.dead
        if hot.selectRecords is not None:
            patterns = None if wanted is None else wanted.patterns
            selected: tuple[int, int] = hot.selectRecords(
                records,
                Record,
                self.raw,
                self.offset,
                self.starts,
                sequences,
                dead,
                first,
                last,
                self.identity,
                patterns,
                limit,
                maxBytes,
            )
            return selected
        while first < last and len(records) < limit and maxBytes > 0:
            isThere = sequences[first] not in dead
            if isThere and (wanted is None or wanted[self.subject(first)]):
                try:
                    records.append(self.record(first))
                except Damaged:
                    break
                maxBytes -= self.length(first)
            first += 1
        return first, maxBytes

    def fault(self, index: int) -> str:
        try:
            self.record(index)
        except Damaged as failure:
            return str(failure)
        return ""

    def length(self, index: int) -> int:
        return self.starts[index + 1] - self.starts[index] - HEAD_SIZE

    def lengths(self, indexes: Collection[int]) -> int:
        """The bytes of subjects, headers and payloads of some records."""
        starts = self.starts
        whole = sum([starts[index + 1] - starts[index] for index in indexes])
        return whole - HEAD_SIZE * len(indexes)

    def living(self, start: int = 0) -> Iterator[int]:
        indexes = range(self.indexOf(start), len(self.sequences))
        if not self.dead:
            return iter(indexes)
        return (index for index in indexes if self.sequences[index] not in self.dead)

    def subject(self, index: int) -> bytes:
        return subjectOf(self.raw, self.place(index)[0])

    def timestamp(self, index: int) -> int:
        return timestampOf(self.raw, self.place(index)[0])

    def blobs(self, indexes: Sequence[int]) -> tuple[list[int], list[bytes]]:
        return (
            [self.sequences[index] for index in indexes],
            [self.raw[slice(*self.place(index))] for index in indexes],
        )


def placeIn(raw: bytes | memoryview, sequence: int) -> tuple[int, int] | None:
    """The bounds of a record in a block, unverified; C{None} if it is not there."""
    if len(raw) < HEAD_LENGTH:
        return None
    head = Head._make(HEAD.unpack_from(raw))
    count, index = head.records, sequence - head.first
    region = HEAD_LENGTH + (8 if head.gaps else 4) * count
    if region > len(raw):
        return None
    if head.gaps:
        table = numbersIn(raw[HEAD_LENGTH + 4 * count : region])
        place = bisect_left(table, index)
        index = place if place < len(table) and table[place] == index else -1
    if not 0 <= index < count:
        return None
    start = _END.unpack_from(raw, HEAD_LENGTH + 4 * index - 4)[0] if index else 0
    end = _END.unpack_from(raw, HEAD_LENGTH + 4 * index)[0]
    return (region + start, region + end) if start < end <= len(raw) - region else None


def packDead(first: int, dead: Collection[int]) -> bytes:
    return _table(sorted(sequence - first for sequence in dead))


def unpackDead(first: int, value: bytes) -> frozenset[int]:
    return frozenset(first + offset for offset in numbersIn(value[: len(value) // 4 * 4]))


def walk(raw: bytes, start: int, identity: int) -> Iterator[tuple[int, int, int]]:
    """The sequence, the start and the end of each whole record of a log in any bytes."""
    needle = IDENTITY.pack(identity)
    position = start
    while position >= start:
        length = lengthAt(raw, position)
        if length and position + length <= len(raw):
            try:
                record = decode(raw, position, position + length, identity)
            except Damaged:
                pass
            else:
                yield record.sequence, position, position + length
                position += length
                continue
        at = raw.find(needle, position + IDENTITY_OFFSET + 1)
        position = at - IDENTITY_OFFSET if at >= 0 else -1


def _byTable(raw: bytes, head: Head, dead: frozenset[int]) -> Block:
    width = 8 if head.gaps else 4
    region = HEAD_LENGTH + width * head.records
    if head.length != len(raw) or region > len(raw):
        raise Damaged("a block does not have the length that it should")
    table = raw[HEAD_LENGTH:region]
    if crc32c(table) != head.tableChecksum:
        raise Damaged("the table of a block does not match its checksum")
    starts = array("I", (0,))
    starts += numbersIn(table[: 4 * head.records])
    sequences: Sequence[int] = range(head.first, head.last + 1)
    if head.gaps:
        sequences = [head.first + offset for offset in numbersIn(table[4 * head.records :])]
    return Block(raw, head.identity, sequences, starts, dead, offset=region)


def _byWalking(raw: bytes, identity: int, head: Head | None, dead: frozenset[int]) -> Block | None:
    """The records that can be found in a damaged block. C{head} is C{None} if that is damaged."""
    stored = {sequence: raw[start:end] for sequence, start, end in walk(raw, 0, identity)}
    if not stored:
        return None
    sequences = sorted(stored)
    blobs = [stored[sequence] for sequence in sequences]
    starts = array("I", accumulate(map(len, blobs), initial=0))
    block = Block(b"".join(blobs), identity, sequences, starts, dead)
    if head is not None and not head.gaps:
        expected = range(head.first, head.last + 1)
        block.missing = [
            sequence for sequence in expected if sequence not in stored and sequence not in dead
        ]
        block.missingSize = head.size - starts[-1] + HEAD_SIZE * len(sequences)
    return block


def changeRecords(raw: bytes, identity: int, change: Callable[[bytes], bytes]) -> bytes:
    """A copy of the block with changed records. A damaged head or table stays damaged."""
    head: Head | None = None
    try:
        head = parseHead(raw)
        block = _byTable(raw, head, NONE)
    except Damaged:
        whole = b"".join(change(raw[start:end]) for _, start, end in walk(raw, 0, identity))
        # The head's checksum of the table matches nothing then.
        length = HEAD_LENGTH + len(whole)
        return whole if head is None else _packHead(head._replace(length=length)) + whole
    count = head.records
    pieces = [change(raw[slice(*block.place(index))]) for index in range(count)]
    table = _table(list(accumulate(map(len, pieces))))
    table += raw[HEAD_LENGTH + 4 * count : block.offset]
    length = HEAD_LENGTH + len(table) + sum(map(len, pieces))
    head = head._replace(length=length, tableChecksum=crc32c(table))
    return b"".join((_packHead(head), table, *pieces))


def _packHead(head: Head) -> bytes:
    packed = HEAD.pack(*head)
    return packed + _CRC.pack(crc32c(packed))


def readBlock(raw: bytes, identity: int, first: int, dead: frozenset[int] = NONE) -> Block | None:
    """Read a block. C{None} if it has no whole record."""
    head: Head | None = None
    try:
        head = parseHead(raw)
        if head.identity != identity or head.first != first:
            head = None
            raise Damaged("a block stands in the place of another")
        return _byTable(raw, head, dead)
    except Damaged:
        return _byWalking(raw, identity, head, dead)
