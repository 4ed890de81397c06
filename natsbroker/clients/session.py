"""
One client's conversation, from its first byte to its last, without a transport.

The readable path. Every frame is dispatched in order; every violation is answered with
the real server's text and the real server's decision to close or stay open; nothing escapes
L{ClientSession.received}.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from twisted.logger import Logger
from zope.interface import implementer

from natsbroker import errors
from natsbroker.clients.admission import AdmittedConversation
from natsbroker.clients.context import ClientContext
from natsbroker.clients.facts import clientInfoOf
from natsbroker.connections.backlog import FRAME, VIOLATION
from natsbroker.connections.labels import violationText
from natsbroker.connections.peer import ClientPeer
from natsbroker.interfaces import IOrigin, IOutboxSubscriber
from natsbroker.subjects import grammar
from natsbroker.wire import ops
from natsbroker.wire.connect import parseConnect
from natsbroker.wire.dialects import client
from natsbroker.wire.grants import Grant
from natsbroker.wire.lines import Frame
from natsbroker.wire.values import ClientInfo, Message

__all__ = ["ClientPeer", "ClientSession"]

_log = Logger()


@implementer(IOutboxSubscriber, IOrigin)
class ClientSession(AdmittedConversation):
    """
    The operations of a client; the layers below let it in, watch its time and end it.
    """

    __slots__ = ("_dispatch", "_greeted", "_held", "_told")

    def __init__(self, context: ClientContext, peer: ClientPeer) -> None:
        super().__init__(context, peer)
        self._held: Frame | None = None
        self._greeted = False
        self._told: tuple[bool, float, Grant | None, ClientInfo] | None = None
        self._dispatch: dict[int, Callable[..., None]] = _DISPATCH

    def _frames(self) -> None:
        decoder = self.decoder
        dispatch = self._dispatch
        turn = self._turn
        active = False
        if self._loginBy is not None and self._isGuest():
            self._logIn()
        while not self.reason and self._login is None:
            if (turn.isSpent or self._steps is not None) and self._mustRest():
                break
            frame, self._held = self._held, None
            if frame is None:
                lane = self._lane
                if lane is not None:
                    if lane.forward():
                        active = True
                    if lane.isShort or (turn.isSpent and self._mustRest()):
                        break
                turn.work += FRAME
                frame = decoder.next()
                if frame is None:
                    break
                if self._trace is not None:
                    self._trace.came(frame)
            if frame[0] != ops.PONG:
                active = True
            if self.grant is None and frame[0] not in _BEFORE_LOGIN:
                self._held = frame
                self._logIn()
            else:
                dispatch[frame[0]](self, *frame[1:])
        if active:
            decoder.heard = self._context.reactor.seconds()

    def _isGuest(self) -> bool:
        """
        Whether this is somebody who had not said anything and begins without CONNECT, where guests
        are let in: they are as soon as their first byte tells.
        """
        isLate = self.grant is None and not self._context.authorizer.required
        return isLate and self.decoder.ahead not in _CONNECT

    def _publish(
        self,
        subject: bytes,
        reply: bytes,
        headerLength: int,
        body: bytes,
        sizeText: bytes,
        headerText: bytes,
    ) -> None:
        rules, bus = self._rules, self._bus
        if rules is None or bus is None:
            raise RuntimeError("a publish of a client that was not let in")
        mapped = bus.mapped(subject)
        if mapped is not subject:
            if self._trace is not None:
                self._trace.mapped(subject, mapped)
            subject = mapped
        violation = rules.violation(subject, reply)
        if violation is not None:
            self._violated(violation)
            return
        if self.options["verbose"]:
            self._say(b"+OK\r\n")
        message = Message(subject, body, reply, headerLength, self, sizeText, headerText)
        if not reply or not self.options["no_responders"]:
            bus.publish(message, self.later)
        elif not bus.publish(message, partial(self._requestLater, message)):
            self._nobodyResponds(subject, reply)

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
            self._say(b"HMSG %b %b %d %d\r\n%b\r\n" % (reply, sid, size, size, block))

    def _announced(self, subject: bytes) -> None:
        if not grammar.isValidLiteral(subject):
            self._say(errors.INVALID_PUBLISH_SUBJECT.line())

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
            self._say(b"+OK\r\n")

    def _unsubscribe(self, line: bytes) -> None:
        arguments = client.splitUnsubscription(line)
        table = self.subscriptions
        if arguments is None or table is None:
            self.close(errors.BAD_ARGUMENTS)
            return
        if self.options["verbose"]:
            self._say(b"+OK\r\n")
        table.unsubscribe(*arguments)

    def _ping(self) -> None:
        self._say(b"PONG\r\n")
        if not self._connected or self._greeted:
            return
        self._greeted = True
        if self.options["protocol"] >= 1:
            self.sendInfo(connect_info=True)

    def _info(self, argument: bytes) -> None:
        try:
            parseConnect(argument)
        except ValueError:
            self.close(errors.BAD_ARGUMENTS)

    def _ok(self) -> None:
        """
        A client that says +OK is not answered.
        """

    def _peerFailed(self, text: bytes) -> None:
        told = text[:256].decode("utf-8", "replace")
        _log.error("{client} - Client Error {text}", client=str(self), text=told)
        self.close(errors.PEER_ERROR)

    def _fault(self, error: errors.WireError) -> None:
        self.close(error)

    def _violated(self, violation: errors.ProtocolViolation, sid: bytes = b"") -> None:
        self._turn.work += VIOLATION
        self._say(violation.error.line(*violation.arguments))
        _log.error("{client} - {text}", client=str(self), text=violationText(violation, sid))

    def deliver(self, message: Message, tag: Any) -> None:
        if self._trace is not None:
            self._trace.delivered(message, tag, self.outbox.headers)
        self.outbox.deliver(message, tag)
        rules = self._rules
        if message.reply and rules is not None and rules.replies is not None:
            rules.replies.delivered(message.reply)

    def clientInfo(self, isDetailed: bool) -> ClientInfo:
        known = self._told
        roundTrip, grant = self._keepalive.roundTrip, self.grant
        if known is None or known[:3] != (isDetailed, roundTrip, grant):
            info = clientInfoOf(self.facts(), self._context.info.server_name, isDetailed)
            known = self._told = (isDetailed, roundTrip, grant, info)
        return known[3]

    def subscriptionEnded(self, tag: Any) -> None:
        if self._trace is not None:
            self._trace.ended(tag)
        if self.subscriptions is not None:
            self.subscriptions.ended(tag)

    def infoChanged(self) -> None:
        """
        INFO says something else now. A client that has not had its PONG yet hears of it then.
        """
        if self._greeted:
            self.sendInfo()

    def sendInfo(self, connect_info: bool = False) -> None:
        """
        Send an asynchronous INFO, if the client said in CONNECT that it understands one.
        """
        if not self._connected or self.options["protocol"] < 1 or self.grant is None:
            return
        account = self.grant.account
        self.outbox.write(
            self._serverInfo().line(
                self.cid,
                self._peer.host,
                self.decoder.maxPayload,
                account=account if connect_info else "",
                isSystem=connect_info and self._context.accounts.isSystem(account),
                connect_info=connect_info,
            )
        )


#: What CONNECT begins with; or nothing at all.
_CONNECT = frozenset([*b"Cc", -1])

#: Frames that are handled before a connection is let in.
_BEFORE_LOGIN = frozenset({ops.CONNECT, ops.FAULT, ops.OK, ops.INFO, ops.PONG, ops.ERR})

_DISPATCH: dict[int, Callable[..., None]] = {
    ops.FAULT: ClientSession._fault,
    ops.CONNECT: ClientSession._connect,
    ops.INFO: ClientSession._info,
    ops.PUB: ClientSession._publish,
    ops.HPUB: ClientSession._publish,
    ops.ANNOUNCED: ClientSession._announced,
    ops.SUB: ClientSession._subscribe,
    ops.UNSUB: ClientSession._unsubscribe,
    ops.PING: ClientSession._ping,
    ops.PONG: ClientSession._pong,
    ops.OK: ClientSession._ok,
    ops.ERR: ClientSession._peerFailed,
}
