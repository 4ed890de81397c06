"""
A conversation with a client as such: that it begins, takes input, says things and ends.

Nothing escapes what input causes; however a conversation ends, it is said, logged,
remembered and counted once.
"""

from __future__ import annotations

import base64
from abc import abstractmethod
from functools import partial
from typing import Any

from twisted.logger import Logger

from natsbroker import errors, hot
from natsbroker.advisories import ClientRefused, SlowConsumer
from natsbroker.clients.context import ClientContext, ClosedClient
from natsbroker.clients.facts import ConnectionFacts, factsAtEnd, factsOf
from natsbroker.clients.info import ServerInfo
from natsbroker.clients.login import Login
from natsbroker.clients.subscriptions import SubscriptionTable
from natsbroker.connections.keepalive import Keepalive
from natsbroker.connections.labels import authenticationFailure, clientLabel
from natsbroker.connections.peer import ClientPeer
from natsbroker.connections.peersession import PeerSession
from natsbroker.connections.trace import Trace
from natsbroker.wire.connect import DEFAULTS
from natsbroker.wire.grants import Grant

__all__ = ["Conversation"]

_log = Logger()

#: What is no news: the real server logs it for debugging only.
_QUIET = frozenset(
    {
        errors.ACCOUNT_EXPIRED,
        errors.AUTH_EXPIRED,
        errors.AUTH_REVOKED,
        errors.AUTH_TIMEOUT,
        errors.STALE,
    }
)


