"""
Connections that another process has accepted.
"""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.testing import StringTransport

from natsbroker.clients.adoption import Adoption, adopt
from natsbroker.config.model import AuthorizationSettings, Settings
from natsbroker.testing.transport import MemoryTransport
from tests.connections.realreactor import POLLED
from tests.connections.test_poller import Peer, Server
from tests.support import COMPILED, QUIET, Doorkeeper, World, onEach, using

if sys.platform == "linux":
    from natsbroker.connections.poller import PolledServer


@onEach
class TestSessions:
    """Sessions that continue connections of another process."""

    pytestmark = pytest.mark.usefixtures("implementation")

    def begun(self, world: World, adoption: Adoption) -> tuple[Any, Any]:
        """A connection, and its transport."""
        protocol: Any = world.factory.buildProtocol(None)
        protocol.adoption = adoption
        transport = MemoryTransport(world.clock, protocol)
        transport.connect()
        world.settle()
        return protocol, transport

    def test_introduced(self) -> None:
        """
        A client that has already received INFO gets none before its CONNECT, and signs the nonce of
        the first one.
        """
        keeper = Doorkeeper(required=True, nonce=True)
        protocol: Any = World(authorizer=keeper).factory.buildProtocol(None)
        protocol.adoption = Adoption(77, "NONCE")
        transport: Any = StringTransport()
        protocol.makeConnection(transport)
        assert transport.value() == b""
        protocol.dataReceived(QUIET + b"PING\r\n")
        assert transport.value() == b"PONG\r\n"
        assert (keeper.asked[0].nonce, keeper.asked[0].cid) == ("NONCE", 77)

    def test_unintroduced(self) -> None:
        """
        A client that has not received INFO gets one here, with the number assigned by the other
        process.
        """
        world = World()
        protocol, transport = self.begun(world, Adoption(77))
        assert re.match(rb'INFO .*"client_id":77,', transport.take())
        assert world.context.connections.get(77) is protocol.session

    @pytest.mark.parametrize("nonce", ["", None])
    def test_excess(self, nonce: str | None) -> None:
        """A client beyond the limit of connections is refused, after INFO."""
        _, transport = self.begun(World(), Adoption(77, nonce, isExcess=True))
        info = rb"INFO [^\n]*\n" if nonce is None else b""
        assert re.fullmatch(info + b"-ERR 'maximum connections exceeded'\r\n", transport.take())
        assert transport.closed == "lost"

    def test_deadline(self) -> None:
        """The time to log in includes the time that the client has waited since INFO."""
        settings = Settings(authorization=AuthorizationSettings(timeout=2.0))
        world = World(settings, authorizer=Doorkeeper(required=True))
        _, transport = self.begun(world, Adoption(77, "", waited=1.5))
        world.advance(0.4)
        assert transport.take() == b""
        world.advance(0.3)
        assert transport.take() == b"-ERR 'Authentication Timeout'\r\n"


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that is stopped afterwards."""
    assert COMPILED is not None
    with using(COMPILED):
        made = Server(Settings())
        try:
            yield made
        finally:
            made.stop()


class TestSockets:
    """Sockets that another process has accepted."""

    pytestmark = POLLED

    def adopted(self, server: Server, read: bytes, **options: Any) -> tuple[Peer, Any]:
        """A client, and the protocol of its adopted connection."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            theirs = socket.create_connection(listening.getsockname())
            ours, _ = listening.accept()
        peer = Peer(server, theirs)
        server.peers.append(peer)
        poller = options.pop("poller", server.poller)
        factory = server.port.factory
        place = options.pop("place", ("127.0.0.7", 5))
        ended = options.pop("ended", None)
        adoption = Adoption(9, "", **options)
        made = adopt(server.reactor, factory, poller, ours, place, read, adoption, ended)
        return peer, made

    def test_polled(self, server: Server) -> None:
        """
        Input that the other process has read is handled first. Later input comes through the
        poller.
        """
        peer, protocol = self.adopted(server, QUIET + b"SUB foo 1\r\nPUB foo 4\r\nno")
        assert type(protocol.transport) is PolledServer
        assert (protocol.host, protocol.port) == ("127.0.0.7", 5)
        assert "127.0.0.7" in repr(protocol.transport)
        peer.send(b"ne\r\nPUB foo 2\r\nhi\r\nPING\r\n")
        expected = b"MSG foo 1 4\r\nnone\r\nMSG foo 1 2\r\nhi\r\nPONG\r\n"
        assert peer.readUntil(b"PONG\r\n") == expected

    @pytest.mark.parametrize("place", [("127.0.0.7", 5), ("::1", 5)])
    def test_ordinary(self, server: Server, place: tuple[str, int]) -> None:
        """Without a poller an adopted connection has a transport of Twisted."""
        peer, protocol = self.adopted(server, b"", poller=None, place=place)
        assert protocol.transport.getPeer().host == place[0]
        peer.send(QUIET + b"PING\r\n")
        assert peer.readUntil(b"PONG\r\n") == b"PONG\r\n"

    def test_ended(self, server: Server) -> None:
        """The callback for the end of a connection is called once."""
        ends: list[int] = []
        peer, _ = self.adopted(server, b"", ended=lambda: ends.append(1))
        peer.send(QUIET + b"PING\r\n")
        assert peer.readUntil(b"PONG\r\n") == b"PONG\r\n" and not ends
        peer.socket.close()
        server.until(lambda: ends)
        server.reactor.iterate()
        assert ends == [1]

    def test_left(self, server: Server) -> None:
        """A client that has already disconnected is dropped."""
        peer, protocol = self.adopted(server, QUIET)
        session = protocol.session
        peer.socket.close()
        server.until(lambda: not len(server.context.connections))
        assert session.reason == "Client Closed"
