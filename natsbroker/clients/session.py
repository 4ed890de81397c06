"""
The session of one client, from its first byte to its last, without a transport.

Frames that the lane leaves are dispatched in order. A violation is answered with nats-server's
text, and closes the connection if it does there. No exception escapes L{ClientSession.received}.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from twisted.logger import Logger
from zope.interface import implementer

from natsbroker import errors, hot
from natsbroker.advisories import ClientConnected, ClientRefused, SlowConsumer
from natsbroker.clients.admission import Admission, EndedSubscriptions, LoginRefused, LoginState
from natsbroker.clients.adoption import Adoption
from natsbroker.clients.context import ClientContext, ClosedClient
from natsbroker.clients.operations import ClientOperations
from natsbroker.config.model import Settings
from natsbroker.connections.facts import ConnectionFacts, atEnd, clientInfoOf
from natsbroker.connections.labels import claimedUser, inQuotes
from natsbroker.connections.peer import ClientPeer
from natsbroker.connections.trace import Trace
from natsbroker.interfaces import IOrigin, IOutboxSubscriber
from natsbroker.pure.backlog import FRAME, LOGIN, RECEIVER
from natsbroker.runtime.debugging import debugging
from natsbroker.wire import ops
from natsbroker.wire.connect import DEFAULTS, parseConnect
from natsbroker.wire.grants import ConnectRequest, Grant
from natsbroker.wire.lines import Frame
from natsbroker.wire.text import decoded
from natsbroker.wire.values import ClientInfo

_log = Logger()

_EXPIRED = (
    "The authorizer's grant has expired already: its expires is in seconds since 1970, such as"
    " time.time() + 60"
)

#: The beginning of the line that reports the end of a subscription to the client.
_REMOVED = b"-ERR 'Permissions Violation for Subscription to "


def newNonce(nonceBytes: Callable[[int], bytes]) -> str:
    """Text for clients to sign."""
    return base64.urlsafe_b64encode(nonceBytes(11)).rstrip(b"=").decode("ascii")


@implementer(IOutboxSubscriber, IOrigin)
class ClientSession(ClientOperations):
    """
    @cvar _operations: the method of each operation.
    @cvar _early: operations that are handled before a connection is let in.
    @ivar _held: a frame that waits for the login.
    @ivar _isIntroduced: whether another process has sent INFO.
    @ivar _last: the facts at the end, once the connection was closed.
    """

    __slots__ = (
        "__weakref__",
        "_clientInfo",
        "_held",
        "_isInputEnded",
        "_isIntroduced",
        "_lane",
        "_last",
        "_nonce",
    )

    _operations: ClassVar[Mapping[int, Callable[..., None]]]
    _early: ClassVar[frozenset[int]]

    def __init__(self, context: ClientContext, peer: ClientPeer) -> None:
        self._begin(context, peer, self._makeDecoder(context.settings))
        self.decoder.authorized = not context.authorizer.required
        self.decoder.announce = True
        self.cid = context.connections.nextClient()
        self.options = dict(DEFAULTS)
        self._admission = Admission(context, self)
        self._isConnected = self._isGreeted = self._isInputEnded = False
        self._nonce = ""
        self._isIntroduced = False
        self._held: Frame | None = None
        self._last: ConnectionFacts | None = None
        self._lane: Any = None
        self._clientInfo: tuple[bool, float, Grant | None, ClientInfo] | None = None
        self._trace = self._makeTrace()

    def _makeDecoder(self, settings: Settings) -> Any:
        return hot.Decoder(settings.max_control_line, settings.max_payload)

    def adopted(self, adoption: Adoption) -> None:
        """Continue where another process has stopped. Call this before L{opened}."""
        self.cid = adoption.cid
        self.started -= adoption.waited
        if adoption.nonce is not None:
            self._isIntroduced = True
            self._nonce = adoption.nonce

    def opened(self) -> None:
        context = self.context
        context.connections.add(self.cid, self)
        if not self._isIntroduced and (context.authorizer.nonce or context.proxies):
            self._nonce = newNonce(context.nonceBytes)
        self._greet()
        if context.authorizer.deadline:
            self._handshakeBy = self.started + context.settings.authorization.timeout
        self._schedule()
        if debugging.isShown:
            _log.debug("{client} - Client connection created", client=self.label)

    def secured(self) -> None:
        """Restart the time to log in when a connection that was greeted is encrypted."""
        if self._handshakeBy is not None:
            timeout = self.context.settings.authorization.timeout
            self._handshakeBy = self.context.reactor.seconds() + timeout
            self._schedule()

    def refused(self, limit: errors.ConnectionLimit) -> None:
        self._greet()
        self.close(limit.error)

    def _greet(self) -> None:
        if self._isIntroduced:
            return
        peer = self.peer
        host = "" if peer.isUnnamed else peer.host
        self.outbox.write(self._serverInfo().line(self.cid, host, nonce=self._nonce))

    def proceed(self) -> None:
        """Handle the input in the decoder. An exception ends the connection."""
        if not self.reason and self._admission.login is None and not self._isQueued:
            self._inBatch(self._frames)

    def _frames(self) -> None:
        decoder, dispatch, batch = self.decoder, self._operations, self._batch
        admission = self._admission
        active = False
        if self._handshakeBy is not None and self._isGuest():
            self._logIn()
        while not self.reason and admission.login is None:
            if (batch.isSpent or self._steps is not None) and self._mustRest():
                break
            frame, self._held = self._held, None
            if frame is None:
                lane = self._lane
                if lane is not None:
                    if lane.forward():
                        active = True
                    if lane.isShort or (batch.isSpent and self._mustRest()):
                        break
                batch.work += FRAME
                frame = decoder.next()
                if frame is None:
                    break
                if self._trace is not None:
                    self._trace.came(frame)
            if frame[0] != ops.PONG:
                active = True
            if admission.grant is None and frame[0] not in self._early:
                self._held = frame
                self._logIn()
            else:
                dispatch[frame[0]](self, *frame[1:])
        if active:
            decoder.heard = self.context.reactor.seconds()

    def _isGuest(self) -> bool:
        """Whether a client becomes a guest at its first byte, without CONNECT."""
        isLate = self.grant is None and not self.context.authorizer.required
        return isLate and self.decoder.ahead not in _CONNECT

    def _connect(self, argument: bytes) -> None:
        try:
            given = parseConnect(argument)
        except ValueError:
            self.close(errors.BAD_ARGUMENTS)
            return
        self.options.update(given)
        for name, value in self.peer.credentials.items():
            self.options[name] = self.options.get(name) or value
        if self._isConnected:
            self._leaveAccount()
        self._isConnected = True
        self._keepalive.estimate(self.context.reactor.seconds() - self.started)
        self._logIn()

    def _logIn(self) -> None:
        # The wheel may call once at the old deadline, and then takes the next one.
        self._handshakeBy = None
        self._batch.work += LOGIN
        self._ask(LoginState.ASKED)

    def _ask(self, state: LoginState, isHeld: bool = False) -> None:
        """
        Ask the authorizer. Reading pauses until it answers in time, unless an earlier question has
        paused it.
        """
        peer = self.peer
        request = ConnectRequest(
            options=self.options if self._isConnected else {},
            host=peer.host,
            nonce=self._nonce,
            certificate=peer.certificate,
            connectionType=peer.connectionType,
            cid=self.cid,
            tls=peer.tls,
            granted=self.grant,
        )
        if self._admission.ask(state, request, partial(self._inBatch, self._answered)):
            timeout = self.context.settings.authorization.timeout
            self._handshakeBy = self.context.reactor.seconds() + timeout
            self._schedule()
            if not isHeld:
                self._hold()

    def _answered(self, grant: Grant | None) -> None:
        hasWaited = self._handshakeBy is not None
        self._handshakeBy = None
        try:
            self._settle(grant)
        except LoginRefused as refused:
            self.close(refused.error)
        if hasWaited:
            self._release()
            self.proceed()
        if self._isInputEnded:
            self.inputEnded()

    def _settle(self, grant: Grant | None) -> None:
        admission = self._admission
        isLogin = admission.state is LoginState.ASKED
        if isLogin:
            # The client may be about to leave its account, whose messages the lane has to finish.
            self._takeLane(None)
        ended = admission.decide(grant, self.options)
        granted = admission.grant
        if granted is None:
            return
        if ended is None:
            self.decoder.authorized = True
            self._useLimits()
        else:
            self._batch.backlog.exhaust(self._permitting(ended))
        self._expires = granted.expires
        if granted.expires is not None and granted.expires <= self.context.reactor.seconds():
            _log.warn("{client} - {text}", client=str(self), text=_EXPIRED)
        if granted.expires is not None:
            self._schedule()
        self._configure()
        if ended is None:
            self.context.notify(ClientConnected(self.cid, granted.account, granted.user))
        else:
            self.limitsChanged()
        if isLogin:
            self._agree()
            # For a guest that became a user without a CONNECT, a later CONNECT counts as the second
            # one.
            self._isConnected = self._isConnected or bool(granted.user)

    def _agree(self) -> None:
        options = self.options
        if not self._isConnected:
            return
        if not 0 <= options["protocol"] <= 1:
            self.close(errors.BAD_PROTOCOL)
        elif options["no_responders"] and not self.outbox.headers:
            self.close(errors.NO_RESPONDERS_HEADERS)
        elif options["verbose"]:
            self.say(b"+OK\r\n")

    def reauthorize(self) -> None:
        """Ask the authorizer again. A refused client is closed, and forbidden subscriptions end."""
        if self.reason:
            return
        admission = self._admission
        login = admission.withdraw()
        if login is not None:
            # The login's pending answer may be from before the change.
            login.cancel()
            self._ask(admission.state, isHeld=True)
        elif admission.grant is not None:
            self._ask(LoginState.REVIEWED)

    def _permitting(self, ended: EndedSubscriptions) -> Iterator[None]:
        for words in ended:
            self._batch.work += RECEIVER
            if words is not None:
                self._removed(*(part.decode("utf-8", "surrogateescape") for part in words))
            yield
        if self._admission.bus is not None:
            # Remembered answers are from before the change.
            self._admission.bus.refresh()

    def _removed(self, subject: str, queue: str, sid: str) -> None:
        if queue:
            line = errors.QUEUE_REMOVED.line(subject, queue, sid)
        else:
            line = errors.PERMISSION_REMOVED.line(subject, sid)
        self.say(line)
        _log.info(
            "Removed sub {what} for User {user} - not authorized",
            what=decoded(line[len(_REMOVED) : -3]),
            user=inQuotes(self.grant.user if self.grant is not None else ""),
        )

    def _handshakeLate(self) -> None:
        login = self._admission.withdraw()
        if login is not None:
            login.giveUp()
            self.close(errors.AUTHORIZATION)
        else:
            self.close(errors.AUTH_TIMEOUT)

    def _leaveAccount(self) -> None:
        if self.grant is not None:
            self._takeLane(None)
            self._admission.leave(self.reason or "Reconnected")

    def _configure(self) -> None:
        options = self.options
        headers = options["headers"] and not self.context.settings.no_header_support
        self.decoder.headers = self.outbox.headers = headers
        self.decoder.announce = options["pedantic"]
        self.outbox.echo = options["echo"]
        self.tracingChanged()

    def _takeLane(self, lane: Any) -> None:
        before = self._lane
        if before is not None:
            before.complete()
        if lane is not before:
            self._lane = lane
            self.peer.useLane(lane)

    def _makeLane(self) -> Any:
        options, context, admission = self.options, self.context, self._admission
        if not context.fastLane or context.settings.logging.isTraced:
            return None
        if options["verbose"] or options["pedantic"]:
            return None
        rules, bus = admission.rules, admission.bus
        if rules is None or bus is None or not rules.areInLane:
            return None
        return hot.Lane(
            self.decoder,
            self.outbox,
            bus.matcher,
            rules.permissions,
            options["no_responders"],
            self,
        )

    def _useLimits(self) -> None:
        settings, grant, table = self.context.settings, self.grant, self.subscriptions
        payload = subscriptions = None
        if grant is not None:
            payload, subscriptions = grant.maxPayload, grant.maxSubscriptions
        self.decoder.maxPayload = settings.max_payload if payload is None else payload
        if table is not None:
            table.maximum = settings.max_subscriptions if subscriptions is None else subscriptions
            table.maxTokens = settings.max_sub_tokens

    def limitsChanged(self) -> None:
        super().limitsChanged()
        self._useLimits()
        if self.grant is not None:
            self._takeLane(self._makeLane())
        if self.subscriptions is not None and self.subscriptions.isOverfull:
            self.close(errors.SUBSCRIPTIONS_EXCEEDED)

    def tracingChanged(self) -> None:
        self._trace = self._makeTrace()
        self._settleDirect()
        if self.grant is not None:
            self._takeLane(self._makeLane())

    def _settleDirect(self) -> None:
        """Whether messages may be put into the outbox without the session's knowledge."""
        rules, isFast = (
            self._admission.rules,
            self.context.fastLane and self._trace is None,
        )
        self.outbox.direct = isFast and (rules is None or rules.replies is None)

    def _makeTrace(self) -> Trace | None:
        tracing, grant = self.context.settings.logging, self.grant
        if not tracing.isTraced:
            return None
        if grant is not None and not tracing.trace_verbose:
            if self.context.accounts.isSystem(grant.account):
                return None
        return Trace(self, tracing.max_traced_msg_len, tracing.trace_headers)

    def clientInfo(self, isDetailed: bool) -> ClientInfo:
        known = self._clientInfo
        roundTrip, grant = self._keepalive.roundTrip, self.grant
        if known is None or known[:3] != (isDetailed, roundTrip, grant):
            info = clientInfoOf(self.facts(), self.context.info.server_name, isDetailed)
            known = self._clientInfo = (isDetailed, roundTrip, grant, info)
        return known[3]

    def inputEnded(self) -> None:
        """
        Handle the end of a client's input: it gets what its operations have caused, and the answer
        to its CONNECT; then the connection ends.
        """
        self._isInputEnded = True
        isAsked = self._admission.login is not None
        if not isAsked and not self.reason and not self._postpone(self.inputEnded):
            self.outbox.flush()
            self.peer.finish()

    def _cut(self, error: errors.WireError, detail: str) -> None:
        if not self.reason:
            self.context.connections.slowConsumer(error.reason)
            self.context.notify(SlowConsumer(self.cid, self.outbox.limit, error.reason))
            super()._cut(error, detail)

    def lastFacts(self) -> ConnectionFacts:
        return self._last or self.factsAtEnd()

    def factsAtEnd(self) -> ConnectionFacts:
        return atEnd(self.facts(), self.subscriptions)

    def _closing(self, error: errors.WireError) -> None:
        facts = self.factsAtEnd()
        if self.grant is None:
            grant = self._admission.crowded
            account, user = "", claimedUser(self.options)
            if grant is not None:
                account, user = grant.account, grant.user
            facts = facts._replace(user=user)
            refused = ClientRefused(self.cid, self.peer.host, error.reason, account, user)
            said = self._admission.refusal
            if said is not None and said.asked:
                refused = replace(refused, asked=said.asked, why=str(said))
            self.context.notify(refused)
        self._last = facts
        if self.subscriptions is not None:
            self.subscriptions.clear()

    def _waitFor(self, outbox: hot.Outbox) -> None:
        wasStalled = self._stall is not None
        super()._waitFor(outbox)
        if self._stall is not None and not wasStalled:
            self.context.connections.stalls += 1

    def _gone(self) -> None:
        context = self.context
        facts = self._last = self.lastFacts()
        # After the client has left its account, its label is not available any more.
        label = self.label if debugging.isShown else None
        self.outbox.close()
        context.wheel.forget(self)
        login = self._admission.withdraw()
        if login is not None:
            login.cancel()
        if self._stall is not None:
            self._stall.end()
        self._leaveAccount()
        closed = ClosedClient(facts, context.reactor.seconds(), self.reason)
        context.connections.remove(self.cid, closed, self.traffic)
        self._admission.end()
        if label is not None:
            _log.debug("{client} - Client connection closed: {why}", client=label, why=self.reason)


#: The first byte of CONNECT, or -1 without any input.
_CONNECT = frozenset([*b"Cc", -1])

ClientSession._early = frozenset({ops.CONNECT, ops.FAULT, ops.OK, ops.INFO, ops.PONG, ops.ERR})

ClientSession._operations = {
    ops.FAULT: ClientSession._fault,
    ops.CONNECT: ClientSession._connect,
    ops.INFO: ClientSession._info,
    ops.PUB: ClientSession._publish,
    ops.HPUB: ClientSession._publish,
    ops.ANNOUNCED: ClientSession._announced,
    ops.SUB: ClientSession._subscribe,
    ops.UNSUB: ClientSession._unsubscribe,
    ops.PING: ClientSession._ping,
    ops.PONG: ClientSession._ponged,
    ops.OK: ClientSession._ok,
    ops.ERR: ClientSession._peerFailed,
}
