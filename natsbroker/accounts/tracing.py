"""
Message tracing: the fate of one message in this server, as events that its headers ask for, with
nats-server's keys, order and texts (2.15.1).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from natsbroker.runtime.responder import Describe
from natsbroker.subjects.grammar import isValidLiteral
from natsbroker.wire.clientinfo import compact
from natsbroker.wire.headers import Headers
from natsbroker.wire.instants import instant
from natsbroker.wire.text import decoded
from natsbroker.wire.tracing import (
    DEST,
    DISABLED,
    HOP,
    TraceRequest,
    asksForTrace,
    readRequest,
    withHeader,
)
from natsbroker.wire.values import Message

#: nats-server's numbers for kinds of connections.
CLIENT, ROUTER, GATEWAY, SYSTEM, LEAF = range(5)

CLOSED_SUBSCRIPTION = "Not delivered because subscription is closed"
CLOSED_CLIENT = "Not delivered because client is closed"
NO_ECHO = "Not delivered because of no echo"
SUBSCRIPTION_DENIED = "Not delivered because subscription denies this subject"
TOO_LARGE = "maximum payload exceeded"
_NOT_SENT = "Not delivered because remote does not support message tracing"
_NOT_TRACED = (
    "Message delivered but remote does not support message tracing "
    "so no trace event generated from there"
)

#: From this protocol level on, servers trace messages, and deliver none that is to be traced only.
TRACING_PROTOCOL = 3


class TracePeer(NamedTuple):
    """
    A connection in an event.

    @ivar kind: nats-server's number.
    @ivar cid: the number of the connection.
    @ivar name: that of the client or the remote server; empty for none.
    @ivar isTracing: whether a remote server traces messages.
    """

    kind: int
    cid: int
    name: str
    isTracing: bool = True


#: Connections of kinds that plugins made: servers behind them do not trace.
FOREIGN = TracePeer(ROUTER, 0, "", False)

#: Services of this broker.
SERVICE = TracePeer(SYSTEM, 0, "")


class MessageTrace:
    """
    The trace of one message by this server.

    @ivar isOnly: whether the message is not delivered.
    @ivar dest: where the events go, in the account of the message.
    @ivar pattern: the exporter's pattern of the next receiver, if it imports the message.
    """

    def __init__(
        self, account: str, dest: bytes, request: TraceRequest, send: Callable[[MessageTrace], None]
    ) -> None:
        """The message came into C{account}. C{send} is called once, at the end."""
        self.account = account
        self.dest = dest
        self.isOnly = request.isOnly
        self.request = request
        self.events: list[dict[str, Any]] = []
        self.hops = 0
        self.pattern = b""
        self.now: Callable[[], float] = float
        self.size = 0
        self._prefix = b""
        self._send = send
        self._pending = 1

    def arrived(self, message: Message, peer: TracePeer) -> None:
        """Note the arrival from C{peer}. A client cannot change the numbers of hops."""
        self.size = len(message.body)
        if peer.kind != CLIENT and self.request.hop:
            self._prefix = self.request.hop + b"."
        self.add(
            "in",
            kind=peer.kind,
            cid=peer.cid,
            name=peer.name,
            acc=self.account,
            subj=decoded(message.subject),
        )

    def add(self, eventType: str, **members: Any) -> dict[str, Any]:
        """Add an event without members that are C{None} or empty."""
        shown = {key: value for key, value in members.items() if value not in (None, "")}
        event = {"type": eventType, "ts": instant(self.now()), **shown}
        self.events.append(event)
        return event

    def failed(self, text: str) -> None:
        self.events[0]["error"] = text

    def egress(
        self, peer: TracePeer, account: str, pattern: bytes, queue: bytes, error: str = ""
    ) -> None:
        shown, self.pattern = self.pattern or pattern, b""
        isClient = peer.kind == CLIENT
        self.add(
            "eg",
            kind=peer.kind,
            cid=peer.cid,
            name=peer.name,
            acc=account if isClient and account != self.account else "",
            sub=decoded(shown) if isClient else "",
            queue=decoded(queue) if isClient else "",
            error=error,
        )

    def forwarded(self, link: Any, message: Message, account: str) -> Message | None:
        """
        The copy to send over a link, perhaps with C{tracePeer}; C{None} if it may not be sent.
        """
        peer: TracePeer = getattr(link, "tracePeer", None) or FOREIGN
        self.hops += 1
        hop = self._prefix + b"%d" % self.hops
        error = ""
        if not peer.isTracing:
            error = _NOT_SENT if self.isOnly else _NOT_TRACED
        isOther = peer.kind == LEAF and account != self.account
        self.add(
            "eg",
            kind=peer.kind,
            cid=peer.cid,
            name=peer.name,
            hop=decoded(hop),
            acc=account if isOther else "",
            error=error,
        )
        if self.isOnly and not peer.isTracing:
            return None
        return withTraceHeader(message, HOP, hop)

    def mapped(self, message: Message, subject: bytes) -> None:
        if subject != message.subject:
            message.subject = subject
            self.add("sm", to=decoded(subject))

    def hold(self) -> None:
        """Send no events before L{release} is called once more."""
        self._pending += 1

    def release(self) -> None:
        self._pending -= 1
        if not self._pending:
            self._send(self)


class AccountTracing:
    """Traces of an account; C{sampling} percent of messages with C{traceparent} go to C{dest}."""

    def __init__(
        self,
        account: str,
        describe: Describe,
        now: Callable[[], float],
        random: Random,
        publish: Callable[[Message], object],
    ) -> None:
        self.dest = b""
        self.sampling = 100
        self._account = account
        self._describe = describe
        self._now = now
        self._random = random
        self._publish = publish

    def concerns(self, message: Message) -> bool:
        """Whether a message with headers may have to be traced."""
        return asksForTrace(message.body, message.headerLength, bool(self.dest))

    def begin(
        self,
        message: Message,
        peer: TracePeer,
        mayPublish: Callable[[bytes], bool] = lambda dest: True,
    ) -> Message | None:
        """
        The message to deliver, perhaps with its trace; C{None} for none.

        @param mayPublish: tells whether events may be published to a subject. If not, it informs
            the peer.
        """
        request = readRequest(message.headers)
        if request is None or not (request.dest or self.dest):
            return message
        dest = request.dest or self.dest
        if request.isRefused or not self._isSampled(request, peer):
            return None if request.isOnly else disabled(message)
        if not isValidLiteral(dest):
            return None if request.isOnly else message
        if not mayPublish(dest):
            return None
        trace = MessageTrace(self._account, dest, request, self._send)
        trace.now = self._now
        trace.arrived(message, peer)
        message.trace = trace
        return message

    def refuse(
        self, asked: Message, peer: TracePeer, size: int, mayPublish: Callable[[bytes], bool]
    ) -> None:
        """Trace a message that exceeds the server's limit, by its headers without payload."""
        message = self.begin(asked, peer, mayPublish)
        trace = None if message is None else message.trace
        if trace is not None:
            trace.size = size
            trace.failed(TOO_LARGE)
            trace.release()

    def _isSampled(self, request: TraceRequest, peer: TracePeer) -> bool:
        if request.dest or peer.kind != CLIENT or self.sampling >= 100:
            return True
        # As in nats-server, the chance is one more in a hundred than configured.
        return self._random.randrange(100) <= self.sampling

    def _send(self, trace: MessageTrace) -> None:
        document: dict[str, Any] = {"server": self._describe()}
        request: dict[str, Any] = {"header": trace.request.headers, "msgsize": trace.size}
        document["request"] = {key: value for key, value in request.items() if value}
        if trace.hops:
            document["hops"] = trace.hops
        document["events"] = trace.events
        headers, payload = contentEncoded(compact(document), trace.request.encoding)
        self._publish(Message(trace.dest, headers + payload, headerLength=len(headers)))


def withTraceHeader(message: Message, name: bytes, value: bytes) -> Message:
    """A copy without a trace, with one such header."""
    block = withHeader(message.headers, name, value)
    return Message(
        message.subject,
        block + message.payload,
        message.reply,
        len(block),
        message.origin,
        queues=message.queues,
        via=message.via,
        streamSubject=message.streamSubject,
    )


def disabled(message: Message) -> Message:
    return withTraceHeader(message, DEST, DISABLED)


def contentEncoded(document: bytes, accepted: str) -> tuple[bytes, bytes]:
    """The header block and the payload for C{Accept-Encoding}."""
    if not accepted:
        return b"", document
    encoding = "identity"
    if "snappy" in accepted or "s2" in accepted:
        from natsbroker.connections.s2stream import snappyStream

        encoding, document = "snappy", snappyStream(document)
    elif "gzip" in accepted:
        import gzip

        encoding, document = "gzip", gzip.compress(document, compresslevel=1)
    return Headers({"Content-Encoding": encoding}).block(), document
