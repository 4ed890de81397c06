"""
Leafnode connections over ordinary Twisted transports, where the handshake may come before INFO or
after it.

With TLS, nothing but INFO is ever read or written in the clear: the handshake begins in
the turn in which INFO was written, or read; where it comes first, nothing at all is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory

from natsbroker.connections.polledtransport import pollTransport
from natsbroker.connections.tlsfacts import securityOf
from natsbroker.leafnodes.terms import LeafTLS
from natsbroker.links.link import Link
from natsbroker.links.protocol import LinkProtocol
from natsbroker.wire.grants import Security

__all__ = ["LeafFactory", "LeafProtocol"]

#: Makes the session of a connection.
MakeLeaf = Callable[[Any], Link]


class LeafProtocol(LinkProtocol):
    """
    Joins a transport and a leafnode connection.

    @ivar isSecured: whether it is encrypted.
    @ivar certificate: the peer's, after it was verified; C{None} without.
    """

    def __init__(self, makeLink: MakeLeaf, tls: LeafTLS | None, name: str | None = None) -> None:
        """
        @param tls: how TLS is done; C{None} for not at all.
        @param name: whom we dial, as a certificate would call it; C{None} where we are dialled.
        """
        super().__init__(makeLink, None if tls is None else tls.tls, name)
        self._terms = tls
        self._isSecured = True
        self._isWaiting = False
        self.isSecured = False
        self.certificate: Any = None

    @property
    def tls(self) -> Security | None:
        """
        How TLS secures the connection; C{None} without.
        """
        return securityOf(self.connection, self.certificate) if self.isSecured else None

    def connectionMade(self) -> None:
        """
        Begin with a handshake, or with INFO, or see what the peer begins with.
        """
        link, terms = self._attach(), self._terms
        if terms is None or not terms.isFirst:
            self._greet(link)
        elif terms.fallback and self._name is None:
            self._isWaiting = True
            reactor: Any = link.context.reactor
            self._timer = reactor.callLater(terms.fallback, self._fallBack)
        else:
            self.startTLS()

    def _greet(self, link: Link) -> None:
        link.opened()
        if self._terms is not None and self._name is None and not link.reason:
            link.outbox.flush()
            self.startTLS()

    def stayPlain(self) -> None:
        """
        There will be no handshake: the shortest way will do.
        """
        link, slow = self.link, self._stream
        if link is None:
            return
        self._stream = pollTransport(link.context.poller, slow, link)
        if self._stream is not slow:
            slow.unregisterProducer()

    def _fallBack(self) -> None:
        self._timer = None
        self._isWaiting = False
        if self.link is not None:
            self._greet(self.link)

    def dataReceived(self, data: bytes) -> None:
        """
        Hand input to the connection; the first of it may begin a handshake.
        """
        if self._isWaiting:
            self._isWaiting = False
            self._stopTimer()
            self.startTLS()
            self._stream.protocol.dataReceived(data)
        else:
            super().dataReceived(data)

    def _secured(self, link: Link) -> None:
        self.isSecured = True
        found = self._stream.getPeerCertificate()
        if self._name is None and found is not None:
            self.certificate = found.to_cryptography()
        if link.isOpen:
            link.secured()
        else:
            link.opened()


class LeafFactory(Factory):
    """
    Makes a L{LeafProtocol} for every connection.

    @ivar tls: how TLS is done on the connections to come.
    """

    noisy = False

    def __init__(self, makeLink: MakeLeaf, tls: LeafTLS | None, name: str | None = None) -> None:
        """
        @param name: as for L{LeafProtocol}.
        """
        self.tls = tls
        self._makeLink = makeLink
        self._name = name

    def buildProtocol(self, addr: IAddress | None) -> LeafProtocol:
        """
        A protocol for a new connection.
        """
        protocol = LeafProtocol(self._makeLink, self.tls, self._name)
        protocol.factory = self
        return protocol
