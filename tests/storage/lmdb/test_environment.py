"""
Room on a full disk, and reads in the reactor's thread.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import lmdb
import pytest

from natsbroker.storage.lmdb.environment import LARGEST_STEP, PAUSE, SLOW, Environment, QuickReads

VALUE = b"v" * 100_000


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """An empty database."""
    return Environment(tmp_path / "data.mdb")


@pytest.fixture
def filled(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """A database with some values, on a disk that takes no more."""

    def full(descriptor: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    environment.prepare(100 * len(VALUE))
    put(environment, range(100))
    monkeypatch.setattr(os, "posix_fallocate", full)
    return environment


def put(environment: Environment, keys: range, value: bytes | None = VALUE) -> None:
    """Store a value under some keys in one transaction, or delete the keys."""
    with environment.begin() as txn:
        for key in keys:
            if value is None:
                txn.delete(b"%d" % key)
            else:
                txn.put(b"%d" % key, value)


def test_reused(filled: Environment) -> None:
    """On a full disk, deleted records make room as soon as LMDB may reuse their pages."""
    weight = LARGEST_STEP
    with pytest.raises(OSError, match="no space"):
        filled.prepareNext(weight, lambda: False)
    weight = 20 * len(VALUE)
    length = filled.path.stat().st_size
    assert filled.prepareNext(weight, lambda: True)
    put(filled, range(100), None)
    assert not filled.prepareNext(2 * weight, lambda: False)
    put(filled, range(1), b"")
    for start in range(0, 60, 20):
        assert filled.prepareNext(weight, lambda: False)
        put(filled, range(start, start + 20))
    assert filled.path.stat().st_size == length
    filled.close()


def test_doesNotFit(filled: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    An append that does not fit into the file is refused before it is written; when the file can
    grow again, the append succeeds.
    """
    length = filled.path.stat().st_size
    assert filled.prepareNext(LARGEST_STEP, lambda: True)
    assert str(filled.full) == "[Errno 28] no space"
    with pytest.raises(lmdb.MapFullError):
        put(filled, range(1000, 2000))
    assert filled.path.stat().st_size == length
    assert filled.prepareNext(0, lambda: True)
    put(filled, range(10), None)
    monkeypatch.undo()
    assert filled.prepareNext(0, lambda: False)
    assert filled.full is None
    filled.prepare(1000 * len(VALUE))
    put(filled, range(1000, 2000))
    filled.close()


def test_reserve(filled: Environment) -> None:
    """An append leaves room for deletions."""
    assert filled.prepareNext(LARGEST_STEP, lambda: True)
    put(filled, range(50), None)
    put(filled, range(1), b"")
    key = 100
    with pytest.raises(OSError, match="no space"):
        while filled.prepareNext(len(VALUE), lambda: False):
            put(filled, range(key, key + 1))
            key += 1
    assert key > 150
    for key in range(50, 60):
        assert filled.prepareNext(0, lambda: True)
        put(filled, range(key, key + 1), None)
    filled.close()


def test_promise(filled: Environment) -> None:
    """Room for an append is not promised from free pages that lie apart."""
    assert filled.prepareNext(0, lambda: True)
    put(filled, range(100), None)
    put(filled, range(1), b"")
    assert filled.prepareNext(50 * len(VALUE), lambda: False)
    assert not filled.promise(50 * len(VALUE))
    assert filled.promise(0)
    filled.close()


class Clocked:
    """Reads that take a time that the test sets."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.lasts = 0
        self.isDisk = True
        self.faults = 0
        self._now = 0
        self.reads = QuickReads(lambda: self._now, lambda: self.faults)

    def tries(self, count: int) -> int:
        """The number of reads that were possible in some attempts."""
        return sum(self.reads.read(self.environment, self._read) or 0 for _ in range(count))

    def _read(self, txn: object) -> int:
        self._now += self.lasts
        self.faults += self.lasts > 0 and self.isDisk
        return 1


def test_pause(environment: Environment) -> None:
    """After a slow read, threads do the next reads; after another slow read soon, twice as many."""
    clocked = Clocked(environment)
    assert clocked.tries(PAUSE) == PAUSE
    clocked.lasts = SLOW
    assert clocked.tries(1 + PAUSE) == 1
    assert clocked.tries(1 + 2 * PAUSE) == 1
    clocked.lasts = 0
    assert clocked.tries(2 * PAUSE) == 2 * PAUSE
    clocked.lasts = SLOW
    assert clocked.tries(1 + PAUSE) == 1
    clocked.lasts = 0
    assert clocked.tries(1) == 1
    environment.close()


def test_noDisk(environment: Environment) -> None:
    """
    A read that took long for another reason than the disk does not stop further reads in this
    thread.
    """
    clocked = Clocked(environment)
    clocked.lasts, clocked.isDisk = SLOW, False
    assert clocked.tries(3 * PAUSE) == 3 * PAUSE
    environment.close()


def test_notNow(environment: Environment) -> None:
    """Nothing is read while another thread has the environment alone, nor after it was closed."""
    clocked = Clocked(environment)
    with environment.alone():
        assert clocked.tries(1) == 0
    assert clocked.tries(1) == 1
    environment.close()
    assert clocked.tries(1) == 0
