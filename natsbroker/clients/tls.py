"""
TLS on client connections, in each of the ways in which clients of NATS begin it.

With C{Begin.AFTER_INFO}, the handshake starts in the batch that writes INFO, so that no byte of the
client is read in the clear. With C{Begin.FIRST} nothing is written before the handshake. If
plaintext is allowed, the first byte of the client decides (PROTOCOL part 2, row 57). A handshake
that fails or takes too long ends the connection without an error line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from OpenSSL import SSL
from twisted.internet.interfaces import IAddress, IHandshakeListener, ISSLTransport
from twisted.internet.protocol import Factory, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker import errors
from natsbroker.clients.context import ClientContext
from natsbroker.clients.protocol import ClientProtocol
from natsbroker.clients.proxied import refuseHeader
from natsbroker.clients.session import ClientSession
from natsbroker.connections.peer import ClientPeer
from natsbroker.connections.polledtls import PolledTLS
from natsbroker.connections.polledtransport import pollStream
from natsbroker.connections.proxyheader import HeaderStage, ProxiedPeer
from natsbroker.connections.tls import NOT_PINNED, Begin, TLSTerms, isPinned, securityOf

#: The first byte of a TLS handshake.
_HANDSHAKE = 0x16


@implementer(IHandshakeListener)
class TLSClientProtocol(ClientProtocol):
    def __init__(self, context: ClientContext, factory: TLSClientFactory) -> None:
        super().__init__(context, factory.isProxied)
        self._terms = factory.terms
        self._begin = factory.terms.begin
        self._makers = factory
        self._receive: Callable[[bytes], None] = super().dataReceived
        self._soon: Any = None
        self._isPending = False
        self._stage: HeaderStage | None = None
        self._goOn: Callable[[bytes], None] = self._startWith

    def connectionMade(self) -> None:
        if ISSLTransport.providedBy(self.transport):
            self._begin = Begin.BEFORE_US
        self._attach()
        self.isUnnamed = self._isProxied and self._begin is not Begin.BEFORE_US
        _BEGINNINGS[self._begin](self)

    def _streamOver(self, transport: Any) -> Any:
        return pollStream(self._makers.poller, transport, self, self._context.batch)

    def _makeSession(self) -> ClientSession:
        return self._makers.makeSession(self._context, self)

    def _behindHeader(self, goOn: Callable[[bytes], None]) -> None:
        """Call C{goOn} with the first input, which may be empty, after any header of a proxy."""
        self._goOn = goOn
        if not self.isUnnamed:
            goOn(b"")
            return
        if self._stage is None:
            self._stage = HeaderStage(self._context.reactor, self._headerRead, self._headerRefused)
        self._receive = self._stage.received

    def _headerRead(self, client: ProxiedPeer | None, rest: bytes) -> None:
        self._stage = None
        self.named(client)
        self._goOn(rest)

    def _headerRefused(self, problem: str) -> None:
        self._stage = None
        if self.session is not None and not self.session.reason:
            refuseHeader(self.session, problem)

    def _afterInfo(self) -> None:
        self._greet()
        if not self._isRefused():
            self._behindHeader(self._startWith)

    def _first(self) -> None:
        if self._hasRoom():
            self._behindHeader(self._startWith)

    def _expectHandshake(self, data: bytes) -> None:
        self._receive = self._startWith
        if data:
            self._startWith(data)

    def _firstOrInfo(self) -> None:
        if self._hasRoom():
            self._behindHeader(self._expectHandshake)
            self._schedule(
                self._context.reactor,
                self._terms.settings.handshake_first_fallback,
                self._fallBack,
            )

    def _fallBack(self) -> None:
        self._timer = None
        if self._terms.optional:
            self._byClient()
        else:
            self._afterInfo()

    def _byClient(self) -> None:
        self._greet()
        self._behindHeader(self._expectEither)

    def _expectEither(self, data: bytes) -> None:
        self._receive = self._sniff
        if data:
            self._sniff(data)

    def _beforeUs(self) -> None:
        self._isPending = True
        self._schedule(self._context.reactor, self._terms.settings.timeout, self._late)

    def _hasRoom(self) -> bool:
        try:
            self._checkRoom()
        except errors.ConnectionLimit as limit:
            if self.session is not None:
                self.session.refused(limit)
            return False
        return True

    def _isRefused(self) -> bool:
        return self.session is None or bool(self.session.reason)

    def _startTLS(self) -> None:
        session = self.session
        if session is None:
            return
        if not self._makers.allowHandshake(self._context.reactor.seconds()):
            session.close(errors.THROTTLED)
            return
        session.outbox.flush()
        self._isPending = True
        self._receive = self._collect
        self._startHandshake(
            self._context.reactor, self._terms.creator, self._terms.settings.timeout
        )

    def _startWith(self, data: bytes) -> None:
        self._stopTimer()
        self._startTLS()
        if data and self._isPending:
            self._layer.dataReceived(data)

    def _sniff(self, data: bytes) -> None:
        self._receive = super().dataReceived
        if data[0] == _HANDSHAKE:
            self._startWith(data)
        else:
            self._receive(data)

    def dataReceived(self, data: bytes) -> None:
        self._receive(data)

    def _collect(self, data: bytes) -> None:
        """Collect a TLS record. After the last one of a read, all are processed together."""
        session = self.session
        if session is None:
            return
        session.decoder.append(data)
        if self._soon is None:
            self._soon = self._context.reactor.callLater(0, self._proceed)

    def _proceed(self) -> None:
        self._soon = None
        if self.session is not None and not self._isVetting:
            self.session.proceed()

    def handshakeCompleted(self) -> None:
        self._isPending = False
        self.isSecured = True
        if self.connection is not None and self.session is not None:
            session = self.session
            fast = self._context.fastLane
            if self._useRecords(self.connection, fast, session.decoder, self._proceed):
                self._sealed(session)
        self._stopTimer()
        self.certificate = self._peerCertificate()
        isGreeted = self._isGreeted()
        self.tls = securityOf(self.connection, self.certificate, not isGreeted)
        if not isPinned(self.certificate, self._terms.settings.pinned_certs):
            self._failed(NOT_PINNED)
        elif self._terms.settings.verify:
            self._vet(self._terms.settings, self._enter)
        else:
            self._enter()

    def _enter(self) -> None:
        if self._begin in _GREET_LATE and not self._isGreeted():
            self._greet()
        elif self.session is not None:
            self.session.secured()
        self._proceed()

    def _sealed(self, session: ClientSession) -> None:
        if isinstance(self._stream, PolledTLS):
            self._fast = self._stream
            self._stream.seals(session.outbox)

    def _isGreeted(self) -> bool:
        session = self.session
        return session is not None and self._context.connections.get(session.cid) is session

    def termsChanged(self) -> None:
        """
        Close the connection if its key is no longer trusted. Other terms stay those that it began
        with.
        """
        if self.isSecured and not isPinned(
            self.certificate, self._makers.terms.settings.pinned_certs
        ):
            self._failed(f"{NOT_PINNED} any more")

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._stopTimer()
        if self._stage is not None:
            self._stage.stop()
        self._stopVetting()
        soon, self._soon = self._soon, None
        if soon is not None:
            soon.cancel()
            self._proceed()
        if self.connection is not None:
            self.connection.forget()
        session = self.session
        if self._isPending and session is not None and not session.reason:
            self._logFailure(_explained(reason))
            session.reason = errors.TLS_HANDSHAKE.reason
        super().connectionLost(reason)
        self._receive = self._goOn = _drop


def _drop(data: bytes) -> None:
    """There is no input after the end."""


_BEGINNINGS: dict[Begin, Callable[[TLSClientProtocol], None]] = {
    Begin.AFTER_INFO: TLSClientProtocol._afterInfo,
    Begin.FIRST: TLSClientProtocol._first,
    Begin.FIRST_OR_INFO: TLSClientProtocol._firstOrInfo,
    Begin.BY_CLIENT: TLSClientProtocol._byClient,
    Begin.BEFORE_US: TLSClientProtocol._beforeUs,
}

_GREET_LATE = frozenset({Begin.FIRST, Begin.FIRST_OR_INFO, Begin.BEFORE_US})


def _explained(reason: Failure) -> str:
    value = reason.value
    if isinstance(value, SSL.Error) and value.args and isinstance(value.args[0], list):
        return "; ".join(str(part[-1]) for part in value.args[0]) or "unexpected EOF"
    return str(value) or type(value).__name__


class TLSClientFactory(Factory):
    noisy = False
    poller: Any = None

    def __init__(
        self,
        context: ClientContext,
        terms: TLSTerms,
        isProxied: bool = False,
        makeSession: Callable[[ClientContext, ClientPeer], ClientSession] = ClientSession,
    ) -> None:
        self.context = context
        self.makeSession = makeSession
        self.terms = terms
        self.isProxied = isProxied
        self._second = 0
        self._handshakes = 0

    def buildProtocol(self, addr: IAddress | None) -> TLSClientProtocol:
        protocol = TLSClientProtocol(self.context, self)
        protocol.factory = self
        return protocol

    def allowHandshake(self, now: float) -> bool:
        """Count a handshake. Return whether another one is allowed in this second."""
        if int(now) != self._second:
            self._second = int(now)
            self._handshakes = 0
        self._handshakes += 1
        return not 0 < self.terms.settings.connection_rate_limit < self._handshakes
