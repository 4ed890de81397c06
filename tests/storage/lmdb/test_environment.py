"""
Reads in the reactor's thread.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from natsbroker.storage.lmdb.environment import PAUSE, SLOW, Environment, QuickReads


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """An empty database."""
    return Environment(tmp_path / "data.mdb")


class Clocked:
    """Reads that take a time that the test sets."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.lasts = 0
        self._now = 0
        self.reads = QuickReads(lambda: self._now)

    def tries(self, count: int) -> int:
        """How many of some reads were done."""
        return sum(self.reads.read(self.environment, self._read) or 0 for _ in range(count))

    def _read(self, txn: object) -> int:
        self._now += self.lasts
        return 1


def test_pause(environment: Environment) -> None:
    """After a slow read threads do the next ones; twice as many if another one follows soon."""
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


def test_notNow(environment: Environment) -> None:
    """Nothing is read while that would have to wait, nor in a database that is closed."""
    clocked = Clocked(environment)
    with environment.alone():
        assert clocked.tries(1) == 0
    assert clocked.tries(1) == 1
    environment.close()
    assert clocked.tries(1) == 0
