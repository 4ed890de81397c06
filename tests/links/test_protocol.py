"""
Links over transports.
"""

from __future__ import annotations

from itertools import count, pairwise
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cramjam import snappy
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHalfCloseableProtocol, IHandshakeListener, IPushProducer
from zope.interface.verify import verifyObject

from natsbroker.config.model import TLSSettings
from natsbroker.links.protocol import LinkFactory, LinkProtocol
from natsbroker.links.tls import LinkTLS
from natsbroker.pure.backlog import LONGEST_BATCH
from natsbroker.routes.route import Route
from natsbroker.testing.transport import MemoryTransport
from natsbroker.wire.compression import Compression
from tests.auth.certificates import certificate
from tests.links.linkpeers import linked
from tests.links.s2frames import BEGIN, compressed, plain
from tests.routes.clusters import Node, connect, info, target
from tests.server.support import logLines
from tests.support import Names, onEach, using


class FakeTLS:
    """
    TLS whose handshake the test finishes.

    @ivar names: the names for which connections were made.
    """

    def __init__(self, **values: Any) -> None:
        self.names: list[str | None] = []
        self.settings = TLSSettings(**values)

    def creator(self, name: str | None, owner: object = None) -> object:
        self.names.append(name)
        return self

    def problem(self, certificate: Any, name: str | None) -> str:
        context: Any = None
        return LinkTLS(context, context, self.settings).problem(certificate, name)


class Terms:
    """Terms of OCSP, with one pending check."""

    def __init__(self, asking: Deferred[str]) -> None:
        self._asking = asking

    def vets(self, tls: TLSSettings) -> bool:
        """Check every certificate."""
        return True

    def vet(self, connection: Any, tls: TLSSettings) -> Deferred[str]:
        """Begin a check."""
        return self._asking


class Shown:
    """A certificate as pyOpenSSL gives it."""

    def __init__(self, *names: str) -> None:
        self._certificate = certificate("CN=x", names=names)

    def to_cryptography(self) -> Any:
        """The certificate."""
        return self._certificate


class SecureTransport(MemoryTransport):
    """A transport that pretends to do TLS."""

    shown: Any = None
    started: Any = None

    def startTLS(self, creator: Any) -> None:
        self.started = creator

    def getPeerCertificate(self) -> Any:
        return self.shown


def secured(
    node: Node, name: str | None = None, **values: Any
) -> tuple[LinkProtocol, SecureTransport]:
    """A connection with TLS, dialled by us if a name is given."""
    tls = cast(LinkTLS, FakeTLS(**values))
    goal = None if name is None else target(7777)
    factory = LinkFactory(node.cluster.routeFor(goal), tls, name)
    protocol = factory.buildProtocol(None)
    transport = SecureTransport(node.clock, protocol, IPv4Address("TCP", "127.0.0.9", 5))
    transport.connect()
    node.settle()
    return protocol, transport


class TestHandshake:
    """A TLS handshake before the first line."""

    @pytest.mark.parametrize("name", [None, "localhost"])
    def test_nothingBefore(self, name: str | None) -> None:
        """Nothing is sent before the handshake is finished."""
        node = Node()
        protocol, transport = secured(node, name)
        assert transport.take() == b"" and transport.started.names == [name]
        transport.shown = Shown("localhost")
        protocol.handshakeCompleted()
        node.settle()
        assert transport.take().startswith(b"INFO" if name is None else b"CONNECT")

    def test_wrongName(self) -> None:
        """Nothing is sent to a peer whose certificate has another name."""
        node = Node()
        protocol, transport = secured(node, "localhost")
        transport.shown = Shown("other.example")
        with logLines() as lines:
            protocol.handshakeCompleted()
            node.settle()
        assert transport.take() == b"" and transport.closed == "aborted"
        assert any(
            "TLS handshake error: certificate is not valid for localhost" in x for x in lines
        )

    @pytest.mark.parametrize("problem", ["", "revoked"])
    def test_vetted(self, problem: str) -> None:
        """
        Input of a peer waits while its certificate is being checked, and is then handled or
        dropped.
        """
        node = Node()
        asking: Deferred[str] = Deferred()
        protocol, transport = secured(node, ocsp=Terms(asking))
        transport.shown = Shown()
        protocol.connection = cast(Any, SimpleNamespace(forget=lambda: None))
        protocol._useRecords = lambda *arguments: False  # type: ignore[method-assign]
        protocol.handshakeCompleted()
        node.settle()
        assert transport.take() == b"" and not transport.isReading
        protocol.dataReceived(connect() + info())
        node.settle()
        assert not node.peers()
        asking.callback(problem)
        node.settle()
        assert node.peers() == ([] if problem else ["peer"])
        assert transport.closed == ("aborted" if problem else "")

    def test_insecure(self) -> None:
        """A certificate that cannot be verified is accepted if the settings say so."""
        node = Node()
        protocol, transport = secured(node, "localhost", insecure=True)
        transport.shown = Shown("other.example")
        protocol.handshakeCompleted()
        node.settle()
        assert transport.take().startswith(b"CONNECT")

    def test_notPinned(self) -> None:
        """A certificate whose key is not pinned is refused."""
        node = Node()
        protocol, transport = secured(node, pinned_certs=frozenset({"0" * 64}))
        transport.shown = Shown()
        protocol.handshakeCompleted()
        node.settle()
        assert transport.take() == b"" and transport.closed == "aborted"

    def test_lateHandshake(self) -> None:
        """A handshake that takes too long ends the connection."""
        node = Node()
        _, transport = secured(node)
        node.settle(2.1)
        assert transport.closed == "aborted" and transport.take() == b""
        assert len(node.cluster) == 0

    def test_failed(self) -> None:
        """A failed handshake is logged, and the peer is dialled again."""
        node = Node(targets=(target(7777),))
        _, transport = secured(node, "localhost")
        with logLines() as lines:
            transport.hangUp()
            node.settle(0.1)
        assert any("TLS handshake error" in line for line in lines)
        assert node.dialled == [(target(7777), 1.0)]
        assert not node.clock.getDelayedCalls()


