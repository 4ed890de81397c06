"""
All timers of one consumer on one deadline.
"""

from __future__ import annotations

from collections.abc import Callable

from natsbroker.runtime.deadlines import Deadline, Deadlines

_NEVER = float("inf")

#: Clocks add floating point numbers, so a timer may be early by this much.
_EPSILON = 1e-9


class ConsumerTimers:
    """
    Named times. Setting a later time costs two comparisons, because the deadline stays as it is
    until it passes.
    """

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._times: dict[Callable[[], object], float] = {}
        self._deadline: Deadline | None = None
        self._armed = _NEVER

    def set(self, call: Callable[[], object], when: float) -> None:
        """Set the time of a call, by the clock of the deadlines. It replaces the earlier time."""
        self._times[call] = when
        if when < self._armed:
            self._arm(when)

    def clear(self, call: Callable[[], object]) -> None:
        self._times.pop(call, None)

    def timeOf(self, call: Callable[[], object]) -> float | None:
        return self._times.get(call)

    def stop(self) -> None:
        self._times.clear()
        self._armed = -_NEVER
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _arm(self, when: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._armed = when
        wait = max(when - self._deadlines.now(), 0.0)
        self._deadline = self._deadlines.after(wait, self._passed)

    def _passed(self) -> None:
        self._deadline = None
        self._armed = _NEVER
        now = self._deadlines.now() + _EPSILON
        due = [call for call, when in self._times.items() if when <= now]
        for call in due:
            if self._times.get(call, _NEVER) <= now:
                del self._times[call]
                call()
        if self._times and self._armed != -_NEVER:
            earliest = min(self._times.values())
            if earliest < self._armed:
                self._arm(earliest)
