"""
Routes over plain TCP with compiled buffers, with real sockets and a separate reactor.
"""

from __future__ import annotations

import random
import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.protocol import Protocol
from twisted.internet.tcp import Server
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory

from natsbroker.connections.polledtransport import PolledTransport, pollTransport, unsentBy
from natsbroker.connections.s2stream import S2Decoder
from natsbroker.links.protocol import LinkFactory
from natsbroker.testing.transport import MemoryTransport
from natsbroker.wire.compression import Compression
from natsbroker.wire.values import Message
from tests.connections.realreactor import POLLED, RealReactor
from tests.links.s2frames import BEGIN, plain
from tests.routes.clusters import Node, connect, info, target
from tests.support import COMPILED, using

if sys.platform == "linux":
    from natsbroker.connections.poller import SocketPoller

pytestmark = POLLED


class Place(RealReactor):
    """A member that listens for routes, and dials them."""

    def __init__(self, mode: str = "accept") -> None:
        super().__init__()
        self.node = Node(clock=self.reactor, compression=Compression(mode))
        self.poller = SocketPoller(self.reactor, self.node.batch)
        self.node.context.poller = self.poller
        factory = LinkFactory(self.node.cluster.routeFor(None), None)
        self.port = self.reactor.listenTCP(0, factory, interface="127.0.0.1")
        self.sockets: list[socket.socket] = []

    def kept(self, peer: socket.socket) -> socket.socket:
        """A peer's socket, which never blocks, and is closed after the test."""
        peer.setblocking(False)
        self.sockets.append(peer)
        return peer

    def dialled(self) -> socket.socket:
        """A peer that connects as a route, and is accepted as a member."""
        peer = self.kept(socket.create_connection(("127.0.0.1", self.port.getHost().port)))
        peer.send(connect() + info() + b"PING\r\n")
        assert self.read(peer, b"PONG\r\n").startswith(b"INFO ")
        return peer

    def compressing(self) -> socket.socket:
        """A peer that has negotiated S2."""
        peer = self.kept(socket.create_connection(("127.0.0.1", self.port.getHost().port)))
        introduction = info(compression="s2_fast")
        peer.send(connect() + introduction + BEGIN + plain(introduction + b"PING\r\n"))
        stream = self.read(peer, plain(b"PONG\r\n"))
        assert stream.startswith(b"INFO ") and stream.count(BEGIN) >= 1
        return peer

    def unpacked(self, peer: socket.socket, end: bytes) -> bytes:
        """The S2 input of a peer, up to an ending."""
        decoder, data = S2Decoder(), b""

        def there() -> bool:
            nonlocal data
            try:
                decoder.feed(peer.recv(1 << 20))
            except BlockingIOError:
                pass
            while not decoder.isStarved:
                data += decoder.read(1 << 20)
            return data.endswith(end)

        self.until(there)
        return data

    def read(self, peer: socket.socket, end: bytes) -> bytes:
        """The input of a peer, up to an ending."""
        data = b""

        def there() -> bool:
            nonlocal data
            try:
                data += peer.recv(1 << 20)
            except BlockingIOError:
                pass
            return data.endswith(end)

        self.until(there)
        return data

    @property
    def stream(self) -> Any:
        """The stream that the only route writes to."""
        (route,) = self.node.cluster
        peer: Any = route.peer
        return peer._stream

    def stop(self) -> None:
        """Close everything."""
        self.node.cluster.close(lambda: None)
        self.until(lambda: not len(self.node.cluster))
        assert len(self.poller.sockets) == 0
        for peer in self.sockets:
            peer.close()
        self.port.stopListening()
        self.poller.close()
        self.end()


@pytest.fixture
def place() -> Iterator[Place]:
    """A member that is stopped afterwards."""
    assert COMPILED is not None
    with using(COMPILED):
        made = Place()
        try:
            yield made
        finally:
            made.stop()


def test_accepted(place: Place) -> None:
    """An accepted route goes through the poller, and messages pass in both directions."""
    peer = place.dialled()
    assert type(place.stream) is PolledTransport
    assert len(place.poller.sockets) == 1
    peer.send(b"RS+ A foo\r\nPING\r\n")
    place.read(peer, b"PONG\r\n")
    place.node.bus().publish(Message(b"foo", b"there"))
    assert place.read(peer, b"there\r\n") == b"RMSG A foo 5\r\nthere\r\n"