class TestTransport:
    """Links without TLS."""

    def test_interfaces(self) -> None:
        """The protocol provides the interfaces that transports require."""
        protocol = Node().accepted().protocol
        for interface in (IPushProducer, IHalfCloseableProtocol, IHandshakeListener):
            assert verifyObject(interface, protocol)

    def test_lingers(self) -> None:
        """A peer that does not read the last lines is disconnected."""
        node = Node()
        wire = node.joined()
        wire.transport.taking = False
        wire.send(b"FOO\r\n")
        assert wire.transport.connected
        node.settle(1.1)
        assert wire.transport.closed == "aborted"

    def test_takesTheEnd(self) -> None:
        """A peer that reads the last lines gets all of them, and no timer is left."""
        node = Node()
        wire = node.joined()
        wire.send(b"FOO\r\n")
        assert wire.lines() == [b"-ERR 'Unknown Protocol Operation'"]
        assert wire.transport.closed == "lost" and not node.clock.getDelayedCalls()

    def test_backPressure(self) -> None:
        """Output waits in the outbox while the transport is full."""
        node = Node()
        wire = node.joined()
        wire.send(b"RS+ A foo\r\n")
        wire.transport.taking = False
        for _ in range(100):
            node.publish(b"foo", b"x" * 10_000)
        assert wire.transport.waiting < 100_000 and wire.route.outbox.pending > 800_000
        wire.transport.taking = True
        assert wire.take().count(b"RMSG") == 100

    def test_writeLost(self) -> None:
        """A peer that has stopped reading is disconnected."""
        node = Node()
        wire = node.joined()
        wire.protocol.writeConnectionLost()
        node.settle()
        assert wire.transport.closed == "aborted"

    def test_splits(self) -> None:
        """The effect of input does not depend on how it is split."""
        data = connect() + info() + b"RS+ A foo\r\nRMSG A bar 2\r\nhi\r\nPING\r\n"
        for cut in range(0, len(data), 7):
            node = Node()
            recorder = node.subscribe(b"bar")
            wire = node.accepted()
            wire.send(data[:cut])
            wire.send(data[cut:])
            assert recorder.bodies == [b"hi"] and wire.lines()[-1] == b"PONG"
            assert node.publish(b"foo") == 1


#: As much as a session is given in one turn.
TURN = 1 << 18


def joined(**limits: Any) -> tuple[Node, Any]:
    """A member, and a peer that has negotiated S2."""
    node = Node(compression=Compression("s2_fast"), limits=linked(**limits))
    wire = node.accepted()
    wire.send(connect() + info(compression="s2_fast"))
    wire.squeeze(info(compression="s2_fast"))
    wire.take()
    return node, wire


def block(content: bytes) -> bytes:
    """A compressed chunk."""
    return compressed(bytes(snappy.compress_raw(content)), content)


@onEach
def test_budget(names: Names) -> None:
    """
    A turn handles as much of a chunk's content as of an uncompressed connection's input, however
    small the chunk is. Reading pauses until all is handled.
    """
    with using(names):
        node, wire = joined()
        content = b"PING\r\n" * 200_000
        assert len(block(content)) < 100_000
        turns: list[int] = []
        later = node.clock.callLater

        def callLater(*arguments: Any) -> Any:
            turns.append(wire.link.decoder.received)
            return later(*arguments)

        vars(node.clock)["callLater"] = callLater
        wire.protocol.dataReceived(BEGIN + block(content[: 1 << 20]) + block(content[1 << 20 :]))
        assert not wire.transport.isReading
        node.settle()
        assert wire.transport.isReading
        sizes = [after - before for before, after in pairwise(turns)]
        assert 0 < max(sizes) <= TURN + (1 << 16)
        assert wire.unpack()[1] == b"PONG\r\n" * 200_000


