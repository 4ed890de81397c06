"""
The journal in front of the database: small commits that are durable after one sync.

A commit of LMDB syncs twice and writes a page of each level of its tree. A publisher that waits for
each answer would pay this for every message. So a group of requests that only appends a few records
is written to the journal. The database follows with many groups at once.

The journal is a file of fixed length, overwritten from its beginning each time the database has
caught up. A frame is written twice, one copy behind the other, so that a flipped bit loses nothing.
docs/reference/store-format.md has its layout. Generations rise. The commit with which the database
catches up has a higher generation than all frames before it. So frames up to the database's own
generation are done, whatever else is in the file. A frame that is not whole is not read.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IReadDescriptor
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker import hot
from natsbroker.files import syncDirectory
from natsbroker.storage.changes import isChange
from natsbroker.storage.lmdb.encryption.codec import PLAIN, PlainCodec
from natsbroker.storage.lmdb.files import Commits, readPiece, writeAt
from natsbroker.storage.records import Damaged, crc32c, identityOf, lengthAt, sequenceOf

_log = Logger(namespace="natsbroker.storage.lmdb")

SIZE = 2 << 20
"""The length of the file."""

LARGEST_FRAME = 16 << 10
"""A group of records larger than this is committed to the database at once: then two syncs are
cheap beside what is written, and writing it twice over is not."""

SECTOR = 4096
"""
Synced frames begin at multiples of this number of bytes. A write then never touches a synced frame
before it, and is aligned for the disk. The journal is also read in pieces of this size: if the disk
cannot read a piece, only that piece is missing.
"""

_FLAGS = os.O_WRONLY | os.O_DSYNC | os.O_CLOEXEC
_HEAD = Struct("<8sBBHIQQ")
_CRC = Struct("<I")
_HEAD_SIZE = _HEAD.size + _CRC.size
_KIND = ord("J")
_RECORDS, _CHANGES = 1, 2
"""The versions of the layout: of a frame with nothing but records, and of one with changes too."""


class JournalFrame(NamedTuple):
    """
    A frame.

    @ivar since: the generation of the database's commit that it builds on.
    @ivar blobs: records.
    @ivar changes: see L{natsbroker.storage.changes}.
    """

    generation: int
    since: int
    blobs: Sequence[bytes]
    changes: Sequence[bytes] = ()


def packFrame(
    mark: bytes,
    generation: int,
    since: int,
    blobs: Sequence[bytes],
    changes: Sequence[bytes] = (),
    multiple: int = SECTOR,
) -> bytes:
    """Both copies of a frame, and zeros up to the next C{multiple} of bytes."""
    if hot.packFrame is not None and not changes:
        frame: bytes = hot.packFrame(mark, generation, since, blobs, multiple)
        return frame
    body = b"".join((*blobs, *changes))
    version = _CHANGES if changes else _RECORDS
    head = _HEAD.pack(mark, _KIND, version, 0, len(body), generation, since)
    copy = b"".join((head, _CRC.pack(crc32c(head + body)), body))
    return (copy * 2).ljust(_roundedUp(2 * len(copy), multiple), b"\0")


def _roundedUp(length: int, multiple: int = SECTOR) -> int:
    return -(-length // multiple) * multiple


def _frameAt(data: bytes, position: int, codec: PlainCodec) -> JournalFrame | None:
    body = position + _HEAD_SIZE
    if body > len(data):
        return None
    _, kind, version, _, length, generation, since = _HEAD.unpack_from(data, position)
    end = body + length
    if kind != _KIND or version not in (_RECORDS, _CHANGES) or end > len(data):
        return None
    checked = data[position : position + _HEAD.size] + data[body:end]
    if crc32c(checked) != _CRC.unpack_from(data, position + _HEAD.size)[0]:
        return None
    entries = _split(data[body:end])
    changes: Sequence[bytes] = ()
    if version == _CHANGES:
        changes = [entry for entry in entries if isChange(entry)]
        entries = [entry for entry in entries if not isChange(entry)]
    try:
        blobs = [codec.openRecord(record) for record in entries]
    except Damaged:
        return None
    return JournalFrame(generation, since, blobs, changes)


def _split(body: bytes) -> list[bytes]:
    blobs = []
    position = 0
    while length := lengthAt(body, position):
        blobs.append(body[position : position + length])
        position += length
    return blobs


def readFrames(path: Path, mark: bytes, codec: PlainCodec = PLAIN) -> list[JournalFrame]:
    """
    The frames by rising generation, without those that the disk cannot read any more; none if the
    file is missing.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return []
    try:
        size = min(os.fstat(descriptor).st_size, SIZE)
        pieces = [
            (readPiece(descriptor, start, SECTOR) or b"").ljust(SECTOR, b"\0")
            for start in range(0, size, SECTOR)
        ]
    finally:
        os.close(descriptor)
    data = b"".join(pieces)
    frames: dict[int, JournalFrame] = {}
    position = data.find(mark)
    while position >= 0:
        frame = _frameAt(data, position, codec)
        if frame is not None:
            frames.setdefault(frame.generation, frame)
        position = data.find(mark, position + 1)
    return [frames[number] for number in sorted(frames)]


