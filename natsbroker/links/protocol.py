"""
Links over Twisted transports, dialled and accepted. With TLS the session begins after the handshake
with the right peer. Plain TCP uses the poller if there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IAddress, IHandshakeListener
from twisted.internet.protocol import Factory, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker import errors, hot
from natsbroker.connections.peer import LinkPeer, placeOf
from natsbroker.connections.polledtransport import pollTransport, relayed
from natsbroker.connections.s2stream import LARGEST, S2Decoder, S2Encoder, S2Error
from natsbroker.connections.sessionprotocol import SessionProtocol
from natsbroker.links.link import Link
from natsbroker.links.tls import LinkTLS

#: Makes the session of a connection.
MakeLink = Callable[[LinkPeer], Link]


_log = Logger(namespace="natsbroker")

#: The most decoded bytes that a session receives at once, and in one iteration of the reactor.
_AT_ONCE = 1 << 16
_IN_AN_ITERATION = 1 << 18


class S2Link:
    __slots__ = ("_decoder", "_isBusy", "_isLater", "_isPaused", "_link", "_stream", "encoder")

    def __init__(self, link: Link, stream: Any, level: str, data: bytes) -> None:
        """C{data} is the input behind the last uncompressed line."""
        self.encoder = S2Encoder(level)
        self._decoder = S2Decoder()
        self._link = link
        self._stream = stream
        self._isPaused = False
        self._isLater = False
        self._isBusy = False
        if data:
            self._decoder.feed(data)
            self._later()

    def received(self, data: bytes) -> None:
        self._decoder.feed(data)
        if not self._isLater:
            self._proceed()

    def pauseProducing(self) -> None:
        self._isPaused = True
        self._stream.pauseProducing()

    def resumeProducing(self) -> None:
        """Resume reading for the session, first input that was read already."""
        self._isPaused = False
        if not (self._isBusy or self._decoder.isStarved):
            self._later()
        elif not self._isLater:
            self._stream.resumeProducing()

    def _proceed(self) -> None:
        self._isBusy = True
        batch = self._link.context.batch
        # Decompression uses the session's time in an iteration.
        batch.enter()
        try:
            self._decode()
        except S2Error as error:
            _log.error("{link} - S2: {why}", link=str(self._link), why=str(error))
            self._link.close(errors.S2_DAMAGED)
        finally:
            self._isBusy = False
            batch.leave()

    def _decode(self) -> None:
        """Give the session the decoded input, except the part for a later turn."""
        link, decoder, left = self._link, self._decoder, _IN_AN_ITERATION
        batch = link.context.batch
        while not (link.reason or self._isPaused or decoder.isStarved):
            if left <= 0 or batch.isSpent:
                self._later()
                break
            isTrusted = link.decoder.authorized
            decoder.largest = LARGEST if isTrusted else link.context.settings.max_control_line
            plain = decoder.read(_AT_ONCE)
            if plain:
                link.received(plain)
                left -= len(plain)
            elif not decoder.isStarved:
                left -= _AT_ONCE

    def _later(self) -> None:
        """Continue in another turn, and read nothing from the transport before."""
        if not self._isLater:
            self._isLater = True
            self._stream.pauseProducing()
            self._link.context.reactor.callLater(0, self._continue)

    def _continue(self) -> None:
        self._isLater = False
        link = self._link
        self._proceed()
        if not (link.reason or self._isPaused or self._isLater):
            self._stream.resumeProducing()


@implementer(IHandshakeListener)
class LinkProtocol(SessionProtocol):
    certificate: Any = None

    def __init__(self, makeLink: MakeLink, tls: LinkTLS | None, name: str | None = None) -> None:
        """C{name} is in the peer's certificate; C{None} on an accepted connection."""
        super().__init__()
        self._makeLink = makeLink
        self._tls = tls
        self._name = name
        self._isSecured = tls is None
        self._s2: S2Link | None = None
        self._inlet: hot.Decoder | None = None
        self.link: Link | None = None

    @property
    def owner(self) -> Link | None:
        return self.link

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
        creator = tls.creator(self._name, self)
        self._startHandshake(link.context.reactor, creator, tls.settings.timeout)

    def handshakeCompleted(self) -> None:
        self._stopTimer()
        tls, link = self._tls, self.link
        if tls is None or link is None or link.reason:
            return
        certificate = self._peerCertificate()
        if self._name is None:
            self.certificate = certificate
        problem = tls.problem(certificate, self._name)
        if problem:
            self._failed(problem)
            return
        self._isSecured = True
        if self.connection is not None:
            inlet = hot.Decoder()
            if self._useRecords(self.connection, link.context.fastLane, inlet, self._unsealed):
                self._inlet = inlet
        self._vet(tls.settings, lambda: self._secured(link))

    def _unsealed(self) -> None:
        """Hand on all records of one read. They may be compressed, so they are not lines yet."""
        if self._inlet is not None:
            self.dataReceived(self._inlet.take())

    def _secured(self, link: Link) -> None:
        link.opened()

    def dataReceived(self, data: bytes) -> None:
        if self._isVetting:
            self._hoard += data
        elif self._s2 is not None:
            self._s2.received(data)
        elif self.link is not None:
            self.link.received(data)

    def internalFailure(self) -> None:
        if self.link is not None:
            self.link.internalFailure()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._stopTimer()
        self._stopVetting()
        if self.connection is not None:
            self.connection.forget()
        link = self.link
        if link is None:
            return
        if not self._isSecured and not link.reason:
            self._logFailure(str(reason.value) or type(reason.value).__name__)
            link.lost(errors.TLS_HANDSHAKE.reason)
        else:
            link.lost()

    def write(self, data: bytes) -> None:
        if self._s2 is not None:
            data = self._s2.encoder.encode(data)
        super().write(data)

    def compress(self, level: str) -> None:
        link = self.link
        if self._s2 is not None:
            self._s2.encoder.level = level
        elif link is not None:
            self._stream = relayed(self._stream, self, link.context.batch)
            link.outbox.resume()
            self._s2 = S2Link(link, self._stream, level, link.decoder.take())

    def pauseReading(self) -> None:
        (self._s2 or self._stream).pauseProducing()

    def resumeReading(self) -> None:
        (self._s2 or self._stream).resumeProducing()

    def useLane(self, lane: Any) -> None:
        """Ordinary transports always ask the link."""


class LinkFactory(Factory):
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
