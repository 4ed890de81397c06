"""
Time that passes event by event.
"""

from __future__ import annotations

import pytest
from twisted.internet.interfaces import IReactorTime
from zope.interface.verify import verifyObject

from natsbroker.testing.simulation.clock import RunawayError, SimulatedClock


class TestClock:
    """The clock."""

    def test_provides(self) -> None:
        """The clock tells time as a reactor does."""
        assert verifyObject(IReactorTime, SimulatedClock())

    def test_eachItsTime(self) -> None:
        """Every event happens at its own time, also an event that another one schedules."""
        seen: list[float] = []
        clock = SimulatedClock(0.0)
        clock.callLater(1, lambda: clock.callLater(1, lambda: seen.append(clock.seconds())))
        clock.callLater(3, lambda: seen.append(clock.seconds()))
        clock.advance(10)
        assert seen == [2.0, 3.0]
        assert clock.seconds() == 10.0
        assert clock.events == 3

    def test_inOrder(self) -> None:
        """Events at the same time happen in the order in which they were scheduled."""
        seen: list[int] = []
        clock = SimulatedClock()
        for number in range(20):
            clock.callLater(1, seen.append, number)
        clock.advance(1)
        assert seen == list(range(20))

    def test_post(self) -> None:
        """A posted call happens at its time, among other events, and not in the past."""
        seen: list[tuple[str, float]] = []
        clock = SimulatedClock(5.0)
        clock.callLater(1, lambda: seen.append(("call", clock.seconds())))
        clock.schedule(6.0, lambda: seen.append(("schedule", clock.seconds())))
        clock.schedule(1.0, lambda: seen.append(("late", clock.seconds())))
        assert len(clock.getDelayedCalls()) == 1
        clock.advance(2)
        assert seen == [("late", 5.0), ("call", 6.0), ("schedule", 6.0)]
        assert clock.events == 3

    def test_cancelled(self) -> None:
        """A cancelled call does not happen, and is not waited for."""
        seen: list[int] = []
        clock = SimulatedClock()
        call = clock.callLater(1, seen.append, 1)
        call.cancel()
        assert clock.getDelayedCalls() == []
        clock.advance(2)
        assert seen == []

    def test_postponed(self) -> None:
        """A call that is postponed when its time has come can be cancelled until it is made."""
        seen: list[float] = []
        clock = SimulatedClock(0.0)

        def come() -> None:
            seen.append(clock.seconds())
            if len(seen) < 3:
                clock.postpone(call, 2)

        call = clock.callLater(1, come)
        clock.advance(4)
        assert (seen, clock.due, call.active()) == ([1.0, 3.0], 5.0, True)
        call.cancel()
        clock.advance(4)
        assert (seen, clock.due) == ([1.0, 3.0], None)

    @pytest.mark.parametrize(("change", "when"), [(0.5, 0.5), (3.0, 3.0)])
    def test_reset(self, change: float, when: float) -> None:
        """A call that is moved to another time happens then, once."""
        seen: list[float] = []
        clock = SimulatedClock(0.0)
        call = clock.callLater(1, lambda: seen.append(clock.seconds()))
        call.reset(change)
        clock.advance(10)
        assert seen == [when]

    def test_runaway(self) -> None:
        """Events that cause each other for ever are an error."""
        clock = SimulatedClock()

        def again() -> None:
            clock.callLater(0, again)

        again()
        with pytest.raises(RunawayError):
            clock.advance(1)

    def test_limit(self) -> None:
        """The number of events is limited."""
        clock = SimulatedClock(limit=2)
        seen: list[int] = []
        for number in range(3):
            clock.callLater(number, seen.append, number)
        clock.advance(1)
        with pytest.raises(RunawayError):
            clock.advance(1)
        assert seen == [0, 1]
