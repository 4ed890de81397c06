"""
The small files beside the database: the lock, the format, the marks, the count of commits.
docs/reference/store-format.md has their layout. Each can be lost without losing a record. Together
with the database, they ensure that a sequence is never used twice, even if the database is damaged
or an old copy. A damaged file counts as a missing one.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct, error
from typing import NamedTuple

from natsbroker.interfaces.records import StoreLocked, UnknownFormat
from natsbroker.storage.jobs import StoredRow
from natsbroker.storage.lmdb.layout import CHANGING_VERSION, FORMAT_VERSION, SEALED_VERSION
from natsbroker.storage.records import crc32c

RESERVED = 16384
"""The sequences that are reserved at a time."""


def contentsOf(path: Path) -> bytes | None:
    """The content of a file, or C{None} if it is not there or the disk cannot read it any more."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as failure:
        if failure.errno != errno.EIO:
            raise
        return None


def readPiece(descriptor: int, start: int, length: int) -> bytes | None:
    try:
        return os.pread(descriptor, length, start)
    except OSError as failure:
        if failure.errno != errno.EIO:
            raise
        return None


def writeAt(descriptor: int, data: bytes | memoryview, offset: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written


def writeWhole(path: Path, data: bytes) -> None:
    """Replace a file's contents, durably. If this is interrupted, the file is damaged."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        writeAt(descriptor, data, 0)
        os.ftruncate(descriptor, len(data))
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


class Lock:
    """
    A lock on the store. A shared lock is for readers only, in any number of processes. It needs the
    file.
    """

    def __init__(self, path: Path, isShared: bool = False) -> None:
        flags = os.O_RDONLY if isShared else os.O_RDWR | os.O_CREAT
        self._descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
        try:
            kind = fcntl.LOCK_SH if isShared else fcntl.LOCK_EX
            fcntl.flock(self._descriptor, kind | fcntl.LOCK_NB)
        except OSError as failure:
            owner = os.pread(self._descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            if failure.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise StoreLocked(
                f"process {owner or '(unknown)'} has the store in {path.parent}"
            ) from None
        if not isShared:
            self._sign()

    def _sign(self) -> None:
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)
        except OSError as failure:
            if failure.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise

    def release(self) -> None:
        os.close(self._descriptor)


def writeFormat(path: Path, mark: bytes, version: int) -> None:
    text = f"natsbroker store\nformat {version}\nmark {mark.hex()}\n".encode()
    writeWhole(path, text + b"checksum %08x\n" % crc32c(text))


def refuseOlder(path: Path, mark: bytes) -> bool:
    """
    Have older versions refuse a store, because they would ignore changes in its journal. Return
    whether there was space for this: a full disk may copy a file that is overwritten.
    """
    try:
        writeFormat(path, mark, CHANGING_VERSION)
    except OSError as failure:
        if failure.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        return False
    return True


class Format(NamedTuple):
    mark: bytes
    version: int

    @property
    def isSealed(self) -> bool:
        return self.version == SEALED_VERSION


def readFormat(path: Path) -> Format | None:
    """
    The format of a store. C{None} if it is missing or damaged; L{UnknownFormat} if another version
    wrote it.
    """
    data = contentsOf(path)
    if data is None:
        return None
    text, separator, checksum = data.rpartition(b"checksum ")
    if not separator or checksum != b"%08x\n" % crc32c(text):
        return None
    lines = dict(line.partition(b" ")[::2] for line in text.splitlines())
    version = lines.get(b"format", b"").decode("ascii", "replace")
    if version not in map(str, (FORMAT_VERSION, SEALED_VERSION, CHANGING_VERSION)):
        raise UnknownFormat(
            f"{path.parent} has a store of format {version}; this version knows {FORMAT_VERSION} "
            f"to {CHANGING_VERSION}"
        )
    return Format(bytes.fromhex(lines[b"mark"].decode("ascii")), int(version))


@dataclass(frozen=True, slots=True)
class Mark:
    name: str
    reserved: int


_MARKS_TEXT = b"natsbroker marks"
_MARKS_HEAD = Struct("<16s8sQII")
_MARK = Struct("<QQH")


@dataclass(slots=True)
class Marks:
    directory: Path
    known: bool = False
    mark: bytes = b""
    logs: dict[int, Mark] = field(default_factory=dict)
    _generation: int = 0
    _packed: dict[int, bytes] = field(default_factory=dict)

    @classmethod
    def read(cls, directory: Path) -> Marks:
        """Read the newer one of the whole files."""
        whole = [marks for marks in (cls._readOne(directory, n) for n in (0, 1)) if marks.known]
        return max(whole, key=lambda marks: marks._generation, default=cls(directory))

    @classmethod
    def _readOne(cls, directory: Path, number: int) -> Marks:
        marks = cls(directory)
        data = contentsOf(directory / f"marks-{number}")
        if data is None:
            return marks
        try:
            text, mark, generation, count, checksum = _MARKS_HEAD.unpack_from(data)
            body = data[_MARKS_HEAD.size :]
            if text != _MARKS_TEXT or crc32c(data[: _MARKS_HEAD.size - 4] + body) != checksum:
                return marks
            position = 0
            for _ in range(count):
                identity, reserved, length = _MARK.unpack_from(body, position)
                position += _MARK.size + length
                name = body[position - length : position].decode("utf-8")
                marks.logs[identity] = Mark(name, reserved)
                marks._packed[identity] = body[position - length - _MARK.size : position]
        except error:
            return cls(directory)
        marks.known, marks.mark, marks._generation = True, mark, generation
        return marks

    def newest(self) -> dict[str, int]:
        """The identities of logs by name. Of several logs with one name, the newest counts."""
        return {mark.name: identity for identity, mark in self.logs.items()}

    def reserve(self, mark: bytes, rows: Mapping[int, StoredRow]) -> None:
        """Store durably how far logs may write, before they do so."""
        beyond = self.beyond(rows)
        if beyond:
            more = {key: Mark(rows[key].name, rows[key].last + RESERVED) for key in beyond}
            self.write(mark, more)

    def forget(self, mark: bytes, gone: Set[int]) -> None:
        """Leave out logs that are gone, durably."""
        if forgotten := self.logs.keys() & gone:
            self.write(mark, {}, forgotten)

    def beyond(self, rows: Mapping[int, StoredRow]) -> list[int]:
        """The logs that are about to write further than is stored durably."""
        beyond = []
        for identity, row in rows.items():
            known = self.logs.get(identity)
            if not row.dropped and (known is None or row.last > known.reserved):
                beyond.append(identity)
        return beyond

    def write(
        self, mark: bytes, changed: Mapping[int, Mark], forgotten: Collection[int] = ()
    ) -> None:
        """
        Replace the older file: add some logs or change them, and leave out others. It is on disk on
        return. If this fails, nothing has changed.
        """
        # The others stay packed, because there may be tens of thousands.
        logs, packed = {**self.logs, **changed}, dict(self._packed)
        for identity, noted in changed.items():
            name = noted.name.encode("utf-8")
            packed[identity] = _MARK.pack(identity, noted.reserved, len(name)) + name
        for identity in forgotten:
            del logs[identity], packed[identity]
        body = b"".join(packed.values())
        generation = self._generation + 1
        head = _MARKS_HEAD.pack(_MARKS_TEXT, mark, generation, len(logs), 0)[:-4]
        data = head + crc32c(head + body).to_bytes(4, "little") + body
        writeWhole(self.directory / f"marks-{generation & 1}", data)
        self._generation, self.known, self.mark = generation, True, mark
        self.logs, self._packed = logs, packed


_COMMIT = Struct("<8sQI")
_SLOT = 512


class Commits:
    def __init__(self, path: Path, mark: bytes, flags: int = os.O_RDWR | os.O_CREAT) -> None:
        self._mark = mark
        self.descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)

    def read(self) -> int:
        """Read the generation of the last commit; 0 if it is not known."""
        newest = 0
        for slot in (0, 1):
            try:
                data = os.pread(self.descriptor, _COMMIT.size, slot * _SLOT)
            except OSError as failure:
                if failure.errno != errno.EIO:
                    raise
                continue
            if len(data) == _COMMIT.size:
                mark, generation, checksum = _COMMIT.unpack(data)
                if mark == self._mark and crc32c(data[:-4]) == checksum:
                    newest = max(newest, generation)
        return newest

    def note(self, generation: int) -> tuple[bytes, int]:
        data = _COMMIT.pack(self._mark, generation, 0)[:-4]
        return data + crc32c(data).to_bytes(4, "little"), (generation & 1) * _SLOT

    def write(self, generation: int) -> None:
        writeAt(self.descriptor, *self.note(generation))

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
