"""
Cheap timed calls on one timer of the reactor. Calls are never early, and their exceptions are
logged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

_log = Logger()

#: Clocks are sums of floating point numbers: this much too early is in time.
_EPSILON = 1e-9

#: Calls that are made in one turn of the reactor.
MOST = 256

#: The heap is cleared of cancelled deadlines when there are more of them than this and than half.
_MANY = 64


@dataclass(slots=True, eq=False)
class Deadline:
    _deadlines: Deadlines
    when: float
    _call: Callable[[], object] | None

    @property
    def active(self) -> bool:
        return self._call is not None

    def cancel(self) -> None:
        if self._call is not None:
            self._call = None
            self._deadlines.cancelled()

    def fire(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()


class Deadlines:
    def __init__(self, reactor: IReactorTime, monotonic: Callable[[], float]) -> None:
        """C{monotonic} gives seconds of a clock that is never set."""
        self.now = monotonic
        self.reactor = reactor
        self._timer: IDelayedCall | None = None
        self._timerFor = 0.0
        self._heap: list[tuple[float, int, Deadline]] = []
        self._count = 0
        self._cancelled = 0
        self._isStopped = False

    def after(self, seconds: float, call: Callable[[], object]) -> Deadline:
        when = self.now() + seconds
        deadline = Deadline(self, when, call)
        if self._isStopped:
            return deadline
        self._count += 1
        heappush(self._heap, (when, self._count, deadline))
        self._setTimer()
        return deadline

    def cancelled(self) -> None:
        self._cancelled += 1
        if self._cancelled > _MANY and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2]._call is not None]
            heapify(self._heap)
            self._cancelled = 0
            self._setTimer()

    def stop(self) -> None:
        """Make no more calls, including those that are requested later."""
        self._isStopped = True
        self._heap = []
        self._setTimer()

    def __len__(self) -> int:
        return sum(entry[2].active for entry in self._heap)

    def _setTimer(self) -> None:
        if not self._heap:
            timer, self._timer = self._timer, None
            if timer is not None:
                timer.cancel()
            return
        when = self._heap[0][0]
        if self._timer is not None:
            if self._timerFor <= when:
                return
            self._timer.cancel()
        self._timerFor = when
        self._timer = self.reactor.callLater(max(when - self.now(), 0.0), self._passed)

    def _passed(self) -> None:
        self._timer = None
        for deadline in self._due(self.now() + _EPSILON):
            try:
                deadline.fire()
            except Exception:
                _log.failure("A delayed call failed")
        self._setTimer()

    def _due(self, limit: float) -> list[Deadline]:
        due: list[Deadline] = []
        while self._heap and self._heap[0][0] <= limit and len(due) < MOST:
            deadline = heappop(self._heap)[2]
            if deadline.active:
                due.append(deadline)
            else:
                self._cancelled = max(self._cancelled - 1, 0)
        return due
