"""Leafnode connections over Twisted. With TLS, only INFO may be in the clear."""

from __future__ import annotations

from typing import Any

from natsbroker.connections.polledtransport import pollTransport
from natsbroker.connections.tls import securityOf
from natsbroker.links.link import Link
from natsbroker.links.protocol import LinkFactory, LinkProtocol, MakeLink
from natsbroker.links.tls import LinkTLS
from natsbroker.wire.grants import Security


class LeafProtocol(LinkProtocol):
    connectionType = "LEAFNODE"

    def __init__(self, makeLink: MakeLink, tls: LinkTLS | None, name: str | None = None) -> None:
        super().__init__(makeLink, tls, name)
        self._isSecured = True
        self._isWaiting = False
        self.isSecured = False

    @property
    def tls(self) -> Security | None:
        return securityOf(self.connection, self.certificate) if self.isSecured else None

    def connectionMade(self) -> None:
        link, tls = self._attach(), self._tls
        if tls is None or not tls.settings.handshake_first:
            self._greet(link)
        elif tls.settings.handshake_first_fallback and self._name is None:
            self._isWaiting = True
            reactor: Any = link.context.reactor
            self._timer = reactor.callLater(tls.settings.handshake_first_fallback, self._fallBack)
        else:
            self.startTLS()

    def _greet(self, link: Link) -> None:
        link.opened()
        if self._tls is not None and self._name is None and not link.reason:
            link.outbox.flush()
            self.startTLS()

    def stayPlain(self) -> None:
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
        """The first input may start the handshake."""
        if self._isWaiting:
            self._isWaiting = False
            self._stopTimer()
            self.startTLS()
            self._stream.protocol.dataReceived(data)
        else:
            super().dataReceived(data)

    def _secured(self, link: Link) -> None:
        self.isSecured = True
        if link.isOpen:
            link.secured()
        else:
            link.opened()


class LeafFactory(LinkFactory):
    protocol = LeafProtocol
