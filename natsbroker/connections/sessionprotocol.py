"""The common part of the protocols of clients and links: events for a session, and TLS."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IHalfCloseableProtocol, IPushProducer
from twisted.internet.protocol import Protocol
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker import errors, hot
from natsbroker.config.tls import TLSSettings
from natsbroker.connections.peersession import PeerSession
from natsbroker.connections.polledtls import PolledTLS, startTLS
from natsbroker.connections.polledtransport import PolledTransport, unsentBy
from natsbroker.connections.tlsrecords import Records, SealedConnection, widen

_log = Logger(namespace="natsbroker")


def _unvetted(failure: Failure) -> str | None:
    """Return C{None} if the connection has ended, so that nobody waits any more."""
    if failure.check(CancelledError):
        return None
    _log.failure("A certificate could not be checked", failure)
    return "OCSP: the certificate could not be checked"


#: The time, in seconds, that a closed connection has to send its remaining output.
LINGER = 1.0


class StreamProtocol(Protocol):
    """
    A stream that may be encrypted: the timer and the TLS handshake before a session begins.

    @ivar connection: our OpenSSL connection; C{None} before the handshake, or if the transport does
        TLS.
    """

    connection: SealedConnection | None = None
    host = ""
    port = 0

    def __init__(self) -> None:
        self._stream: Any = None
        self._timer: Any = None
        self._records: Records | None = None
        self._vetting: Deferred[str] | None = None
        self._hoard = b""

    def _vet(self, tls: TLSSettings, goOn: Callable[[], None]) -> None:
        """
        Continue after the handshake, and after OCSP's verdict if there is one; see L{_isVetting}.
        """
        terms = tls.ocsp
        if terms is None or self.connection is None or not terms.vets(tls):
            goOn()
            return
        self._vetting = vetting = terms.vet(self.connection, tls)
        self._stream.pauseProducing()
        vetting.addErrback(_unvetted)
        vetting.addCallback(self._vetted, goOn)

    def _vetted(self, problem: str | None, goOn: Callable[[], None]) -> None:
        self._vetting = None
        if problem is None:
            return
        self._stream.resumeProducing()
        if problem:
            self._failed(problem)
            return
        goOn()
        hoard, self._hoard = self._hoard, b""
        if hoard:
            self.dataReceived(hoard)

    @property
    def _isVetting(self) -> bool:
        return self._vetting is not None

    def _stopVetting(self) -> None:
        if self._vetting is not None:
            self._vetting.cancel()

    @abstractmethod
    def _failed(self, problem: str) -> None:
        """The handshake failed, or took too long: close the connection."""

    def _schedule(self, reactor: Any, delay: float, call: Callable[[], None]) -> None:
        self._timer = reactor.callLater(delay, call)

    def _stopTimer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def _startHandshake(self, reactor: Any, creator: Any, timeout: float) -> None:
        if isinstance(self._stream, PolledTransport):
            self._stream = startTLS(self._stream, creator, self)
        else:
            widen(self._stream)
            self._stream.startTLS(creator)
        self._schedule(reactor, timeout, self._late)

    @property
    def _layer(self) -> Any:
        """The TLS layer, once TLS has begun."""
        return self._stream if isinstance(self._stream, PolledTLS) else self._stream.protocol

    def _late(self) -> None:
        self._timer = None
        self._failed("handshake timeout")

    def _peerCertificate(self) -> Any:
        certificate = self._stream.getPeerCertificate()
        return None if certificate is None else certificate.to_cryptography()

    def _useRecords(
        self, connection: SealedConnection, fast: bool, decoder: hot.Decoder, came: Any
    ) -> bool:
        """Encrypt in bulk from now on, and decrypt into a decoder where that is compiled."""
        seal = connection.seal() if fast else None
        self._records = Records(connection, self._layer, seal)
        if seal is not None:
            connection.renewBuffers()
            connection.readInto(seal, decoder, came)
            if isinstance(self._stream, PolledTLS):
                self._stream.useSeal(decoder, came, self._records.send)
        return seal is not None

    def write(self, data: bytes) -> None:
        if self._records is None:
            self._stream.write(data)
        elif isinstance(self._stream, PolledTLS) and self._stream.outbox is not None:
            self._stream.outbox.write(data)
        else:
            self._records.send(data)

    def abort(self) -> None:
        self._stream.abortConnection()


@implementer(IPushProducer, IHalfCloseableProtocol)
class SessionProtocol(StreamProtocol):
    @property
    def owner(self) -> PeerSession | None:
        raise NotImplementedError

    def _failed(self, problem: str) -> None:
        session = self.owner
        if session is not None:
            self._logFailure(problem)
            session.close(errors.TLS_HANDSHAKE, abort=True)

    def _logFailure(self, problem: str) -> None:
        _log.error(
            "{session} - TLS handshake error: {problem}", session=str(self.owner), problem=problem
        )

    def finish(self) -> None:
        """Send what waits, then close. A peer that does not take it is cut soon."""
        self._stopTimer()
        self._stream.unregisterProducer()
        self._stream.loseConnection()
        if self.owner is not None:
            self._schedule(self.owner.context.reactor, LINGER, self.abort)

    def readConnectionLost(self) -> None:
        if self.owner is not None:
            self.owner.inputEnded()

    def writeConnectionLost(self) -> None:
        self.abort()

    def pauseProducing(self) -> None:
        if self.owner is not None:
            self.owner.outbox.pause(partial(unsentBy, self._stream))
            self.owner.writeBlocked()

    def resumeProducing(self) -> None:
        if self.owner is not None:
            self.owner.writeProgressed()
            self.owner.outbox.resume()

    def stopProducing(self) -> None:
        """Do nothing: C{connectionLost} follows."""
