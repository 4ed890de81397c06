"""
Things to be done at a time.
"""

from __future__ import annotations

from twisted.internet.task import Clock

from natsbroker.runtime.deadlines import Deadlines
from tests.conftest import FlushLoggedErrors


class Watch:
    """A reactor with a wall clock that the test can set, and a monotonic clock."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.monotonic = 0.0
        self.deadlines = Deadlines(self.clock, lambda: self.monotonic)
        self.made: list[str] = []

    def after(self, seconds: float, name: str) -> object:
        """Record a name after a number of seconds."""
        return self.deadlines.after(seconds, lambda: self.made.append(name))

    def advance(self, seconds: float) -> list[str]:
        """Let time pass; give what was called."""
        self.monotonic += seconds
        self.clock.advance(seconds)
        made, self.made = self.made, []
        return made


def test_orderOfCalls() -> None:
    """
    Calls are made in the order of their times, and equal ones in the order in which they were
    scheduled.
    """
    watch = Watch()
    for seconds, name in ((2, "c"), (1, "a"), (1, "b"), (3, "d")):
        watch.after(seconds, name)
    assert watch.advance(0.9) == []
    assert watch.advance(0.1) == ["a", "b"]
    assert watch.advance(5) == ["c", "d"]
    assert watch.clock.getDelayedCalls() == []


def test_oneTimer() -> None:
    """However many deadlines there are, the reactor has one timer."""
    watch = Watch()
    for seconds in (5, 3, 9, 1):
        watch.after(seconds, str(seconds))
    assert len(watch.clock.getDelayedCalls()) == 1


def test_cancel() -> None:
    """A cancelled call is not made. Cancelling twice, or too late, does nothing."""
    watch = Watch()
    first = watch.deadlines.after(1, lambda: watch.made.append("a"))
    watch.after(1, "b")
    first.cancel()
    first.cancel()
    assert len(watch.deadlines) == 1
    assert watch.advance(1) == ["b"]
    first.cancel()
    assert not first.active


def test_cancelAmongTheDue() -> None:
    """A call can cancel another one that is due at the same time."""
    watch = Watch()
    watch.deadlines.after(1, lambda: other.cancel())
    other = watch.deadlines.after(1, lambda: watch.made.append("other"))
    assert watch.advance(1) == []


def test_clockSetForward() -> None:
    """Setting the wall clock forward makes no call early."""
    watch = Watch()
    watch.after(10, "a")
    watch.clock.advance(3600)
    assert watch.made == []
    watch.monotonic += 10
    watch.clock.advance(10)
    assert watch.made == ["a"]


def test_raises(flushLoggedErrors: FlushLoggedErrors) -> None:
    """A call that raises is logged and hinders no other."""
    watch = Watch()
    watch.deadlines.after(1, lambda: 1 / 0)
    watch.after(1, "b")
    watch.after(2, "c")
    assert watch.advance(1) == ["b"]
    assert watch.advance(1) == ["c"]
    assert len(flushLoggedErrors(ZeroDivisionError)) == 1


def test_callsThatAsk() -> None:
    """A call can schedule another one, even for the same time."""
    watch = Watch()
    watch.deadlines.after(1, lambda: watch.after(0, "again"))
    assert watch.advance(0.5) == []
    assert watch.advance(0.5) == ["again"]


def test_manyCancelled() -> None:
    """Cancelled deadlines do not pile up."""
    watch = Watch()
    watch.after(1000, "last")
    for _ in range(10_000):
        watch.deadlines.after(500, lambda: None).cancel()
    assert len(watch.deadlines._heap) < 200
    assert watch.advance(1000) == ["last"]


def test_stop() -> None:
    """After a stop, no calls are made and no timer is left."""
    watch = Watch()
    watch.after(1, "a")
    watch.deadlines.stop()
    assert watch.clock.getDelayedCalls() == []
    assert watch.advance(5) == []
