"""The client connection kind: protocol and factory for any Twisted stream transport."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory, connectionDone
from twisted.python.failure import Failure

from natsbroker import errors
from natsbroker.clients.adoption import Adoption
from natsbroker.clients.context import ClientContext
from natsbroker.clients.session import ClientSession
from natsbroker.connections.peer import placeOf
from natsbroker.connections.proxyheader import ProxiedPeer
from natsbroker.connections.sessionprotocol import SessionProtocol
from natsbroker.wire.grants import Security


class ClientProtocol(SessionProtocol):
    """
    Further attributes are those of L{natsbroker.connections.peer.ClientPeer}.

    @ivar adoption: set before the connection is made; C{None} for one that was accepted here.
    """

    adoption: Adoption | None = None

    connectionType = "STANDARD"
    certificate: Any = None
    tls: Security | None = None
    isSecured = False
    isUnnamed = False
    credentials: Mapping[str, str] = MappingProxyType({})
    forwardedFor = ""

    def __init__(self, context: ClientContext, isProxied: bool = False) -> None:
        super().__init__()
        self._context = context
        self._isProxied = isProxied
        self._fast: Any = None
        self.session: ClientSession | None = None

    @property
    def owner(self) -> ClientSession | None:
        return self.session

    def connectionMade(self) -> None:
        self._attach()
        self._greet()

    def _attach(self) -> None:
        transport: Any = self.transport
        self._stream = self._streamOver(transport)
        self.host, self.port = placeOf(transport.getPeer())
        if hasattr(transport, "setTcpNoDelay"):
            transport.setTcpNoDelay(True)
        self.session = self._makeSession()
        if self.adoption is not None:
            self.session.adopted(self.adoption)
        self._stream.registerProducer(self, True)
        self._fast = transport if hasattr(transport, "attachSession") else None
        if self._fast is not None:
            self._fast.attachSession(self.session)

    def _makeSession(self) -> ClientSession:
        if not self._isProxied:
            return ClientSession(self._context, self)
        from natsbroker.clients.proxied import ProxiedSession

        return ProxiedSession(self._context, self)

    def named(self, client: ProxiedPeer | None) -> None:
        """Use the client that a proxy names; C{None} for the peer itself."""
        self.isUnnamed = False
        if client is not None:
            self.host, self.port = client

    def _streamOver(self, transport: Any) -> Any:
        return transport

    def internalFailure(self) -> None:
        if self.session is not None:
            self.session.internalFailure()

    def _greet(self) -> None:
        session = self.session
        if session is None:
            return
        try:
            self._checkRoom()
        except errors.ConnectionLimit as limit:
            session.refused(limit)
        else:
            session.opened()

    def _checkRoom(self) -> None:
        if self.adoption is not None and self.adoption.isExcess:
            raise errors.ConnectionLimit(errors.MAX_CONNECTIONS)
        self._context.checkRoom()

    def dataReceived(self, data: bytes) -> None:
        if self.session is not None:
            self.session.received(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._stopTimer()
        session, self.session = self.session, None
        if session is not None:
            session.lost()

    def finish(self) -> None:
        if self.session is not None:
            self.session.outbox.resume()
        super().finish()

    def pauseReading(self) -> None:
        self._stream.pauseProducing()

    def resumeReading(self) -> None:
        self._stream.resumeProducing()

    def useLane(self, lane: Any) -> None:
        """Ordinary transports always ask the session."""
        if self._fast is not None:
            self._fast.useLane(lane)


class ClientFactory(Factory):
    noisy = False

    def __init__(
        self, context: ClientContext, connectionType: str = "STANDARD", isProxied: bool = False
    ) -> None:
        self.context = context
        self.connectionType = connectionType
        self.isProxied = isProxied

    @property
    def isPlain(self) -> bool:
        """Whether nothing stands between the bytes of a connection and its session."""
        return type(self) is ClientFactory

    def buildProtocol(self, addr: IAddress | None) -> ClientProtocol:
        protocol = ClientProtocol(self.context, self.isProxied)
        protocol.factory = self
        protocol.connectionType = self.connectionType
        return protocol
