"""
The store in memory: held to every contract that does not ask it to survive.

What the contracts do not cover, its limit, is tested here.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from natsbroker.interfaces.records import Retention, StoreFull
from natsbroker.storage.memory import SCANNED, MemoryStore
from natsbroker.testing.contracts.stores import (
    ExportContract,
    HeldContract,
    HistoryContract,
    LogContract,
    ReadersContract,
    RetainedContract,
    StateContract,
    SubjectContract,
    entry,
)


class MemoryStoreTests(
    LogContract,
    StateContract,
    ReadersContract,
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
        log.retain(Retention(age=1))
        assert len(self.clock.getDelayedCalls()) == 1
        log.retain(Retention(count=1))
        assert self.clock.getDelayedCalls() == []

    def test_manySubjects(self) -> None:
        """
        A search among many subjects takes several turns, and finds subjects that were added
        meanwhile.
        """
        log = self.wait(self.makeStore().open("log"))
        names = [
            b"s.%05d.%d" % (number * 7919 % 10_007, number % 2) for number in range(2 * SCANNED)
        ]
        self.wait(log.append([entry(b"", name) for name in names]))
        finding = log.subjects(b"s.*.1")
        assert not finding.called
        self.wait(log.append([entry(b"", b"s.00000.1"), entry(b"", b"s.99999.1")]))
        for _ in range(3):
            self.clock.advance(0)
        wanted = {name for name in names if name.endswith(b".1")}
        subjects = list(self.wait(finding))
        assert subjects == [*sorted(wanted), b"s.99999.1"]
        self.wait(log.delete(range(1, len(names))))
        assert list(self.wait(log.subjects(b">"))) == sorted(
            {names[-1], b"s.00000.1", b"s.99999.1"}
        )

    def test_sweep(self) -> None:
        """A limit for each subject is enforced in several turns where there is much to remove."""
        log = self.wait(self.makeStore().open("log"))
        names = [b"s.%d" % (number % SCANNED) for number in range(2 * SCANNED)]
        self.wait(log.append([entry(b"", name) for name in [*names, *[b"many"] * 3 * SCANNED]]))
        counts, turn = [log.bounds().count], log._turn

        def counted() -> Any:
            counts.append(log.bounds().count)
            return turn()

        log._turn = counted
        log.retain(Retention(perSubject=1))
        assert log.bounds().count > SCANNED + 1
        self.clock.advance(0)
        counts.append(log.bounds().count)
        assert counts[-1] == SCANNED + 1
        assert max(a - b for a, b in pairwise(counts)) <= SCANNED
        self.wait(log.append([entry(b"", b"s.0")]))
        assert log.bounds().count == SCANNED + 1

    def test_sweepEnds(self) -> None:
        """New limits replace those that are being enforced."""
        log = self.wait(self.makeStore().open("log"))
        self.wait(log.append([entry(b"", b"many")] * 3 * SCANNED))
        log.retain(Retention(perSubject=1))
        log.retain(Retention())
        count = log.bounds().count
        for _ in range(3):
            self.clock.advance(0)
        assert log.bounds().count == count > SCANNED

    def test_times(self) -> None:
        """A record is found by its time although others are deleted."""
        log = self.wait(self.makeStore().open("log"))
        self.wait(log.append([(b"s", b"", b"", 10 * number) for number in range(1, 201)]))
        self.wait(log.delete(range(20, 60)))
        sequences = [
            self.wait(log.sequenceAt(number)) for number in (1, 190, 191, 599, 600, 2000, 2001)
        ]
        assert sequences == [1, 19, 60, 60, 60, 200, 201]
        self.wait(log.delete(range(60, 180)))
        assert self.wait(log.sequenceAt(195)) == 180
