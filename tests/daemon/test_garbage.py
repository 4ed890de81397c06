"""
When passes of the garbage collector over all objects take place.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from twisted.internet.task import Clock

from natsbroker.daemon import garbage
from natsbroker.daemon.garbage import DUE, IDLE, INTERVAL, OVERDUE, PART, FullPasses


class Process:
    """
    A process with a collector of its own.

    @ivar young: passes over young objects since the last one over all.
    @ivar full: the passes over all objects.
    """

    def __init__(self) -> None:
        self.clock = Clock()
        self.worked = 0.0
        self.young = self.full = 0
        self.cost = 0.0
        self.passes = FullPasses(self.clock, lambda: self.worked)

    def collect(self) -> None:
        self.full += 1
        self.young = 0
        self.worked += self.cost

    def second(self, work: float, young: int) -> int:
        """Let a second pass; returns how many full passes it brought."""
        before = self.full
        self.worked += work
        self.young += young
        self.clock.advance(INTERVAL)
        return self.full - before


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    here = Process()
    here.passes.start()
    monkeypatch.setattr(
        garbage,
        "gc",
        SimpleNamespace(
            collect=here.collect,
            get_count=lambda: (0, 0, here.young),
            set_threshold=gc.set_threshold,
        ),
    )
    yield here
    here.passes.stop()


def test_idle(process: Process) -> None:
    """A pass waits while there is work, and takes place when there is little."""
    assert [process.second(0.5, DUE) for _ in range(4)] == [0, 0, 0, 0]
    assert process.second(IDLE / 2, 0) == 1
    assert process.second(IDLE / 2, DUE - 1) == 0


def test_overdue(process: Process) -> None:
    """A pass cannot wait for ever."""
    assert process.second(0.5, OVERDUE - 1) == 0
    assert process.second(0.5, 1) == 1


def test_part(process: Process) -> None:
    """Passes that take long are rare: they take a small part of the time."""
    process.cost = 0.5
    assert process.second(0.0, DUE) == 1
    assert [process.second(0.0, DUE), process.second(0.9, OVERDUE)] == [0, 0]
    process.worked += PART * process.cost
    assert process.second(0.0, 0) == 1


def test_automatic(process: Process) -> None:
    """Meanwhile the collector does not pass over all objects itself, and then it does again."""
    during = gc.get_threshold()
    process.passes.stop()
    after = gc.get_threshold()
    assert during[:2] == after[:2]
    assert during[2] > 1_000_000 > after[2]