def runsIn(frames: Sequence[JournalFrame]) -> Iterator[tuple[int, list[bytes]]]:
    """The identity of a log, and consecutive records of it."""
    run: list[bytes] = []
    following = (0, 0)
    for frame in frames:
        for blob in frame.blobs:
            identity, sequence = identityOf(blob, 0), sequenceOf(blob, 0)
            if run and (identity, sequence) != following:
                yield following[0], run
                run = []
            run.append(blob)
            following = identity, sequence + 1
    if run:
        yield following[0], run


class Beyond(NamedTuple):
    """
    The content beyond the last commit of a database.

    @ivar known: the newest generation that is there.
    @ivar isBehind: whether commits are missing.
    """

    frames: list[JournalFrame]
    known: int
    isBehind: bool


def framesBeyond(generation: int, noted: int, frames: Sequence[JournalFrame]) -> Beyond:
    """
    The frames beyond the database. C{noted} is the generation of the last commit or frame that is
    noted beside it.
    """
    ahead = [frame for frame in frames if frame.generation > generation]
    known = max([generation, *(frame.generation for frame in ahead)])
    isBehind = noted > known or any(frame.since > generation for frame in ahead)
    return Beyond(ahead, known, isBehind)


def _fill(path: Path) -> None:
    """Give the file its length, with blocks that were all written."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if size < SIZE:
            writeAt(descriptor, bytes(SIZE - size), size)
            os.fsync(descriptor)
            syncDirectory(path.parent)
    finally:
        os.close(descriptor)


def _openDirect(path: Path) -> int:
    """Open the file past the cache if possible, so that a write is on disk when it returns."""
    try:
        return os.open(path, _FLAGS | os.O_DIRECT)
    except OSError as failure:
        if failure.errno != errno.EINVAL:
            raise
        return os.open(path, _FLAGS)


WIDEST = _roundedUp(2 * (_HEAD_SIZE + 2 * LARGEST_FRAME))
"""The length of both copies of the largest frame, even if its records are small and encrypted."""


class Journal:
    """
    A frame is on disk when it is written if C{isSynced}; else it outlives only the process, until
    one is written with C{mustSync}, which syncs all frames before it too. Frames that are not
    synced follow each other closely, so that many small ones fit in. The first one of them begins
    at a multiple of L{SECTOR}.
    """

    def __init__(
        self, path: Path, mark: bytes, isSynced: bool = True, codec: PlainCodec = PLAIN
    ) -> None:
        """Open or make the file. Its blocks are all written, so that it needs no space later."""
        self._mark = mark
        self._codec = codec
        self._path = path
        self.isSynced = isSynced
        self.position = 0
        _fill(path)
        self.descriptor = _openDirect(path) if isSynced else os.open(path, _FLAGS & ~os.O_DSYNC)
        self._syncing = -1 if isSynced else os.open(path, _FLAGS)
        self._unsynced = bytearray()
        self._buffer = mmap.mmap(-1, WIDEST)

    def descriptorFor(self, mustSync: bool) -> int:
        """The descriptor of the file to which a frame is written."""
        return self._syncing if mustSync and not self.isSynced else self.descriptor

    def positionFor(self, mustSync: bool) -> int:
        """The position at which a frame is written."""
        return self.position - len(self._unsynced) if mustSync else self.position

    def written(self, frame: bytes, mustSync: bool) -> None:
        """Note that L{frame} is written."""
        self.position = self.positionFor(mustSync) + len(frame)
        if mustSync:
            self._unsynced.clear()
        elif not self.isSynced and len(self._unsynced) <= WIDEST:
            self._unsynced += frame

    def frame(
        self,
        generation: int,
        since: int,
        blobs: Sequence[bytes],
        changes: Sequence[bytes] = (),
        mustSync: bool = False,
    ) -> bytes:
        """
        The next frame to write, behind those that it must sync; empty if there is no room for it.
        """
        isAligned = self.isSynced
        records, multiple = self._codec.closeRecords(blobs), SECTOR if isAligned else 1
        data = packFrame(self._mark, generation, since, records, changes, multiple)
        if mustSync and not isAligned:
            length = len(self._unsynced) + len(data)
            data = b"".join((self._unsynced, data, bytes(_roundedUp(length) - length)))
        isRoom = self.positionFor(mustSync) + len(data) <= SIZE and len(data) <= WIDEST
        return data if isRoom else b""

    def append(
        self,
        generation: int,
        since: int,
        blobs: Sequence[bytes],
        changes: Sequence[bytes] = (),
        mustSync: bool = False,
    ) -> bool:
        """Write a frame. After an C{OSError}, the frame may be there all the same."""
        data = self.frame(generation, since, blobs, changes, mustSync)
        if not data:
            return False
        self._buffer[: len(data)] = data
        descriptor, position = self.descriptorFor(mustSync), self.positionFor(mustSync)
        with memoryview(self._buffer) as view:
            try:
                writeAt(descriptor, view[: len(data)], position)
            except OSError as failure:
                if failure.errno != errno.EINVAL:
                    raise
                # The file system opens files for such writes, and does not take this one.
                self.close()
                self.descriptor = os.open(self._path, _FLAGS)
                writeAt(self.descriptor, view[: len(data)], position)
        self.written(data, mustSync)
        return True

    def rewind(self) -> None:
        self.position = 0
        self._unsynced.clear()

    def close(self) -> None:
        for descriptor in (self.descriptor, self._syncing):
            if descriptor >= 0:
                os.close(descriptor)
        self.descriptor = self._syncing = -1


@implementer(IReadDescriptor)
class JournalWriter:
    """
    Writes frames outside of the interpreter. The reactor's thread hands one over, and is woken when
    it is on disk; no other thread of Python is needed.

    @ivar sendNow: sends the waiting answers now, and not at the end of the turn.
    """

    def __init__(
        self, readers: Any, done: Callable[[OSError | None, OSError | None], None]
    ) -> None:
        self._readers = readers
        self._done = done
        self._writeSoon: Callable[[Any], object] | None = getattr(readers, "writeSoon", None)
        self.sendNow: Callable[[], object] = getattr(readers, "sendNow", lambda: None)
        self._writer = hot.SyncedWriter(WIDEST)
        readers.addReader(self)

    def write(
        self,
        journal: Journal,
        frame: bytes,
        commits: Commits,
        generation: int,
        isAlone: bool = False,
        mustSync: bool = False,
    ) -> None:
        """
        Write a frame that L{Journal.frame} gave, and then note it in C{commits}. Until C{done} is
        called, nothing else may use either file.

        @param isAlone: whether no request is expected meanwhile, so that the reactor's thread may
            write to a quick disk itself.
        """
        isQuick = isAlone or not (journal.isSynced or mustSync)
        self._frame = journal, frame, mustSync
        self._writer.write(
            journal.descriptorFor(mustSync),
            frame,
            journal.positionFor(mustSync),
            commits.descriptor,
            *commits.note(generation),
            isQuick and self._writeSoon is not None,
        )
        if self._writeSoon is not None:
            self._writeSoon(self._writer)

    def fileno(self) -> int:
        return int(self._writer.fileno())

    def logPrefix(self) -> str:
        return "journal"

    def doRead(self) -> None:
        """
        Note that a frame is written. An exception from here would make the reactor drop the writer.
        """
        errors = self._writer.result()
        if errors is None:
            return
        failure, noteFailure = map(_error, errors) if any(errors) else (None, None)
        if failure is None:
            journal, frame, mustSync = self._frame
            journal.written(frame, mustSync)
        try:
            self._done(failure, noteFailure)
        except Exception:
            _log.failure("A step after a commit failed")

    def connectionLost(self, reason: Failure) -> None:
        """The reactor has dropped the writer: because it ends, or because of an exception."""
        if not reason.check(ConnectionDone, ConnectionLost):
            _log.failure("The reactor dropped the journal", reason)
            self._readers.addReader(self)

    def close(self) -> None:
        self._readers.removeReader(self)
        self._writer.close()


@implementer(IReadDescriptor)
class JournalAlarm:
    def __init__(self, readers: Any, ring: Callable[[], None]) -> None:
        self._readers = readers
        self._ring = ring
        self._alarm = hot.Alarm()
        self.isSet = False
        readers.addReader(self)

    def set(self, nanoseconds: int) -> None:
        """Set the timer to C{nanoseconds} from now; 0 for never."""
        self.isSet = bool(nanoseconds)
        self._alarm.set(nanoseconds)

    def fileno(self) -> int:
        return int(self._alarm.fileno())

    def logPrefix(self) -> str:
        return "journal"

    def doRead(self) -> None:
        if self._alarm.take():
            self.isSet = False
            self._ring()

    def connectionLost(self, reason: Failure) -> None:
        if not reason.check(ConnectionDone, ConnectionLost):
            _log.failure("The reactor dropped the timer of the journal", reason)
            self._readers.addReader(self)

    def close(self) -> None:
        self._readers.removeReader(self)
        self._alarm.close()


def _error(number: int) -> OSError | None:
    return OSError(number, os.strerror(number)) if number else None


def journalWriter(
    readers: Any, done: Callable[[OSError | None, OSError | None], None]
) -> JournalWriter | None:
    """A L{JournalWriter}, if it is compiled and there is a reader to wait for it."""
    if hot.SyncedWriter is None or not hasattr(readers, "addReader"):
        return None
    try:
        return JournalWriter(readers, done)
    except OSError as failure:
        _log.warn("The journal is written by the thread of the store: {why}", why=failure)
        return None
