"""
A small NATS client for Twisted programs: publish, subscribe, request.

It does not reconnect; a program that needs that wraps it in a
C{twisted.application.internet.ClientService}, and subscribes again itself. Callbacks come in the
order of the messages. Every Deferred fires when the connection ends, if not before. Subjects that
would break a line of the protocol are refused with C{ValueError}.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from natsbroker.accounts.requests import isNoResponders
from natsbroker.client.errors import ClientError, ConnectionEnded
from natsbroker.client.protocol import ConnectionTerms, ServerConnection
from natsbroker.errors import NoResponders, RequestTimeout
from natsbroker.wire.headers import Headers
from natsbroker.wire.serverside import publishLine, subscribeLine
from natsbroker.wire.values import Message

__all__ = ["Client", "ClientSubscription"]

_log = Logger()

Callback = Callable[[Message], object]
"""Called with each message."""


class ClientSubscription:
    """One subscription, as L{Client.subscribe} returns it; C{queue} may be empty."""

    def __init__(
        self, client: Client, sid: bytes, pattern: bytes, queue: bytes, callback: Callback
    ) -> None:
        self.pattern = pattern
        self.queue = queue
        self.delivered = 0
        self._client = client
        self._sid = sid
        self._callback = callback
        self._maximum = 0

    def cancel(self) -> None:
        """End it now; the callback is not called again. Cancelling twice does nothing."""
        self.cancelAfter(0)

    def cancelAfter(self, count: int) -> None:
        """End it after a number of messages, those already delivered included."""
        self._maximum = count
        self._client._unsubscribe(self, self._sid, count if count > self.delivered else 0)

    def _deliver(self, message: Message) -> bool:
        self.delivered += 1
        try:
            self._callback(message)
        except Exception:
            _log.failure("The callback for {pattern} failed", pattern=self.pattern)
        return 0 < self._maximum <= self.delivered


class Client:
    """A connection to a server, made by L{natsbroker.client.connecting}, with its protocol."""

    def __init__(
        self,
        reactor: IReactorTime,
        terms: ConnectionTerms,
        onError: Callable[[str], object] | None = None,
    ) -> None:
        self._reactor = reactor
        self._onError = onError or _logError
        self.protocol = ServerConnection(reactor, terms, self)
        self._subscriptions: dict[bytes, ClientSubscription] = {}
        self._lastSid = 0
        self._flushes: deque[Deferred[None]] = deque()
        self._inbox = b""
        self._requests: dict[bytes, Deferred[Message]] = {}
        self._lastRequest = 0
        self._connecting: Deferred[Client] | None = Deferred(self._gaveUp)
        self._closed: list[Deferred[ClientError]] = []
        self._reason: ClientError | None = None

    @property
    def connecting(self) -> Deferred[Client]:
        """
        Fires with this client once it is connected, or fails with the reason.

        @raise ClientError: if the connection was already made, or has failed.
        """
        if self._connecting is None:
            raise ClientError("the connection was already made, or has failed")
        return self._connecting

    @property
    def info(self) -> Mapping[str, Any]:
        """The fields of the last INFO. C{ldm} means: connect to another server soon."""
        return self.protocol.info

    @property
    def isOpen(self) -> bool:
        return self._connecting is None and self._reason is None

    def whenClosed(self) -> Deferred[ClientError]:
        """Fires with the reason when the connection has ended; never fails."""
        if self._reason is not None:
            return succeed(self._reason)
        waiting: Deferred[ClientError] = Deferred()
        self._closed.append(waiting)
        return waiting

    def publish(
        self,
        subject: bytes,
        payload: bytes = b"",
        reply: bytes = b"",
        headers: Headers | None = None,
    ) -> None:
        """
        @param reply: the subject for answers.
        @raise ValueError: if the subject is not a valid literal one, or the message is larger than
            the server's C{max_payload}.
        @raise ConnectionEnded: if there is no connection.
        """
        block = headers.block() if headers else b""
        size = len(block) + len(payload)
        largest = self.info.get("max_payload", -1)
        if isinstance(largest, int) and 0 <= largest < size:
            raise ValueError(f"{size} bytes are more than the {largest} that the server takes")
        line = publishLine(subject, reply, len(block), size)
        self.protocol.write(line, block, payload, b"\r\n")

    def publishMany(
        self, subject: bytes, bodies: Sequence[bytes], reply: bytes = b"", headerLength: int = 0
    ) -> None:
        """
        Send messages to one subject, in order.

        @param bodies: of each message; see L{Message}.
        @param headerLength: the bytes of each body that are the header block.
        @raise ValueError: as L{publish}, but sizes are the caller's concern.
        """
        pieces: list[bytes] = []
        for body in bodies:
            pieces += (publishLine(subject, reply, headerLength, len(body)), body, b"\r\n")
        self.protocol.write(*pieces)

    def subscribe(
        self, pattern: bytes, callback: Callback, queue: bytes = b""
    ) -> ClientSubscription:
        """
        Call a callback with every message that matches. An exception of the callback is logged.

        @param pattern: a subject, which may hold wildcards.
        @param queue: a queue group: each message reaches one of its members.
        @raise ValueError: if the pattern is no valid subject.
        @raise ConnectionEnded: if there is no connection.
        """
        self._lastSid += 1
        sid = b"%d" % self._lastSid
        self.protocol.write(subscribeLine(pattern, queue, sid))
        subscription = ClientSubscription(self, sid, pattern, queue, callback)
        self._subscriptions[sid] = subscription
        return subscription

    def _unsubscribe(self, subscription: ClientSubscription, sid: bytes, count: int) -> None:
        if self._subscriptions.get(sid) is not subscription:
            return
        if not count:
            del self._subscriptions[sid]
        if self.isOpen:
            line = b"UNSUB %b %d\r\n" % (sid, count) if count else b"UNSUB %b\r\n" % sid
            self.protocol.write(line)

    def request(
        self,
        subject: bytes,
        payload: bytes = b"",
        timeout: float = 1.0,
        headers: Headers | None = None,
    ) -> Deferred[Message]:
        """
        @param timeout: in seconds.
        @return: fires with the first answer. Fails with L{natsbroker.errors.NoResponders},
            L{natsbroker.errors.RequestTimeout} or L{ConnectionEnded}.
        @raise ValueError: as L{publish}.
        @raise ConnectionEnded: as L{publish}.
        """
        if not self._inbox:
            inbox = b"_INBOX.%b." % secrets.token_urlsafe(16).encode("ascii")
            self.subscribe(inbox + b"*", self._answered)
            self._inbox = inbox
        self._lastRequest += 1
        reply = b"%b%x" % (self._inbox, self._lastRequest)
        self.publish(subject, payload, reply, headers)
        answer: Deferred[Message] = Deferred(lambda _: self._forget(reply))
        self._requests[reply] = answer
        timer = self._reactor.callLater(timeout, self._late, reply, timeout)

        def done(outcome: Any) -> Any:
            if timer.active():
                timer.cancel()
            return outcome

        def named(message: Message) -> Message:
            if isNoResponders(message):
                raise NoResponders(subject)
            return message

        return answer.addBoth(done).addCallback(named)

    def flush(self) -> Deferred[None]:
        """Fires when the server has handled everything that was sent before."""
        self.protocol.ping()
        waiting: Deferred[None] = Deferred()
        self._flushes.append(waiting)
        return waiting

    def drain(self) -> Deferred[ClientError]:
        """
        End all subscriptions, call the callbacks for messages that were already sent, then close.
        """
        for sid in self._subscriptions:
            self.protocol.write(b"UNSUB %b\r\n" % sid)
        return self.flush().addCallback(lambda _: self.close())

    def close(self) -> Deferred[ClientError]:
        """Send waiting bytes and end the connection; fires with the reason, and never fails."""
        waiting = self.whenClosed()
        self.protocol.close(ConnectionEnded("closed"))
        return waiting

    # ConnectionListener

    def began(self) -> None:
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.callback(self)

    def refused(self, failure: Failure) -> None:
        if self._connecting is not None:
            connecting, self._connecting = self._connecting, None
            self._reason = ConnectionEnded(failure.getErrorMessage())
            connecting.errback(failure)

    def ended(self, reason: ClientError) -> None:
        self._reason = reason
        self._subscriptions.clear()
        connecting, self._connecting = self._connecting, None
        waiting: list[Deferred[Any]] = [*self._flushes, *self._requests.values()]
        self._flushes.clear()
        self._requests.clear()
        if connecting is not None:
            waiting.append(connecting)
        for waiter in waiting:
            waiter.errback(reason)
        closed, self._closed = self._closed, []
        for last in closed:
            last.callback(reason)

    def received(self, message: Message, sid: bytes) -> None:
        subscription = self._subscriptions.get(sid)
        if subscription is not None and subscription._deliver(message):
            self._subscriptions.pop(sid, None)

    def ponged(self) -> None:
        if self._flushes:
            self._flushes.popleft().callback(None)

    def failed(self, text: str) -> None:
        self._onError(text)

    def _gaveUp(self, connecting: object) -> None:
        self._connecting = None
        self.protocol.abort(ConnectionEnded("nobody waits for it any more"))

    def _forget(self, reply: bytes) -> None:
        self._requests.pop(reply, None)

    def _late(self, reply: bytes, timeout: float) -> None:
        answer = self._requests.pop(reply, None)
        if answer is not None:
            answer.errback(RequestTimeout(timeout))

    def _answered(self, message: Message) -> None:
        answer = self._requests.pop(message.subject, None)
        if answer is not None:
            answer.callback(message)


def _logError(text: str) -> None:
    _log.error("The server says: {text}", text=text)
