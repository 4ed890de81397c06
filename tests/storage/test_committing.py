"""Tests for L{natsbroker.storage.committing}, and that stores note their commits in them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from zope.interface.verify import verifyObject

from natsbroker import hot
from natsbroker.interfaces import IMeasuredStore
from natsbroker.interfaces.records import Histogram, StoreFailed, StoreFigures
from natsbroker.storage.committing import BYTES, RECORDS, SECONDS, CommitFigures
from natsbroker.storage.jobs import AppendJob, BarrierJob, Job
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.storage.records import Encoded
from natsbroker.testing.pumped import PumpedReactor


def counted(histogram: Histogram) -> dict[float, int]:
    """The number of values in each bucket that has any, by its upper bound."""
    bounds = [*histogram.bounds, float("inf")]
    return {bound: n for bound, n in zip(bounds, histogram.counts, strict=True) if n}


def appended(*sizes: int) -> list[Job]:
    """Jobs that append records."""
    return [AppendJob(1, 1, Encoded([bytes(size)], size, 0, True)) for size in sizes]


class TestCommitFigures:
    """The figures of commits."""

    def test_commits(self) -> None:
        """A group counts as one commit, with its time, its records and their bytes."""
        figures = CommitFigures()
        figures.committed([*appended(100, 60), BarrierJob()], 0.0003)
        figures.committed(appended(9), 0.002)
        commits, syncs, records, size = figures.histograms()
        assert counted(commits) == {0.0005: 1, 0.0025: 1}
        assert commits.total == pytest.approx(0.0023)
        assert (counted(records), records.total) == ({1: 1, 2: 1}, 3)
        assert (counted(size), size.total) == ({64: 1, 256: 1}, 169)
        assert not any(syncs.counts)

    def test_syncs(self) -> None:
        """A commit may wait for the disk several times; a value on a bound is below it."""
        figures = CommitFigures()
        for seconds in (0.001, 0.00101, 60.0):
            figures.synced(seconds)
        assert counted(figures.histograms()[1]) == {0.001: 1, 0.0025: 1, float("inf"): 1}

    def test_written(self) -> None:
        """A group that is a single write counts in all figures."""
        figures = CommitFigures()
        figures.written(2, 160, 0.0003)
        figures.written(0, 0, 0.002)
        commits, syncs, records, size = figures.histograms()
        assert counted(commits) == counted(syncs) == {0.0005: 1, 0.0025: 1}
        assert commits.total == syncs.total == pytest.approx(0.0023)
        assert (counted(records), records.total) == ({1: 1, 2: 1}, 2)
        assert (counted(size), size.total) == ({64: 1, 256: 1}, 160)

    @pytest.mark.parametrize("bounds", [SECONDS, RECORDS, BYTES])
    def test_bounds(self, bounds: tuple[float, ...]) -> None:
        """Bounds rise."""
        assert list(bounds) == sorted(set(bounds))


class Open:
    """A store on disk."""

    def __init__(self, directory: Path, isHandedOver: bool) -> None:
        self.reactor = PumpedReactor()
        # What watches no descriptors leaves the journal to the thread.
        threads = SimpleNamespace(callFromThread=self.reactor.callFromThread)
        readers: Any = None if isHandedOver else threads
        self.store: Any = self.reactor.wait(openLMDB(self.reactor, directory, readers=readers))
        self.log: Any = self.reactor.wait(self.store.open("orders"))

    def append(self, count: int, size: int) -> StoreFigures:
        """Append records in one call; return the figures of the store then."""
        batch = [(b"s", b"", bytes(size - 1), 0)] * count
        self.reactor.wait(self.log.append(batch))
        # The thread notes a commit when it has told of it.
        self.reactor.wait(self.store.states("a").put(b"key", b"value"))
        figures: StoreFigures = self.store.figures()
        return figures


@pytest.mark.parametrize("isHandedOver", [False, True], ids=["thread", "handed over"])
def test_store(isHandedOver: bool, tmp_path: Path) -> None:
    """
    The store on disk notes each group, also one that the reactor's thread hands to the journal, and
    how long it waited for the disk.
    """
    if isHandedOver and hot.SyncedWriter is None:
        pytest.skip("the journal's writer is not compiled")
    opened = Open(tmp_path / "store", isHandedOver)
    assert verifyObject(IMeasuredStore, opened.store)
    before = opened.append(1, 50)
    after = opened.append(3, 100)
    assert after.records.total - before.records.total == 3
    assert after.sizes.total - before.sizes.total == 300
    assert sum(after.commits.counts) > sum(before.commits.counts) > 0
    assert sum(after.syncs.counts) >= sum(after.commits.counts) - 1
    assert after.syncs.total > 0
    assert (after.damagedRecords, after.damagedValues) == (0, 0)
    opened.reactor.wait(opened.store.close())


@pytest.mark.skipif(hot.SyncedWriter is None, reason="the journal's writer is not compiled")
def test_together(tmp_path: Path) -> None:
    """A deletion and a state that are asked for together are one group."""
    opened = Open(tmp_path / "store", True)
    opened.append(2, 10)
    before = opened.append(1, 10)
    asked: list[Any] = []
    states = opened.store.states("a")
    opened.log.together(
        lambda: asked.extend([opened.log.delete([1]), states.put(b"key", b"other")])
    )
    for deferred in asked:
        opened.reactor.wait(deferred)
    after = opened.append(1, 10)
    # The other two are of the append and the state behind it.
    assert sum(after.commits.counts) - sum(before.commits.counts) == 3
    opened.reactor.wait(opened.store.close())


def test_failedCommit(tmp_path: Path) -> None:
    """A group that is not stored does not count."""
    opened = Open(tmp_path / "store", True)
    before = opened.append(1, 10)

    def fail(transaction: Any) -> None:
        raise MemoryError

    job = Job()
    job.apply = fail  # type: ignore[method-assign]
    with pytest.raises(StoreFailed):
        opened.reactor.wait(opened.store.ask(job))
    after = opened.store.figures()
    assert after.records.total == before.records.total
    # The group that put the value before may have been noted after it was told.
    assert sum(after.commits.counts) <= sum(before.commits.counts) + 1
    opened.reactor.wait(opened.store.close())
