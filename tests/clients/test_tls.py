"""
TLS on client connections: when it begins, and how a client without TLS is treated.

The handshakes themselves are tested in tests/connections/test_tlscontext.py and, with sockets, by
the rows of the conformance table. The transport of these tests only records that a handshake should
begin.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from OpenSSL import SSL
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.internet.interfaces import (
    IHandshakeListener,
)
from twisted.python.failure import Failure
from zope.interface.verify import verifyObject

from natsbroker.clients.tls import TLSClientFactory, TLSClientProtocol
from natsbroker.config.model import AuthorizationSettings, Settings, TLSSettings
from natsbroker.connections.proxyheader import TIMEOUT
from natsbroker.connections.tls import (
    Begin,
    TLSTerms,
)
from natsbroker.connections.tlscontext import contextFrom
from tests.auth.certificates import certificate
from tests.conftest import FlushLoggedErrors
from tests.connections.handshakes import Handshake, clientContext
from tests.connections.headers import FIRST
from tests.connections.tlspeers import CREATOR, Peer, Secure
from tests.interop.certificates import writeCertificates
from tests.server.support import logLines
from tests.support import QUIET, Doorkeeper, World

HELLO = b"\x16\x03\x01"


class Given:
    """A certificate as pyOpenSSL gives it."""

    def __init__(self) -> None:
        self.certificate = certificate("CN=alice")

    def to_cryptography(self) -> Any:
        """The certificate."""
        return self.certificate

    @property
    def pin(self) -> str:
        """The hash of the public key, as in C{pinned_certs}."""
        key = self.certificate.public_key()
        data = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return hashlib.sha256(data).hexdigest()


def works(peer: Peer) -> bool:
    """Whether a client is served."""
    return peer.ask(QUIET + b"PING\r\n") == b"PONG\r\n"


class Terms:
    """
    A listener's terms of OCSP.

    @ivar asking: the pending check.
    """

    def __init__(self) -> None:
        self.asking: Deferred[str] = Deferred(self._cancelled)
        self.isCancelled = False

    def _cancelled(self, asking: Deferred[str]) -> None:
        self.isCancelled = True

    def vets(self, tls: TLSSettings) -> bool:
        """Check every certificate."""
        return True

    def vet(self, connection: Any, tls: TLSSettings) -> Deferred[str]:
        """Begin a check."""
        return self.asking


class TestVetted:
    """Client certificates whose validity is checked with OCSP."""

    def peer(self, folder: Path, begin: Begin = Begin.AFTER_INFO) -> tuple[Peer, Terms]:
        """A client that has finished its handshake."""
        writeCertificates(folder)
        pair = (str(folder / "server.pem"), str(folder / "server-key.pem"))
        terms = Terms()
        peer = Peer(begin, verify=True, ocsp=terms)
        peer.receive()
        ends: Any = Handshake(contextFrom(TLSSettings(certs=(pair,))), clientContext()).run()
        peer.protocol.connection = ends.server
        peer.protocol._useRecords = lambda *arguments: False  # type: ignore[method-assign]
        peer.shake()
        return peer, terms

    @pytest.mark.parametrize("begin", [Begin.AFTER_INFO, Begin.FIRST])
    def test_waits(self, begin: Begin, tmp_path: Path) -> None:
        """No input is read and no INFO is sent until the check has ended."""
        peer, terms = self.peer(tmp_path, begin)
        assert not peer.transport.isReading
        peer.protocol.dataReceived(QUIET + b"PING\r\n")
        assert peer.receive() == b""
        terms.asking.callback("")
        assert peer.receive().endswith(b"PONG\r\n") and peer.transport.isReading

    def test_revoked(self, tmp_path: Path) -> None:
        """
        A client whose certificate is revoked is disconnected without an error, and the log has the
        reason.
        """
        peer, terms = self.peer(tmp_path)
        peer.protocol.dataReceived(QUIET + b"PING\r\n")
        with logLines() as lines:
            terms.asking.callback("OCSP: CN=x: revoked")
        assert peer.receive() == b"" and peer.closed == "aborted"
        assert peer.reason == "TLS Handshake Failure"
        assert any("TLS handshake error: OCSP: CN=x: revoked" in line for line in lines)

    def test_gone(self, tmp_path: Path) -> None:
        """The check for a client that has disconnected is cancelled."""
        peer, terms = self.peer(tmp_path)
        peer.transport.hangUp()
        peer.world.settle()
        assert terms.isCancelled

    def test_broken(self, tmp_path: Path, flushLoggedErrors: FlushLoggedErrors) -> None:
        """A check that fails denies the client."""
        peer, terms = self.peer(tmp_path)
        terms.asking.errback(RuntimeError("broken"))
        assert peer.closed == "aborted" and len(flushLoggedErrors(RuntimeError)) == 1


class TestProxied:
    """A proxy header in clear text, before the handshake."""

    @pytest.mark.parametrize("split", [0, 9, len(FIRST) - 1])
    @pytest.mark.parametrize("begin", [Begin.AFTER_INFO, Begin.FIRST, Begin.FIRST_OR_INFO])
    def test_handshake(self, begin: Begin, split: int) -> None:
        """The handshake begins after the header, also with bytes that came together with it."""
        peer = Peer(begin, isProxied=True)
        peer.transport.send(FIRST[:split])
        before = peer.isShaking
        peer.transport.send(FIRST[split:] + HELLO)
        assert (before, peer.isShaking, peer.transport.handshake) == (False, True, HELLO)
        assert (peer.protocol.host, peer.protocol.port) == ("1.2.3.4", 1111)
        peer.shake()
        info = json.loads(peer.receive()[5:])
        assert info.get("client_ip") == (None if begin is Begin.AFTER_INFO else "1.2.3.4")
        assert works(peer)

    def test_noHeader(self) -> None:
        """Input without a header is treated as the handshake."""
        peer = Peer(Begin.AFTER_INFO, isProxied=True)
        peer.transport.send(HELLO)
        assert peer.isShaking and peer.transport.handshake == HELLO
        assert peer.protocol.host == "127.0.0.1"

    def test_fallback(self) -> None:
        """
        INFO is sent if neither a header nor a handshake comes in time. The header may still come
        later.
        """
        peer = Peer(Begin.FIRST_OR_INFO, isProxied=True)
        peer.transport.send(FIRST[:9])
        peer.world.advance(0.06)
        assert peer.receive().startswith(b"INFO {")
        peer.transport.send(FIRST[9:] + HELLO)
        assert peer.transport.handshake == HELLO and peer.protocol.host == "1.2.3.4"

    @pytest.mark.parametrize("isBefore", [True, False])
    def test_fallbackBehind(self, isBefore: bool) -> None:
        """INFO is sent after a header if no handshake begins in time."""
        peer = Peer(Begin.FIRST_OR_INFO, isProxied=True)
        peer.transport.send(FIRST)
        if isBefore:
            peer.transport.send(HELLO)
        peer.world.advance(0.06)
        assert peer.receive().startswith(b"INFO {") == (not isBefore)
        assert peer.isShaking

    @pytest.mark.parametrize("header", [FIRST, b""])
    def test_byClient(self, header: bytes) -> None:
        """If the client chooses about TLS, the first byte after the header decides."""
        peer = Peer(Begin.BY_CLIENT, isProxied=True)
        peer.receive()
        peer.transport.send(header + HELLO)
        assert peer.isShaking and peer.transport.handshake == HELLO
        peer = Peer(Begin.BY_CLIENT, isProxied=True)
        peer.receive()
        assert peer.ask(header + QUIET + b"PING\r\n") == b"PONG\r\n"

    def test_malformed(self) -> None:
        """A malformed or missing header ends the connection without an error."""
        for begin in (Begin.AFTER_INFO, Begin.FIRST, Begin.FIRST_OR_INFO, Begin.BY_CLIENT):
            peer = Peer(begin, isProxied=True)
            peer.receive()
            assert peer.ask(b"PROXY TCP4 a b c d\r\n") == b""
            assert peer.reason == "Protocol Violation"
            peer = Peer(begin, isProxied=True)
            peer.world.advance(TIMEOUT + 0.1)
            assert peer.reason == "Protocol Violation"

    def test_gone(self) -> None:
        """A connection that ends before the header leaves nothing behind."""
        peer = Peer(Begin.AFTER_INFO, isProxied=True)
        peer.transport.hangUp()
        peer.world.settle()
        with logLines() as lines:
            peer.world.advance(TIMEOUT + 0.1)
        assert not any("PROXY" in line for line in lines)

    def test_beforeUs(self) -> None:
        """A transport that does TLS by itself needs no header."""
        peer = Peer(Begin.BEFORE_US, isProxied=True)
        peer.shake()
        peer.receive()
        assert works(peer)


class TestAfterInfo:
    """A handshake that begins after INFO in clear text."""

    def test_sameTurn(self) -> None:
        """The handshake begins in the same turn in which INFO is written, after INFO."""
        peer = Peer(Begin.AFTER_INFO)
        assert peer.isShaking
        assert peer.transport.clear.startswith(b"INFO {")
        peer.receive()
        peer.shake()
        assert works(peer)

    def test_late(self) -> None:
        """A client without a handshake in time is disconnected without an error."""
        peer = Peer(Begin.AFTER_INFO, timeout=0.5)
        peer.receive()
        peer.world.advance(0.45)
        assert not peer.closed
        with logLines() as lines:
            peer.world.advance(0.1)
        assert peer.closed == "aborted"
        assert peer.receive() == b""
        assert peer.reason == "TLS Handshake Failure"
        assert any("TLS handshake error: handshake timeout" in line for line in lines)

    def test_inTime(self) -> None:
        """A client with a handshake in time is not disconnected later."""
        peer = Peer(Begin.AFTER_INFO, timeout=0.5)
        peer.receive()
        peer.shake()
        peer.world.advance(1.0)
        assert works(peer)

    def test_full(self) -> None:
        """A client beyond the connection limit is refused in clear text."""
        peer = Peer(Begin.AFTER_INFO, World(Settings(max_connections=1)))
        other = Peer(Begin.AFTER_INFO, peer.world)
        assert other.receive().endswith(b"-ERR 'maximum connections exceeded'\r\n")
        assert not other.isShaking

    def test_loginTime(self) -> None:
        """The time to log in counts from the end of the handshake."""
        world = World(
            Settings(authorization=AuthorizationSettings(timeout=1.0)), Doorkeeper(required=True)
        )
        peer = Peer(Begin.AFTER_INFO, world)
        peer.receive()
        world.advance(0.9)
        peer.shake()
        world.advance(0.9)
        assert not peer.closed
        world.advance(0.2)
        assert peer.receive() == b"-ERR 'Authentication Timeout'\r\n"


class TestFirst:
    """A handshake before INFO."""

    def test_order(self) -> None:
        """Nothing is sent before the handshake, and INFO after it."""
        peer = Peer(Begin.FIRST)
        assert peer.isShaking and peer.transport.clear == b""
        assert peer.receive() == b""
        peer.shake()
        assert peer.receive().startswith(b"INFO ")
        assert works(peer)

    def test_late(self) -> None:
        """A client without a handshake in time is disconnected without INFO."""
        peer = Peer(Begin.FIRST, timeout=0.5)
        peer.world.advance(0.6)
        assert (peer.closed, peer.receive()) == ("aborted", b"")

    def test_full(self) -> None:
        """A client beyond the connection limit is disconnected before the handshake."""
        world = World(Settings(max_connections=1))
        world.client()
        peer = Peer(Begin.FIRST, world)
        assert not peer.isShaking
        assert peer.receive().endswith(b"-ERR 'maximum connections exceeded'\r\n")


class TestFirstOrInfo:
    """A handshake first if the client begins it soon, and INFO otherwise."""

    def test_quick(self) -> None:
        """
        A client that begins the handshake at once gets INFO after it, and no byte of the handshake
        is lost.
        """
        peer = Peer(Begin.FIRST_OR_INFO, handshake_first_fallback=0.3)
        assert peer.ask(HELLO) == b""
        assert (peer.isShaking, peer.transport.handshake) == (True, HELLO)
        peer.shake()
        assert peer.receive().startswith(b"INFO ")
        peer.world.advance(1.0)
        assert works(peer)

    def test_waits(self) -> None:
        """
        A client that does not begin the handshake gets INFO in clear text after the delay, and then
        does the handshake.
        """
        peer = Peer(Begin.FIRST_OR_INFO, handshake_first_fallback=0.3)
        peer.world.advance(0.25)
        assert peer.receive() == b""
        peer.world.advance(0.1)
        assert peer.transport.clear.startswith(b"INFO ")
        assert peer.isShaking
        peer.receive()
        peer.shake()
        assert works(peer)

    def test_plain(self) -> None:
        """
        A client that does not begin the handshake may continue in clear text if TLS is optional.
        """
        peer = Peer(Begin.FIRST_OR_INFO, handshake_first_fallback=0.3, optional=True)
        peer.world.advance(0.35)
        assert peer.receive().startswith(b"INFO ")
        assert not peer.isShaking
        assert works(peer)

    def test_gone(self) -> None:
        """A client that disconnects before the delay leaves nothing behind."""
        peer = Peer(Begin.FIRST_OR_INFO, handshake_first_fallback=0.3)
        peer.transport.hangUp()
        assert peer.closed == "left"
        peer.world.advance(1.0)
        assert peer.world.clock.getDelayedCalls() == []


class TestByClient:
    """TLS that depends on the client's first byte."""

    def test_plain(self) -> None:
        """A client whose first byte does not begin a handshake is served in clear text."""
        peer = Peer(Begin.BY_CLIENT)
        assert peer.receive().startswith(b"INFO ")
        assert works(peer)
        assert not peer.isShaking

    def test_tls(self) -> None:
        """
        A client whose first byte begins a handshake gets TLS, and no byte of the handshake is lost.
        """
        peer = Peer(Begin.BY_CLIENT)
        peer.receive()
        peer.ask(HELLO)
        assert (peer.isShaking, peer.transport.handshake) == (True, HELLO)
        peer.shake()
        assert works(peer)

    def test_onlyTheFirst(self) -> None:
        """Only the first byte of a client decides about TLS."""
        peer = Peer(Begin.BY_CLIENT)
        peer.receive()
        assert works(peer)
        assert peer.ask(HELLO + b"\r\n") == b"-ERR 'Unknown Protocol Operation'\r\n"
        assert not peer.isShaking


