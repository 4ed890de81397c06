"""
The database, shared by the thread that writes and those that read.

The file is made longer ahead of what is written to it. So a disk that is full is noticed before
a transaction and not in the middle of one, where LMDB calls it an I/O error; and syncing does not
have to note a new length each time.

Promises: the map grows before it is full; it is never moved or closed under a reader.
Must never know: what is stored.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from natsbroker._istore import StoreError, StoreFailed, StoreFull

__all__ = ["Environment", "asStoreError"]

SMALLEST_MAP = 64 << 20
"""How large the map is at first, in bytes. It takes address space, not memory."""

SPARE = 1 << 20
"""How many bytes a transaction may need for the tree itself, beside what it brings."""

LARGEST_STEP = 64 << 20
"""By how many bytes the file is made longer at most, beside what is needed."""

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def asStoreError(failure: Exception) -> StoreError:
    """
    What a failure means for whoever wanted something stored.
    """
    if isinstance(failure, StoreError):
        return failure
    code = failure.errno if isinstance(failure, OSError) else getattr(failure, "code", 0)
    if isinstance(failure, lmdb.MapFullError) or code in NO_SPACE:
        return StoreFull(f"no space is left: {failure}")
    return StoreFailed(f"the store failed: {failure}")


class Environment:
    """
    An open database.

    @ivar path: of its file.
    """

    def __init__(self, path: Path, maxSize: int = 0) -> None:
        """
        @param path: of the file; made if it is not there.
        @param maxSize: how large it may grow, in bytes; 0 for any size.
        @raise lmdb.Error: if it cannot be opened.
        """
        self.path = path
        self._maxSize = maxSize
        self._condition = threading.Condition()
        self._readers = 0
        self._moving = False
        self._closed = False
        size = path.stat().st_size if path.exists() else 0
        self._mapSize = self._sizeFor(size)
        self._env = lmdb.Environment(
            str(path),
            map_size=self._mapSize,
            subdir=False,
            mode=0o600,
            max_spare_txns=4,
            lib_version=0,
        )
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._length = size

    def _sizeFor(self, needed: int) -> int:
        """
        How large the map should be to hold so much.
        """
        size = SMALLEST_MAP
        while size < needed + needed // 4 + SPARE:
            size *= 2
        return min(size, max(self._maxSize, needed)) if self._maxSize else size

    def _used(self) -> int:
        """
        How many bytes of the file are in use, or were.
        """
        return int((self._env.info()["last_pgno"] + 1) * self._env.stat()["psize"])

    def prepare(self, weight: int) -> None:
        """
        Make room for a transaction, in the map and on the disk.

        @param weight: how many bytes it brings.
        @raise OSError: if the disk is full.
        """
        used = self._used()
        needed = used + weight + weight // 4 + SPARE
        if needed + SPARE > self._mapSize:
            self.grow(needed + SPARE)
        needed = min(needed, self._mapSize)
        if needed > self._length:
            step = min(max(used // 8, SPARE), LARGEST_STEP)
            self._lengthen(min(needed + step, self._mapSize), needed)

    def _lengthen(self, wanted: int, needed: int) -> None:
        """
        Have the disk give the file more room.
        """
        try:
            os.posix_fallocate(self._descriptor, self._length, wanted - self._length)
            self._length = wanted
        except OSError as failure:
            if failure.errno not in NO_SPACE:
                raise
            os.posix_fallocate(self._descriptor, self._length, needed - self._length)
            self._length = needed

    def grow(self, needed: int = 0) -> bool:
        """
        Make the map larger.

        @param needed: at least so many bytes; otherwise twice what it is.
        @return: whether that was possible.
        """
        size = self._sizeFor(max(needed, self._mapSize + 1))
        if size <= self._mapSize:
            return False
        with self.alone():
            self._env.set_mapsize(size)
            self._mapSize = size
        return True

    @contextmanager
    def reading(self) -> Iterator[lmdb.Transaction[bytes]]:
        """
        A transaction that reads, in the thread that asks.
        """
        with self._condition:
            while self._moving:
                self._condition.wait()
            if self._closed:
                raise StoreFailed("the database is closed")
            self._readers += 1
        try:
            with self._env.begin() as txn:
                yield txn
        finally:
            with self._condition:
                self._readers -= 1
                self._condition.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """
        A time when nobody reads.
        """
        with self._condition:
            self._moving = True
            while self._readers:
                self._condition.wait()
        try:
            yield
        finally:
            with self._condition:
                self._moving = False
                self._condition.notify_all()

    def begin(self) -> lmdb.Transaction[bytes]:
        """
        A transaction that writes. There is one at a time.
        """
        return self._env.begin(write=True)

    def sync(self) -> None:
        """
        Make sure that all is on disk that was committed.
        """
        self._env.sync(True)

    def close(self) -> None:
        """
        Let go of the file, when nobody reads any more.
        """
        with self.alone():
            if not self._closed:
                self._closed = True
                self._env.close()
                os.close(self._descriptor)
