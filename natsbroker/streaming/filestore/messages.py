"""
The messages of one channel in nats-streaming-server's file store.

A channel keeps its messages in slices, C{msgs.N.dat}, each with an index, C{msgs.N.idx}. The index
decides which records count: a data file may hold records that were never acknowledged, a sequence
twice, or zeros in the middle. If the index cannot be used, the data file is scanned. Of two records
with one sequence, the later one counts, and the records after it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import BinaryIO, NamedTuple

from natsbroker.streaming.filestore.framing import (
    HEADER,
    VERSION_SIZE,
    Checksum,
    Report,
    SourceError,
    checkVersion,
)
from natsbroker.streaming.protocol import Malformed, MsgProto

_ENTRY = Struct("<QQqII")

OVERHEAD = HEADER.size + _ENTRY.size
"""
The bytes that the server adds to the payload size of a message when it holds a channel against
C{max_bytes}.
"""

_BUFFER = 1 << 20

#: More bytes than a record has up to the end of its subject; a file name has 255 at most.
_LONGEST_BEGINNING = 512

_DATA_FILE = re.compile(r"msgs\.(.*)\.dat", re.DOTALL)


class SourceMessage(NamedTuple):
    """
    @ivar size: of the stored record's payload.
    @ivar checksum: of that payload, as the file has it.
    """

    sequence: int
    timestamp: int
    reply: str
    data: bytes
    size: int
    checksum: int


class _IndexEntry(NamedTuple):
    sequence: int
    offset: int
    timestamp: int
    size: int


class _Mismatch(Exception):
    """A record differs from its index entry, or its checksum does not match."""


class ChannelMessages:
    """The messages of a channel; C{last} is the highest sequence that was read."""

    def __init__(self, directory: Path, name: str, checksum: Checksum) -> None:
        self.name = name
        self.last = 0
        self._directory = directory
        self._checksum = checksum
        self._beginning = _beginningOf(os.fsencode(directory.name))

    def read(self, report: Report, after: int = 0) -> Iterator[SourceMessage]:
        """All messages in order, verified; L{SourceError} if a file has another format."""
        self.last = 0
        for number in self._slices(report):
            path = self._directory / f"msgs.{number}.dat"
            with path.open("rb", buffering=_BUFFER) as file:
                yield from self._slice(file, path, report, after)

    def _slices(self, report: Report) -> list[int]:
        files = {file.name for file in self._directory.iterdir() if file.is_file()}
        numbers = []
        for name in files:
            match = _DATA_FILE.fullmatch(name)
            if match is None:
                continue
            if not (match[1].isascii() and match[1].isdecimal()):
                raise SourceError(f"{self.name}/{name}: {match[1]!r} is not the number of a slice")
            numbers.append(int(match[1]))
        for name in sorted(files):
            if name.startswith("msgs.") and name.endswith(".idx"):
                if f"{name[:-4]}.dat" not in files:
                    report.note(f"{self.name}/{name} is there without its data file")
        return sorted(numbers)

    def _slice(
        self, file: BinaryIO, path: Path, report: Report, after: int
    ) -> Iterator[SourceMessage]:
        place = f"{self.name}/{path.name}"
        length = path.stat().st_size
        if not length:
            return
        checkVersion(place, file.read(VERSION_SIZE))
        entries, indexed = self._index(path.with_suffix(".idx"), file, length, report)
        if entries is None:
            entries = self._scan(file, place, length, report)
        for entry in entries:
            if entry.sequence <= self.last:
                report.damage(f"{place}: {entry.sequence} comes again behind {self.last}")
                continue
            self.last = entry.sequence
            if entry.sequence <= after:
                continue
            try:
                yield self._message(file, length, entry)
            except _Mismatch as mismatch:
                report.damage(
                    f"{self.name}: message {entry.sequence} is damaged "
                    f"({path.name} at {entry.offset}: {mismatch})"
                )
        if indexed > self.last:
            report.note(
                f"{place}: the index ends with {indexed}, the data with {self.last}; "
                "what is in between is left out"
            )
            self.last = indexed

    def _message(self, file: BinaryIO, length: int, entry: _IndexEntry) -> SourceMessage:
        size, crc, payload = _record(file, entry.offset, length)
        if size != entry.size:
            raise _Mismatch(f"{size} bytes where the index says {entry.size}")
        if len(payload) < size:
            raise _Mismatch("it is incomplete")
        if self._checksum(payload) != crc:
            raise _Mismatch("the checksum does not match")
        try:
            message = MsgProto.FromString(payload)
        except Malformed:
            raise _Mismatch("it is not a message") from None
        if message.sequence != entry.sequence:
            raise _Mismatch(f"it is message {message.sequence}")
        return SourceMessage(
            message.sequence, message.timestamp, message.reply, message.data, size, crc
        )

    def _index(
        self, path: Path, file: BinaryIO, length: int, report: Report
    ) -> tuple[list[_IndexEntry] | None, int]:
        """
        The entries of the index, C{None} if it is unusable; and the last sequence of its intact
        entries.
        """
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            report.note(f"{self.name}/{path.name} is missing: the data file is scanned")
            return None, 0
        place = f"{self.name}/{path.name}"
        checkVersion(place, data)
        entries, problem = self._entries(data)
        last = entries[-1] if entries else None
        if not problem and last is not None:
            # A crash may have left an index that is ahead of the data.
            size, _, payload = _record(file, last.offset, length)
            if size != last.size or len(payload) < size:
                problem = f"its last entry, of {last.sequence}, does not fit the data"
        sequence = last.sequence if last is not None else 0
        if problem:
            report.note(f"{place}: {problem}; the data file is scanned")
            return None, sequence
        return entries, sequence

    def _entries(self, data: bytes) -> tuple[list[_IndexEntry], str]:
        """The entries of an index up to the first damaged one, and the damage of that one."""
        entries: list[_IndexEntry] = []
        for offset in range(VERSION_SIZE, len(data), _ENTRY.size):
            raw = data[offset : offset + _ENTRY.size]
            if not any(raw):
                break
            if len(raw) < _ENTRY.size:
                return entries, f"its last entry, at {offset}, is incomplete"
            sequence, place, timestamp, size, crc = _ENTRY.unpack(raw)
            if self._checksum(raw[:-4]) != crc:
                return entries, f"the entry at {offset} does not match its checksum"
            entries.append(_IndexEntry(sequence, place, timestamp, size))
        return entries, ""

    def _scan(self, file: BinaryIO, place: str, length: int, report: Report) -> list[_IndexEntry]:
        entries: list[_IndexEntry] = []
        offset = VERSION_SIZE
        while offset < length:
            record = self._recordAt(file, offset, length)
            if record is None:
                following = self._resume(file, offset + 1, length)
                _tell(report, place, file, offset, following, length)
                if following is None:
                    break
                offset = following
                continue
            while entries and entries[-1].sequence >= record.sequence:
                entries.pop()
            entries.append(record)
            offset = record.offset + HEADER.size + record.size
        return entries

    def _recordAt(self, file: BinaryIO, offset: int, length: int) -> _IndexEntry | None:
        size, crc, payload = _record(file, offset, length)
        if not size or len(payload) < size or self._checksum(payload) != crc:
            return None
        try:
            message = MsgProto.FromString(payload)
        except Malformed:
            return None
        return _IndexEntry(message.sequence, offset, message.timestamp, size)

    def _resume(self, file: BinaryIO, offset: int, length: int) -> int | None:
        while offset < length:
            file.seek(offset)
            piece = file.read(_BUFFER)
            for match in self._beginning.finditer(piece, HEADER.size):
                candidate = offset + match.start() - HEADER.size
                if self._recordAt(file, candidate, length) is not None:
                    return candidate
            if offset + len(piece) >= length:
                return None
            offset += len(piece) - _LONGEST_BEGINNING
        return None


def _beginningOf(channel: bytes) -> re.Pattern[bytes]:
    """The beginning of a payload of this channel: the sequence, then the channel as the subject."""
    size = len(channel)
    prefix = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
    varint = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
    return re.compile(b"\x08" + varint + b"\x12" + re.escape(prefix + channel), re.DOTALL)


def _tell(
    report: Report, place: str, file: BinaryIO, offset: int, following: int | None, length: int
) -> None:
    """Report bytes that a scan could not read, unless only zeros follow up to the end."""
    end = length if following is None else following
    isZero = _isZero(file, offset, end)
    size = end - offset
    if following is None:
        if not isZero:
            report.note(f"{place}: the last {size} bytes, at {offset}, are not a whole record")
    elif isZero:
        report.note(f"{place}: {size} zero bytes at {offset} are passed over")
    else:
        report.damage(f"{place}: {size} bytes at {offset} are not a record")


def _isZero(file: BinaryIO, offset: int, end: int) -> bool:
    file.seek(offset)
    while offset < end:
        piece = file.read(min(end - offset, _BUFFER))
        if not piece or any(piece):
            return False
        offset += len(piece)
    return True


def _record(file: BinaryIO, offset: int, length: int) -> tuple[int, int, bytes]:
    """
    The size and the checksum in the header, and the payload so far. The size is 0 without a header.
    """
    file.seek(offset)
    header = file.read(HEADER.size)
    if len(header) < HEADER.size:
        return 0, 0, b""
    size, crc = HEADER.unpack(header)
    if offset + HEADER.size + size > length:
        return size, crc, b""
    return size, crc, file.read(size)
