"""
Time that passes event by event.

L{SimulatedClock.seconds} is exactly the time of the event that runs, unlike in
C{twisted.internet.task.Clock}, whose events all see the end of an advance. Events of one time run
in the order of their requests. Events of a host that has died do not run.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from math import inf
from typing import Any

from twisted.internet.base import DelayedCall
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

__all__ = ["RunawayError", "SimulatedClock"]

#: Events at one time that make a loop without end.
_PATIENCE = 200_000


class RunawayError(AssertionError):
    """Events cause each other without any time passing, or there are more of them than allowed."""


@implementer(IReactorTime)
class SimulatedClock:
    """
    @ivar events: the number of events so far.
    @ivar limit: the number of events above which L{advance} raises L{RunawayError}.
    """

    def __init__(self, start: float = 1_700_000_000.0, limit: float = inf) -> None:
        self.events = 0
        self.limit = limit
        self._now = start
        self._numbers = count()
        self._heap: list[tuple[float, int, DelayedCall | Callable[[], object]]] = []

    def seconds(self) -> float:
        return self._now

    def callLater(
        self, delay: float, callable: Callable[..., Any], *args: object, **kw: object
    ) -> DelayedCall:
        call = DelayedCall(
            self._now + delay, callable, args, kw, _nothing, self._push, self.seconds
        )
        self._push(call)
        return call

    def schedule(self, when: float, call: Callable[[], object]) -> None:
        """
        Schedule a call at a time; at once if that is past. Unlike L{callLater} this costs little.
        """
        heapq.heappush(self._heap, (max(when, self._now), next(self._numbers), call))

    def postpone(self, call: DelayedCall, delay: float) -> None:
        """Have a call whose time has just come made later, so that it can be cancelled again."""
        call.called, call.time, call.delayed_time = 0, self._now + delay, 0
        self._push(call)

    def _push(self, call: DelayedCall) -> None:
        heapq.heappush(self._heap, (call.getTime(), next(self._numbers), call))

    def getDelayedCalls(self) -> list[DelayedCall]:
        return [
            call
            for _, _, call in sorted(self._heap, key=lambda call: call[:2])
            if isinstance(call, DelayedCall) and call.active()
        ]

    @property
    def due(self) -> float | None:
        """The time of the next event, which may have been cancelled; C{None} for none."""
        return self._heap[0][0] if self._heap else None

    def advance(self, amount: float) -> None:
        end = self._now + amount
        heap, atOnce = self._heap, 0
        while heap and heap[0][0] <= end:
            when, _, call = heapq.heappop(heap)
            if isinstance(call, DelayedCall) and self._isLater(call, when):
                continue
            if when > self._now:
                self._now, atOnce = when, 0
            else:
                atOnce += 1
                if atOnce > _PATIENCE:
                    raise RunawayError(f"endless events at {self._now}: {call!r}")
            self.events += 1
            if self.events > self.limit:
                raise RunawayError(f"more than {self.limit} events: {call!r}")
            if isinstance(call, DelayedCall):
                call.called = 1
                call.func(*call.args, **call.kw)
            else:
                call()
        self._now = end

    def _isLater(self, call: DelayedCall, when: float) -> bool:
        if call.cancelled or call.called:
            return True
        if call.getTime() <= when:
            return False
        call.activate_delay()
        self._push(call)
        return True


def _nothing(call: DelayedCall) -> None:
    """The call in place of a cancelled one, which stays in the heap until its time."""