class TestBeforeUs:
    """A transport that does TLS by itself, with any terms."""

    def test_afterHandshake(self) -> None:
        """INFO is sent when the transport reports the end of the handshake."""
        peer = Peer(Begin.BEFORE_US)
        assert peer.receive() == b""
        peer.shake()
        assert peer.receive().startswith(b"INFO ")
        assert works(peer)
        assert not peer.isShaking

    def test_late(self) -> None:
        """A client whose transport reports no handshake in time is disconnected."""
        peer = Peer(Begin.BEFORE_US, timeout=0.5)
        peer.world.advance(0.6)
        assert peer.closed == "aborted"


class TestCertificates:
    """The client's certificate."""

    def test_authorizer(self) -> None:
        """The authorizer gets the certificate of the client."""
        world, shown = World(), Given()
        peer = Peer(Begin.AFTER_INFO, world)
        peer.receive()
        peer.shake(shown)
        assert works(peer)
        assert world.authorizer.asked[0].certificate == shown.certificate

    def test_none(self) -> None:
        """The authorizer gets no certificate if the client has none."""
        world = World()
        peer = Peer(Begin.AFTER_INFO, world)
        peer.receive()
        peer.shake()
        assert works(peer)
        assert world.authorizer.asked[0].certificate is None

    def test_pinned(self) -> None:
        """A client whose key is pinned is accepted."""
        shown = Given()
        peer = Peer(Begin.FIRST, pinned_certs=frozenset({"00" * 32, shown.pin}))
        peer.shake(shown)
        peer.receive()
        assert works(peer)

    @pytest.mark.parametrize("shown", [None, Given()])
    def test_notPinned(self, shown: Any) -> None:
        """A client without a pinned key is disconnected before INFO."""
        peer = Peer(Begin.FIRST, pinned_certs=frozenset({"00" * 32}))
        peer.shake(shown)
        assert (peer.closed, peer.receive()) == ("aborted", b"")
        assert peer.reason == "TLS Handshake Failure"


