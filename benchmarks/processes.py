"""
Processors and memory of processes, as Linux tells them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

__all__ = [
    "familyWork",
    "parseCores",
    "parseStatus",
    "peakMemory",
    "pinned",
    "settledMemory",
    "settledWork",
]

SETTLING = 5.0
"""Seconds that memory may go on changing before it is read regardless."""

IDLE = 0.02
"""Seconds of processor time in a tenth of a second up to which a process has nothing to do."""


def pinned(cores: frozenset[int]) -> Callable[[], None] | None:
    """
    @return: what a new process calls to stay on C{cores}; C{None} when there are none.
    """
    if not cores:
        return None
    return lambda: os.sched_setaffinity(0, cores)


def parseCores(text: str) -> frozenset[int]:
    """
    @param text: processors as C{taskset} takes them: C{0,2-3}.
    @raise ValueError: if it is anything else.
    """
    threads: set[int] = set()
    for part in text.split(","):
        first, hyphen, last = part.partition("-")
        threads.update(range(int(first), int(last if hyphen else first) + 1))
    return frozenset(threads)


def parseStatus(text: str, field: str) -> int:
    """
    @param text: the content of C{/proc/PID/status}.
    @return: the bytes of C{field}, such as C{VmRSS}.
    @raise LookupError: if it is not there.
    """
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) << 10
    raise LookupError(field)


def memory(pid: int, field: str) -> int:
    """
    @return: the bytes of C{field} of the process now.
    """
    return parseStatus(Path(f"/proc/{pid}/status").read_text("ascii"), field)


def peakMemory(pid: int) -> int:
    """
    @return: the most bytes that were resident at once since the process started.
    """
    return memory(pid, "VmHWM")


def settledMemory(pid: int, field: str = "VmRSS") -> int:
    """
    @param field: which memory, as C{/proc/PID/status} calls it.
    @return: the resident bytes, once they stay within half a percent for half a second.
    """
    deadline = time.monotonic() + SETTLING
    steady, last = 0, memory(pid, field)
    while steady < 5 and time.monotonic() < deadline:
        time.sleep(0.1)
        now = memory(pid, field)
        steady = steady + 1 if abs(now - last) <= last / 200 else 0
        last = now
    return last


def work(pid: int) -> float:
    """
    @return: the seconds of processor time that the threads of the process have used.
    """
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text("ascii").split()[0]) for thread in threads) / 1e9


def familyWork(pid: int) -> float:
    """
    @return: the same, together with that of the processes that it started.
    """
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(word) for list_ in lists for word in list_.read_text("ascii").split()]
    return work(pid) + sum(map(familyWork, children))


def settledWork(pid: int, read: Callable[[int], float] = work) -> float:
    """
    @param read: L{familyWork} for a server of several processes.
    @return: the same, once the process has had nothing to do for half a second.
    """
    deadline = time.monotonic() + 4 * SETTLING
    steady, last = 0, read(pid)
    while steady < 5 and time.monotonic() < deadline:
        time.sleep(0.1)
        now = read(pid)
        steady = steady + 1 if now - last <= IDLE else 0
        last = now
    return last
