"""
The other broker processes of this machine.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from natsbroker.daemon.processes import SIGNALS, SignalError, runningBrokers, sendSignal


class TestSending:
    """Signals to another process."""

    def sent(self, name: str, process: str, running: tuple[int, ...] = ()) -> list[Any]:
        """The signals that were sent, by process."""
        signals: list[tuple[int, int]] = []
        sendSignal(name, process, lambda: running, lambda *sent: signals.append(sent))
        return signals

    @pytest.mark.parametrize("name", sorted(SIGNALS))
    def test_byNumber(self, name: str) -> None:
        """A process id is signalled whether it is a broker or not."""
        assert self.sent(name, "42") == [(42, SIGNALS[name])]

    def test_onlyProcess(self) -> None:
        """Without a process id, the only running broker is signalled."""
        assert self.sent("ldm", "", (7,)) == [(7, signal.SIGUSR2)]

    def test_noProcess(self) -> None:
        """Without a process id and a running broker there is an error."""
        with pytest.raises(SignalError, match="no natsbroker processes running"):
            self.sent("ldm", "")

    def test_severalProcesses(self) -> None:
        """Several running brokers are listed, and none of them is signalled."""
        with pytest.raises(SignalError, match="multiple natsbroker processes running:\n7\n8"):
            self.sent("ldm", "", (7, 8))

    def test_pattern(self) -> None:
        """A prefix with an asterisk stands for all brokers whose ids begin with it."""
        assert [pid for pid, _ in self.sent("term", "1*", (12, 21, 13))] == [12, 13]
        assert [pid for pid, _ in self.sent("term", "*", (12, 21))] == [12, 21]

    def test_unreachable(self) -> None:
        """Each process that cannot be reached is named."""

        def kill(pid: int, number: int) -> None:
            raise ProcessLookupError(3, "No such process")

        with pytest.raises(SignalError, match='signal "quit" 12: no such process'):
            sendSignal("quit", "12", lambda: (), kill)


class TestRunning:
    """Running brokers."""

    def process(self, folder: Path, pid: int, *arguments: str) -> None:
        """Make a process entry."""
        place = folder / str(pid)
        place.mkdir()
        (place / "cmdline").write_bytes(
            b"\0".join(argument.encode() for argument in arguments) + b"\0"
        )

    def test_found(self, tmp_path: Path) -> None:
        """Processes of the package's scripts and modules are found, and no others."""
        (tmp_path / "self").mkdir()
        (tmp_path / "cpuinfo").write_text("")
        self.process(tmp_path, 30, "/usr/bin/python3", "/usr/bin/natsbroker", "-p", "-1")
        self.process(tmp_path, 20, "python3", "-m", "natsbroker", "-D")
        self.process(tmp_path, 25, "python3", "-P", "-m", "natsbroker")
        self.process(tmp_path, 10, "/usr/bin/vim", "main.py", "natsbroker")
        self.process(tmp_path, 11, "nats-server")
        self.process(tmp_path, os.getpid(), "natsbroker")
        (tmp_path / "40").mkdir()
        assert runningBrokers(tmp_path) == [20, 25, 30]

    def test_processesCannotBeListed(self, tmp_path: Path) -> None:
        """A process id is required if processes cannot be listed."""
        with pytest.raises(SignalError, match="try providing one"):
            runningBrokers(tmp_path / "missing")
