"""
Brokers with links on a reactor in memory, and the peers at the other ends.

Nothing listens and nothing is dialled; the test opens each connection.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.error import CannotListenError, ConnectionRefusedError
from twisted.python.failure import Failure

from natsbroker.testing.transport import MemoryTransport
from tests.server.support import Host

__all__ = ["LinkHost", "occupy"]


def occupy(reactor: Any, taken: int) -> None:
    """Make a port appear in use."""
    listen = reactor.listenTCP

    def refuse(port: int, *arguments: Any, **more: Any) -> Any:
        if port == taken:
            raise CannotListenError("127.0.0.1", port, OSError(98, "Address already in use"))
        return listen(port, *arguments, **more)

    reactor.listenTCP = refuse


class LinkHost(Host):
    """
    A broker with links.
    """

    def factory(self, port: int) -> Any:
        """The factory of connections on a port."""
        (server,) = [listening[1] for listening in self.reactor.tcpServers if listening[0] == port]
        return server

    def accepted(self, port: int, said: bytes = b"") -> MemoryTransport:
        """A peer that connects to the broker and sends data."""
        return self._connected(self.factory(port), said)

    def dialled(self) -> list[tuple[str, int]]:
        """The addresses that the broker has dialled so far."""
        return [(client[0], client[1]) for client in self.reactor.tcpClients]

    def answered(self, place: int = -1, said: bytes = b"") -> MemoryTransport:
        """Accept an outgoing connection, and send data."""
        return self._connected(self.reactor.tcpClients[place][2], said)

    def _connected(self, factory: Any, said: bytes) -> MemoryTransport:
        protocol = factory.buildProtocol(None)
        transport = MemoryTransport(self.reactor, protocol, IPv4Address("TCP", "127.0.0.9", 5))
        transport.connect()
        self.settle()
        if said:
            transport.send(said)
            self.settle()
        return transport

    def refuse(self, place: int = -1) -> None:
        """Refuse an outgoing connection."""
        factory = self.reactor.tcpClients[place][2]
        factory.clientConnectionFailed(None, Failure(ConnectionRefusedError()))
        self.settle()
