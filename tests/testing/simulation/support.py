"""
Two machines and what runs on them.
"""

from __future__ import annotations

from random import Random
from typing import Any

from twisted.internet.protocol import ClientFactory, Factory, Protocol

from natsbroker.testing.simulation.clock import SimulatedClock
from natsbroker.testing.simulation.network import Network

__all__ = ["Notes", "Pair"]


class Notes(Protocol):
    """A protocol that notes its events."""

    def __init__(self) -> None:
        self.got = b""
        self.pieces = 0
        self.lost = ""
        self.calls: list[str] = []

    def dataReceived(self, data: bytes) -> None:
        self.got += data
        self.pieces += 1

    def connectionLost(self, reason: Any = None) -> None:
        self.lost = reason.type.__name__

    def pauseProducing(self) -> None:
        """Note the pause."""
        self.calls.append("pause")

    def resumeProducing(self) -> None:
        """Note the resumption."""
        self.calls.append("resume")

    def stopProducing(self) -> None:
        """Note the stop."""
        self.calls.append("stop")


class Dialling(ClientFactory):
    """A factory that remembers why connecting failed."""

    noisy = False

    def __init__(self, protocol: Notes) -> None:
        self.made = protocol
        self.failed = ""

    def buildProtocol(self, addr: Any) -> Notes:
        """Make the protocol."""
        return self.made

    def clientConnectionFailed(self, connector: Any, reason: Any) -> None:
        self.failed = reason.type.__name__


class RequestResponder(Factory):
    """A factory that remembers the protocols that it made."""

    noisy = False

    def __init__(self) -> None:
        self.made: list[Notes] = []

    def buildProtocol(self, addr: Any) -> Notes:
        """Make another protocol."""
        self.made.append(Notes())
        return self.made[-1]


class Pair:
    """
    Two machines; the second listens on port 7.
    """

    def __init__(self, seed: int = 1) -> None:
        self.clock = SimulatedClock()
        self.network = Network(self.clock, Random(seed))
        self.one, self.two = self.network.host("10.0.0.1"), self.network.host("10.0.0.2")
        self.answering = RequestResponder()
        self.port = self.two.listenTCP(7, self.answering)

    def dial(self, port: int = 7, timeout: float = 5.0) -> Dialling:
        """Begin to connect."""
        dialling = Dialling(Notes())
        self.one.connectTCP("10.0.0.2", port, dialling, timeout)
        return dialling

    def connect(self) -> tuple[Any, Any]:
        """Connect, and return the protocols of both ends."""
        dialling = self.dial()
        self.clock.advance(1)
        return dialling.made, self.answering.made[-1]