class TestPinsChange:
    """Pinned keys that change while a client is connected."""

    def shaken(self, **terms: Any) -> Peer:
        """A client that has sent its certificate."""
        peer = Peer(Begin.AFTER_INFO, **terms)
        peer.receive()
        peer.shake(Given())
        return peer

    def repin(self, peer: Peer, *pins: str) -> None:
        """Pin other keys."""
        settings = TLSSettings(pinned_certs=frozenset(pins))
        peer.factory.terms = replace(peer.factory.terms, settings=settings)
        peer.protocol.termsChanged()

    def test_gone(self) -> None:
        """A client whose key is no longer pinned is disconnected, as after a failed handshake."""
        peer = self.shaken(pinned_certs=frozenset({Given().pin}))
        assert works(peer)
        with logLines() as lines:
            self.repin(peer, "00" * 32)
        assert (peer.closed, peer.reason) == ("aborted", "TLS Handshake Failure")
        assert any("certificate not pinned any more" in line for line in lines)

    @pytest.mark.parametrize("pins", [(), ("00" * 32, Given().pin)])
    def test_stays(self, pins: tuple[str, ...]) -> None:
        """
        A client whose key is pinned stays connected, and so do all clients if no keys are pinned.
        """
        peer = self.shaken()
        self.repin(peer, *pins)
        assert works(peer)

    def test_withoutCertificate(self) -> None:
        """A client without a certificate is disconnected when keys are pinned."""
        peer = Peer(Begin.AFTER_INFO)
        peer.receive()
        peer.shake()
        self.repin(peer, Given().pin)
        assert peer.closed == "aborted"

    def test_clear(self) -> None:
        """A client in clear text, where TLS is optional, needs no pinned key."""
        peer = Peer(Begin.BY_CLIENT)
        peer.receive()
        assert works(peer)
        self.repin(peer, Given().pin)
        assert works(peer)

    def test_shaking(self) -> None:
        """A client in its handshake is accepted by the pins from before the handshake."""
        peer = Peer(Begin.AFTER_INFO)
        peer.receive()
        self.repin(peer, "00" * 32)
        peer.shake(Given())
        assert works(peer)


