"""
Links over Twisted transports, dialled and accepted.

With TLS the session begins when the handshake is done and the peer is who it should be. Plain TCP
goes through the poller where there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.interfaces import (
    IAddress,
    IHalfCloseableProtocol,
    IHandshakeListener,
    IPushProducer,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker import errors, hot
from natsbroker.connections.peer import LinkPeer, placeOf
from natsbroker.connections.polledtransport import pollTransport, relayed, unsentBy
from natsbroker.connections.tls import NOT_PINNED, isPinned
from natsbroker.connections.tlsrecords import Records, SealedConnection, widen
from natsbroker.links.link import Link
from natsbroker.links.s2link import S2Link
from natsbroker.links.tls import LinkTLS, nameProblem

_log = Logger(namespace="natsbroker")

#: How long a closed link may take to send what waits, in seconds, before it is cut.
_LINGER = 1.0

#: Makes the session of a connection.
MakeLink = Callable[[LinkPeer], Link]


@implementer(IPushProducer, IHalfCloseableProtocol, IHandshakeListener)
class LinkProtocol(Protocol):
    """
    @ivar connection: the OpenSSL connection that was made for it; C{None} so far.
    """

    connection: SealedConnection | None = None

    host = ""
    port = 0

    def __init__(self, makeLink: MakeLink, tls: LinkTLS | None, name: str | None = None) -> None:
        """
        @param name: the name in the peer's certificate; C{None} on an accepted connection.
        """
        self._makeLink = makeLink
        self._tls = tls
        self._name = name
        self._timer: Any = None
        self._stream: Any = None
        self._isSecured = tls is None
        self._s2: S2Link | None = None
        self._records: Records | None = None
        self._inlet: hot.Decoder | None = None
        self.link: Link | None = None

    def connectionMade(self) -> None:
        link = self._attach()
        if self._tls is None:
            link.opened()
        else:
            self.startTLS()

    def _attach(self) -> Link:
        transport: Any = self.transport
        self._stream = transport
        self.host, self.port = placeOf(transport.getPeer())
        for option in ("setTcpNoDelay", "setTcpKeepAlive"):
            if hasattr(transport, option):
                getattr(transport, option)(True)
        self.link = link = self._makeLink(self)
        if self._tls is None:
            self._stream = pollTransport(link.context.poller, transport, link)
        self._stream.registerProducer(self, True)
        return link

    def startTLS(self) -> None:
        tls, link = self._tls, self.link
        if tls is None or link is None:
            raise RuntimeError("a handshake without TLS")
        self._isSecured = False
        widen(self._stream)
        self._stream.startTLS(tls.creator(self._name, self))
        self._timer = link.context.reactor.callLater(tls.settings.timeout, self._late)

    def handshakeCompleted(self) -> None:
        self._stopTimer()
        tls, link = self._tls, self.link
        if tls is None or link is None or link.reason:
            return
        found = self._stream.getPeerCertificate()
        certificate = None if found is None else found.to_cryptography()
        problem = "" if isPinned(certificate, tls.settings.pinned_certs) else NOT_PINNED
        if self._name is not None and not tls.settings.insecure:
            problem = problem or nameProblem(certificate, self._name)
        if problem:
            self._failed(problem)
            return
        self._isSecured = True
        if self.connection is not None:
            self._seal(self.connection, link)
        self._secured(link)

    def _seal(self, connection: SealedConnection, link: Link) -> None:
        seal = connection.seal() if link.context.fastLane else None
        self._records = Records(connection, self._stream.protocol, seal)
        if seal is not None:
            self._inlet = hot.Decoder()
            connection.readInto(seal, self._inlet, self._unsealed)

    def _unsealed(self) -> None:
        """
        Hand on what all the records of one read held. It may be compressed, so it is no line yet.
        """
        if self._inlet is not None:
            self.dataReceived(self._inlet.take())

    def _secured(self, link: Link) -> None:
        link.opened()

    def _late(self) -> None:
        self._timer = None
        self._failed("handshake timeout")

    def _failed(self, problem: str) -> None:
        if self.link is not None:
            _log.error(
                "{link} - TLS handshake error: {problem}", link=str(self.link), problem=problem
            )
            self.link.close(errors.TLS_HANDSHAKE, abort=True)

    def _stopTimer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def dataReceived(self, data: bytes) -> None:
        if self._s2 is not None:
            self._s2.received(data)
        elif self.link is not None:
            self.link.received(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._stopTimer()
        if self.connection is not None:
            self.connection.forget()
        link = self.link
        if link is None:
            return
        if not self._isSecured and not link.reason:
            _log.error(
                "{link} - TLS handshake error: {problem}",
                link=str(link),
                problem=str(reason.value) or type(reason.value).__name__,
            )
            link.lost(errors.TLS_HANDSHAKE.reason)
        else:
            link.lost()

    def readConnectionLost(self) -> None:
        if self.link is not None:
            self.link.inputEnded()

    def writeConnectionLost(self) -> None:
        self.abort()

    def write(self, data: bytes) -> None:
        if self._s2 is not None:
            data = self._s2.encoder.encode(data)
        if self._records is None:
            self._stream.write(data)
        else:
            self._records.send(data)

    def compress(self, level: str) -> None:
        link = self.link
        if self._s2 is not None:
            self._s2.encoder.level = level
        elif link is not None:
            self._stream = relayed(self._stream, self, link.context.turn)
            link.outbox.resume()
            self._s2 = S2Link(link, self._stream, level, link.decoder.take())

    def finish(self) -> None:
        """
        A peer that does not take the rest is cut soon.
        """
        self._stopTimer()
        self._stream.unregisterProducer()
        self._stream.loseConnection()
        if self.link is not None:
            self._timer = self.link.context.reactor.callLater(_LINGER, self.abort)

    def abort(self) -> None:
        self._stream.abortConnection()

    def pauseReading(self) -> None:
        (self._s2 or self._stream).pauseProducing()

    def resumeReading(self) -> None:
        (self._s2 or self._stream).resumeProducing()

    def useLane(self, lane: Any) -> None:
        """
        Ordinary transports always ask the link.
        """

    def pauseProducing(self) -> None:
        if self.link is not None:
            self.link.outbox.pause(partial(unsentBy, self._stream))
            self.link.writeBlocked()

    def resumeProducing(self) -> None:
        if self.link is not None:
            self.link.writeProgressed()
            self.link.outbox.resume()

    def stopProducing(self) -> None:
        """
        C{connectionLost} follows.
        """


class LinkFactory(Factory):
    """
    Makes a L{LinkProtocol}, or the protocol of a subclass.

    @ivar tls: for the connections to come.
    """

    noisy = False
    protocol = LinkProtocol

    def __init__(self, makeLink: MakeLink, tls: LinkTLS | None, name: str | None = None) -> None:
        self.tls = tls
        self._makeLink = makeLink
        self._name = name

    def buildProtocol(self, addr: IAddress | None) -> LinkProtocol:
        protocol = self.protocol(self._makeLink, self.tls, self._name)
        protocol.factory = self
        return protocol
