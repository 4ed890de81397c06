"""
Links over transports.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHalfCloseableProtocol, IHandshakeListener, IPushProducer
from zope.interface.verify import verifyObject

from natsbroker.config.model import TLSSettings
from natsbroker.links.protocol import LinkFactory, LinkProtocol
from natsbroker.links.tls import LinkTLS
from natsbroker.testing.transport import MemoryTransport
from tests.auth.certificates import certificate
from tests.routes.clusters import Node, connect, info, target
from tests.server.support import logLines


class FakeTLS:
    """
    TLS whose handshake the test does.

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
    """OCSP's terms, with one question."""

    def __init__(self, asking: Deferred[str]) -> None:
        self._asking = asking

    def vets(self, tls: TLSSettings) -> bool:
        """Always."""
        return True

    def vet(self, connection: Any, tls: TLSSettings) -> Deferred[str]:
        """Ask."""
        return self._asking


class Shown:
    """A certificate as pyOpenSSL gives it."""

    def __init__(self, *names: str) -> None:
        self._certificate = certificate("CN=x", names=names)

    def to_cryptography(self) -> Any:
        """The certificate."""
        return self._certificate


class SecureTransport(MemoryTransport):
    """A transport that can do TLS, as far as its protocol can see."""

    shown: Any = None
    started: Any = None

    def startTLS(self, creator: Any) -> None:
        self.started = creator

    def getPeerCertificate(self) -> Any:
        return self.shown


def secured(
    node: Node, name: str | None = None, **values: Any
) -> tuple[LinkProtocol, SecureTransport]:
    """A connection with TLS: one that we dialled if there is a name."""
    tls = cast(LinkTLS, FakeTLS(**values))
    goal = None if name is None else target(7777)
    factory = LinkFactory(node.cluster.routeFor(goal), tls, name)
    protocol = factory.buildProtocol(None)
    transport = SecureTransport(node.clock, protocol, IPv4Address("TCP", "127.0.0.9", 5))
    transport.connect()
    node.settle()
    return protocol, transport


class TestHandshake:
    """TLS comes first."""

    @pytest.mark.parametrize("name", [None, "localhost"])
    def test_nothingBefore(self, name: str | None) -> None:
        """Nothing is said before it is done."""
        node = Node()
        protocol, transport = secured(node, name)
        assert transport.take() == b"" and transport.started.names == [name]
        transport.shown = Shown("localhost")
        protocol.handshakeCompleted()
        node.settle()
        assert transport.take().startswith(b"INFO" if name is None else b"CONNECT")

    def test_wrongName(self) -> None:
        """A peer with another name receives nothing."""
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
        """While the authority of a peer is asked, its input is kept; then it counts, or not."""
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
        """Unless that shall not matter."""
        node = Node()
        protocol, transport = secured(node, "localhost", insecure=True)
        transport.shown = Shown("other.example")
        protocol.handshakeCompleted()
        node.settle()
        assert transport.take().startswith(b"CONNECT")

    def test_notPinned(self) -> None:
        """Nor a certificate that is not one of those that are taken."""
        node = Node()
        protocol, transport = secured(node, pinned_certs=frozenset({"0" * 64}))
        transport.shown = Shown()
        protocol.handshakeCompleted()
        node.settle()
        assert transport.take() == b"" and transport.closed == "aborted"

    def test_late(self) -> None:
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
    """Without TLS."""

    def test_interfaces(self) -> None:
        """What transports ask a protocol."""
        protocol = Node().accepted().protocol
        for interface in (IPushProducer, IHalfCloseableProtocol, IHandshakeListener):
            assert verifyObject(interface, protocol)

    def test_lingers(self) -> None:
        """A peer that does not take the end is cut."""
        node = Node()
        wire = node.joined()
        wire.transport.taking = False
        wire.send(b"FOO\r\n")
        assert wire.transport.connected
        node.settle(1.1)
        assert wire.transport.closed == "aborted"

    def test_takesTheEnd(self) -> None:
        """One that takes it gets it all, and no timer is left."""
        node = Node()
        wire = node.joined()
        wire.send(b"FOO\r\n")
        assert wire.lines() == [b"-ERR 'Unknown Protocol Operation'"]
        assert wire.transport.closed == "lost" and not node.clock.getDelayedCalls()

    def test_backPressure(self) -> None:
        """While the transport is full, everything waits in the outbox."""
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
        """A peer that takes nothing any more is gone."""
        node = Node()
        wire = node.joined()
        wire.protocol.writeConnectionLost()
        node.settle()
        assert wire.transport.closed == "aborted"

    def test_splits(self) -> None:
        """However the bytes come, they mean the same."""
        data = connect() + info() + b"RS+ A foo\r\nRMSG A bar 2\r\nhi\r\nPING\r\n"
        for cut in range(0, len(data), 7):
            node = Node()
            recorder = node.subscribe(b"bar")
            wire = node.accepted()
            wire.send(data[:cut])
            wire.send(data[cut:])
            assert recorder.bodies == [b"hi"] and wire.lines()[-1] == b"PONG"
            assert node.publish(b"foo") == 1
