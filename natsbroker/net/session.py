"""
One client's conversation, from its first byte to its last, without a transport.

Promises: the readable path. Every frame is dispatched in order; every violation is answered with
the real server's text and the real server's decision to close or stay open; nothing escapes
L{ClientSession.received}.
Must never know: sockets, TLS, which authorizer or router there is.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Protocol

from twisted.logger import Logger
from zope.interface import implementer

from natsbroker import errors, hot
from natsbroker.advisories import ClientConnected, ClientDisconnected, ClientRefused, SlowConsumer
from natsbroker.interfaces import IMessageBus, IOutboxSubscriber
from natsbroker.net.context import ClientContext, ClosedClient
from natsbroker.net.facts import ConnectionFacts, factsAtEnd, factsOf
from natsbroker.net.labels import authenticationFailure, clientLabel, violationText
from natsbroker.net.login import Login
from natsbroker.net.publishing import PublishRules
from natsbroker.net.stall import Stall
from natsbroker.net.subscribing import SubscriptionTable
from natsbroker.net.trace import Trace
from natsbroker.subjects import grammar
from natsbroker.wire import ops
from natsbroker.wire.connect import DEFAULTS, parseConnect
from natsbroker.wire.dialects import client
from natsbroker.wire.grants import Grant, Hello
from natsbroker.wire.keepalive import Keepalive, KeepaliveAction
from natsbroker.wire.lines import Frame
from natsbroker.wire.values import Message

__all__ = ["ClientSession", "Peer"]

_log = Logger()

#: What to do with the authorizer's answer: a method of the session.
_Decision = Callable[["ClientSession", "Grant | None"], None]


class Peer(Protocol):
    """
    The transport of a session, as far as it needs one.
    """

    host: str
    port: int
    connectionType: str
    certificate: Any

    def write(self, data: bytes) -> object:
        """
        Send bytes.
        """

    def finish(self) -> None:
        """
        Send what waits, then close.
        """

    def abort(self) -> None:
        """
        Close now.
        """

    def pauseReading(self) -> None:
        """
        Deliver no more input for now.
        """

    def resumeReading(self) -> None:
        """
        Deliver input again.
        """

    def useLane(self, lane: Any) -> None:
        """
        The fast lane may, or with C{None} may not, be taken from now on without asking the session.
        """


@implementer(IOutboxSubscriber)
class ClientSession:
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
        "_bus",
        "_connected",
        "_context",
        "_decided",
        "_dispatch",
        "_expires",
        "_greeted",
        "_held",
        "_holds",
        "_isInputEnded",
        "_keepalive",
        "_lane",
        "_last",
        "_login",
        "_loginBy",
        "_nonce",
        "_peer",
        "_rules",
        "_sent",
        "_stall",
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

    def __init__(self, context: ClientContext, peer: Peer) -> None:
        limits = context.limits
        now = context.reactor.seconds()
        self._context = context
        self._peer = peer
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
        self.outbox = hot.Outbox(context.turn, self, peer.write, limits.max_pending)
        self._bus: IMessageBus | None = None
        self._rules: PublishRules | None = None
        self._login: Login | None = None
        self._held: Frame | None = None
        self._decided: _Decision = ClientSession._letIn
        self._lane: Any = None
        self._stall: Stall | None = None
        self._connected = False
        self._isInputEnded = False
        self._greeted = False
        self._nonce = ""
        self._stuckSince: float | None = None
        self._holds = 0
        self._last: ConnectionFacts | None = None
        self._sent = 0
        self._expires: float | None = None
        self._keepalive = Keepalive(limits.ping_interval, now, context.random.random())
        self._loginBy: float | None = None
        self._dispatch: dict[int, Callable[..., None]] = _DISPATCH
        self._trace = self._makeTrace()

    # The life of a connection.

    def opened(self) -> None:
        """
        The connection is there: greet it.
        """
        context = self._context
        context.connections.add(self.cid, self)
        if context.authorizer.nonce:
            nonce = base64.urlsafe_b64encode(context.nonceBytes(11)).rstrip(b"=")
            self._nonce = nonce.decode("ascii")
        self.outbox.write(context.info.line(self.cid, self._peer.host, nonce=self._nonce))
        if context.authorizer.required:
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
        self.outbox.write(self._context.info.line(self.cid, self._peer.host, nonce=self._nonce))
        self.close(limit.error)

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
        if not self.reason and self._login is None:
            self._inTurn(self._frames)

    def _inTurn(self, call: Callable[..., None], *arguments: Any) -> None:
        turn = self._context.turn
        turn.enter()
        try:
            call(*arguments)
            if turn.congested is not None:
                outbox, turn.congested = turn.congested, None
                turn.atEnd(lambda: self._waitFor(outbox))
        except Exception:
            _log.failure("{client} - Internal failure", client=str(self))
            self.close(errors.INTERNAL)
        try:
            turn.leave()
        except Exception:
            _log.failure("{client} - What its input caused failed", client=str(self))

    def _frames(self) -> None:
        decoder = self.decoder
        dispatch = self._dispatch
        active = False
        while True:
            frame, self._held = self._held, None
            if frame is None:
                if self._lane is not None and self._lane.forward():
                    active = True
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
            if self.reason or self._login is not None:
                break
        if active:
            decoder.heard = self._context.reactor.seconds()

    def inputEnded(self) -> None:
        """
        The client sends no more. It gets what its operations have caused, and the answer to its
        CONNECT if that is still to come; then the connection ends.
        """
        self._isInputEnded = True
        if self._login is None and not self.reason:
            self.outbox.flush()
            self._peer.finish()

    def lost(self, reason: str = "Client Closed") -> None:
        """
        The transport is gone. Called exactly once, whoever closed.

        @param reason: what to note if it was not us.
        """
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
    def peer(self) -> Peer:
        """
        The transport.
        """
        return self._peer

    def __str__(self) -> str:
        peer = self._peer
        options = self.options if self._connected else {}
        return clientLabel(peer.host, peer.port, self.cid, options, self.grant)

    # Being let in.

    def _connect(self, argument: bytes) -> None:
        try:
            given = parseConnect(argument)
        except ValueError:
            self.close(errors.BAD_ARGUMENTS)
            return
        self.options.update(given)
        if self._connected:
            self._leaveAccount()
        self._connected = True
        self._loginBy = None
        self._schedule()
        self._logIn()

    def _logIn(self) -> None:
        self._ask(ClientSession._letIn)

    def _ask(self, decided: _Decision) -> None:
        """
        Ask the authorizer. Until it has answered, nothing more is read and its time is limited.
        """
        hello = Hello(
            options=self.options if self._connected else {},
            host=self._peer.host,
            nonce=self._nonce,
            certificate=self._peer.certificate,
            connectionType=self._peer.connectionType,
        )
        self._decided = decided
        login = self._login = Login(lambda grant: self._inTurn(self._answered, decided, grant))
        login.ask(self._context.authorizer, hello)
        if login.waiting:
            self._loginBy = self._context.reactor.seconds() + self._context.limits.auth_timeout
            self._schedule()
            self._hold()

    def _answered(self, decided: _Decision, grant: Grant | None) -> None:
        waited = self._loginBy is not None
        self._login = self._loginBy = None
        decided(self, grant)
        if waited:
            self._release()
            self.proceed()
        if self._isInputEnded:
            self.inputEnded()

    def _letIn(self, grant: Grant | None) -> None:
        if grant is None or self.options["account"] or self.options["new_account"]:
            self.close(errors.AUTHORIZATION)
        elif self._admitted(grant):
            self._agree()
            # Who becomes somebody without a CONNECT has had it: the next one is the second.
            self._connected = self._connected or bool(grant.user)

    def _admitted(self, grant: Grant) -> bool:
        before = self.grant
        if before is not None:
            if _isSameUser(before, grant):
                self._adopt(grant)
                return True
            self._leaveAccount()
        try:
            bus = self._context.accounts.admit(grant)
        except KeyError:
            _log.error("{client} - Unknown account {name}", client=str(self), name=grant.account)
            self.close(errors.AUTHORIZATION)
            return False
        except errors.ConnectionLimit as limit:
            self.close(limit.error)
            return False
        self.grant = grant
        self._bus = bus
        self._apply(grant, bus)
        self._context.notify(ClientConnected(self.cid, grant.account, grant.user))
        return True

    def _apply(self, grant: Grant, bus: IMessageBus) -> None:
        context = self._context
        limits = context.limits
        isSystem = context.accounts.isSystem(grant.account)
        self._rules = PublishRules(grant, isSystem, context.reactor.seconds)
        self.outbox.direct = self._rules.replies is None
        self.subscriptions = SubscriptionTable(
            bus,
            self,
            grant.subscribe,
            limits.max_subscriptions if grant.maxSubscriptions is None else grant.maxSubscriptions,
            limits.max_sub_tokens,
        )
        decoder = self.decoder
        decoder.authorized = True
        decoder.maxPayload = limits.max_payload if grant.maxPayload is None else grant.maxPayload
        self._expires = grant.expires
        self._schedule()
        self._configure()

    def _agree(self) -> None:
        options = self.options
        if not self._connected:
            return
        if not 0 <= options["protocol"] <= 1:
            self.close(errors.BAD_PROTOCOL)
        elif options["no_responders"] and not self.outbox.headers:
            self.close(errors.NO_RESPONDERS_HEADERS)
        elif options["verbose"]:
            self._say(b"+OK\r\n")

    def _configure(self) -> None:
        options = self.options
        headers = options["headers"] and self._context.limits.headers
        self.decoder.headers = self.outbox.headers = headers
        self.decoder.announce = options["pedantic"]
        self.outbox.echo = options["echo"]
        self.tracingChanged()

    def _takeLane(self, lane: Any) -> None:
        self._lane = lane
        self._peer.useLane(lane)

    def _makeLane(self) -> Any:
        options, context = self.options, self._context
        if hot.Lane is None or not context.fastLane or context.tracing.protocol:
            return None
        if options["verbose"] or options["pedantic"]:
            return None
        rules = self._rules
        if rules is None or self._bus is None:
            return None
        return hot.Lane(
            self.decoder,
            self.outbox,
            self._bus.matcher,
            rules.permissions,
            options["no_responders"],
        )

    def _leaveAccount(self) -> None:
        grant, self.grant = self.grant, None
        if grant is None:
            return
        self._takeLane(None)
        if self.subscriptions is not None:
            self.subscriptions.clear()
        self._context.accounts.dismiss(grant)
        self._context.notify(
            ClientDisconnected(self.cid, grant.account, grant.user, self.reason or "Reconnected")
        )

    # Operations.

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
        violation = rules.violation(subject, reply)
        if violation is not None:
            self._violated(violation)
            return
        if self.options["verbose"]:
            self._say(b"+OK\r\n")
        message = Message(subject, body, reply, headerLength, self, sizeText, headerText)
        if not bus.publish(message) and reply and self.options["no_responders"]:
            self._nobodyResponds(subject, reply)

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

    def _pong(self) -> None:
        self._keepalive.ponged(self._context.reactor.seconds())

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
        self._say(violation.error.line(*violation.arguments))
        _log.error("{client} - {text}", client=str(self), text=violationText(violation, sid))

    def _say(self, line: bytes) -> None:
        if self._trace is not None:
            self._trace.said(line)
        self.outbox.write(line)

    # What the broker does to the connection.

    def deliver(self, message: Message, tag: Any) -> None:
        """
        See L{natsbroker.interfaces.ISubscriber.deliver}.
        """
        if self._trace is not None:
            self._trace.delivered(message, tag, self.outbox.headers)
        self.outbox.deliver(message, tag)
        rules = self._rules
        if message.reply and rules is not None and rules.replies is not None:
            rules.replies.delivered(message.reply)

    def subscriptionEnded(self, tag: Any) -> None:
        """
        See L{natsbroker.interfaces.ISubscriber.subscriptionEnded}.
        """
        if self._trace is not None:
            self._trace.ended(tag)
        if self.subscriptions is not None:
            self.subscriptions.ended(tag)

    def outboxOverflowed(self) -> None:
        """
        Too much waits for a slow consumer: cut it.
        """
        self._cut(errors.SLOW_PENDING, f"MaxPending of {self.outbox.limit} Exceeded")

    def _cut(self, error: errors.WireError, detail: str) -> None:
        if self.reason:
            return
        connections = self._context.connections
        connections.slowConsumer(error.reason)
        _log.info("{client} - Slow Consumer Detected: {detail}", client=str(self), detail=detail)
        self._context.notify(SlowConsumer(self.cid, self.outbox.limit, error.reason))
        self.close(error, abort=True)

    def sendInfo(self, connect_info: bool = False) -> None:
        """
        Send an asynchronous INFO, if the client said in CONNECT that it understands one.
        """
        if not self._connected or self.options["protocol"] < 1 or self.grant is None:
            return
        account = self.grant.account
        self.outbox.write(
            self._context.info.line(
                self.cid,
                self._peer.host,
                self.decoder.maxPayload,
                account=account if connect_info else "",
                isSystem=connect_info and self._context.accounts.isSystem(account),
                connect_info=connect_info,
            )
        )

    def limitsChanged(self) -> None:
        """
        The limits in the context were replaced: use the new ones.
        """
        limits = self._context.limits
        grant = self.grant
        self.decoder.maxControlLine = limits.max_control_line
        self.outbox.limit = limits.max_pending
        payload = subscriptions = None
        if grant is not None:
            payload, subscriptions = grant.maxPayload, grant.maxSubscriptions
        self.decoder.maxPayload = limits.max_payload if payload is None else payload
        if self.subscriptions is not None:
            self.subscriptions.maximum = (
                limits.max_subscriptions if subscriptions is None else subscriptions
            )
            self.subscriptions.maxTokens = limits.max_sub_tokens
        if grant is not None:
            self._takeLane(self._makeLane())
        now = self._context.reactor.seconds()
        self._keepalive.changeInterval(limits.ping_interval, now)
        self._schedule()

    def tracingChanged(self) -> None:
        """
        The tracing in the context was replaced: the fast lane is left or taken again.
        """
        self._trace = self._makeTrace()
        if self.grant is not None:
            self._takeLane(self._makeLane())

    def _makeTrace(self) -> Trace | None:
        tracing, grant = self._context.tracing, self.grant
        if not tracing.protocol:
            return None
        if grant is not None and not tracing.system:
            if self._context.accounts.isSystem(grant.account):
                return None
        return Trace(self, tracing.maxLength, tracing.headersOnly)

    def reauthorize(self) -> None:
        """
        Ask the authorizer again: what was granted may no longer hold. A client that is no longer
        let in is cut; subscriptions that are no longer allowed end.
        """
        if self.reason:
            return
        if self._login is not None:
            # The answer that it waits for may be from before the change.
            self._login.cancel()
            self._release()
            self._ask(self._decided)
        elif self.grant is not None:
            self._ask(ClientSession._reconsidered)

    def _reconsidered(self, grant: Grant | None) -> None:
        before = self.grant
        if before is None or grant is None or not _isSameUser(before, grant):
            self.close(errors.AUTHORIZATION)
        else:
            self._adopt(grant)

    def _adopt(self, grant: Grant) -> None:
        """
        Use another grant of the same user.
        """
        self.grant = grant
        context = self._context
        isSystem = context.accounts.isSystem(grant.account)
        self._rules = PublishRules(grant, isSystem, context.reactor.seconds)
        self.outbox.direct = self._rules.replies is None
        if self._bus is not None:
            self._bus.matcher.changed(b">")
        if self.subscriptions is not None:
            for subject, sid in self.subscriptions.permit(grant.subscribe):
                self._say(errors.PERMISSION_REMOVED.line(_text(subject), _text(sid)))
        self._expires = grant.expires
        self.limitsChanged()
        self._configure()

    # Deadlines.

    def _schedule(self) -> None:
        self._context.wheel.schedule(self, self._nextDeadline())

    def _nextDeadline(self) -> float:
        due = self._keepalive.due
        for deadline in (self._loginBy, self._expires):
            if deadline is not None and deadline < due:
                due = deadline
        if self._stuckSince is not None:
            due = min(due, self._stuckSince + self._context.limits.write_deadline)
        return due

    def deadlinePassed(self, now: float) -> float | None:
        """
        See L{natsbroker.net.wheel.HasDeadline}.
        """
        if self.reason:
            return None
        if self._loginBy is not None and now >= self._loginBy:
            waited, self._login = self._login, None
            if waited is not None:
                waited.cancel()
                self.close(errors.AUTHORIZATION)
            else:
                self.close(errors.AUTH_TIMEOUT)
        elif self._expires is not None and now >= self._expires:
            self.close(errors.AUTH_EXPIRED)
        elif self._isStuck(now):
            deadline = self._context.limits.write_deadline
            self._cut(errors.SLOW_DEADLINE, f"WriteDeadline of {deadline:g}s exceeded")
        else:
            self._keepAlive(now)
        return None if self.reason else self._nextDeadline()

    def _keepAlive(self, now: float) -> None:
        maximum = self._context.limits.ping_max
        action = self._keepalive.timePassed(now, self.decoder.heard, maximum)
        if action is KeepaliveAction.PING:
            self._say(b"PING\r\n")
        elif action is KeepaliveAction.STALE:
            self.close(errors.STALE)

    def _isStuck(self, now: float) -> bool:
        since = self._stuckSince
        return since is not None and now >= since + self._context.limits.write_deadline

    def writeBlocked(self) -> None:
        """
        The transport took not everything; it has until the write deadline to take the rest.
        """
        if self._stuckSince is None:
            self._stuckSince = self._context.reactor.seconds()
            self._schedule()

    def writeProgressed(self) -> None:
        """
        The transport took everything.
        """
        self._stuckSince = None

    def _waitFor(self, outbox: hot.Outbox) -> None:
        waits = outbox.pending > hot.Turn.HIGH and not outbox.lagging
        if waits and self._stall is None and not self.reason and self._context.limits.stall:
            self._hold()
            self._stall = Stall(self._context.reactor, outbox, self._waited)

    def _waited(self) -> None:
        self._stall = None
        self._release()

    def _hold(self) -> None:
        """
        Read nothing until everybody who asked for it has called L{_release}.
        """
        self._holds += 1
        if self._holds == 1:
            self._peer.pauseReading()

    def _release(self) -> None:
        self._holds -= 1
        if not self._holds and not self.reason:
            self._peer.resumeReading()


def _isSameUser(one: Grant, other: Grant) -> bool:
    return (one.account, one.user) == (other.account, other.user)


def _text(subject: bytes) -> str:
    return subject.decode("utf-8", "surrogateescape")


def _shown(line: bytes) -> str:
    """
    What stands between the quotes of an C{-ERR} line, for the log.
    """
    return line[6:-3].decode("utf-8", "replace")


#: What is no news: the real server logs it for debugging only.
_QUIET = frozenset({errors.AUTH_TIMEOUT, errors.AUTH_EXPIRED, errors.STALE})

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