@onEach
def test_time(names: Names) -> None:
    """A turn also ends after some CPU time, and no input is lost."""
    with using(names):
        node, wire = joined()
        batch = wire.link.context.batch
        ticks = count()
        batch.worked = lambda: next(ticks) * LONGEST_BATCH / 2
        turns: list[int] = []
        later = node.clock.callLater

        def callLater(*arguments: Any) -> Any:
            turns.append(wire.link.decoder.received)
            return later(*arguments)

        vars(node.clock)["callLater"] = callLater
        wire.protocol.dataReceived(BEGIN + block(b"PING\r\n" * 40_000))
        node.settle()
        sizes = [after - before for before, after in pairwise(turns)]
        assert 0 < max(sizes) <= TURN // 2
        assert wire.unpack()[1] == b"PONG\r\n" * 40_000


def test_emptyChunks() -> None:
    """Chunks without content count as work of a turn, and too many end the link."""
    node, wire = joined()
    wire.protocol.dataReceived(BEGIN + plain(b"") * 20_000 + plain(b"PING\r\n"))
    assert not wire.transport.isReading and wire.transport.take() == b""
    node.settle()
    assert wire.transport.isReading and wire.unpack()[1] == b"PONG\r\n"
    with logLines() as lines:
        for _ in range(600):
            wire.send(plain(b"") * 1000)
    assert wire.closed == "Read Error"
    assert any("S2: chunks without content" in line for line in lines)


def test_paused() -> None:
    """
    Nothing is decompressed while the session is paused, and then earlier bytes are handled first.
    """
    node, wire = joined()
    heard = node.subscribe(b"foo")
    messages = [b"RMSG A foo 1\r\n%d\r\n" % number for number in range(9)]
    wire.protocol.pauseReading()
    wire.protocol.dataReceived(BEGIN + plain(messages[0]) + plain(messages[1]))
    wire.send(BEGIN + plain(messages[2]))
    assert heard.bodies == [] and not wire.transport.isReading
    wire.protocol.resumeReading()
    node.settle()
    assert heard.bodies == [b"0", b"1", b"2"]
    assert wire.transport.isReading
    wire.protocol.pauseReading()
    wire.protocol.resumeReading()
    assert wire.transport.isReading
    wire.squeeze(messages[3])
    assert len(heard.bodies) == 4


def test_pausedWithin() -> None:
    """A session that pauses itself while it handles input gets no more until it resumes."""
    node, wire = joined()
    link: Route = wire.link
    original = link.received
    seen: list[bytes] = []

    def received(data: bytes) -> None:
        seen.append(data)
        original(data)
        wire.protocol.pauseReading()

    link.received = received  # type: ignore[method-assign]
    wire.squeeze(b"PING\r\n", b"PING\r\n")
    assert seen == [b"PING\r\n"] and not wire.transport.isReading
    link.received = original  # type: ignore[method-assign]
    wire.protocol.resumeReading()
    node.settle()
    assert wire.unpack()[1] == b"PONG\r\nPONG\r\n"


def test_damaged() -> None:
    """Input that is not S2 closes the link without an error line, and the log has the reason."""
    _, wire = joined()
    with logLines() as lines:
        wire.send(BEGIN + b"\x02\x00\x00\x00")
    assert wire.take() == b"" and wire.closed == "Read Error"
    assert any("S2: chunk of type 0x02 and 0 bytes" in line for line in lines)


def test_flushes() -> None:
    """
    All lines of one turn are compressed in one write, and the last lines are sent before the end.
    """
    _, wire = joined()
    wire.squeeze(b"PING\r\nPI", b"NG\r\nPING\r\n")
    stream = wire.take()
    assert stream.startswith(BEGIN)
    wire.squeeze(b"BOGUS\r\n")
    assert wire.unpack() == (b"", b"-ERR 'Unknown Protocol Operation'\r\n")
    assert wire.transport.closed == "lost"


def test_fullTransport() -> None:
    """
    Compressed output in the transport and uncompressed output in the outbox both count as pending.
    """
    node, wire = joined(max_pending=1_000_000)
    wire.squeeze(b"RS+ A foo\r\n")
    wire.transport.taking = False
    bodies = [Random(number).randbytes(30_000) for number in range(60)]
    for body in bodies[:9]:
        node.publish(b"foo", body)
    pending = wire.link.outbox.pending
    assert pending > wire.transport.waiting
    wire.transport.taking = True
    _, said = wire.unpack()
    assert [said.count(body) for body in bodies[:9]] == [1] * 9
    wire.transport.taking = False
    for body in bodies:
        node.publish(b"foo", body)
    assert wire.closed == "Slow Consumer (Pending Bytes)"


def test_secondLevel() -> None:
    """A new compression level applies to later output."""
    node, wire = joined()
    wire.squeeze(b"RS+ A foo\r\n")
    node.publish(b"foo", bytes(5000))
    short = len(wire.take())
    wire.link.peer.compress("s2_uncompressed")
    node.publish(b"foo", bytes(5000))
    assert short < 400 < 5000 < len(wire.take())