class Conversation(PeerSession):
    """
    @ivar cid: the number of the connection.
    @ivar options: what CONNECT said, with the defaults for what it did not say.
    @ivar grant: what the client may do; C{None} before it is let in.
    @ivar outbox: what waits for it.
    @ivar decoder: what came from it.
    @ivar started: when the connection began.
    @ivar reason: why it was closed; empty while it is open.
    """

    __slots__ = (
        "__weakref__",
        "_connected",
        "_context",
        "_expires",
        "_isInputEnded",
        "_keepalive",
        "_last",
        "_login",
        "_loginBy",
        "_nonce",
        "_peer",
        "_stuckSince",
        "_trace",
        "cid",
        "decoder",
        "grant",
        "options",
        "outbox",
        "reason",
        "started",
        "subscriptions",
    )

    def __init__(self, context: ClientContext, peer: ClientPeer) -> None:
        limits = context.limits
        now = context.reactor.seconds()
        self._context = context
        self._peer = peer
        self._beginTurns(context.turn)
        self.cid = context.connections.nextNumber()
        self.options: dict[str, Any] = dict(DEFAULTS)
        self.grant: Grant | None = None
        self.started = now
        self.reason = ""
        self.subscriptions: SubscriptionTable | None = None
        self.decoder = hot.Decoder(limits.max_control_line, limits.max_payload)
        self.decoder.heard = now
        self.decoder.authorized = not context.authorizer.required
        self.decoder.announce = True
        self.outbox = hot.Outbox(self._turn, self, peer.write, limits.max_pending)
        self._login: Login | None = None
        self._loginBy: float | None = None
        self._expires: float | None = None
        self._stuckSince: float | None = None
        self._connected = False
        self._isInputEnded = False
        self._nonce = ""
        self._last: ConnectionFacts | None = None
        self._keepalive = Keepalive(limits.ping_interval, now, context.random.random())
        self._trace: Trace | None = None

    @abstractmethod
    def _frames(self) -> None:
        """
        Handle the frames in the decoder.
        """

    @abstractmethod
    def _schedule(self) -> None:
        """
        Ask to be called at the next deadline.
        """

    @abstractmethod
    def deadlinePassed(self, now: float) -> float | None:
        """
        See L{natsbroker.connections.wheel.HasDeadline}.
        """

    @abstractmethod
    def _leaveAccount(self) -> None:
        """
        Give up the grant, if there is one, and what came with it.
        """

    def opened(self) -> None:
        """
        The connection is there: greet it.
        """
        context = self._context
        context.connections.add(self.cid, self)
        if context.authorizer.nonce:
            nonce = base64.urlsafe_b64encode(context.nonceBytes(11)).rstrip(b"=")
            self._nonce = nonce.decode("ascii")
        self.outbox.write(self._serverInfo().line(self.cid, self._peer.host, nonce=self._nonce))
        if context.authorizer.deadline:
            self._loginBy = self.started + context.limits.auth_timeout
        self._schedule()
        _log.debug("{client} - Client connection created", client=str(self))

    def secured(self) -> None:
        """
        The connection was greeted in the clear and is encrypted now: the time to log in counts
        from here.
        """
        if self._loginBy is not None:
            self._loginBy = self._context.reactor.seconds() + self._context.limits.auth_timeout
            self._schedule()

    def refused(self, limit: errors.ConnectionLimit) -> None:
        """
        The connection is there, but one too many: say so and close it.
        """
        self.outbox.write(self._serverInfo().line(self.cid, self._peer.host, nonce=self._nonce))
        self.close(limit.error)

    def _serverInfo(self) -> ServerInfo:
        """
        What INFO says to this client: where there is no way but TLS, it is required, also where
        the settings do not say so for all listeners.
        """
        info = self._context.info
        if not self._peer.isSecured or info.tls_required or info.tls_available:
            return info
        return info.changed(tls_required=True)

    def received(self, data: bytes) -> None:
        """
        Take input. What comes after the connection was closed is thrown away.
        """
        if self.reason:
            return
        self.decoder.append(data)
        self.proceed()

    def proceed(self) -> None:
        """
        Handle what is in the decoder. Nothing escapes: what fails in here ends the connection.
        """
        if not self.reason and self._login is None and not self._isQueued:
            self._inTurn(self._frames)

    def inputEnded(self) -> None:
        """
        The client sends no more. It gets what its operations have caused, and the answer to its
        CONNECT if that is still to come; then the connection ends.
        """
        self._isInputEnded = True
        if self._login is None and not self.reason and not self._isDeferred(self.inputEnded):
            self.outbox.flush()
            self._peer.finish()

    def lost(self, reason: str = "Client Closed") -> None:
        """
        The transport is gone. Called exactly once, whoever closed.

        @param reason: what to note if it was not us.
        """
        if not self.reason and self._isDeferred(partial(self.lost, reason)):
            self.outbox.close()
            return
        self.reason = self.reason or reason
        context = self._context
        facts, label = self._last or factsAtEnd(self), str(self)
        self.outbox.close()
        context.wheel.forget(self)
        if self._login is not None:
            self._login.cancel()
            self._login = None
        if self._stall is not None:
            self._stall.end()
        self._leaveAccount()
        closed = ClosedClient(facts, context.reactor.seconds(), self.reason)
        context.connections.remove(self.cid, closed, self.traffic)
        _log.debug("{client} - Client connection closed: {why}", client=label, why=self.reason)

    def close(self, error: errors.WireError, *arguments: str, abort: bool = False) -> None:
        """
        End the connection for a reason of ours.

        @param abort: whether what waits is thrown away.
        """
        if self.reason:
            return
        self.reason = error.reason
        if self.grant is None:
            self._context.notify(ClientRefused(self.cid, self._peer.host, error.reason))
        self._last = factsAtEnd(self)
        if self.subscriptions is not None:
            self.subscriptions.clear()
        if abort:
            self._peer.abort()
            return
        line = error.line(*arguments)
        if error == errors.AUTHORIZATION:
            _log.error(
                "{client} - {text}", client=str(self), text=authenticationFailure(self.options)
            )
        elif line:
            log = _log.debug if error in _QUIET else _log.error
            log("{client} - {text}", client=str(self), text=_shown(line))
        if line:
            self._say(line)
        self.outbox.resume()
        self._peer.finish()

    def facts(self) -> ConnectionFacts:
        """
        What there is to tell about the connection now, for monitoring.
        """
        return factsOf(self)

    @property
    def traffic(self) -> tuple[int, int, int, int]:
        """
        Messages in, bytes in, messages out, bytes out.
        """
        decoder, outbox = self.decoder, self.outbox
        return decoder.messages, decoder.messageBytes, outbox.messages, outbox.messageBytes

    @property
    def lastActivity(self) -> float:
        """
        When the client last sent anything but PONG.
        """
        return self.decoder.heard

    @property
    def roundTrip(self) -> float:
        """
        The last measured round trip in seconds; 0.0 before the first.
        """
        return self._keepalive.roundTrip

    @property
    def peer(self) -> ClientPeer:
        """
        The transport.
        """
        return self._peer

    def __str__(self) -> str:
        peer = self._peer
        options = self.options if self._connected else {}
        return clientLabel(peer.host, peer.port, self.cid, options, self.grant)

    def _say(self, line: bytes) -> None:
        if self._trace is not None:
            self._trace.said(line)
        self.outbox.write(line)

    def _cut(self, error: errors.WireError, detail: str) -> None:
        if self.reason:
            return
        connections = self._context.connections
        connections.slowConsumer(error.reason)
        _log.info("{client} - Slow Consumer Detected: {detail}", client=str(self), detail=detail)
        self._context.notify(SlowConsumer(self.cid, self.outbox.limit, error.reason))
        self.close(error, abort=True)

    def outboxOverflowed(self) -> None:
        """
        Too much waits for a slow consumer: cut it.
        """
        self._cut(errors.SLOW_PENDING, f"MaxPending of {self.outbox.limit} Exceeded")


def _shown(line: bytes) -> str:
    """
    What stands between the quotes of an C{-ERR} line, for the log.
    """
    return line[6:-3].decode("utf-8", "replace")