def test_dialled(place: Place) -> None:
    """A link that we dialled is given to the poller."""
    listening = place.kept(socket.create_server(("127.0.0.1", 0)))
    number = listening.getsockname()[1]
    endpoint = TCP4ClientEndpoint(place.reactor, "127.0.0.1", number)
    endpoint.connect(LinkFactory(place.node.cluster.routeFor(target(number)), None))
    sockets: list[socket.socket] = []

    def accepted() -> bool:
        try:
            sockets.append(listening.accept()[0])
        except BlockingIOError:
            pass
        return bool(sockets)

    place.until(accepted)
    peer = place.kept(sockets[0])
    assert place.read(peer, b"\r\n").startswith(b"CONNECT ")
    assert type(place.stream) is PolledTransport
    peer.send(info() + b"PING\r\n")
    place.read(peer, b"PONG\r\n")
    assert place.node.peers() == ["peer"]


def test_large(place: Place) -> None:
    """A message larger than any buffer waits until the peer reads, and arrives in order."""
    peer = place.dialled()
    peer.send(b"RS+ A foo\r\nPING\r\n")
    place.read(peer, b"PONG\r\n")
    bodies = [bytes([number]) * 1_000_000 for number in range(8)]
    for body in bodies:
        place.node.bus().publish(Message(b"foo", body))
    expected = b"".join(b"RMSG A foo 1000000\r\n%b\r\n" % body for body in bodies)
    assert place.read(peer, bodies[-1] + b"\r\n") == expected


def test_routeGetsTheReasonBeforeTheEnd(place: Place) -> None:
    """A peer that is refused gets the reason before the end."""
    peer = place.kept(socket.create_connection(("127.0.0.1", place.port.getHost().port)))
    peer.send(b"NONSENSE\r\n")
    data = b""

    def ended() -> bool:
        nonlocal data
        try:
            more = peer.recv(1 << 16)
        except BlockingIOError:
            return False
        data += more
        return not more

    place.until(ended)
    assert data.endswith(b"-ERR 'Authorization Violation'\r\n")
    place.until(lambda: not len(place.node.cluster))


@pytest.mark.parametrize("isAbrupt", [False, True])
def test_peerGoes(place: Place, isAbrupt: bool) -> None:
    """A peer that closes the connection in any way is removed at once, with its socket."""
    peer = place.dialled()
    peer.send(b"RS+ A foo\r\nPING\r\n")
    place.read(peer, b"PONG\r\n")
    if isAbrupt:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    place.until(lambda: not len(place.node.cluster))
    assert not place.node.bus().hasInterest(b"foo")
    assert len(place.poller.sockets) == 0


def test_cut(place: Place) -> None:
    """A peer that reads nothing is disconnected when too much output waits."""
    context = place.node.context
    context.settings = replace(context.settings, max_pending=1_000_000)
    peer = place.dialled()
    peer.send(b"RS+ A foo\r\nPING\r\n")
    place.read(peer, b"PONG\r\n")
    for _ in range(40):
        place.node.bus().publish(Message(b"foo", b"x" * 500_000))
        place.reactor.iterate(0)
    place.until(lambda: not len(place.node.cluster))
    assert len(place.poller.sockets) == 0


def test_paused(place: Place) -> None:
    """Input during a pause is handled after the pause."""
    peer = place.dialled()
    place.stream.pauseProducing()
    peer.send(b"PING\r\n")
    for _ in range(3):
        place.reactor.iterate(0)
    with pytest.raises(BlockingIOError):
        peer.recv(10)
    place.stream.resumeProducing()
    assert place.read(peer, b"PONG\r\n") == b"PONG\r\n"


def test_otherTransports(place: Place) -> None:
    """A transport that is not plain TCP, or has no poller, is left unchanged."""
    route: Any = None
    transport = MemoryTransport(place.reactor, route, route)
    assert pollTransport(place.poller, transport, route) is transport
    peer = place.dialled()
    plain = place.stream._transport
    assert pollTransport(None, plain, route) is plain
    peer.close()


