"""
The client's side of one connection: INFO, TLS if one side wants it, CONNECT and PING; PONG admits
it. Input from before TLS does not count afterwards. Nothing is sent over TLS before the server's
certificate was checked.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from twisted.internet.interfaces import (
    IDelayedCall,
    IHandshakeListener,
    IReactorTime,
    ISSLTransport,
)
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker.client.errors import ClientError, ConnectionEnded, ServerError, TLSError
from natsbroker.client.options import ConnectOptions, connectFields
from natsbroker.connections.keepalive import Keepalive, KeepaliveAction
from natsbroker.connections.peernames import NamelessCertificate, checkNames
from natsbroker.wire import ops
from natsbroker.wire.serverside import ServerDecoder, connectLine
from natsbroker.wire.values import Message

__all__ = ["ConnectionListener", "ConnectionTerms", "ServerConnection"]

_PINGS = 2
"""Unanswered PINGs after which the server counts as gone."""


class ConnectionListener(Protocol):
    def began(self) -> None: ...

    def ended(self, reason: ClientError) -> None:
        """The connection is gone. Called once, also if it never began."""

    def received(self, message: Message, sid: bytes) -> None: ...

    def ponged(self) -> None:
        """The answer to a PING of L{ServerConnection.ping}."""

    def failed(self, text: str) -> None:
        """The server refused something; the connection remains."""


@dataclass(frozen=True)
class ConnectionTerms:
    """
    The way to connect.

    @ivar tls: makes the TLS connection (an C{IOpenSSLClientConnectionCreator}); C{None} for no TLS.
    @ivar isPrivate: no other process can read the connection, so it needs no TLS.
    @ivar pingInterval: between PINGs to a silent server, in seconds.
    """

    options: ConnectOptions
    tls: Any = None
    isPrivate: bool = False
    pingInterval: float = 120.0


class _Phase(Enum):
    GREETING = "waiting for INFO"
    HANDSHAKE = "waiting for TLS to begin"
    LOGIN = "waiting for the answer to CONNECT"
    OPEN = "let in"
    ENDED = "gone"


@implementer(IHandshakeListener)
class ServerConnection(TwistedProtocol):
    def __init__(
        self, reactor: IReactorTime, terms: ConnectionTerms, listener: ConnectionListener
    ) -> None:
        self.info: dict[str, Any] = {}
        self._reactor = reactor
        self._terms = terms
        self._listener = listener
        self._decoder = ServerDecoder()
        self._phase = _Phase.GREETING
        self._reason: ClientError | None = None
        self._lastError = ""
        # The unanswered PINGs, each with whether the owner sent it.
        self._pings: deque[bool] = deque()
        self._heard = reactor.seconds()
        self._keepalive = Keepalive(terms.pingInterval, self._heard, 0.0)
        self._timer: IDelayedCall | None = None

    def write(self, *pieces: bytes) -> None:
        if self._phase is not _Phase.OPEN or self.transport is None:
            raise ConnectionEnded(str(self._reason or "not connected"))
        self.transport.write(b"".join(pieces))

    def ping(self) -> None:
        """
        Send PING: L{ConnectionListener.ponged} follows. L{ConnectionEnded} without a connection.
        """
        self._sendPing(True)

    def _sendPing(self, isOwners: bool) -> None:
        self.write(b"PING\r\n")
        self._pings.append(isOwners)

    def close(self, reason: ClientError) -> None:
        self._reason = self._reason or reason
        if self.transport is not None:
            self.transport.loseConnection()

    def abort(self, reason: ClientError) -> None:
        self._reason = self._reason or reason
        transport: Any = self.transport
        if transport is not None:
            transport.abortConnection()

    def dataReceived(self, data: bytes) -> None:
        self._heard = self._reactor.seconds()
        decoder = self._decoder
        decoder.append(data)
        while self._reason is None and (frame := decoder.next()) is not None:
            if frame[0] != ops.ERR:
                self._lastError = ""
            _FRAMES[frame[0]](self, *frame[1:])

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._phase = _Phase.ENDED
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._reason is None and self._lastError:
            self._reason = ServerError(self._lastError)
        self._listener.ended(self._reason or ConnectionEnded(reason.getErrorMessage()))

    def _info(self, text: bytes) -> None:
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            self.abort(ClientError("INFO is malformed"))
            return
        self.info = fields
        if self._phase is _Phase.GREETING:
            self._greeted()

    def _greeted(self) -> None:
        terms = self._terms
        transport: Any = self.transport
        isTLS = ISSLTransport.providedBy(transport)
        if isTLS or terms.isPrivate:
            self._logIn(isTLS)
        elif terms.tls is not None:
            if not (self.info.get("tls_required") or self.info.get("tls_available")):
                self.abort(TLSError("the server does not offer TLS"))
            elif self._decoder.pending:
                self.abort(TLSError("the server sent data before TLS could begin"))
            else:
                self._phase = _Phase.HANDSHAKE
                transport.startTLS(terms.tls)
        elif self.info.get("tls_required"):
            self.abort(TLSError("the server requires TLS"))
        else:
            self._logIn(False)

    def handshakeCompleted(self) -> None:
        """Continue: TLS has compared the name in the server's certificate, if there was one."""
        transport: Any = self.transport
        certificate = transport.getPeerCertificate()
        try:
            checkNames(None if certificate is None else certificate.to_cryptography())
        except NamelessCertificate as error:
            self.abort(TLSError(str(error)))
            return
        if self._phase is _Phase.HANDSHAKE:
            self._logIn(True)

    def _logIn(self, isTLS: bool) -> None:
        self._phase = _Phase.LOGIN
        nonce = self.info.get("nonce")
        fields = connectFields(self._terms.options, nonce if isinstance(nonce, str) else "", isTLS)
        # A server without headers closes a connection that asks for no_responders.
        fields["no_responders"] = self.info.get("headers") is True
        transport: Any = self.transport
        transport.write(connectLine(fields) + b"PING\r\n")

    def _pong(self) -> None:
        if self._phase is _Phase.LOGIN:
            self._phase = _Phase.OPEN
            self._schedule()
            self._listener.began()
        elif self._pings:
            if self._pings.popleft():
                self._listener.ponged()
            else:
                self._keepalive.ponged(self._reactor.seconds())

    def _ping(self) -> None:
        if self.transport is not None:
            self.transport.write(b"PONG\r\n")

    def _ok(self) -> None:
        """Ignore C{+OK}: the client does not ask for it."""

    def _message(
        self, subject: bytes, sid: bytes, reply: bytes, headerLength: int, body: bytes
    ) -> None:
        self._listener.received(Message(subject, body, reply, headerLength), sid)

    def _error(self, text: str) -> None:
        self._lastError = text
        if self._phase is _Phase.OPEN:
            self._listener.failed(text)

    def _fault(self, text: str) -> None:
        self.abort(ClientError(f"this is not a NATS server: {text}"))

    def _schedule(self) -> None:
        delay = max(self._keepalive.due - self._reactor.seconds(), 0.0)
        self._timer = self._reactor.callLater(delay, self._timePassed)

    def _timePassed(self) -> None:
        self._timer = None
        action = self._keepalive.timePassed(self._reactor.seconds(), self._heard, _PINGS)
        if action is KeepaliveAction.STALE:
            self.abort(ConnectionEnded("the server does not answer"))
            return
        if action is KeepaliveAction.PING:
            self._sendPing(False)
        self._schedule()


_FRAMES: dict[int, Callable[..., None]] = {
    ops.INFO: ServerConnection._info,
    ops.MSG: ServerConnection._message,
    ops.HMSG: ServerConnection._message,
    ops.PING: ServerConnection._ping,
    ops.PONG: ServerConnection._pong,
    ops.OK: ServerConnection._ok,
    ops.ERR: ServerConnection._error,
    ops.FAULT: ServerConnection._fault,
}
