"""
Passes of Python's garbage collector over all objects, which stop the broker while they last.

They are only needed for objects that refer to each other in circles and were in use for long. The
collector itself looks at young objects only, which takes few milliseconds; a pass over all of them,
some tenths of a microsecond for each, waits for a second with little work, or until memory could
grow.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

from twisted.internet.task import LoopingCall

INTERVAL = 1.0
"""Seconds between two looks at what the broker does."""

IDLE = 0.1
"""Seconds of the processor in an interval below which the broker has little to do."""

DUE = 100
"""Passes over young objects, of up to seven thousand new ones each, after which one over all may
come."""

OVERDUE = 5 * DUE
"""The same for one that cannot wait any longer: of what circles keep, this bounds the memory."""

PART = 50
"""The least time of work between passes, as a multiple of the last pass."""

_NEVER = 1 << 30


class FullPasses:
    def __init__(self, reactor: Any, worked: Callable[[], float] = time.thread_time) -> None:
        self._worked = worked
        self._seen = self._next = 0.0
        self._thresholds = gc.get_threshold()
        self._looking = LoopingCall(self._look)
        self._looking.clock = reactor

    def start(self) -> None:
        gc.freeze()
        gc.set_threshold(*self._thresholds[:2], _NEVER)
        self._looking.start(INTERVAL)

    def stop(self) -> None:
        if self._looking.running:
            self._looking.stop()
            gc.set_threshold(*self._thresholds)

    def _look(self) -> None:
        worked = self._worked()
        isIdle = worked - self._seen < IDLE
        self._seen = worked
        if worked >= self._next and gc.get_count()[2] >= (DUE if isIdle else OVERDUE):
            gc.collect()
            self._seen = self._worked()
            self._next = self._seen + PART * (self._seen - worked)
