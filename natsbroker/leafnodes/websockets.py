"""Leafnode connections over WebSocket, dialled and accepted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory, connectionDone
from twisted.python.failure import Failure

from natsbroker.config.addresses import joined
from natsbroker.leafnodes.protocol import LeafProtocol
from natsbroker.leafnodes.remote import LeafRemote
from natsbroker.links.context import LinkContext
from natsbroker.websocket.asking import ClientHandshake, HandshakeError
from natsbroker.websocket.protocol import WebSocketProtocol


def overWebSocket(above: Any, below: WebSocketProtocol) -> LeafProtocol:
    """Make the protocol. Its TLS is that of the connection below."""
    leaf: LeafProtocol = above
    leaf.connectionType = "LEAFNODE_WS"
    leaf.connection = below.connection
    leaf.certificate = below.certificate
    leaf.isSecured = below.tls is not None
    return leaf


class DialledWebSocket(WebSocketProtocol):
    def __init__(
        self,
        context: LinkContext,
        remote: LeafRemote,
        above: Any,
        waiting: set[DialledWebSocket],
        failed: Callable[[], None],
    ) -> None:
        """
        @param waiting: has the connection while it is no WebSocket yet.
        @param failed: called when the connection ends before it is one.
        """
        settings, url, tls = remote.settings, remote.current, remote.tls
        isTLS = tls is not None and tls.isRequired
        super().__init__(context, tls if isTLS else None, settings.first_info_timeout, remote.name)
        self.remote = remote
        self._leaf = above
        self._waiting = waiting
        self._notify = failed
        self._handshake = ClientHandshake(
            joined(url.host, url.port),
            url.path,
            settings.ws_compression,
            not settings.ws_no_masking,
        )
        waiting.add(self)

    def _begin(self) -> None:
        self.write(self._handshake.request)

    def _shake(self, data: bytes) -> None:
        handshake = self._handshake
        try:
            handshake.received(data)
        except HandshakeError as error:
            self._report(f"Error soliciting websocket connection: {error}")
            self.abort()
            return
        if handshake.upgrade is not None:
            self._waiting.discard(self)
            self._carry(overWebSocket(self._leaf, self), handshake.upgrade, handshake.rest)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        isNone = self in self._waiting
        self._waiting.discard(self)
        super().connectionLost(reason)
        if isNone:
            self._notify()


class WebSocketDialling(Factory):
    noisy = False

    def __init__(
        self,
        context: LinkContext,
        remote: LeafRemote,
        leafs: Any,
        waiting: set[DialledWebSocket],
        failed: Callable[[], None],
    ) -> None:
        self._context = context
        self._remote = remote
        self._leafs = leafs
        self._waiting = waiting
        self._failed = failed

    def buildProtocol(self, addr: IAddress | None) -> DialledWebSocket:
        above = self._leafs.buildProtocol(addr)
        return DialledWebSocket(self._context, self._remote, above, self._waiting, self._failed)
