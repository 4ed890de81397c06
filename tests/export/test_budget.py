"""
Sharing time.
"""

from __future__ import annotations

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from natsbroker.export.budget import MOST, MOST_EACH, Budget
from natsbroker.export.requests import Refusal
from tests.conftest import FlushLoggedErrors


class Work:
    """Some steps, each of which takes time."""

    def __init__(self, clock: Clock, steps: int = 3, seconds: float = 0.0) -> None:
        self._clock = clock
        self._left = steps
        self._seconds = seconds
        self.times: list[float] = []
        self.error: Exception | None = None
        self.waiting: Deferred[None] | None = None
        self.hasFailed = False

    async def step(self) -> bool:
        self.times.append(self._clock.seconds())
        if self.error is not None:
            raise self.error
        if self.waiting is not None:
            await self.waiting
        self._clock.rightNow += self._seconds
        self._left -= 1
        return self._left == 0

    def failed(self) -> None:
        self.hasFailed = True


@pytest.fixture
def clock() -> Clock:
    """The time."""
    return Clock()


def made(clock: Clock, share: float = 0.5) -> Budget:
    """A budget."""
    return Budget(clock, clock.seconds, share)


def passTime(clock: Clock, seconds: float) -> None:
    """Let time pass in small steps."""
    end = clock.seconds() + seconds
    while clock.seconds() < end:
        clock.advance(0.001)


def test_restsBetweenSteps(clock: Clock) -> None:
    """After a step nothing is done for as long as it took; then the next one comes."""
    work = Work(clock, 3, 0.010)
    budget = made(clock)
    budget.add(work, None)
    assert work.times == []
    passTime(clock, 1)
    first, second, third = work.times
    assert 0.020 <= second - first <= 0.0225
    assert 0.020 <= third - second <= 0.0225
    assert clock.getDelayedCalls() == []


def test_share(clock: Clock) -> None:
    """A quarter of the time is a step and three times as long without."""
    work = Work(clock, 2, 0.010)
    made(clock, 0.25).add(work, None)
    passTime(clock, 1)
    assert 0.040 <= work.times[1] - work.times[0] <= 0.0425


def test_inTurn(clock: Clock) -> None:
    """Those who wait have their steps in turn, and share the time."""
    works = [Work(clock, 3, 0.001) for _ in range(3)]
    budget = made(clock)
    for work in works:
        budget.add(work, work)
    passTime(clock, 1)
    order = sorted((when, place) for place, work in enumerate(works) for when in work.times)
    assert [place for _, place in order] == [0, 1, 2] * 3


def test_oneAtATime(clock: Clock) -> None:
    """While a step waits for a disk, no other one begins."""
    slow, other = Work(clock), Work(clock)
    slow.waiting = Deferred()
    budget = made(clock)
    budget.add(slow, None)
    budget.add(other, None)
    passTime(clock, 0.1)
    assert (len(slow.times), len(other.times)) == (1, 0)
    waiting, slow.waiting = slow.waiting, None
    waiting.callback(None)
    passTime(clock, 0.5)
    assert (len(slow.times), len(other.times)) == (3, 3)


def test_limits(clock: Clock) -> None:
    """One connection cannot take all places, and their number is bounded."""
    budget = made(clock)
    owners = [object() for _ in range(MOST // MOST_EACH + 1)]
    for owner in owners[:-1]:
        for _ in range(MOST_EACH):
            budget.add(Work(clock), owner)
        with pytest.raises(Refusal, match="too many requests are waiting"):
            budget.add(Work(clock), owner)
    with pytest.raises(Refusal, match="too many requests are waiting"):
        budget.add(Work(clock), owners[-1])
    passTime(clock, 3)
    budget.add(Work(clock), owners[0])


def test_failure(clock: Clock, flushLoggedErrors: FlushLoggedErrors) -> None:
    """A step that fails ends its task, and no other."""
    broken, other = Work(clock), Work(clock)
    broken.error = ZeroDivisionError()
    budget = made(clock)
    budget.add(broken, None)
    budget.add(other, None)
    passTime(clock, 0.1)
    assert (broken.hasFailed, len(broken.times), len(other.times)) == (True, 1, 3)
    assert len(flushLoggedErrors(ZeroDivisionError)) == 1


@pytest.mark.parametrize("isWaiting", [False, True])
def test_stop(clock: Clock, isWaiting: bool) -> None:
    """After the end nothing is done, whether a step waits or not."""
    work, other = Work(clock), Work(clock)
    if isWaiting:
        work.waiting = Deferred()
    budget = made(clock)
    budget.add(work, None)
    budget.add(other, None)
    if isWaiting:
        clock.advance(0)
    budget.stop()
    passTime(clock, 0.1)
    assert (len(work.times), other.times) == (int(isWaiting), [])
    assert not work.hasFailed
    assert clock.getDelayedCalls() == []
