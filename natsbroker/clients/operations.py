"""The operations of a client that was let in, and the facts that others may read of it."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import partial
from typing import Any

from twisted.logger import Logger

from natsbroker import errors
from natsbroker.accounts.tracing import CLIENT, TracePeer
from natsbroker.clients.admission import Admission
from natsbroker.clients.context import ClientContext
from natsbroker.clients.info import ServerInfo
from natsbroker.clients.subscriptions import SubscriptionTable
from natsbroker.connections.facts import ConnectionFacts, typeOf
from natsbroker.connections.labels import ClientLabel, authenticationFailure, violationText
from natsbroker.connections.peer import ClientPeer
from natsbroker.connections.peersession import PeerSession
from natsbroker.connections.trace import Trace
from natsbroker.pure.backlog import VIOLATION
from natsbroker.subjects import grammar
from natsbroker.wire.connect import parseConnect
from natsbroker.wire.dialects import client
from natsbroker.wire.grants import Grant
from natsbroker.wire.text import decoded
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker.clients.session")

#: The grant of a client that was not admitted.
_NOBODY = Grant()

#: The letters before the numbers of clients in the log, by their type, as in nats-server.
_LETTERS = {"WEBSOCKET": "wid", "MQTT": "mid", "MQTT_WS": "mid_ws"}


class ClientOperations(PeerSession):
    """
    @ivar options: those of CONNECT, with the defaults for the others.
    @ivar _isConnected: whether CONNECT was handled, or a guest became a user.
    @ivar _isGreeted: whether the client had its first PONG after CONNECT.
    """

    __slots__ = ("_admission", "_isConnected", "_isGreeted", "_trace", "cid", "options")

    context: ClientContext
    peer: ClientPeer
    cid: int
    options: dict[str, Any]
    _admission: Admission
    _isConnected: bool
    _isGreeted: bool
    _trace: Trace | None

    def _serverInfo(self) -> ServerInfo:
        """The INFO of the connection. TLS is required in it if there is no other choice."""
        info = self.context.info
        if not self.peer.isSecured or info.tls_required or info.tls_available:
            return info
        return info.changed(tls_required=True)

    def _publish(
        self,
        subject: bytes,
        reply: bytes,
        headerLength: int,
        body: bytes,
        sizeText: bytes,
        headerText: bytes,
    ) -> None:
        rules, bus = self._admission.rules, self._admission.bus
        if rules is None or bus is None:
            raise RuntimeError("a publish of a client that has not logged in")
        if headerLength and bus.tracing is not None:
            asked = Message(subject, body, reply, headerLength, self, sizeText, headerText)
            if bus.tracing.concerns(asked):
                self._publishTraced(asked)
                return
        mapped = bus.mapped(subject)
        if mapped is not subject:
            if self._trace is not None:
                self._trace.mapped(subject, mapped)
            subject = mapped
        violation = rules.violation(subject, reply) or rules.violationIn(body, headerLength)
        if violation is not None:
            self._violated(violation)
            return
        if self.options["verbose"]:
            self.say(b"+OK\r\n")
        message = Message(subject, body, reply, headerLength, self, sizeText, headerText)
        if not reply or not self.options["no_responders"]:
            bus.publish(message, self.later)
        elif not bus.publish(message, partial(self._requestLater, message)):
            self._nobodyResponds(subject, reply)

    def _publishTraced(self, asked: Message) -> None:
        rules, bus = self._admission.rules, self._admission.bus
        if rules is None or bus is None or bus.tracing is None:
            raise RuntimeError("a traced publish of a client that has not logged in")
        message = bus.tracing.begin(asked, self.tracePeer, self._mayTraceTo)
        if message is None:
            return
        trace, mapped = message.trace, bus.mapped(message.subject)
        if trace is None:
            message.subject = mapped
        else:
            trace.mapped(message, mapped)
        violation = rules.violation(mapped, message.reply)
        violation = violation or rules.violationIn(message.body, message.headerLength)
        if violation is not None:
            if trace is not None:
                trace.failed(violation.error.filled(*violation.arguments))
                trace.release()
            self._violated(violation)
            return
        if self.options["verbose"]:
            self.say(b"+OK\r\n")
        reached = bus.publish(message) if trace is None else bus.publishTraced(message)
        if message.reply and self.options["no_responders"] and not reached:
            self._nobodyResponds(message.subject, message.reply)

    def _mayTraceTo(self, dest: bytes) -> bool:
        rules = self._admission.rules
        violation = None if rules is None else rules.violation(dest, b"")
        if violation is not None:
            self._violated(violation)
        return violation is None

    @property
    def tracePeer(self) -> TracePeer:
        return TracePeer(CLIENT, self.cid, self.options["name"])

    def _requestLater(self, message: Message, steps: Generator[None, None, int]) -> None:
        self.later(self._requesting(message, steps))

    def _requesting(
        self, message: Message, steps: Generator[None, None, int]
    ) -> Generator[None, None, None]:
        if not (yield from steps):
            self._nobodyResponds(message.subject, message.reply)

    def _nobodyResponds(self, subject: bytes, reply: bytes) -> None:
        if self.subscriptions is None:
            return
        sid = self.subscriptions.sidFor(reply)
        if sid is not None:
            block = b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n" % subject
            size = len(block)
            self.say(b"HMSG %b %b %d %d\r\n%b\r\n" % (reply, sid, size, size, block))

    def _announced(self, subject: bytes) -> None:
        if not grammar.isValidLiteral(subject):
            self.say(errors.INVALID_PUBLISH_SUBJECT.line())

    def _subscribe(self, line: bytes) -> None:
        arguments = client.splitSubscription(line)
        table = self.subscriptions
        if arguments is None or table is None:
            self.close(errors.BAD_ARGUMENTS)
            return
        try:
            table.subscribe(*arguments)
        except errors.ProtocolViolation as violation:
            self._violated(violation, arguments[2])
            return
        if self.options["verbose"]:
            self.say(b"+OK\r\n")

    def _unsubscribe(self, line: bytes) -> None:
        arguments = client.splitUnsubscription(line)
        table = self.subscriptions
        if arguments is None or table is None:
            self.close(errors.BAD_ARGUMENTS)
            return
        if self.options["verbose"]:
            self.say(b"+OK\r\n")
        table.unsubscribe(*arguments)

    def _ping(self) -> None:
        self.say(b"PONG\r\n")
        if not self._isConnected or self._isGreeted:
            return
        self._isGreeted = True
        if self.options["protocol"] >= 1:
            self.sendInfo(connect_info=True)

    def _info(self, argument: bytes) -> None:
        try:
            parseConnect(argument)
        except ValueError:
            self.close(errors.BAD_ARGUMENTS)

    def _ok(self) -> None:
        """Not answered."""

    def _peerFailed(self, text: bytes) -> None:
        shown = decoded(text[:256])
        _log.error("{client} - Client Error {text}", client=str(self), text=shown)
        self.close(errors.PEER_ERROR)

    def _fault(
        self, error: errors.WireError, subject: bytes = b"", headers: bytes = b"", size: int = 0
    ) -> None:
        bus = self._admission.bus
        asked = Message(subject, headers, b"", len(headers), self)
        if bus is not None and bus.tracing is not None and bus.tracing.concerns(asked):
            bus.tracing.refuse(asked, self.tracePeer, size, self._mayTraceTo)
        self.close(error)

    def _violated(self, violation: errors.ProtocolViolation, sid: bytes = b"") -> None:
        self._batch.work += VIOLATION
        self.say(violation.error.line(*violation.arguments))
        _log.error("{client} - {text}", client=str(self), text=violationText(violation, sid))

    def deliver(self, message: Message, tag: Any) -> None:
        if self._trace is not None:
            self._trace.delivered(message, tag, self.outbox.headers)
        self._put(message, tag)
        rules = self._admission.rules
        if message.reply and rules is not None and rules.replies is not None:
            rules.replies.delivered(message.reply)

    def _put(self, message: Message, tag: Any) -> None:
        self.outbox.deliver(message, tag)

    def subscriptionEnded(self, tag: Any) -> None:
        if self._trace is not None:
            self._trace.ended(tag)
        if self.subscriptions is not None:
            self.subscriptions.ended(tag)

    def infoChanged(self) -> None:
        """Send the changed INFO. A client that has not had its first PONG gets it after that."""
        if self._isGreeted:
            self.sendInfo()

    def sendInfo(self, connect_info: bool = False, isLeaving: bool = False) -> None:
        """Send INFO. C{isLeaving} asks the client to connect to another server."""
        if not self._isConnected or self.options["protocol"] < 1 or self.grant is None:
            return
        account = self.grant.account
        info = self._serverInfo()
        self.outbox.write(
            (info.changed(ldm=True) if isLeaving else info).line(
                self.cid,
                self.peer.host,
                self.decoder.maxPayload,
                account=account if connect_info else "",
                isSystem=connect_info and self.context.accounts.isSystem(account),
                connect_info=connect_info,
            )
        )

    def say(self, line: bytes) -> None:
        if self._trace is not None:
            self._trace.said(line)
        self.outbox.write(line)

    def _logged(self, error: errors.WireError, line: bytes) -> str:
        if error == errors.AUTHORIZATION:
            return authenticationFailure(self.options)
        return super()._logged(error, line)

    @property
    def grant(self) -> Grant | None:
        return self._admission.grant

    @property
    def subscriptions(self) -> SubscriptionTable | None:
        return self._admission.subscriptions

    def listed(self) -> Iterable[tuple[bytes, Any]]:
        return self.subscriptions or ()

    def facts(self) -> ConnectionFacts:
        grant, peer, options = self.grant, self.peer, self.options
        inMessages, inBytes, outMessages, outBytes = self.traffic
        table = self.subscriptions
        granted = grant or _NOBODY
        return ConnectionFacts(
            self.cid,
            typeOf(peer.connectionType),
            peer.host,
            peer.port,
            self.started,
            self.lastActivity,
            self.roundTrip,
            self.outbox.pending,
            inMessages,
            inBytes,
            outMessages,
            outBytes,
            0 if table is None else len(table),
            options["name"],
            options["lang"],
            options["version"],
            "" if grant is None else grant.account,
            granted.user,
            peer.tls,
            granted.nameTag,
            granted.issuer,
            granted.tags,
            granted.jwt,
            granted.proxy,
        )

    @property
    def traffic(self) -> tuple[int, int, int, int]:
        """Messages in, bytes in, messages out, bytes out."""
        decoder, outbox = self.decoder, self.outbox
        return decoder.messages, decoder.messageBytes, outbox.messages, outbox.messageBytes

    @property
    def lastActivity(self) -> float:
        return self.decoder.heard

    @property
    def label(self) -> ClientLabel:
        """The present name for the log, made only if the line is shown."""
        peer = self.peer
        options = self.options if self._isConnected else {}
        letters = _LETTERS.get(peer.connectionType, "cid")
        return ClientLabel(
            peer.host, peer.port, self.cid, options, self.grant, letters, peer.forwardedFor
        )

    def __str__(self) -> str:
        return str(self.label)
