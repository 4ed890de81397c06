"""
The machine of the measurements.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from pathlib import Path
from tempfile import TemporaryFile

from benchmarks.network import congestionControl

__all__ = ["describe", "modelIn", "syncedWrite"]

WRITES = 21
"""The number of synced writes that are timed."""


def modelIn(cpuinfo: str) -> str:
    """
    @param cpuinfo: the content of C{/proc/cpuinfo}.
    @return: the processors' name, or the architecture's where it has none.
    """
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return " ".join(value.split())
    return platform.machine()


def syncedWrite() -> float:
    """
    @return: the microseconds that the disk of the stores takes for 4 KiB that are appended to a
        file and synced; the median.
    """
    times = []
    with TemporaryFile(prefix="natsbroker-benchmarks-", buffering=0) as file:
        for _ in range(WRITES):
            began = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


def describe() -> dict[str, str | float]:
    """
    @return: what the machine is and how busy it is now.
    """
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)
    return {
        "processor": modelIn(Path("/proc/cpuinfo").read_text("utf-8", "replace")),
        "cores": cores,
        "memory_gib": round(memory, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "congestion_control": congestionControl(),
        "load_average": round(os.getloadavg()[0], 2),
    }
