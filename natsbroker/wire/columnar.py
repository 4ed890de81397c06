"""
Columnar frames: many stored records in one message, a column each, in the form that jobs read.

All integers are little-endian. Each section begins at a multiple of eight bytes, so that a reader
can use the columns in place::

    ======  ====  ==========================================================
    offset  size  what
    ======  ====  ==========================================================
    0       4     C{NBCF}
    4       2     version, 1
    6       2     flags
    8       4     CRC-32 (that of zlib) of everything else
    12      4     rows
    16      8     start: the first sequence that was looked at
    24      8     next: the first sequence that was not looked at
    32      8     first: the oldest sequence that the log may still have
    40      8     last: the highest sequence that the log ever used
    48      4     how many sequences are damaged
    52      4     reserved, zero
    56      8     size of the subjects
    64      8     size of the headers
    72      8     size of the payloads
    ======  ====  ==========================================================

The sections follow: sequences (8 bytes each), timestamps (8 bytes, nanoseconds since 1970), then
for subjects, headers and payloads where each value ends (4 bytes, one more than there are rows, the
first is 0), the damaged sequences (8 bytes), subjects, headers, payloads.

Flags: C{LAST} marks the last frame of an answer. C{ONE_SUBJECT}: all rows have the same subject,
which is given once, without ends. C{NO_SUBJECTS}, C{NO_HEADERS}, C{NO_PAYLOADS}: the column is not
given, because it was not asked for or, for headers, because all are empty.

L{readFrame} returns the input of L{encodeFrame}, or raises L{FrameError}. Reading copies nothing.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from struct import Struct, error
from typing import Any

MAGIC = b"NBCF"
VERSION = 1

LAST = 1
ONE_SUBJECT = 2
NO_SUBJECTS = 4
NO_HEADERS = 8
NO_PAYLOADS = 16

#: The columns that can be left out, by their names in requests.
SUBJECTS, HEADERS, PAYLOADS = "subject", "headers", "data"

_HEAD = Struct("<4sHHIIQQQQIIQQQ")
_ROW = Struct("<QqIII")
#: The offset behind the checksum.
_CHECKED = 12
#: The largest offset at which a value may end.
_LARGEST = (1 << 31) - 1
_isBig = sys.byteorder == "big"


class FrameError(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class FramePosition:
    """
    @ivar start: the first sequence that was looked at.
    @ivar next: the first sequence that was not looked at.
    @ivar first: the oldest sequence that may still be stored.
    @ivar last: the highest sequence that was ever used.
    """

    start: int
    next: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class ColumnFrame:
    """
    A frame that was read. The columns are views of its bytes; those of ends have one item of four
    bytes more than there are rows, and are empty if there is no such column.

    @ivar sequences: 8 bytes each, unsigned.
    @ivar timestamps: 8 bytes each, nanoseconds since 1970.
    @ivar subject: the subject of all rows; C{None} if they differ or none was asked for.
    @ivar damaged: sequences of this range that cannot be served.
    """

    rows: int
    place: FramePosition
    isLast: bool
    sequences: memoryview
    timestamps: memoryview
    subject: bytes | None
    subjectEnds: memoryview
    subjects: memoryview
    headerEnds: memoryview
    headers: memoryview
    payloadEnds: memoryview
    payloads: memoryview
    damaged: tuple[int, ...]


def _little(column: array[int]) -> bytes:
    if _isBig:
        column = column[:]
        column.byteswap()
    return column.tobytes()


def _narrow(ends: array[int]) -> bytes:
    """
    Convert eight-byte numbers to four bytes. C{OverflowError} if the last and largest does not fit.
    """
    if ends[-1] > _LARGEST:
        raise OverflowError(f"{ends[-1]} bytes do not fit into a column of a frame")
    halves = memoryview(ends).cast("B").cast("I")[int(_isBig) :: 2]
    return _little(array("I", halves.tobytes()))


def encodeFrame(
    columns: Any, place: FramePosition, omitted: Iterable[str] = (), isLast: bool = False
) -> bytes:
    """
    @param columns: as L{natsbroker.interfaces.IExportableLog.exportRange} returns them.
    @param omitted: the names of columns to leave out.
    """
    rows = len(columns.sequences)
    flags = LAST if isLast else 0
    subjects, headers, payloads = columns.subjects, columns.headers, columns.payloads
    sections = [_little(columns.sequences), _little(columns.timestamps)]
    if SUBJECTS in omitted:
        flags |= NO_SUBJECTS
        subjects = b""
    elif rows and _isRepeated(subjects, columns.subjectEnds[1], rows):
        flags |= ONE_SUBJECT
        subjects = subjects[: columns.subjectEnds[1]]
    else:
        sections.append(_narrow(columns.subjectEnds))
    if HEADERS in omitted or not headers:
        flags |= NO_HEADERS
        headers = b""
    else:
        sections.append(_narrow(columns.headerEnds))
    if PAYLOADS in omitted:
        flags |= NO_PAYLOADS
        payloads = b""
    else:
        sections.append(_narrow(columns.payloadEnds))
    sections.append(_little(array("Q", columns.damaged)))
    sections += (subjects, headers, payloads)
    sizes = len(subjects), len(headers), len(payloads)
    where = place.start, place.next, place.first, place.last
    head = _HEAD.pack(MAGIC, VERSION, flags, 0, rows, *where, len(columns.damaged), 0, *sizes)
    pieces = [head[_CHECKED:]]
    for section in sections:
        pieces += (section, bytes(-len(section) % 8))
    checked = zlib.crc32(head[:8])
    for piece in pieces:
        checked = zlib.crc32(piece, checked)
    return b"".join((head[:8], checked.to_bytes(4, "little"), *pieces))


def _isRepeated(values: bytes, length: int, count: int) -> bool:
    return len(values) == length * count and values == values[:length] * count


def readFrame(data: bytes) -> ColumnFrame:
    """@raise FrameError: if the data is not a frame, has another version, or is damaged."""
    try:
        head = _HEAD.unpack_from(data)
    except error:
        raise FrameError(f"{len(data)} bytes are not a frame") from None
    magic, version, flags, checked, rows, *more = head
    if magic != MAGIC:
        raise FrameError("this is not a frame")
    if version != VERSION:
        raise FrameError(f"a frame of version {version}, but this reader is of version {VERSION}")
    view = memoryview(data)
    if zlib.crc32(view[_CHECKED:], zlib.crc32(view[:8])) != checked:
        raise FrameError("a frame does not match its checksum")
    start, following, first, last, damaged, _, *sizes = more
    cursor = _Cursor(view)
    sequences = cursor.take(rows * 8)
    timestamps = cursor.take(rows * 8)
    ends = (rows + 1) * 4
    hasEnds = not flags & (NO_SUBJECTS | ONE_SUBJECT)
    subjectEnds = cursor.take(ends if hasEnds else 0)
    headerEnds = cursor.take(0 if flags & NO_HEADERS else ends)
    payloadEnds = cursor.take(0 if flags & NO_PAYLOADS else ends)
    lost = array("Q", cursor.take(damaged * 8).tobytes())
    if _isBig:
        lost.byteswap()
    subjects, headers, payloads = (cursor.take(size) for size in sizes)
    cursor.end()
    return ColumnFrame(
        rows,
        FramePosition(start, following, first, last),
        bool(flags & LAST),
        sequences,
        timestamps,
        bytes(subjects) if flags & ONE_SUBJECT else None,
        subjectEnds,
        subjects,
        headerEnds,
        headers,
        payloadEnds,
        payloads,
        tuple(lost),
    )


class _Cursor:
    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._offset = _HEAD.size

    def take(self, size: int) -> memoryview:
        start = self._offset
        self._offset = start + size + -size % 8
        if self._offset > len(self._view):
            raise FrameError("a frame is shorter than its header states")
        return self._view[start : start + size]

    def end(self) -> None:
        if self._offset != len(self._view):
            raise FrameError("a frame is longer than its header states")


def valuesOf(ends: Sequence[int], values: bytes | memoryview) -> list[bytes]:
    """The values of a column with these ends, without their leading 0."""
    whole = bytes(values)
    return [whole[start:end] for start, end in pairwise(ends)]


def addToDigest(
    sha256: Any,
    sequences: Iterable[int],
    timestamps: Iterable[int],
    subjects: Iterable[bytes],
    headers: Iterable[bytes],
    payloads: Iterable[bytes],
) -> None:
    """Add rows to a digest, as L{natsbroker.interfaces.records.RangeDigest} describes it."""
    pieces: list[bytes] = []
    pack = _ROW.pack
    for sequence, timestamp, subject, head, payload in zip(
        sequences, timestamps, subjects, headers, payloads, strict=True
    ):
        row = pack(sequence, timestamp, len(subject), len(head), len(payload))
        pieces += (row, subject, head, payload)
    sha256.update(b"".join(pieces))
