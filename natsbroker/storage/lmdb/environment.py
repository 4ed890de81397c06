"""
The database, shared by the writing thread and the reading ones.

The file is made longer ahead of its content. So a full disk is noticed before a transaction, not in
the middle of one, where LMDB would report an I/O error. Syncs also need not write a new length. The
map grows before it is full; it is never moved or closed under a reader. On a full disk the map ends
where the file does, so that LMDB refuses a transaction that does not fit before writing any of it.

After a failure LMDB would refuse to read as well as to write. The file is then opened again, first
for reading and later for both. Readers may have to wait meanwhile.
"""

from __future__ import annotations

import errno
import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter_ns
from typing import Any, TypeVar

import lmdb
from lmdb import verify

from natsbroker.interfaces.records import StoreError, StoreFailed, StoreFull
from natsbroker.storage.lmdb.encryption.codec import PLAIN, PlainCodec
from natsbroker.storage.lmdb.encryption.subjectnames import SubjectNames
from natsbroker.storage.lmdb.pages import PageFile

_READER = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
"""The thread, or the process where no thread is counted by itself."""

SMALLEST_MAP = 64 << 20
"""The first size of the map, in bytes. It takes address space, not memory."""

SPARE = 1 << 20
"""The bytes that a transaction may need for the tree itself, beside its content."""

RESERVE = 1 << 20
"""
The bytes that are left for deleting when the disk is full. LMDB writes changed pages to other
places, and what a transaction frees can be used by the one after the next: so it takes enough for
two that delete.
"""

LARGEST_STEP = 64 << 20
"""The most bytes by which the file grows beyond the need."""

PATIENCE = 30.0
"""Seconds that a reader waits, after writing failed, for the database to be opened for reading."""

UNVERIFIABLE = (verify.VerifyError, ValueError, LookupError, ArithmeticError)
"""The exceptions that verifying a malformed file raises, beside I/O errors."""

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

SLOW = 1_000_000
"""The nanoseconds from which a read counts as one that waited for the disk."""

PAUSE, LONGEST_PAUSE = 64, 8192
"""
The number of reads that threads do after a slow read. It doubles if fewer than these were quick
since the slow read before.
"""

T = TypeVar("T")


def asStoreError(failure: Exception) -> StoreError:
    if isinstance(failure, StoreError):
        return failure
    code = failure.errno if isinstance(failure, OSError) else getattr(failure, "code", 0)
    if isinstance(failure, lmdb.MapFullError) or code in NO_SPACE:
        return StoreFull(f"no space is left: {failure}")
    return asStoreFailed(failure)


def asStoreFailed(failure: Exception) -> StoreFailed:
    """The error as L{StoreFailed}: nothing can be written before the database was opened again."""
    if isinstance(failure, StoreFailed):
        return failure
    return StoreFailed(f"the store failed: {failure}")