class TestInfo:
    """The part of INFO about TLS."""

    @pytest.mark.parametrize("begin", [Begin.FIRST, Begin.BEFORE_US])
    def test_inside(self, begin: Begin) -> None:
        """INFO over TLS has C{tls_required}, also if only this listener requires TLS."""
        peer = Peer(begin)
        peer.shake()
        info = json.loads(peer.receive()[5:])
        assert info["tls_required"] is True
        assert "tls_available" not in info

    def test_available(self) -> None:
        """If TLS is optional, INFO has only C{tls_available}."""
        peer = Peer(Begin.FIRST_OR_INFO, optional=True)
        peer.world.context.info = peer.world.context.info.changed(tls_available=True)
        peer.ask(HELLO)
        peer.shake()
        info = json.loads(peer.receive()[5:])
        assert info["tls_available"] is True
        assert "tls_required" not in info

    def test_plain(self) -> None:
        """The INFO of a plain listener does not mention TLS."""
        assert b"tls_" not in World().dial().receive()


class TestFailures:
    """Handshakes that fail."""

    @pytest.mark.parametrize(
        ("error", "text"),
        [
            (SSL.Error([("SSL routines", "", "wrong version number")]), "wrong version number"),
            (SSL.Error([]), "unexpected EOF"),
            (ConnectionLost("reset"), "reset"),
        ],
    )
    def test_log(self, error: Exception, text: str) -> None:
        """A failed handshake is logged with its reason, and shown as such in monitoring."""
        peer = Peer(Begin.AFTER_INFO)
        peer.receive()
        with logLines() as lines:
            peer.protocol.connectionLost(Failure(error))
        assert any("TLS handshake error: " in line and text in line for line in lines)
        [closed] = peer.world.context.connections.closed
        assert closed.reason == "TLS Handshake Failure"
        peer.world.advance(3.0)
        assert peer.world.clock.getDelayedCalls() == []

    def test_lostAfterHandshake(self) -> None:
        """A connection that is lost after the handshake counts as closed by the client."""
        peer = Peer(Begin.AFTER_INFO)
        peer.receive()
        peer.shake()
        peer.transport.hangUp()
        assert peer.closed == "left"
        [closed] = peer.world.context.connections.closed
        assert closed.reason == "Client Closed"


