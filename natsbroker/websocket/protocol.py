"""
WebSocket connections over Twisted transports: TLS, the HTTP handshake, then frames for a session
above.

There is no session until the handshake is done, and its time is limited. Plain TCP uses the poller
if there is one.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import (
    IHalfCloseableProtocol,
    IHandshakeListener,
    IPushProducer,
)
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker import hot
from natsbroker.clients.adoption import Adoption
from natsbroker.connections.peer import placeOf
from natsbroker.connections.polledtransport import pollStream
from natsbroker.connections.proxyheader import HeaderStage, ProxiedPeer
from natsbroker.connections.sessionprotocol import LINGER, StreamProtocol
from natsbroker.connections.tls import securityOf
from natsbroker.errors import logText
from natsbroker.links.context import LinkContext
from natsbroker.links.tls import LinkTLS
from natsbroker.websocket.deflate import Inflation
from natsbroker.websocket.frames import FOR_BROWSERS, FrameReader, FrameWriter
from natsbroker.websocket.transport import WebSocketTransport
from natsbroker.websocket.upgrade import ServerHandshake, Upgrade
from natsbroker.wire.grants import Security

_log = Logger(namespace="natsbroker")

#: The most bytes of a compressed message if messages of NATS have no limit.
_UNLIMITED = 64 << 20


@implementer(IPushProducer, IHalfCloseableProtocol, IHandshakeListener)
class WebSocketProtocol(StreamProtocol):
    """
    @ivar address: the address of the peer, if a proxy names it.
    """

    def __init__(
        self, context: LinkContext, tls: LinkTLS | None, timeout: float, name: str | None = None
    ) -> None:
        """
        @param timeout: seconds for the HTTP handshake.
        @param name: of the peer's certificate; C{None} on an accepted connection.
        """
        super().__init__()
        self._context = context
        self._tls = tls
        self._timeout = timeout
        self._name = name
        self._inlet: hot.Decoder | None = None
        self._frames: WebSocketTransport | None = None
        self._above: Any = None
        self.certificate: Any = None
        self.address: Any = None
        self._stage: HeaderStage | None = None

    def _isProxied(self) -> bool:
        return False

    @abstractmethod
    def _begin(self) -> None:
        """Begin: the stream is connected, and encrypted if TLS is used."""

    @abstractmethod
    def _shake(self, data: bytes) -> None:
        """Take input of the HTTP handshake."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def tls(self) -> Security | None:
        if self._tls is None:
            return None
        return securityOf(self.connection, self.certificate, True)

    def connectionMade(self) -> None:
        transport: Any = self.transport
        self.address = transport.getPeer()
        self.host, self.port = placeOf(self.address)
        for option in ("setTcpNoDelay", "setTcpKeepAlive"):
            if hasattr(transport, option):
                getattr(transport, option)(True)
        context = self._context
        self._stream = pollStream(context.poller, transport, self, context.batch)
        self._stream.registerProducer(self, True)
        if self._isProxied():
            self._stage = HeaderStage(context.reactor, self._headerRead, self._headerRefused)
        else:
            self._enter(b"")

    def _headerRead(self, client: ProxiedPeer | None, rest: bytes) -> None:
        self._stage = None
        if client is not None:
            self.host, self.port = client
            make = IPv6Address if ":" in client.host else IPv4Address
            self.address = make("TCP", *client)
        self._enter(rest)

    def _headerRefused(self, problem: str) -> None:
        self._stage = None
        self._report(problem)
        self.abort()

    def _enter(self, data: bytes) -> None:
        context, tls = self._context, self._tls
        if tls is None:
            self._prepare()
        else:
            creator = tls.creator(self._name, self)
            self._startHandshake(context.reactor, creator, tls.settings.timeout)
        if data:
            (self if tls is None else self._layer).dataReceived(data)

    def handshakeCompleted(self) -> None:
        self._stopTimer()
        if self._tls is None:
            return
        certificate = self._peerCertificate()
        problem = self._tls.problem(certificate, self._name)
        if problem:
            self._failed(problem)
            return
        self.certificate = certificate
        if self.connection is not None:
            inlet = hot.Decoder()
            if self._useRecords(self.connection, self._context.fastLane, inlet, self._unsealed):
                self._inlet = inlet
        self._vet(self._tls.settings, self._prepare)

    def _unsealed(self) -> None:
        if self._inlet is not None:
            self.dataReceived(self._inlet.take())

    def _prepare(self) -> None:
        self._schedule(self._context.reactor, self._timeout, self._tooLate)
        self._begin()

    def _tooLate(self) -> None:
        self._timer = None
        self._report("websocket handshake error: timeout")
        self.abort()

    def _failed(self, problem: str) -> None:
        self._report(f"TLS handshake error: {problem}")
        self.abort()

    def _report(self, problem: str) -> None:
        _log.error("{peer} - {problem}", peer=str(self), problem=logText(problem))

    def _carry(self, above: Any, upgrade: Upgrade, rest: bytes) -> None:
        """
        Carry frames from here on, for the protocol of a client or leafnode, with its first input.
        """

        def limit() -> int:
            decoder = above.owner.decoder
            most: int = decoder.maxControlLine
            return most + (_UNLIMITED if decoder.maxPayload < 0 else decoder.maxPayload)

        self._stopTimer()
        isAccepted = self._name is None
        reader = FrameReader(
            upgrade.isMasked and isAccepted,
            Inflation(limit) if upgrade.isCompressed else None,
            takesText=not upgrade.isMQTT,
        )
        writer = FrameWriter(
            upgrade.isMasked and not isAccepted,
            upgrade.isCompressed,
            FOR_BROWSERS if upgrade.isBrowser else 0,
            upgrade.isSafari,
        )
        frames = WebSocketTransport(self._context.reactor, self, self._stream, reader, writer)
        self._frames, self._above = frames, above
        frames.carry(above, lambda: above.owner)
        if rest:
            frames.received(rest)

    def dataReceived(self, data: bytes) -> None:
        if self._frames is not None:
            self._frames.received(data)
        elif self._isVetting:
            self._hoard += data
        elif self._stage is not None:
            self._stage.received(data)
        else:
            self._shake(data)

    def _end(self) -> None:
        self._stopTimer()
        self._stream.unregisterProducer()
        self._stream.loseConnection()
        self._schedule(self._context.reactor, LINGER, self.abort)

    def internalFailure(self) -> None:
        session = None if self._above is None else self._above.owner
        if session is None:
            _log.failure("{peer} - Internal failure", peer=str(self))
            self.abort()
        else:
            session.internalFailure()

    def pauseProducing(self) -> None:
        if self._frames is not None:
            self._frames.blocked()

    def resumeProducing(self) -> None:
        if self._frames is not None:
            self._frames.unblocked()

    def stopProducing(self) -> None:
        """Nothing to do: C{connectionLost} follows."""

    def readConnectionLost(self) -> None:
        if self._above is None:
            self.abort()
        else:
            self._above.readConnectionLost()

    def writeConnectionLost(self) -> None:
        self.abort()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._stopTimer()
        if self._stage is not None:
            self._stage.stop()
        self._stopVetting()
        if self.connection is not None:
            self.connection.forget()
        if self._above is not None:
            self._above.connectionLost(reason)


class AcceptedWebSocket(WebSocketProtocol):
    """
    @ivar adoption: as of L{natsbroker.clients.protocol.ClientProtocol}, for the client above.
    """

    adoption: Adoption | None = None

    def __init__(self, service: Any, context: LinkContext, tls: LinkTLS | None) -> None:
        super().__init__(context, tls, service.block.handshake_timeout)
        self._service = service
        self._handshake = ServerHandshake(
            service.terms, tls is not None, service.date, self._report
        )

    def _isProxied(self) -> bool:
        return bool(self._service.isProxied)

    def _begin(self) -> None:
        self._service.handshakes.add(self)

    def _shake(self, data: bytes) -> None:
        handshake = self._handshake
        answer = handshake.received(data)
        if answer:
            self.write(answer)
        if handshake.upgrade is not None:
            self._accept(handshake.upgrade)
        elif handshake.isOver:
            self._end()

    def _accept(self, upgrade: Upgrade) -> None:
        self._service.handshakes.discard(self)
        above = self._service.protocolFor(self, upgrade)
        if above is None:
            self._report("Not configured to accept leaf node connections")
            self._end()
        else:
            self._carry(above, upgrade, self._handshake.rest)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._service.handshakes.discard(self)
        super().connectionLost(reason)
