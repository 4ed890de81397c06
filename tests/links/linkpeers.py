"""
Shared parts of the tests of links of every kind: a clock that only the test moves, and peers that
the test plays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock

from natsbroker import hot
from natsbroker.config.model import AuthorizationSettings, Settings
from natsbroker.connections.s2stream import S2Decoder
from natsbroker.connections.wheel import DeadlineWheel
from natsbroker.links.context import LinkContext
from natsbroker.links.protocol import LinkProtocol
from natsbroker.testing.transport import MemoryTransport
from natsbroker.wire.values import Kind, Message
from tests.links.s2frames import BEGIN, plain
from tests.support import Recorder

__all__ = ["AccountNode", "LinkNode", "LinkWire", "linked", "said"]


def said(operation: bytes, usual: Mapping[str, Any], changes: Mapping[str, Any]) -> bytes:
    """A usual line of a peer, with some fields replaced."""
    return b"%b %b \r\n" % (operation, json.dumps({**usual, **changes}).encode())


def linked(timeout: float = 2.0, **changes: Any) -> Settings:
    """
    @param timeout: the time for the handshake.
    @return: settings of links.
    """
    usual = {"ping_interval": 30.0, "max_control_line": 1 << 16, "max_payload": 64 << 20}
    authorization = AuthorizationSettings(timeout=timeout)
    return Settings(**{**usual, **changes}, authorization=authorization)


class LinkNode:
    """
    A broker with only what links need.

    @ivar context: the common state of its links.
    """

    def __init__(self, clock: Clock | None, random: Random, limits: Settings | None) -> None:
        self.clock = clock or Clock()
        self.batch = hot.FlushBatch(lambda call: self.clock.callLater(0, call))
        self.random = random
        self.context = LinkContext(
            self.clock, self.batch, DeadlineWheel(self.clock), self.random, limits or linked()
        )

    def settle(self, seconds: float = 0.0) -> None:
        """Run all calls that are due."""
        for _ in range(60):
            self.clock.advance(0)
        if seconds:
            steps = max(int(seconds / 0.05), 1)
            self.clock.pump([seconds / steps] * steps)
            self.settle()


class AccountNode(LinkNode):
    """
    A broker with accounts too.

    @ivar buses: the accounts by name, as C{accounts}.
    """

    buses: Any

    def bus(self, account: str = "A") -> Any:
        """A bus of an account for clients."""
        return self.buses.accounts[account].busFor(Kind.CLIENT)

    def subscribe(self, pattern: bytes, queue: bytes = b"", account: str = "A") -> Recorder:
        """Subscribe as a client."""
        recorder = Recorder()
        recorder.subscription = self.bus(account).subscribe(pattern, recorder, None, queue)
        self.settle()
        return recorder

    def publish(self, subject: bytes, body: bytes = b"hi", account: str = "A", **more: Any) -> int:
        """Publish as a client."""
        message = Message(subject, body, **{"origin": SOMEBODY, **more})
        count = int(self.bus(account).publish(message))
        self.settle()
        return count


#: A client that publishes here.
SOMEBODY = object()


class LinkWire:
    """
    A peer that the test plays.

    @cvar INTRODUCTIONS: the beginnings of lines that L{lines} omits.
    """

    INTRODUCTIONS: tuple[bytes, ...] = (b"INFO", b"CONNECT")

    def __init__(self, node: LinkNode, protocol: LinkProtocol) -> None:
        self.node = node
        self.protocol = protocol
        address = IPv4Address("TCP", "127.0.0.9", 50000)
        self.transport = MemoryTransport(node.clock, protocol, address)
        self.transport.connect()
        node.settle()

    def send(self, data: bytes) -> None:
        """Send data to the broker."""
        self.transport.send(data)
        self.node.settle()

    def take(self) -> bytes:
        """The bytes sent to the peer since the last call."""
        self.node.settle()
        return self.transport.take()

    def lines(self) -> list[bytes]:
        """The lines sent to the peer, without introductions."""
        lines = self.take().split(b"\r\n")
        return [line for line in lines if line and not line.startswith(self.INTRODUCTIONS)]

    def documents(self, operation: bytes = b"INFO") -> list[dict[str, Any]]:
        """The INFOs, or CONNECTs, in the output to the peer."""
        lines = self.take().split(b"\r\n")
        return [json.loads(line.split(b" ", 1)[1]) for line in lines if line.startswith(operation)]

    def squeeze(self, *pieces: bytes) -> None:
        """Send data in S2, each piece in its own chunk."""
        self.send(BEGIN + b"".join(map(plain, pieces)))

    def unpack(self) -> tuple[bytes, bytes]:
        """The output to the peer: its plain part, and its decompressed part."""
        before, begin, stream = self.take().partition(BEGIN)
        decoder, data = S2Decoder(), b""
        decoder.feed(begin + stream)
        while not decoder.isStarved:
            data += decoder.read(1 << 20)
        return before, data

    def hangUp(self) -> None:
        """Close the connection."""
        self.transport.hangUp()
        self.node.settle()

    @property
    def link(self) -> Any:
        """The broker's side of the connection."""
        return self.protocol.link

    @property
    def closed(self) -> str:
        """The reason for which the connection was closed; empty while it is open."""
        return str(self.link.reason)
