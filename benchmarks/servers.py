"""
The start of servers, and the wait until they are ready.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.processes import pinned
from benchmarks.settings import Setting

__all__ = ["Contestant", "NatsServer", "Server", "ServerFailed", "StandIn", "parsePort", "started"]

STARTING = 20.0
STOPPING = 10.0
LANE = re.compile(r"\blane=(\w+)")
LISTENING = re.compile(r"Listening for client connections on \S*?:(\d+)\s")
LINKS = re.compile(r"Listening for (?:route|gateways|leafnode) connections on \S*?:(\d+)\s")


class ServerFailed(Exception):
    """
    A server did not start; the message holds what it said last.
    """


@dataclass(frozen=True)
class Server:
    """
    A server that listens.

    @ivar restart: kills it, and starts it again on what it has stored.
    @ivar far: the second server, if there is one that is linked with it.
    """

    pid: int
    port: int
    restart: Callable[[], Server] | None = None
    far: Server | None = None

    @property
    def farLoad(self) -> tuple[str, ...]:
        """The second server, as the load generator needs it."""
        if self.far is None:
            return ()
        return ("--far-port", str(self.far.port), "--far-pid", str(self.far.pid))


@dataclass(frozen=True)
class Contestant:
    """
    Something that can be started and measured.

    @ivar name: the short name that options and figures use.
    @ivar title: what the report calls it.
    @ivar command: the program and what always stands before its arguments.
    @ivar environment: set on top of ours; an empty value removes a variable.
    """

    name: str
    title: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    def commandLine(self, folder: Path, setting: Path | None, load: Sequence[str]) -> list[str]:
        """
        @param folder: a directory of the server's own.
        @param setting: the configuration file, if there is one.
        @param load: what the load generator is going to be told.
        @return: the whole command line.
        """
        raise NotImplementedError

    @property
    def isOurs(self) -> bool:
        """
        Whether it is our own server.
        """
        return False

    def objection(self, log: str) -> str:
        """
        @param log: what the server wrote until it listened.
        @return: why it is not what is to be measured, or C{""}.
        """
        return ""


@dataclass(frozen=True)
class NatsServer(Contestant):
    """
    A server with nats-server's command line: nats-server itself, or ours.

    @ivar lane: what ours must say in its log that it runs; C{""} for anything.
    """

    lane: str = ""

    @property
    def isOurs(self) -> bool:
        """
        Whether it is our own server: only that has lanes.
        """
        return bool(self.lane)

    def commandLine(self, folder: Path, setting: Path | None, load: Sequence[str]) -> list[str]:
        """
        @return: the command line; the ports file goes to C{folder}.
        """
        place = ["-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", str(folder)]
        return [*self.command, *place, *([] if setting is None else ["-c", str(setting)])]

    def objection(self, log: str) -> str:
        """
        @return: that the server runs another lane than it is named after, where it says so.
        """
        match = LANE.search(log)
        if not self.lane or match is None or match[1] == self.lane:
            return ""
        return f"it runs with the compiled lane {match[1]!r} instead of {self.lane!r}"


@dataclass(frozen=True)
class StandIn(Contestant):
    """
    A server that is part of the load generator and takes the scenario as arguments.

    @ivar mode: which of the generator's modes it is.
    """

    mode: str = ""

    def commandLine(self, folder: Path, setting: Path | None, load: Sequence[str]) -> list[str]:
        """
        @return: the command line; there is no configuration.
        """
        return [*self.command, "--mode", self.mode, "--port", "0", *load]


def parsePort(ports: Sequence[str], log: str, service: str = "nats") -> int | None:
    """
    @param ports: the contents of the ports files that were found, whole or not.
    @param log: what the server wrote so far.
    @param service: C{nats}, or C{websocket} for the port of clients over WebSocket.
    @return: the client port, or C{None} when neither tells it yet.
    """
    for text in ports:
        try:
            return int(json.loads(text)[service][0].rpartition(":")[2])
        except (ValueError, LookupError, TypeError):
            continue  # still being written
    match = LISTENING.search(log) if service == "nats" else None
    return int(match[1]) if match else None


def parseLinkPort(log: str) -> int | None:
    """
    @param log: what a server wrote so far.
    @return: where it listens for links to other servers, if it has said so.
    """
    match = LINKS.search(log)
    return int(match[1]) if match else None


def awaitLinkPort(folder: Path) -> int:
    """
    @param folder: of a server that listens for clients.
    @return: the port on which it listens for links.
    @raise ServerFailed: if it does not.
    """
    deadline = time.monotonic() + STARTING
    while time.monotonic() < deadline:
        port = parseLinkPort(logIn(folder))
        if port is not None:
            return port
        time.sleep(0.02)
    raise ServerFailed(f"not listening for links: {tail(logIn(folder))}")


def logIn(folder: Path) -> str:
    """
    @return: what the server with this directory wrote so far.
    """
    return (folder / "log").read_text("utf-8", "replace")


def awaitPort(process: subprocess.Popen[bytes], folder: Path, service: str) -> int:
    """
    @param service: as for L{parsePort}.
    @return: the port on which C{process} listens.
    @raise ServerFailed: if it ends first, or takes too long.
    """
    deadline = time.monotonic() + STARTING
    while time.monotonic() < deadline:
        ended = process.poll()
        said = logIn(folder)
        if ended is not None:
            raise ServerFailed(f"exit status {ended}: {tail(said)}")
        ports = [path.read_text("utf-8", "replace") for path in folder.glob("*.ports")]
        port = parsePort(ports, said, service)
        if port is not None:
            return port
        time.sleep(0.02)
    raise ServerFailed(f"not listening after {STARTING:g} seconds: {tail(said)}")


def tail(log: str) -> str:
    """
    @return: the last lines of a log.
    """
    return "\n".join(log.strip().splitlines()[-5:]) or "it said nothing"


def environmentOf(contestant: Contestant) -> dict[str, str]:
    """
    @return: the environment that the contestant runs in.
    """
    together = {**os.environ, **contestant.environment}
    return {name: value for name, value in together.items() if value}


@contextmanager
def started(
    contestant: Contestant,
    setting: Setting,
    load: Sequence[str],
    cores: frozenset[int] = frozenset(),
) -> Iterator[Server]:
    """
    @param load: what the load generator is going to be told.
    @param cores: the processors that servers are to run on; none for any.
    @return: the context manager of the running server, and of the one that is linked with it, if
        the setting has one; it stops them.
    @raise ServerFailed: if one does not come up, or is not what it is named after.
    """
    service = "websocket" if "--websocket" in setting.load else "nats"
    with ExitStack() as running:

        def start(write: Callable[[Path], Path | None]) -> tuple[Server, Path]:
            made = TemporaryDirectory(prefix="natsbroker-benchmarks-")
            folder = Path(running.enter_context(made))
            command = contestant.commandLine(folder, write(folder), load)
            process = Process(command, folder, environmentOf(contestant), cores, service)
            running.callback(process.stop)
            server = process.start()
            objection = contestant.objection(logIn(folder))
            if objection:
                raise ServerFailed(objection)
            return server, folder

        server, folder = start(lambda folder: setting.write(folder, contestant.isOurs))
        if setting.forbidden:
            proveRefusal(server.port, setting)
        if setting.far:
            link = awaitLinkPort(folder)
            far, _ = start(lambda folder: setting.writeFar(folder, link))
            server = replace(server, far=far)
        yield server


class Process:
    """
    A server's process, one after another if it is started again.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        cores: frozenset[int],
        service: str,
    ) -> None:
        """
        @param folder: where it writes its log and its ports file.
        @param service: as for L{parsePort}.
        """
        self._command = command
        self._folder = folder
        self._environment = environment
        self._cores = cores
        self._service = service
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Server:
        """
        @return: the server, once it listens.
        @raise ServerFailed: if it does not.
        """
        with open(self._folder / "log", "wb") as log:
            self._process = process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env=self._environment,
                preexec_fn=pinned(self._cores),
            )
        return Server(process.pid, awaitPort(process, self._folder, self._service), self._restart)

    def _restart(self) -> Server:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        for path in self._folder.glob("*.ports"):
            path.unlink()
        return self.start()

    def stop(self) -> None:
        """
        End it: politely, then not.
        """
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOPPING)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def proveRefusal(port: int, setting: Setting) -> None:
    """
    Publish where the setting forbids it: a server that takes it does not have permissions on.

    @raise ServerFailed: if it is not refused.
    """
    words = dict(zip(setting.load[::2], setting.load[1::2], strict=True))
    connect = {"verbose": False, "user": words["--user"], "pass": words["--password"]}
    lines = f"CONNECT {json.dumps(connect)}\r\nPUB {setting.forbidden} 1\r\nx\r\nPING\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=STARTING) as connection:
        connection.sendall(lines.encode())
        answer = b""
        while b"PONG" not in answer and b"-ERR" not in answer:
            received = connection.recv(65536)
            if not received:
                break
            answer += received
    if b"Permissions Violation" not in answer:
        raise ServerFailed(f"a user may publish to {setting.forbidden}, which is forbidden")
