"""
The deadlines of all connections on one timer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from natsbroker.connections.wheel import DeadlineWheel
from tests.conftest import FlushLoggedErrors

WIDTH = DeadlineWheel.WIDTH


class Sleeper:
    """
    An object that is called at its deadline.

    @ivar called: the times of its calls.
    """

    def __init__(self, again: Callable[[float], float | None] = lambda now: None) -> None:
        self.called: list[float] = []
        self._again = again

    def deadlinePassed(self, now: float) -> float | None:
        """Record the time."""
        self.called.append(now)
        return self._again(now)


def advance(clock: Clock, seconds: float) -> None:
    """Let time pass in small steps."""
    for _ in range(round(seconds / 0.01)):
        clock.advance(0.01)


class TestWheel:
    """A wheel of deadlines."""

    @pytest.mark.parametrize("when", [0.0, 0.01, 0.05, 0.1, 0.99, 3.333])
    def test_onTime(self, when: float) -> None:
        """Each object is called once, not before its deadline and not much later."""
        clock = Clock()
        sleeper = Sleeper()
        DeadlineWheel(clock).schedule(sleeper, when)
        advance(clock, 5)
        [called] = sleeper.called
        assert when <= called + 1e-6
        assert called <= when + WIDTH + 0.01

    def test_endings(self) -> None:
        """Only one session ends in each turn, while all others that are due are called together."""
        clock = Clock()
        wheel = DeadlineWheel(clock)
        turns: list[int] = []
        ended = Sleeper()
        stays = Sleeper(lambda now: now + 10)
        for sleeper in (Sleeper(), ended, stays, Sleeper(lambda now: now + 10)):
            wheel.schedule(sleeper, 1.0)
        clock.advance(0)
        clock.rightNow = 1.1
        for _ in range(3):
            calls: Any = clock.getDelayedCalls()
            [call] = calls
            clock.calls.remove(call)
            call.called = 1
            call.func()
            turns.append(len(ended.called) + len(stays.called))
        assert turns == [0, 1, 2]

    def test_oneTimer(self) -> None:
        """There is one delayed call for any number of waiting objects, and none without them."""
        clock = Clock()
        wheel = DeadlineWheel(clock)
        assert clock.getDelayedCalls() == []
        sleepers = [Sleeper() for _ in range(1000)]
        for number, sleeper in enumerate(sleepers):
            wheel.schedule(sleeper, 1 + number / 100)
        assert len(clock.getDelayedCalls()) == 1
        for sleeper in sleepers:
            wheel.forget(sleeper)
        assert clock.getDelayedCalls() == []

    def test_scheduledAgainAfterwardsLater(self) -> None:
        """An object that schedules itself for much later does not delay others."""
        clock = Clock()
        wheel = DeadlineWheel(clock)
        often, between = Sleeper(lambda now: now + 100), Sleeper()
        wheel.schedule(often, 1)
        wheel.schedule(between, 2)
        advance(clock, 3)
        assert (len(often.called), len(between.called)) == (1, 1)

    def test_replaced(self) -> None:
        """A new deadline replaces the one before, whether it is earlier or later."""
        clock = Clock()
        wheel = DeadlineWheel(clock)
        sooner, later = Sleeper(), Sleeper()
        wheel.schedule(sooner, 5)
        wheel.schedule(sooner, 1)
        wheel.schedule(later, 1)
        wheel.schedule(later, 5)
        advance(clock, 2)
        assert (len(sooner.called), len(later.called)) == (1, 0)
        advance(clock, 4)
        assert (len(sooner.called), len(later.called)) == (1, 1)

    def test_forgotten(self) -> None:
        """A forgotten object is not called, and forgetting an unknown one is harmless."""
        clock = Clock()
        wheel = DeadlineWheel(clock)
        gone, there = Sleeper(), Sleeper()
        wheel.schedule(gone, 1)
        wheel.schedule(there, 1)
        wheel.forget(gone)
        wheel.forget(gone)
        wheel.forget(Sleeper())
        advance(clock, 2)
        assert (gone.called, len(there.called)) == ([], 1)

    def test_scheduledAgainAfterwards(self) -> None:
        """An object that schedules itself again is called again, also if that time is past."""
        clock = Clock()
        wheel = DeadlineWheel(clock)
        steady = Sleeper(lambda now: now + 1 if now < 3.5 else None)
        hasty = Sleeper(lambda now: now - 100 if len(hasty.called) < 5 else None)
        wheel.schedule(steady, 1)
        wheel.schedule(hasty, 1)
        advance(clock, 6)
        assert len(steady.called) == 4
        assert len(hasty.called) == 5

    def test_forgottenByAnother(self) -> None:
        """An object that is forgotten during another call at the same time is not called."""
        clock = Clock()
        wheel = DeadlineWheel(clock)
        sleepers: list[Sleeper] = []

        def forgetOthers(now: float) -> None:
            for other in sleepers:
                wheel.forget(other)

        sleepers += [Sleeper(forgetOthers) for _ in range(3)]
        for sleeper in sleepers:
            wheel.schedule(sleeper, 1)
        advance(clock, 2)
        assert sum(len(sleeper.called) for sleeper in sleepers) == 1

    def test_schedulesOthers(self) -> None:
        """An object may schedule others while it is called, for now or later."""
        clock = Clock()
        wheel = DeadlineWheel(clock)
        soon, later = Sleeper(), Sleeper()

        def schedule(now: float) -> None:
            wheel.schedule(soon, now)
            wheel.schedule(later, now + 1)

        wheel.schedule(Sleeper(schedule), 1)
        advance(clock, 3)
        assert (len(soon.called), len(later.called)) == (1, 1)

    def test_longSleepOfTheReactor(self) -> None:
        """After a long time without the reactor, each object is called once, in order."""
        clock = Clock()
        wheel = DeadlineWheel(clock)
        order: list[int] = []
        for number in (3, 1, 2):
            wheel.schedule(Sleeper(lambda now, number=number: order.append(number)), number)  # type: ignore[misc]
        clock.advance(100)
        assert order == [1, 2, 3]

    def test_failure(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """An object that raises an exception does not delay the others."""
        clock = Clock()
        wheel = DeadlineWheel(clock)

        def fail(now: float) -> None:
            raise RuntimeError("as expected")

        others = [Sleeper(), Sleeper()]
        wheel.schedule(others[0], 1)
        wheel.schedule(Sleeper(fail), 1)
        wheel.schedule(others[1], 1)
        advance(clock, 2)
        assert [len(other.called) for other in others] == [1, 1]
        assert len(flushLoggedErrors(RuntimeError)) == 1


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.floats(0, 3), st.booleans(), st.floats(0, 0.5)), max_size=20
    )
)
def test_everybodyInTime(steps: list[tuple[int, float, bool, float]]) -> None:
    """
    For any requests, each object is called at its last deadline, or never if it was forgotten.
    """
    clock = Clock()
    wheel = DeadlineWheel(clock)
    sleepers = [Sleeper() for _ in range(5)]
    wanted: dict[int, float] = {}

    def check() -> None:
        now = clock.seconds()
        for who, sleeper in enumerate(sleepers):
            if sleeper.called:
                called = sleeper.called.pop()
                assert sleeper.called == []
                assert called >= wanted.pop(who) - 1e-6
            elif who in wanted:
                assert now <= wanted[who] + WIDTH + 0.02

    for who, delay, forgets, passes in steps:
        if forgets:
            wheel.forget(sleepers[who])
            wanted.pop(who, None)
        else:
            wanted[who] = clock.seconds() + delay
            wheel.schedule(sleepers[who], wanted[who])
        end = clock.seconds() + passes
        while clock.seconds() < end:
            clock.advance(0.01)
            check()
    for _ in range(350):
        clock.advance(0.01)
        check()
    assert wanted == {}
    assert clock.getDelayedCalls() == []
