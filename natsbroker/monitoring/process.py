"""
What the broker's process uses of its machine.

Promises: resident memory in bytes, processor time in percent of one core over at least the last
second, and the cores that the process may run on.
Must never know: who asks, or why.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable

__all__ = ["ProcessUsage", "availableCores", "residentMemory"]

#: The shortest time over which processor time is averaged, in seconds.
_SAMPLE = 1.0


def residentMemory(path: str = "/proc/self/statm") -> int:
    """
    The memory that the process holds now, in bytes; where the system has no C{/proc}, the most
    that it ever held.
    """
    try:
        with open(path, "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def availableCores() -> int:
    """
    How many cores the process may run on.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class ProcessUsage:
    """
    Asked now and then, it tells what the process uses.
    """

    def __init__(
        self,
        seconds: Callable[[], float],
        processorTime: Callable[[], float] = time.process_time,
        memory: Callable[[], int] = residentMemory,
        cores: Callable[[], int] = availableCores,
    ) -> None:
        """
        @param seconds: the time.
        @param processorTime: seconds that all threads of the process have run.
        @param memory: bytes that it holds.
        @param cores: how many cores it may run on.
        """
        self._seconds = seconds
        self._processorTime = processorTime
        self.memory = memory
        self.cores = cores
        self._since = seconds()
        self._ran = processorTime()
        self._percent = 0.0

    def percent(self) -> float:
        """
        Processor time in percent of one core, to a tenth: the average since the call before, or
        the same again if that was less than a second ago.
        """
        now = self._seconds()
        passed = now - self._since
        if passed >= _SAMPLE:
            ran = self._processorTime()
            self._percent = round((ran - self._ran) / passed * 100, 1)
            self._since, self._ran = now, ran
        return self._percent
