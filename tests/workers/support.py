"""Workers that are not processes: the other ends of channels, on a reactor in memory."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.testing import MemoryReactorClock

from natsbroker.advisories import Advisory
from natsbroker.clients.info import ServerInfo
from natsbroker.config.model import Settings
from natsbroker.server.configuration.build import buildText
from natsbroker.workers.channel import HEADER, ControlChannel, pickled
from natsbroker.workers.messages import (
    Heartbeat,
    PartShown,
    Ready,
    ShowPart,
    Speak,
)
from natsbroker.workers.supervisor import Supervisor

INFO = ServerInfo("ID", "name", "2.15.1", "0.1.0")


def frameOf(message: object, descriptors: int = 0) -> bytes:
    """A frame that is sent by itself."""
    body = pickled(message)
    return HEADER.pack(len(body), descriptors, descriptors) + body


class Port:
    """A listening port that notes whether it accepts."""

    transport: Any = None
    disconnected = False

    def __init__(self, factory: Any, number: int) -> None:
        self.factory = factory
        self.isReading = True
        self._number = number
        self._callers: list[socket.socket] = []

    def startReading(self) -> None:
        self.isReading = True

    def stopReading(self) -> None:
        self.isReading = False

    def stopListening(self) -> None:
        self.isReading, self.disconnected = False, True

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", "127.0.0.1", self._number)

    def accept(self) -> socket.socket:
        """The client's end of a connection that is accepted."""
        [client] = self.acceptAll(1)
        return client

    def acceptAll(self, count: int) -> list[socket.socket]:
        """The clients' ends of connections that are accepted at once."""
        pairs = [socket.socketpair() for _ in range(count)]
        self._callers += [ours for ours, _ in pairs]
        self.doRead()
        return [theirs for _, theirs in pairs]

    def doRead(self) -> None:
        while self._callers:
            ours = self._callers.pop(0)
            protocol = self.factory.buildProtocol(IPv4Address("TCP", "127.0.0.1", 5))
            protocol.makeConnection(self.transport(ours, protocol, ("127.0.0.1", 5), self, 1, None))


class Process:
    """
    A simulated process of a worker.

    @ivar said: the messages that it was sent.
    @ivar passed: the descriptors that came with them.
    @ivar isSpeaking: whether it speaks for the server.
    """

    def __init__(self, pid: int, line: Callable[[str], object], ended: Callable[[str], object]):
        self.pid = pid
        self.line = line
        self.signals: list[str] = []
        self.said: list[Any] = []
        self.passed: list[int] = []
        self.isSpeaking = False
        self._isEnding = False
        self._ended = ended
        self.ours, theirs = socket.socketpair()
        self.channel = ControlChannel(MemoryReactorClock(), theirs, self._received, lambda: None)

    def _received(self, message: Any, descriptors: tuple[int, ...]) -> None:
        if isinstance(message, Speak):
            self.isSpeaking = message.isSpeaking
        elif isinstance(message, Heartbeat):
            if not self._isEnding:
                self.channel.send(message)
        else:
            self.said.append(message)
        self.passed += descriptors

    def read(self) -> list[Any]:
        """The messages since the last call."""
        before = len(self.said)
        self.channel.drain()
        return self.said[before:]

    def signalProcess(self, name: str) -> None:
        self.signals.append(name)
        self.end(f"signal {name}")

    def end(self, how: str = "exit code 0") -> None:
        """End the process and close its sockets."""
        self._isEnding = True
        self.channel.drain()
        self.channel.close()
        for descriptor in self.passed:
            os.close(descriptor)
        self.passed = []
        self._ended(how)


CHOSEN = 5000
"""The number of a port that the test's kernel chooses."""


class Reactor(MemoryReactorClock):
    """A reactor whose ports are in memory."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ports: list[Port] = []

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> Any:
        self.ports.append(Port(factory, port or CHOSEN))
        return self.ports[-1]


class World:
    """
    A supervisor in memory.

    @ivar started: every process that was started, in order.
    """

    def __init__(self, text: str = "", count: int = 2) -> None:
        self.reactor: Any = Reactor()
        self.started: list[Process] = []
        settings = buildText(f'workers: {count}, listen: "127.0.0.1:4333"\n{text}', {}).settings
        self.supervisor = Supervisor(
            settings, reactor=self.reactor, spawn=self._spawn, random=lambda size: bytes(size)
        )

    @property
    def port(self) -> Any:
        """The port on which the parent listens for clients."""
        return self.reactor.ports[0]

    def _spawn(self, reactor: Any, line: Any, ended: Any) -> tuple[Process, socket.socket]:
        process = Process(100 + len(self.started), line, ended)
        self.started.append(process)
        return process, process.ours

    def start(self) -> World:
        """Start with all workers ready."""
        self.supervisor.startService()
        for process in list(self.started):
            self.ready(process)
        return self

    def ready(self, process: Process) -> None:
        """Report that a worker is ready."""
        process.read()
        self.say(process, Ready(INFO, {}))

    def say(self, process: Process, *messages: object) -> None:
        """Send a message from a worker, and have the parent read it."""
        for message in messages:
            process.channel.send(message)
        for slot in self.supervisor.slots:
            if slot.pid == process.pid:
                slot.read()

    def announced(self, process: Process) -> Advisory:
        """The server's event that a worker was told to publish, which it then does."""
        [message] = process.read()
        assert (type(message), message.name) == (ShowPart, "announce")
        self.say(process, PartShown(message.number, None))
        [advisory] = message.arguments
        assert isinstance(advisory, Advisory)
        return advisory

    def close(self) -> None:
        """End all processes."""
        stopping = self.supervisor.stopService()
        for process in self.started:
            if process.channel.fileno() >= 0:
                process.end()
        assert stopping.called

    @property
    def settings(self) -> Settings:
        return self.supervisor.settings


Make = Callable[..., World]
"""Makes worlds that are closed at the end."""


class Neighbour:
    """A route to another worker."""

    remoteId = "other"
    reason = ""
    pongs = 1
    pings = 0

    def ping(self) -> None:
        self.pings += 1
