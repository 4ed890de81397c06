"""
Letting a client in: from what it said, through the authorizer's answer, to what it may do.

The real server's order of checks at CONNECT; a grant that changes takes hold of what is
there already; while an authorizer is asked, nothing more is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from twisted.logger import Logger

from natsbroker import errors, hot
from natsbroker.advisories import ClientConnected, ClientDisconnected
from natsbroker.clients.context import ClientContext
from natsbroker.clients.login import Login
from natsbroker.clients.publishing import PublishRules
from natsbroker.clients.subscriptions import SubscriptionTable
from natsbroker.clients.timing import TimedConversation
from natsbroker.connections.backlog import LOGIN, RECEIVER
from natsbroker.connections.labels import inQuotes
from natsbroker.connections.peer import ClientPeer
from natsbroker.connections.trace import Trace
from natsbroker.interfaces import IMessageBus
from natsbroker.wire.connect import parseConnect
from natsbroker.wire.grants import ConnectRequest, Grant

__all__ = ["AdmittedConversation"]

_log = Logger()

#: How the client is told of a subscription that ended.
_REMOVED = b"-ERR 'Permissions Violation for Subscription to "

#: What to do with the authorizer's answer: a method of the conversation.
_Decision = Callable[["AdmittedConversation", "Grant | None"], None]


class AdmittedConversation(TimedConversation):
    """
    A conversation whose client is let in, or not.
    """

    __slots__ = ("_bus", "_decided", "_denial", "_lane", "_rules")

    def __init__(self, context: ClientContext, peer: ClientPeer) -> None:
        super().__init__(context, peer)
        self._bus: IMessageBus | None = None
        self._rules: PublishRules | None = None
        self._decided: _Decision = AdmittedConversation._letIn
        self._denial = errors.AUTHORIZATION
        self._lane: Any = None
        self._trace = self._makeTrace()

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
        self._keepalive.estimate(self._context.reactor.seconds() - self.started)
        self._logIn()

    def _logIn(self) -> None:
        self._loginBy = None
        self._turn.work += LOGIN
        self._schedule()
        self._ask(AdmittedConversation._letIn)

    def _ask(self, decided: _Decision) -> None:
        """
        Ask the authorizer. Until it has answered, nothing more is read and its time is limited.
        """
        request = ConnectRequest(
            options=self.options if self._connected else {},
            host=self._peer.host,
            nonce=self._nonce,
            certificate=self._peer.certificate,
            connectionType=self._peer.connectionType,
            cid=self.cid,
            tls=self._peer.tls,
            granted=self.grant,
        )
        self._decided = decided
        login = self._login = Login(lambda grant: self._inTurn(self._answered, decided, grant))
        login.ask(self._context.authorizer, request)
        if login.waiting:
            self._loginBy = self._context.reactor.seconds() + self._context.limits.auth_timeout
            self._schedule()
            self._hold()

    def _answered(self, decided: _Decision, grant: Grant | None) -> None:
        waited = self._loginBy is not None
        if self._login is not None:
            self._denial = self._login.denial
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
        self._settleDirect()
        self.subscriptions = SubscriptionTable(
            bus,
            self,
            grant,
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
        if self._lane is not None:
            self._lane.complete()
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
            self,
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

    def limitsChanged(self) -> None:
        """
        The limits in the context were replaced: use the new ones. A client with more subscriptions
        than it may have is cut.
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
        if self.subscriptions is not None and self.subscriptions.isOverfull:
            self.close(errors.SUBSCRIPTIONS_EXCEEDED)

    def tracingChanged(self) -> None:
        """
        The tracing in the context was replaced: the fast lane is left or taken again.
        """
        self._trace = self._makeTrace()
        self._settleDirect()
        if self.grant is not None:
            self._takeLane(self._makeLane())

    def _settleDirect(self) -> None:
        """
        Say whether messages may be put into the outbox without the session's knowledge.
        """
        rules, isFast = self._rules, self._context.fastLane and self._trace is None
        self.outbox.direct = isFast and (rules is None or rules.replies is None)

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
            self._ask(AdmittedConversation._reconsidered)

    def _reconsidered(self, grant: Grant | None) -> None:
        before = self.grant
        if grant is None:
            self.close(self._denial)
        elif before is not None and _hasMoved(before, grant):
            self.close(errors.AUTH_GONE)
        elif before is None or before.user not in ("", grant.user):
            self.close(errors.AUTHORIZATION)
        else:
            self._adopt(grant)

    def _removed(self, subject: str, queue: str, sid: str) -> None:
        """
        Tell the client, and the log, of a subscription that ended because it is not allowed.
        """
        if queue:
            line = errors.QUEUE_REMOVED.line(subject, queue, sid)
        else:
            line = errors.PERMISSION_REMOVED.line(subject, sid)
        self._say(line)
        _log.info(
            "Removed sub {what} for User {user} - not authorized",
            what=line[len(_REMOVED) : -3].decode("utf-8", "replace"),
            user=inQuotes(self.grant.user if self.grant is not None else ""),
        )

    def _permitting(self, steps: Iterator[tuple[bytes, bytes, bytes] | None]) -> Iterator[None]:
        for ended in steps:
            self._turn.work += RECEIVER
            if ended is not None:
                self._removed(*map(_text, ended))
            yield
        if self._bus is not None:
            # Remembered answers are from before the change.
            self._bus.refresh()

    def _adopt(self, grant: Grant) -> None:
        """
        Use another grant of the same user, or of one who was nobody in the same account.
        """
        self.grant = grant
        context = self._context
        isSystem = context.accounts.isSystem(grant.account)
        self._rules = PublishRules(grant, isSystem, context.reactor.seconds)
        self._settleDirect()
        if self._bus is not None:
            self._bus.refresh()
        if self.subscriptions is not None:
            self._turn.backlog.exhaust(self._permitting(self.subscriptions.permit(grant)))
        self._expires = grant.expires
        self._configure()
        self.limitsChanged()


def _isSameUser(one: Grant, other: Grant) -> bool:
    return (one.account, one.user) == (other.account, other.user)


def _hasMoved(before: Grant, after: Grant) -> bool:
    """
    Whether a user is of another account now, or nobody.
    """
    return before.account != after.account or bool(before.user and not after.user)


def _text(subject: bytes) -> str:
    return subject.decode("utf-8", "surrogateescape")
