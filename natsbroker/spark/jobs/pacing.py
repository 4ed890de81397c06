"""The pace of jobs that publish what was stored."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

#: The messages of how many seconds may go at once after a pause.
_BURST = 0.1

#: Shorter waits are put off, in seconds: they would cost more than they are worth.
_LEAST = 0.01


@dataclass
class Pacer:
    """A token bucket and the original gaps, C{speed} times as fast; 0 without gaps."""

    rate: float = 0.0
    speed: float = 0.0
    clock: Callable[[], float] = time.monotonic
    #: When the next message may go by the rate.
    _due: float = float("-inf")
    _begun: tuple[int, float] | None = None

    def delay(self, when: int = 0) -> float:
        """
        The seconds that the next message must still wait; this takes tokens, so its successor waits
        longer.

        @param when: when it was stored, in nanoseconds since 1970.
        """
        now, wait = self.clock(), 0.0
        if self.rate:
            gap = 1 / self.rate
            self._due = max(self._due, now - max(_BURST, gap)) + gap
            wait = self._due - now if self._due - now >= _LEAST else 0.0
        if self.speed:
            first, begun = self._begun = self._begun or (when, now)
            wait = max(wait, begun + (when - first) / 1e9 / self.speed - now)
        return max(wait, 0.0)
