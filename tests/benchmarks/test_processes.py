"""
Processors and memory of processes.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks.machine import modelIn, syncedWrite
from benchmarks.processes import (
    familyWork,
    parseCores,
    parseStatus,
    peakMemory,
    pinned,
    settledMemory,
    settledWork,
)

STATUS = "Name:\tnats-server\nVmHWM:\t   20480 kB\nVmRSS:\t   18000 kB\n"


def test_status() -> None:
    """A field of the status is read in bytes."""
    assert parseStatus(STATUS, "VmHWM") == 20480 * 1024


def test_missingField() -> None:
    """A process whose status has no memory is an error and not zero."""
    with pytest.raises(LookupError):
        parseStatus("Name:\tzombie\n", "VmRSS")


def test_ownMemory() -> None:
    """The memory of a running process can be read, and its peak is no less."""
    assert 0 < settledMemory(os.getpid()) <= peakMemory(os.getpid())


def test_family() -> None:
    """The work of a process includes that of the processes that it started."""
    work = "sum(range(10**7)); print(flush=True); input()"
    command = [sys.executable, "-c", work]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdin is not None
        child.stdout.readline()
        assert familyWork(os.getpid()) >= familyWork(child.pid) > 0.01
        child.stdin.write(b"\n")


def test_cores() -> None:
    """Processors are written as single numbers and ranges."""
    assert parseCores("0,2-4") == {0, 2, 3, 4}


@pytest.mark.parametrize("text", ["", "a", "1-", "1,,2", "-1"])
def test_wrongCores(text: str) -> None:
    """Any other text is refused as a list of processors."""
    with pytest.raises(ValueError, match="invalid literal"):
        parseCores(text)


def test_noPinning() -> None:
    """Without a list of processors, a new process is not pinned."""
    assert pinned(frozenset()) is None
    assert pinned(frozenset({0})) is not None


def test_processorModel() -> None:
    """The processors' name is that of the first one."""
    text = "processor\t: 0\nmodel name\t: Some  Processor @ 2 GHz\n\nprocessor\t: 1\n"
    assert modelIn(text) == "Some Processor @ 2 GHz"


def test_syncedWrite() -> None:
    """The time of a synced write is in microseconds, between one microsecond and one second."""
    assert 1 < syncedWrite() < 1e6


def test_processorTime() -> None:
    """The processor time of a process is that of its clock, with all its threads."""
    program = (
        "import threading, time\n"
        "def use():\n"
        "    while time.thread_time() < 0.1: pass\n"
        "    used.release(); ended.acquire()\n"
        "used, ended = threading.Semaphore(0), threading.Semaphore(0)\n"
        "for _ in range(2): threading.Thread(target=use).start()\n"
        "for _ in range(2): used.acquire()\n"
        "print(time.process_time(), flush=True)\n"
        "input(); ended.release(2)\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        told = float(process.stdout.readline())
        work = settledWork(process.pid)
        process.stdin.write(b"\n")
    assert 0.2 <= told <= work <= told + 0.05
    assert process.returncode == 0