class TestRate:
    """A limit of handshakes a second."""

    def test_throttled(self) -> None:
        """
        A handshake beyond the rate is refused with nats-server's error, until the next second.
        """
        world = World()
        factory = TLSClientFactory(
            world.context, TLSTerms(CREATOR, settings=TLSSettings(connection_rate_limit=2))
        )
        assert [factory.allowHandshake(1.0) for _ in range(3)] == [True, True, False]
        assert factory.allowHandshake(2.0)

    def test_answer(self) -> None:
        """A client beyond the rate gets its error in clear text."""
        peer = Peer(Begin.AFTER_INFO, connection_rate_limit=1)
        address = IPv4Address("TCP", "127.0.0.1", 50001)
        protocol = peer.factory.buildProtocol(address)
        transport = Secure(peer.world.clock, protocol, address)
        transport.connect()
        peer.world.settle()
        told = transport.take()
        assert told.endswith(b"-ERR 'Connection throttling is active. Please try again later.'\r\n")
        assert transport.started == []

    def test_unlimited(self) -> None:
        """Without a configured rate there is no limit."""
        factory = TLSClientFactory(World().context, TLSTerms(CREATOR))
        assert all(factory.allowHandshake(1.0) for _ in range(1000))


class TestTerms:
    """Changed terms of TLS."""

    def test_connectionsToCome(self) -> None:
        """A connection keeps the terms that it began with."""
        world = World()
        factory = TLSClientFactory(world.context, TLSTerms(CREATOR, Begin.FIRST_OR_INFO))
        address = IPv4Address("TCP", "127.0.0.1", 50000)
        protocol = factory.buildProtocol(address)
        factory.terms = replace(factory.terms, begin=Begin.FIRST)
        assert protocol._terms.begin is Begin.FIRST_OR_INFO
        assert factory.buildProtocol(address)._terms.begin is Begin.FIRST


def test_interfaces() -> None:
    """The protocol provides the interfaces that Twisted requires."""
    world = World()
    factory = TLSClientFactory(world.context, TLSTerms(CREATOR))
    verifyObject(IHandshakeListener, TLSClientProtocol(world.context, factory))


def test_infoIsWhole() -> None:
    """INFO in clear text is one complete line."""
    peer = Peer(Begin.AFTER_INFO)
    assert json.loads(peer.transport.clear[5:])["client_id"] == 1
