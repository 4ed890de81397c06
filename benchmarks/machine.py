"""
The machine of the measurements.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path

from benchmarks.network import congestionControl

__all__ = ["describe", "modelIn"]


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