class Environment:
    """
    @ivar names: the subjects of logs, if the codec's keys are not in the order of subjects.
    @ivar full: the reason why the file cannot be made longer, while the map ends with the file.
    """

    def __init__(self, path: Path, maxSize: int = 0, codec: PlainCodec = PLAIN) -> None:
        """C{maxSize} is in bytes; 0 for any size."""
        self.codec = codec
        self.names = SubjectNames()
        self.path = path
        self._lock = threading.Lock()
        self._condition = threading.Condition(self._lock)
        self._readers = 0
        self._moving = False
        self._closed = False
        self._successor: Environment | None = None
        size = path.stat().st_size if path.exists() else 0
        self._largest = max(maxSize, size) if maxSize else 0
        self._mapSize = self._sizeFor(size)
        self._env = self._open(readonly=False)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._length = size
        self.full: OSError | None = None

    def _open(self, readonly: bool) -> lmdb.Environment:
        return lmdb.Environment(
            str(self.path),
            map_size=self._mapSize,
            subdir=False,
            readonly=readonly,
            mode=0o600,
            max_spare_txns=4,
            lib_version=0,
        )

    def _sizeFor(self, needed: int) -> int:
        size = SMALLEST_MAP
        while size < needed + needed // 4 + SPARE:
            size *= 2
        return min(size, self._largest) if self._largest else size

    def _used(self) -> int:
        return int((self._env.info()["last_pgno"] + 1) * self._env.stat()["psize"])

    def prepare(self, weight: int) -> None:
        """
        Make room for C{weight} bytes, in the map and on the disk, behind all pages that were ever
        used. Free pages do not count: they are in runs of any length, and LMDB keeps them for
        readers.

        @raise OSError: if there is no space for that.
        """
        used = self._used()
        needed = used + weight + weight // 4 + SPARE
        if needed + SPARE > self._mapSize:
            self.grow(needed + SPARE)
        needed = min(needed, self._mapSize)
        if needed > self._length or self.full is not None:
            step = min(max(used // 8, SPARE), LARGEST_STEP)
            self._lengthen(min(max(needed, self._length) + step, self._mapSize), needed)

    def _lengthen(self, wanted: int, needed: int) -> None:
        try:
            os.posix_fallocate(self._descriptor, self._length, wanted - self._length)
        except OSError as failure:
            if failure.errno not in NO_SPACE:
                raise
            if needed <= self._length:
                return
            wanted = needed
            os.posix_fallocate(self._descriptor, self._length, wanted - self._length)
        self._length = wanted
        if self.full is not None:
            self.full = None
            self._map(self._mapSize)

    def promise(self, weight: int) -> bool:
        """
        Make room as L{prepare} does, for a later commit. Free space in the file does not count,
        because only the transaction shows whether it is enough.

        @return: whether there is space.
        """
        try:
            self.prepare(weight)
        except OSError as failure:
            if failure.errno not in NO_SPACE:
                raise
            return False
        return True

    def prepareNext(self, weight: int, frees: Callable[[], bool]) -> bool:
        """
        Make room for the next transaction. On a full disk the present file must be enough, and LMDB
        may still find no room.

        @param frees: whether it does not enlarge the database, and so may use the reserve.
        @return: whether it can begin. If not, it can after one more transaction, because pages that
            the last one freed cannot be used before it is whole on the disk.
        @raise OSError: if there is no space for it.
        """
        try:
            self.prepare(weight)
        except OSError as failure:
            if failure.errno not in NO_SPACE:
                raise
            if self.full is None:
                self._map(self._length)
            self.full = failure
            if not frees():
                needed = weight + weight // 4 + SPARE + RESERVE
                free, freedLast = self._free()
                if max(free, free + freedLast - SPARE) < needed:
                    raise
                return free >= needed
        return True

    def _free(self) -> tuple[int, int]:
        """The free bytes if nobody reads, and the bytes that the last transaction freed."""
        file = PageFile(self._descriptor)
        meta = file.metas()[0]
        pages = {True: 0, False: 0}
        for entry in file.entries(meta, meta.freeRoot):
            count = int.from_bytes(file.read(entry.offset, 8), "little")
            pages[int.from_bytes(entry.key, "little") < meta.transaction] += count
        behind = max(self._length - self._used(), 0)
        return behind + pages[True] * meta.pageSize, pages[False] * meta.pageSize

    def grow(self, needed: int = 0) -> bool:
        size = self._sizeFor(max(needed, self._mapSize + 1))
        if size <= self._mapSize:
            return False
        if self.full is None:
            self._map(size)
        self._mapSize = size
        return True

    def _map(self, size: int) -> None:
        with self.alone():
            self._env.set_mapsize(size)

    @contextmanager
    def reading(self) -> Iterator[lmdb.Transaction[bytes]]:
        """A transaction that reads. L{StoreFailed} if the database cannot be read."""
        environment = self
        while (txn := environment._enter()) is None:
            environment = environment._successor or environment
        try:
            with txn:
                yield txn
        finally:
            environment._leave()

    def readAtOnce(self, call: Callable[..., T], *args: Any) -> T | None:
        """
        Call a function with a transaction that gives views, if that needs no waiting; otherwise
        C{None}.
        """
        with self._lock:
            if self._moving or self._closed or self._successor is not None:
                return None
            self._readers += 1
        try:
            with self._env.begin(buffers=True) as txn:
                return call(txn, *args)
        finally:
            self._leave()

    def _enter(self) -> lmdb.Transaction[bytes] | None:
        """Begin to read. C{None} to try again, because the database was opened again meanwhile."""
        with self._condition:
            while self._moving:
                self._condition.wait()
            if self._successor is not None:
                return None
            if self._closed:
                raise StoreFailed("the database is closed")
            self._readers += 1
            env = self._env
        try:
            return env.begin()
        except lmdb.PanicError:
            self._leave()
            self._awaitStop(env)
            return None
        except BaseException:
            self._leave()
            raise

    def _leave(self) -> None:
        with self._lock:
            self._readers -= 1
            if self._moving:
                self._condition.notify_all()

    def _awaitStop(self, env: lmdb.Environment) -> None:
        """Wait until the thread whose write failed has opened the database for reading."""
        with self._condition:
            if not self._condition.wait_for(lambda: self._closed or self._env is not env, PATIENCE):
                raise StoreFailed("the database cannot be read: writing failed")

    def _pause(self) -> None:
        with self._condition:
            self._moving = True
            while self._readers:
                self._condition.wait()

    def _continue(self) -> None:
        with self._condition:
            self._moving = False
            self._condition.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        self._pause()
        try:
            yield
        finally:
            self._continue()

    def stopWriting(self) -> None:
        """Continue for reading only, after a failure; not at all if the file is damaged."""
        with self.alone():
            self._closeFile()
            try:
                if not verify.verify(str(self.path), subdir=False):  # type: ignore[no-untyped-call]
                    self._env = self._open(readonly=True)
                    self._closed = False
            except (lmdb.Error, OSError, *UNVERIFIABLE):
                pass  # told as it is: the database is closed, and opening it again will say why

    def suspend(self) -> None:
        """Release the file before it is opened again. Readers wait meanwhile."""
        self._pause()
        self._closeFile()

    def succeed(self, successor: Environment) -> None:
        self._successor = successor
        self._continue()

    def begin(self) -> lmdb.Transaction[bytes]:
        """A transaction that writes. There is one at a time."""
        return self._env.begin(write=True)

    def isBroken(self) -> bool:
        """Whether LMDB refuses everything because it could not note a commit; for the writer."""
        try:
            self._env.begin().abort()
        except lmdb.Error:
            return True
        return False

    def lastTransaction(self) -> int:
        return int(self._env.info()["last_txnid"])

    def sync(self) -> None:
        self._env.sync(True)

    def close(self) -> None:
        with self.alone():
            self._closeFile()

    def _closeFile(self) -> None:
        if not self._closed:
            self._closed = True
            self._env.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class QuickReads:
    """
    Short reads that the reactor's thread does itself.

    Reads in a thread keep the disk from blocking the reactor, but handing over costs several times
    as much as reading a few pages in memory. After a read that waited for the disk, threads do the
    next ones. A slow read without disk access waited for the processor, which threads would do too.
    """

    def __init__(
        self,
        clock: Callable[[], int] = perf_counter_ns,
        faults: Callable[[], int] = lambda: resource.getrusage(_READER).ru_majflt,
    ) -> None:
        """
        @param clock: gives nanoseconds and is never set.
        @param faults: counts the pages that were read from the disk when they were used.
        """
        self._clock = clock
        self._countFaults = faults
        self._faults = faults()
        self._left = 0
        self._quick = 0
        self._pause = PAUSE

    def read(self, environment: Environment, call: Callable[..., T], *args: Any) -> T | None:
        """The result of a call with a transaction; C{None} if it is left to a thread."""
        if self._left:
            self._left -= 1
            return None
        began = self._clock()
        try:
            result = environment.readAtOnce(call, *args)
        except (lmdb.Error, OSError):
            return None
        self._took(self._clock() - began)
        return result

    def _took(self, nanoseconds: int) -> None:
        if nanoseconds < SLOW or not self._hasFaulted():
            self._quick += 1
            return
        self._pause = PAUSE if self._quick >= self._pause else min(2 * self._pause, LONGEST_PAUSE)
        self._left, self._quick = self._pause, 0

    def _hasFaulted(self) -> bool:
        before, self._faults = self._faults, self._countFaults()
        return self._faults != before
