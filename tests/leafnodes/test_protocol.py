"""
The beginning of the TLS handshake on leafnode connections.
"""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import pytest
from OpenSSL import SSL
from twisted.internet.address import IPv4Address

from natsbroker.config.model import TLSSettings
from natsbroker.leafnodes.accepting import AcceptedLeaf
from natsbroker.leafnodes.dialling import DialledLeaf
from natsbroker.leafnodes.protocol import LeafFactory, LeafProtocol
from natsbroker.links.tls import LinkTLS
from natsbroker.testing.transport import MemoryTransport
from tests.leafnodes.leaves import Broker, info


class Secure(MemoryTransport):
    """
    A transport that records the start of a handshake, and lets the test finish it.

    @ivar began: the number of bytes written before the start; negative before that.
    """

    began = -1

    def startTLS(self, creator: Any) -> None:
        self.began = len(self.said())

    def said(self) -> bytes:
        """All bytes written so far."""
        return bytes(self._waiting) + bytes(self._taken)

    def getPeerCertificate(self) -> None:
        """No peer has a certificate."""

    @property
    def protocol(self) -> Any:
        """The TLS layer, which receives input before the handshake is finished."""
        return self

    def dataReceived(self, data: bytes) -> None:
        """Input of the handshake."""


def terms(isRequired: bool = True, isFirst: bool = False, fallback: float = 0.0) -> LinkTLS:
    """The terms of TLS that these tests need."""
    context = cast(SSL.Context, None)
    settings = TLSSettings(
        insecure=True, handshake_first=isFirst, handshake_first_fallback=fallback
    )
    return LinkTLS(context, context, settings, isRequired)


@pytest.fixture
def broker() -> Broker:
    """A broker with leafnodes."""
    return Broker()


def joined(broker: Broker, protocol: LeafProtocol) -> Secure:
    """A connection that is open."""
    transport = Secure(broker.clock, protocol, IPv4Address("TCP", "127.0.0.9", 5))
    transport.connect()
    broker.settle()
    return transport


class TestAccepting:
    """Leafnodes that dialled us."""

    def made(self, broker: Broker, **more: Any) -> tuple[LeafProtocol, Secure]:
        """A connection from a leafnode."""
        factory = LeafFactory(partial(AcceptedLeaf, broker.leafs), terms(**more))
        protocol = cast(LeafProtocol, factory.buildProtocol(None))
        protocol._tls = _NoCreator(terms(**more).settings)  # type: ignore[assignment]
        return protocol, joined(broker, protocol)

    def test_afterInfo(self, broker: Broker) -> None:
        """INFO is the last line in clear text."""
        _, transport = self.made(broker)
        assert transport.said().startswith(b"INFO ") and transport.began == len(transport.said())

    def test_infoAfterHandshake(self, broker: Broker) -> None:
        """INFO is sent after the handshake if TLS is first."""
        protocol, transport = self.made(broker, isFirst=True)
        assert (transport.began, transport.said()) == (0, b"")
        protocol.handshakeCompleted()
        broker.settle()
        assert transport.said().startswith(b"INFO ") and protocol.isSecured

    def test_fallBack(self, broker: Broker) -> None:
        """A peer that does not begin TLS soon gets INFO in clear text."""
        _, transport = self.made(broker, isFirst=True, fallback=0.5)
        assert (transport.began, transport.said()) == (-1, b"")
        broker.settle(0.6)
        assert transport.said().startswith(b"INFO ") and transport.began == len(transport.said())

    def test_noFallBack(self, broker: Broker) -> None:
        """A peer that begins TLS soon gets INFO only after the handshake."""
        _, transport = self.made(broker, isFirst=True, fallback=0.5)
        transport.send(b"\x16\x03")
        broker.settle(0.6)
        assert (transport.began, transport.said()) == (0, b"")

    def test_lateHandshake(self, broker: Broker) -> None:
        """A handshake that takes too long ends the connection."""
        protocol, transport = self.made(broker)
        broker.settle(2.2)
        assert protocol.link is not None and protocol.link.reason == "TLS Handshake Failure"
        assert transport.closed == "aborted"


class TestDialling:
    """Hubs that we dialled."""

    def made(self, broker: Broker, **more: Any) -> tuple[LeafProtocol, Secure]:
        """A connection to a hub."""
        factory = LeafFactory(
            partial(DialledLeaf, broker.leafs, broker.remote(tls=terms(**more))), terms(**more)
        )
        factory._name = "h"
        protocol = cast(LeafProtocol, factory.buildProtocol(None))
        protocol._tls = _NoCreator(terms(**more).settings)  # type: ignore[assignment]
        return protocol, joined(broker, protocol)

    @pytest.mark.parametrize("ours, theirs", [(True, None), (False, True), (True, True)])
    def test_afterInfo(self, broker: Broker, ours: bool, theirs: bool | None) -> None:
        """CONNECT is sent only after the handshake, if either side requires TLS."""
        protocol, transport = self.made(broker, isRequired=ours)
        transport.send(info(tls_required=theirs))
        broker.settle()
        assert (transport.began, transport.said()) == (0, b"")
        protocol.handshakeCompleted()
        broker.settle()
        assert transport.said().startswith(b"CONNECT ")

    def test_notAtAll(self, broker: Broker) -> None:
        """There is no handshake if neither side requires TLS."""
        _, transport = self.made(broker, isRequired=False)
        transport.send(info())
        broker.settle()
        assert transport.began == -1 and transport.said().startswith(b"CONNECT ")

    def test_handshakeBeforeInfo(self, broker: Broker) -> None:
        """The handshake may come before INFO."""
        protocol, transport = self.made(broker, isFirst=True)
        assert transport.began == 0
        protocol.handshakeCompleted()
        transport.send(info(tls_required=True))
        broker.settle()
        assert transport.said().startswith(b"CONNECT ") and transport.began == 0

    def test_injected(self, broker: Broker) -> None:
        """Input in clear text after INFO ends a connection that is about to begin TLS."""
        protocol, transport = self.made(broker)
        transport.send(info() + info(connect_info=True))
        broker.settle()
        assert protocol.link is not None and protocol.link.reason == "TLS Handshake Failure"
        assert transport.said() == b""


class _NoCreator:
    """TLS settings that make no OpenSSL connection."""

    def __init__(self, settings: TLSSettings) -> None:
        self.settings = settings

    def creator(self, name: str | None, owner: Any = None) -> Any:
        return None

    def problem(self, certificate: Any, name: str | None) -> str:
        return ""
