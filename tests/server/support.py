"""
Shared parts of the tests of the composition: a whole broker on a reactor in memory, and its log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import globalLogPublisher

from natsbroker.advisories import Advisory
from natsbroker.broker import Broker
from natsbroker.config.model import Logging, Settings
from natsbroker.daemon.logs import LineLog
from natsbroker.server.configuration.build import buildText
from natsbroker.testing.transport import MemoryTransport
from tests.support import QUIET

__all__ = ["Advisories", "Client", "Host", "logLines", "settingsOf"]


def settingsOf(text: str) -> Settings:
    """The settings that a configuration text makes."""
    return buildText(text, {}).settings


@contextmanager
def logLines(debug: bool = True) -> Iterator[list[str]]:
    """The lines that are logged meanwhile, without time and process id."""
    lines: list[str] = []
    settings = Logging(debug=debug, logtime=False)
    observer = LineLog(lambda label, line: lines.append(line[4:].rstrip("\n")), settings, pid=1)
    globalLogPublisher.addObserver(observer)
    try:
        yield lines
    finally:
        globalLogPublisher.removeObserver(observer)


class Advisories:
    """
    An observer that records advisories.

    @ivar seen: every advisory.
    """

    def __init__(self) -> None:
        self.seen: list[Advisory] = []

    def observe(self, advisory: Advisory) -> None:
        self.seen.append(advisory)


class Client:
    """
    One client's end of a connection to a L{Host}.
    """

    def __init__(self, host: Host, transport: MemoryTransport, protocol: Any) -> None:
        self._host = host
        self.transport = transport
        self.protocol = protocol
        self._session = getattr(protocol, "session", None)

    @property
    def session(self) -> Any:
        """The broker's session, which the protocol forgets at the end."""
        self._session = getattr(self.protocol, "session", None) or self._session
        return self._session

    def ask(self, *data: bytes) -> bytes:
        """Send bytes and give what comes."""
        for byte in data:
            self.transport.send(byte)
        return self.receive()

    def receive(self) -> bytes:
        """Take the bytes since the last call."""
        self._host.settle()
        return self.transport.take()

    @property
    def closed(self) -> str:
        """The way in which the connection ended; empty while it is open."""
        self._host.settle()
        return self.transport.closed


class Host:
    """
    A broker in memory.

    @ivar reactor: its reactor; listens nowhere.
    @ivar broker: the broker.
    """

    def __init__(self, settings: Settings | str = "", **arguments: Any) -> None:
        if isinstance(settings, str):
            settings = settingsOf(settings) if settings else Settings()
        self.reactor: Any = MemoryReactorClock()
        arguments.setdefault("random", Random(1))
        self.broker = Broker(settings, reactor=self.reactor, **arguments)

    @classmethod
    def around(cls, broker: Broker) -> Host:
        """The host of an existing broker on a reactor in memory."""
        host = cls.__new__(cls)
        host.broker, host.reactor = broker, broker.reactor
        return host

    def start(self) -> Host:
        """Start the broker."""
        self.broker.startService()
        return self

    def reload(self, text: str) -> None:
        """Have the broker take another configuration."""
        self.broker.reload(settingsOf(text))

    def dial(self, address: str = "127.0.0.1", listener: int = 0) -> Client:
        """Connect, and leave INFO unread."""
        factory = list(self.broker.listeners)[listener].factory
        peer = IPv4Address("TCP", address, 50000)
        protocol: Any = factory.buildProtocol(peer)
        transport = MemoryTransport(self.reactor, protocol, peer)
        transport.connect()
        return Client(self, transport, protocol)

    def client(self, hello: bytes = QUIET) -> Client:
        """Connect, read INFO, send CONNECT, and read the answer."""
        client = self.dial()
        client.receive()
        client.ask(hello)
        return client

    def settle(self) -> None:
        """Run the calls that are due now."""
        for _ in range(4):
            self.reactor.advance(0)

    def advance(self, seconds: float) -> None:
        """Let time pass, in steps."""
        for _ in range(round(seconds / 0.05)):
            self.reactor.advance(0.05)
        self.settle()
