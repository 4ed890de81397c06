"""
Tests for the repetition of calls that failed in a store.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.task import Clock

from natsbroker.interfaces.records import LeaseLost, StoreClosed, StoreFailed, StoreFull
from natsbroker.runtime.deadlines import Deadlines
from natsbroker.storage.memory import MemoryStore
from natsbroker.storage.retrying import MOST, StoreRetry


class Trying:
    """
    A call that fails a number of times.

    @ivar times: when it was tried.
    """

    def __init__(self, failures: int, error: Exception | None = None) -> None:
        self.clock = Clock()
        self.store: Any = MemoryStore(self.clock)
        self.deadlines = Deadlines(self.clock, self.clock.seconds)
        self.retry = StoreRetry(self.store, self.deadlines)
        self.left = failures
        self.error = error or StoreFailed("broken")
        self.times: list[float] = []
        self.isWanted = True
        self.result: list[Any] = []

    async def _attempt(self) -> str:
        self.times.append(self.clock.seconds())
        if self.left:
            self.left -= 1
            raise self.error
        return "done"

    def begin(self) -> Deferred[Any]:
        trying = ensureDeferred(self.retry.untilDone(self._attempt, lambda: self.isWanted))
        return trying.addBoth(self.result.append)

    def pass_(self, seconds: float) -> None:
        self.clock.pump([0.5] * round(2 * seconds))

    @property
    def watchers(self) -> int:
        return len(self.store._troubles._watchers)


def test_atOnce() -> None:
    """A call that succeeds does not wait."""
    trying = Trying(0)
    trying.begin()
    assert (trying.result, trying.watchers) == (["done"], 0)


def test_laterAndLater() -> None:
    """The pauses grow up to a maximum; the result is that of the successful attempt."""
    trying = Trying(9)
    trying.begin()
    trying.pass_(200)
    times = trying.times
    assert [b - a for a, b in pairwise(times)] == [1, 2, 4, 8, 16] + [MOST] * 4
    assert (trying.result, trying.watchers) == (["done"], 0)


def test_whenWritesResume() -> None:
    """When the store writes again, all waiting calls are tried in the next turn, in order."""
    trying = Trying(12, StoreFull("full"))
    for _ in range(2):
        trying.begin()
    trying.pass_(30)
    assert trying.watchers == 1
    trying.left = 0
    trying.store._troubles.writesStopped("full")
    trying.store._troubles.writesResumed()
    assert not trying.result
    trying.clock.advance(0)
    assert (trying.result, trying.watchers) == (["done"] * 2, 0)


def test_failureOfResumedStore() -> None:
    """Pauses are short again after the store has written."""
    trying = Trying(9)
    trying.begin()
    trying.pass_(20)
    trying.store._troubles.writesStopped("broken")
    trying.store._troubles.writesResumed()
    trying.clock.advance(0)
    trying.pass_(4)
    assert [b - a for a, b in pairwise(trying.times)] == [1, 2, 4, 8, 5, 1, 2]


@pytest.mark.parametrize("error", [LeaseLost("another's"), StoreClosed("closed")])
def test_final(error: Exception) -> None:
    """A call that can never succeed in this store is not repeated."""
    trying = Trying(1, error)
    trying.begin()
    assert trying.result[0].value is error
    assert trying.watchers == 0


def test_unwanted() -> None:
    """A call that is no longer wanted ends with the error."""
    trying = Trying(9)
    trying.begin()
    trying.isWanted = False
    trying.pass_(2)
    assert trying.result[0].check(StoreFailed)
    assert len(trying.times) == 1


def test_otherErrors() -> None:
    """An error that is not the store's ends the attempts."""
    trying = Trying(1, ZeroDivisionError())
    trying.begin()
    assert trying.result[0].check(ZeroDivisionError)


def test_cancelled() -> None:
    """A cancelled call leaves nothing behind."""
    trying = Trying(9)
    doing = trying.begin()
    doing.cancel()
    assert trying.result[0].check(CancelledError)
    assert trying.watchers == 0
    assert not trying.deadlines
