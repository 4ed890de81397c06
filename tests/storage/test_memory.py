"""
The store in memory: held to every contract that does not ask it to survive.

What the contracts do not cover, its limit, is tested here.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from natsbroker.interfaces.records import StoreFull
from natsbroker.storage.memory import MemoryStore
from natsbroker.testing.contracts.stores import (
    ExportContract,
    HeldContract,
    HistoryContract,
    LogContract,
    RetainedContract,
    StateContract,
    SubjectContract,
    entry,
)


class MemoryStoreTests(
    LogContract,
    StateContract,
    RetainedContract,
    HeldContract,
    SubjectContract,
    ExportContract,
    HistoryContract,
    SynchronousTestCase,
):
    """L{MemoryStore}."""

    def setUp(self) -> None:
        """Make a clock for the store."""
        self.clock = Clock()

    def makeStore(self) -> Any:
        """An empty store."""
        return MemoryStore(self.clock, now=self.now)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        super().advance(seconds)
        self.clock.advance(seconds)

    def test_full(self) -> None:
        """A store that is full refuses a batch as a whole, and takes it when there is room."""
        store = MemoryStore(self.clock, maxSize=100, now=self.now)
        log = self.wait(store.open("log"))
        self.wait(log.append([entry(b"x" * 59)]))
        self.failsWith(StoreFull, log.append([entry(b"x"), entry(b"x" * 59)]))
        assert (log.nextSequence, log.bounds().count) == (2, 1)
        assert self.wait(log.append([])) == range(2, 2)
        self.wait(log.discardBefore(2))  # type: ignore[attr-defined]
        assert self.wait(log.append([entry(b"x" * 99)])) == range(2, 3)

    def test_agingStops(self) -> None:
        """Nothing is left in the reactor when the store is closed."""
        log: Any = self.log()
        self.wait(log.append([entry(b"x")]))
        from natsbroker.interfaces.records import Retention

        log.retain(Retention(age=1))
        assert len(self.clock.getDelayedCalls()) == 1
        log.retain(Retention(count=1))
        assert self.clock.getDelayedCalls() == []
