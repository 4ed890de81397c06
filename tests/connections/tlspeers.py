"""
The peer of a TLS connection, in memory.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import (
    ISSLTransport,
)
from zope.interface import directlyProvides

from natsbroker.clients.tls import TLSClientFactory
from natsbroker.config.tls import TLSSettings
from natsbroker.connections.tls import Begin, TLSTerms
from natsbroker.testing.transport import MemoryTransport
from tests.support import World

CREATOR: Any = object()


class Secure(MemoryTransport):
    """
    A transport that pretends to do TLS.

    @ivar started: the arguments of C{startTLS}.
    @ivar clear: the bytes written before that.
    @ivar handshake: the input of the TLS layer.
    """

    def __init__(self, clock: Any, protocol: Any, peer: Any) -> None:
        super().__init__(clock, protocol, peer)
        self.protocol = self
        self.transport = self
        self.started: list[Any] = []
        self.clear = b""
        self.handshake = b""
        self.peerCertificate: Any = None

    def startTLS(self, creator: Any) -> None:
        self.started.append(creator)
        self.clear = bytes(self._waiting) + bytes(self._taken)

    def dataReceived(self, data: bytes) -> None:
        """Receive a part of the handshake."""
        self.handshake += data

    def getPeerCertificate(self) -> Any:
        return self.peerCertificate


class Peer:
    """A client of a listener with these terms."""

    def __init__(
        self, begin: Begin, world: World | None = None, optional: bool = False, **settings: Any
    ) -> None:
        """
        @param settings: the keys of TLS; C{isProxied} is that of the listener.
        """
        self.world = world or World()
        self.begin = begin
        isBeforeUs = begin is Begin.BEFORE_US
        isProxied = settings.pop("isProxied", False)
        usual = {"handshake_first_fallback": 0.05, **settings}
        begins = Begin.AFTER_INFO if isBeforeUs else begin
        asked = TLSTerms(CREATOR, begins, TLSSettings(**usual), optional)
        self.factory = TLSClientFactory(self.world.context, asked, isProxied)
        address = IPv4Address("TCP", "127.0.0.1", 50000)
        self.protocol = self.factory.buildProtocol(address)
        self.transport = Secure(self.world.clock, self.protocol, address)
        if isBeforeUs:
            directlyProvides(self.transport, ISSLTransport)
        self.transport.connect()
        self.session = self.protocol.session

    def ask(self, data: bytes) -> bytes:
        """Send bytes, and return the output."""
        self.transport.send(data)
        return self.receive()

    def receive(self) -> bytes:
        """The bytes since the last call."""
        self.world.settle()
        return self.transport.take()

    def shake(self, shown: Any = None) -> None:
        """Finish the handshake."""
        assert self.transport.started == [CREATOR] or self.begin is Begin.BEFORE_US
        self.transport.peerCertificate = shown
        self.protocol.handshakeCompleted()

    @property
    def isShaking(self) -> bool:
        """Whether a handshake has begun."""
        return bool(self.transport.started)

    @property
    def closed(self) -> Any:
        """The way in which the connection ended."""
        self.world.settle()
        return self.transport.closed

    @property
    def reason(self) -> str:
        """The reason of the closed connection."""
        assert self.session is not None
        return self.session.reason