class TestRelay:
    """A protocol between the socket and the session, such as S2."""

    def test_messages(self, place: Place) -> None:
        """A connection with S2 stays in the poller, and messages pass in both directions."""
        peer = place.compressing()
        assert type(place.stream) is PolledTransport and len(place.poller.sockets) == 1
        peer.send(plain(b"RS+ A foo\r\nPI") + plain(b"NG\r\n"))
        place.unpacked(peer, b"PONG\r\n")
        place.node.bus().publish(Message(b"foo", b"there" * 1000))
        said = place.unpacked(peer, b"there\r\n")
        assert said == b"RMSG A foo 5000\r\n" + b"there" * 1000 + b"\r\n"

    def test_large(self, place: Place) -> None:
        """
        A compressed write larger than the socket's buffer waits, is counted, and arrives in order.
        """
        peer = place.compressing()
        peer.send(plain(b"RS+ A foo\r\nPING\r\n"))
        place.unpacked(peer, b"PONG\r\n")
        bodies = [random.Random(number).randbytes(1_000_000) for number in range(9)]
        (route,) = place.node.cluster
        for body in bodies:
            place.node.bus().publish(Message(b"foo", body))
            place.reactor.iterate(0)
        waiting = unsentBy(place.stream)
        assert waiting and route.outbox.pending >= waiting
        expected = b"".join(b"RMSG A foo 1000000\r\n%b\r\n" % body for body in bodies)
        assert place.unpacked(peer, bodies[-1] + b"\r\n") == expected
        place.until(lambda: not route.outbox.pending)

    def test_compressedPeerGetsTheReasonBeforeTheEnd(self, place: Place) -> None:
        """A peer with S2 that is refused gets the reason before the end."""
        peer = place.compressing()
        peer.send(plain(b"NONSENSE\r\n"))
        place.unpacked(peer, b"-ERR 'Unknown Protocol Operation'\r\n")
        place.until(lambda: not len(place.node.cluster) and not len(place.poller.sockets))

    @pytest.mark.parametrize("isAbrupt", [False, True])
    def test_peerGoes(self, place: Place, isAbrupt: bool) -> None:
        """A peer with S2 that closes the connection is removed at once, with its socket."""
        peer = place.compressing()
        if isAbrupt:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        place.until(lambda: not len(place.node.cluster) and not len(place.poller.sockets))

    def test_cut(self, place: Place) -> None:
        """A peer with S2 that reads nothing is disconnected when too much output waits."""
        context = place.node.context
        context.settings = replace(context.settings, max_pending=1_000_000)
        peer = place.compressing()
        peer.send(plain(b"RS+ A foo\r\nPING\r\n"))
        place.unpacked(peer, b"PONG\r\n")
        for number in range(40):
            place.node.bus().publish(Message(b"foo", random.Random(number).randbytes(500_000)))
            place.reactor.iterate(0)
        place.until(lambda: not len(place.node.cluster))
        assert len(place.poller.sockets) == 0

    def test_paused(self, place: Place) -> None:
        """Compressed input during a pause is handled after the pause."""
        peer = place.compressing()
        (route,) = place.node.cluster
        route.peer.pauseReading()
        peer.send(plain(b"PING\r\n"))
        for _ in range(3):
            place.reactor.iterate(0)
        with pytest.raises(BlockingIOError):
            peer.recv(10)
        route.peer.resumeReading()
        assert place.unpacked(peer, b"PONG\r\n") == b"PONG\r\n"


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A socket pair with a small buffer."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2048)
    yield ours, theirs
    ours.close()
    theirs.close()


def serverOver(end: socket.socket) -> Any:
    """A transport of Twisted whose reactor does nothing by itself."""
    reactor: Any = MemoryReactorClock()
    port: Any = None
    return Server(end, Protocol(), ("127.0.0.1", 1), port, 1, reactor)


def test_unsent(ends: tuple[socket.socket, socket.socket]) -> None:
    """Unsent output includes new, waiting and partly sent output."""
    transport = serverOver(ends[0])
    assert unsentBy(transport) == 0
    transport.write(b"x" * 300_000)
    assert unsentBy(transport) == 300_000
    transport.doWrite()
    sent = 300_000 - unsentBy(transport)
    assert 0 < sent < 300_000
    assert len(ends[1].recv(1 << 20)) == sent
    transport.write(b"y" * 1_000)
    assert unsentBy(transport) == 301_000 - sent


def test_layers(ends: tuple[socket.socket, socket.socket]) -> None:
    """The unsent output of a layer such as TLS is that of the transport below."""
    transport = serverOver(ends[0])
    wrapper = ProtocolWrapper(WrappingFactory(None), Protocol())
    wrapper.makeConnection(transport)
    wrapper.write(b"abc")
    assert unsentBy(wrapper) == 3


def test_otherTransportsHoldNothing() -> None:
    """A transport that does not report its pending bytes counts as empty."""
    transport = StringTransport()
    transport.write(b"abc")
    assert unsentBy(transport) == 0
