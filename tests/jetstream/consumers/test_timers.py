"""
Named times on one deadline.
"""

from __future__ import annotations

from twisted.internet.task import Clock

from natsbroker.jetstream.consumers.timers import ConsumerTimers
from natsbroker.runtime.deadlines import Deadlines


class Watcher:
    """
    Notes calls.
    """

    def __init__(self) -> None:
        self.clock = Clock()
        self.deadlines = Deadlines(self.clock, self.clock.seconds)
        self.timers = ConsumerTimers(self.deadlines)
        self.calls: list[tuple[str, float]] = []

    def one(self) -> None:
        """A call."""
        self.calls.append(("one", self.clock.seconds()))

    def two(self) -> None:
        """Another one."""
        self.calls.append(("two", self.clock.seconds()))

    def again(self) -> None:
        """Note a call, and set the timer again."""
        self.one()
        self.timers.set(self.again, self.clock.seconds() + 1)


def test_eachAtItsTime() -> None:
    """Several timers share one deadline, and call at their own times."""
    watcher = Watcher()
    watcher.timers.set(watcher.one, 2)
    watcher.timers.set(watcher.two, 1)
    assert len(watcher.deadlines) == 1
    watcher.clock.pump([1, 1])
    assert watcher.calls == [("two", 1), ("one", 2)]
    assert len(watcher.deadlines) == 0


def test_later() -> None:
    """A later time replaces an earlier one, without a new deadline."""
    watcher = Watcher()
    watcher.timers.set(watcher.one, 1)
    watcher.timers.set(watcher.one, 3)
    assert watcher.timers.timeOf(watcher.one) == 3
    watcher.clock.pump([1, 1])
    assert watcher.calls == []
    watcher.clock.advance(1)
    assert watcher.calls == [("one", 3)]


def test_cleared() -> None:
    """A call that is cleared is not made."""
    watcher = Watcher()
    watcher.timers.set(watcher.one, 1)
    watcher.timers.clear(watcher.one)
    watcher.timers.clear(watcher.two)
    watcher.clock.advance(5)
    assert (watcher.calls, watcher.timers.timeOf(watcher.one)) == ([], None)


def test_repeated() -> None:
    """A call may set its next time."""
    watcher = Watcher()
    watcher.timers.set(watcher.again, 1)
    watcher.clock.pump([1, 1, 1])
    assert [when for _, when in watcher.calls] == [1, 2, 3]


def test_stopped() -> None:
    """After a stop no call is made, for any timer."""
    watcher = Watcher()
    watcher.timers.set(watcher.one, 1)
    watcher.timers.stop()
    watcher.timers.set(watcher.two, 1)
    watcher.clock.advance(5)
    assert (watcher.calls, watcher.clock.getDelayedCalls()) == ([], [])
