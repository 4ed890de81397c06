"""The memory, the processor time and the cores of the broker's process."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable

#: The shortest time over which processor time is averaged, in seconds.
_SAMPLE = 1.0


def residentMemory(path: str = "/proc/self/statm") -> int:
    """The resident memory in bytes; the highest ever without C{/proc}."""
    try:
        with open(path, "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def threadTimes(path: str = "/proc/thread-self/schedstat") -> tuple[float, float]:
    """
    The seconds in which this thread worked, and those in which it waited for a processor; where
    the kernel does not tell, it never waited.
    """
    try:
        with open(path) as file:
            worked, waited, _ = file.read().split()
    except OSError:
        return time.thread_time(), 0.0
    return int(worked) / 1e9, int(waited) / 1e9


def availableCores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processesOf(workers: int) -> int:
    """The number of processes that the setting C{workers} asks for."""
    return workers if workers > 0 else availableCores()


class ProcessUsage:
    """The usage of the process, sampled when it is read, without psutil."""

    def __init__(
        self,
        seconds: Callable[[], float],
        processorTime: Callable[[], float] = time.process_time,
        memory: Callable[[], int] = residentMemory,
        cores: Callable[[], int] = availableCores,
    ) -> None:
        self._seconds = seconds
        self._processorTime = processorTime
        self.memory = memory
        self.cores = cores
        self._since = seconds()
        self._ran = processorTime()
        self._percent = 0.0

    def percent(self) -> float:
        """Processor time, in percent of a core, since the last call at least a second ago."""
        now = self._seconds()
        passed = now - self._since
        if passed >= _SAMPLE:
            ran = self._processorTime()
            self._percent = round((ran - self._ran) / passed * 100, 1)
            self._since, self._ran = now, ran
        return self._percent
