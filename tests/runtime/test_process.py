"""Tests for L{natsbroker.runtime.process}."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from natsbroker.runtime.process import (
    ProcessUsage,
    availableCores,
    residentMemory,
    threadTimes,
)


class TestProcessUsage:
    """The usage of a process, asked for now and then."""

    def usage(self) -> ProcessUsage:
        """The usage of a process with clocks and values from the test."""
        self.now = 100.0
        self.ran = 5.0
        return ProcessUsage(lambda: self.now, lambda: self.ran, lambda: 7, lambda: 3)

    def test_percent(self) -> None:
        """The percentage is the average since the last call."""
        usage = self.usage()
        self.now, self.ran = 110.0, 7.5
        assert usage.percent() == 25.0
        self.now, self.ran = 112.0, 9.5
        assert usage.percent() == 100.0

    def test_shortTimes(self) -> None:
        """Within a second of the last measurement, the percentage stays the same."""
        usage = self.usage()
        assert usage.percent() == 0.0
        self.now, self.ran = 101.0, 5.123
        assert usage.percent() == 12.3
        self.now, self.ran = 101.9, 6.0
        assert usage.percent() == 12.3

    def test_memoryAndCores(self) -> None:
        """Memory and cores are those of the given functions."""
        usage = self.usage()
        assert (usage.memory(), usage.cores()) == (7, 3)

    def test_thisProcess(self) -> None:
        """By default, the usage is that of the current process."""
        usage = ProcessUsage(lambda: 0.0)
        assert usage.memory() > 1 << 20
        assert usage.cores() >= 1


def test_residentMemory(tmp_path: Path) -> None:
    """The second number of C{statm} is the memory in pages."""
    path = tmp_path / "statm"
    path.write_text("1000 12 3 4 0 5 0\n")
    assert residentMemory(str(path)) == 12 * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("text", [None, "", "1000 many"])
def test_withoutProc(tmp_path: Path, text: str | None) -> None:
    """If the file is missing or of another form, the peak is returned instead."""
    path = tmp_path / "statm"
    if text is not None:
        path.write_text(text)
    assert residentMemory(str(path)) > 1 << 20


class TestThreadTimes:
    """The seconds in which a thread works, and in which it waits for a processor."""

    def test_told(self, tmp_path: Path) -> None:
        """The kernel's file gives both times, in nanoseconds."""
        path = tmp_path / "schedstat"
        path.write_text("1500000000 250000000 7\n")
        assert threadTimes(str(path)) == (1.5, 0.25)

    def test_notTold(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without the kernel's file, only the thread's own time is known."""
        monkeypatch.setattr(time, "thread_time", lambda: 12.5)
        assert threadTimes(str(tmp_path / "schedstat")) == (12.5, 0.0)


def test_availableCores() -> None:
    """At least one core is available, and at most those of the machine."""
    assert 1 <= availableCores() <= (os.cpu_count() or 1)
