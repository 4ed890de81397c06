"""
The cost of a start, in CPU seconds. Launchers give a server 5 or 10 seconds on a machine that may
be busy.

The CPU seconds of the child process are limited, not the time that passes. The least of a few runs
counts, because a cold disk cache and other programs only add to it. The first run compiles the
modules, as an installer does. Otherwise each run would compile the package where Python writes no
bytecode.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

#: How often a command is run; the cheapest run counts.
RUNS = 5

#: A program of the standard library, and its CPU seconds on a machine of usual speed, for which the
#: bounds below are written. On a slower machine, or one that is shared, they grow alike.
USUAL = 0.11
REFERENCE = [
    *(sys.executable, "-c"),
    "import asyncio, concurrent.futures, email.message, http.client, logging.config, pydoc\n"
    "import sqlite3, ssl, unittest, xml.dom.minidom\n"
    "sum(n * n for n in range(1_000_000))",
]

#: The most CPU seconds of an action that needs no broker.
SHORT = 0.15

#: The longest time until a broker is ready or has given up, in seconds.
PATIENCE = 60.0

#: The most CPU seconds from the start of the process to C{Server is ready}.
READY = 0.4


@pytest.fixture(autouse=True)
def bytecode(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the bytecode of the child processes."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path_factory.getbasetemp() / "bytecode"))


def usedBy(process: subprocess.Popen[str]) -> float:
    """Wait for the end of a process, and return the CPU seconds that it used."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def secondsOf(command: list[str], code: int) -> float:
    """The CPU seconds of a command of the broker that ends by itself."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=quiet, stderr=quiet, text=True)
    used = usedBy(process)
    assert process.returncode == code
    return used


def slowness() -> float:
    """The factor by which programs are slower here than usual, at least 1."""
    return max(1.0, min(secondsOf(REFERENCE, 0) for _ in range(RUNS)) / USUAL)


def secondsUntilReady() -> float:
    """The CPU seconds until a broker with default settings, except for the port, is ready."""
    command = [sys.executable, "-m", "natsbroker", "-a", "127.0.0.1", "-p", "-1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        limit = threading.Timer(PATIENCE, process.kill)
        limit.start()
        isReady = any("Server is ready" in line for line in process.stderr)
        limit.cancel()
        process.kill()
        used = usedBy(process)
    assert isReady
    return used


def test_importsNoJetStream() -> None:
    """A broker without a JetStream block does not import the modules of JetStream."""
    program = (
        "import sys\n"
        "from natsbroker.broker import Broker\n"
        "from natsbroker.server.configuration.build import buildText\n"
        "Broker(buildText('port: -1', {}).settings)\n"
        "sys.exit(any(name.startswith('natsbroker.jetstream') for name in sys.modules))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_ready() -> None:
    """A broker with default settings is ready after at most 0.4 CPU seconds."""
    assert min(secondsUntilReady() for _ in range(RUNS)) <= READY * slowness()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--version"], 0),
        (["--help"], 0),
        (["-t", "-c", "x.conf"], 0),
        (["--signal", f"ldm={2**22 + 1}"], 1),
    ],
    ids=["version", "help", "check", "signal"],
)
def test_shortActions(
    arguments: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version, the usage, a check of a file and a signal cost at most 0.15 CPU seconds."""
    (tmp_path / "x.conf").write_text("port: 4222\nserver_name: x\nmax_payload: 1MB\n")
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-m", "natsbroker", *arguments]
    assert min(secondsOf(command, code) for _ in range(RUNS)) <= SHORT * slowness()
