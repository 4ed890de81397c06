"""
The client connection kind: protocol and factory for any Twisted stream transport.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from twisted.internet.interfaces import IAddress, IHalfCloseableProtocol, IPushProducer
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker import errors
from natsbroker.clients.context import ClientContext
from natsbroker.clients.session import ClientSession
from natsbroker.connections.peer import placeOf
from natsbroker.connections.polledtransport import unsentBy
from natsbroker.wire.grants import Security

#: How long a closed connection may take to send what waits, in seconds, before it is cut.
_LINGER = 1.0


@implementer(IPushProducer, IHalfCloseableProtocol)
class ClientProtocol(Protocol):
    """
    @ivar certificate: the peer's verified TLS certificate, if it has one.
    @ivar isSecured: see L{natsbroker.connections.peer.ClientPeer}.
    """

    connectionType = "STANDARD"
    certificate: Any = None
    tls: Security | None = None
    isSecured = False
    host = ""
    port = 0

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._linger: Any = None
        self._stream: Any = None
        self._fast: Any = None
        self.session: ClientSession | None = None

    def connectionMade(self) -> None:
        self._attach()
        self._greet()

    def _attach(self) -> None:
        transport: Any = self.transport
        self._stream = transport
        self.host, self.port = placeOf(transport.getPeer())
        if hasattr(transport, "setTcpNoDelay"):
            transport.setTcpNoDelay(True)
        self.session = ClientSession(self._context, self)
        transport.registerProducer(self, True)
        self._fast = transport if hasattr(transport, "attachSession") else None
        if self._fast is not None:
            self._fast.attachSession(self.session)

    def _greet(self) -> None:
        session = self.session
        if session is None:
            return
        try:
            self._context.checkRoom()
        except errors.ConnectionLimit as limit:
            session.refused(limit)
        else:
            session.opened()

    def dataReceived(self, data: bytes) -> None:
        if self.session is not None:
            self.session.received(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._linger is not None and self._linger.active():
            self._linger.cancel()
        if self.session is not None:
            self.session.lost()

    def readConnectionLost(self) -> None:
        """
        The client sends no more: it gets what it is owed, and then the end.
        """
        if self.session is not None:
            self.session.inputEnded()

    def writeConnectionLost(self) -> None:
        self.abort()

    def write(self, data: bytes) -> None:
        self._stream.write(data)

    def finish(self) -> None:
        """
        A peer that does not read the rest is closed.
        """
        if self.session is not None:
            self.session.outbox.resume()
        self._stream.unregisterProducer()
        self._stream.loseConnection()
        self._linger = self._context.reactor.callLater(_LINGER, self.abort)

    def abort(self) -> None:
        self._stream.abortConnection()

    def pauseReading(self) -> None:
        self._stream.pauseProducing()

    def resumeReading(self) -> None:
        self._stream.resumeProducing()

    def useLane(self, lane: Any) -> None:
        """
        Ordinary transports always ask the session.
        """
        if self._fast is not None:
            self._fast.useLane(lane)

    def pauseProducing(self) -> None:
        if self.session is not None:
            self.session.outbox.pause(partial(unsentBy, self._stream))
            self.session.writeBlocked()

    def resumeProducing(self) -> None:
        if self.session is not None:
            self.session.writeProgressed()
            self.session.outbox.resume()

    def stopProducing(self) -> None:
        """
        C{connectionLost} follows.
        """


class ClientFactory(Factory):
    noisy = False

    def __init__(self, context: ClientContext, connectionType: str = "STANDARD") -> None:
        self.context = context
        self.connectionType = connectionType

    def buildProtocol(self, addr: IAddress | None) -> ClientProtocol:
        protocol = ClientProtocol(self.context)
        protocol.factory = self
        protocol.connectionType = self.connectionType
        return protocol
