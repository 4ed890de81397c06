"""
The responses that an account's services owe to requests from other accounts.

A response reaches the requestor under the reply subject of the request. It is owed until it comes,
takes too long or loses its subscriber. The number of owed responses is bounded.

A service sees a reply subject C{_R_.}I{account}C{.}I{request} of its own account, so it learns
nothing about the requestor and can answer nothing but the request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from natsbroker.accounts.core import AccountCore
from natsbroker.accounts.latency import Headers, answeredEvent, publishEvent, unansweredEvent
from natsbroker.accounts.relays import (
    MOST_HOPS,
    ImportHop,
    ImportPath,
    Relay,
    originOf,
    relaySubscription,
)
from natsbroker.accounts.withdrawn import RESPONSE
from natsbroker.config.settings.accounts import SINGLETON, ServiceExport
from natsbroker.subjects.grammar import hasWildcard, matches
from natsbroker.wire.mapped import ACKNOWLEDGEMENT
from natsbroker.wire.values import Kind, Message

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

#: All pairs of digits; three of them make the random part of a reply subject.
_PAIRS = [(one + other).encode("ascii") for one in _DIGITS for other in _DIGITS]

#: The most pending replies that are compared with a pattern with wildcards that lost its last
#: subscription. If there are more, they are given up when they take too long.
_MOST_COMPARED = 1024


def _onward(kind: Kind) -> Kind:
    """
    The kind of an answer's origin at the requestor. An answer from a route may leave by another
    route.
    """
    return Kind.INTERNAL if kind is Kind.ROUTE else kind


@dataclass(eq=False, slots=True)
class Response(ImportHop):
    """
    The response owed to one request.

    @ivar subject: the reply subject that the service sees.
    @ivar requestor: the responses of the requesting account.
    @ivar reply: the reply subject in the requesting account.
    @ivar since: the time of the request, or of its last response.
    @ivar origin: the requesting client (an C{IOrigin}), or C{None}.
    @ivar trigger: the headers that caused a measurement; C{None} without or after it.
    @ivar isPulled: whether the request pulls messages of a JetStream consumer, which counts them as
        delivered with the response.
    """

    isAnswer: ClassVar[bool] = True

    subject: bytes
    requestor: Responses
    reply: bytes
    since: float
    origin: Any
    trigger: Headers | None
    isPulled: bool


class Responses(Relay):
    """The responses that an account owes, at most C{LIMIT}; C{pending} are those that it awaits."""

    __slots__ = ("_byExport", "_owed", "_prefix", "_timers", "account", "pending")

    LIMIT = 1 << 18

    def __init__(self, account: AccountCore) -> None:
        self.account = account
        self.pending = PendingReplies()
        self._prefix = b""
        self._owed: dict[bytes, Response] = {}
        # The owed responses by the identity of their export, each group in the order of their
        # timeouts.
        self._byExport: dict[int, dict[bytes, Response]] = {}
        self._timers: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self._owed)

    @property
    def isOpen(self) -> bool:
        """Whether a response was ever owed. Since then there is a subscription to responses."""
        return bool(self._prefix)

    def _open(self) -> None:
        self._prefix = b"%b%b." % (RESPONSE, self._randomToken())
        self.account.attach(relaySubscription(self.account, self._prefix + b">", self))

    def expect(
        self,
        requestor: Responses,
        reply: bytes,
        hop: ImportHop,
        origin: Any = None,
        trigger: Headers | None = None,
        isPulled: bool = False,
    ) -> Response:
        if not self._prefix:
            self._open()
        if len(self._owed) >= self.LIMIT:
            self._forget(next(iter(self._owed.values())))
        subject = self._newSubject(trigger is not None)
        now = self.account.clock.seconds()
        response = Response(
            hop.export, hop.share, subject, requestor, reply, now, origin, trigger, isPulled
        )
        self._owed[subject] = response
        self._byExport.setdefault(id(response.export), {})[subject] = response
        self._watch(response.export)
        requestor.pending.add(self, response)
        return response

    def relay(self, message: Message, kind: Kind, path: ImportPath | None) -> bool:
        """
        Pass a response on, and return whether it has a receiver. A client's response counts as
        received in any case; the broker's own services use this result.
        """
        isSure = kind is not Kind.INTERNAL
        response = self._owed.get(message.subject)
        if response is None or (path is not None and path.refuses(response.export)):
            return isSure
        requestor, reply = response.requestor, message.reply
        # A reply subject that acknowledges a JetStream message must keep its name to do so.
        if reply and not reply.startswith(ACKNOWLEDGEMENT):
            reply = requestor.expect(self, reply, response).subject
        self._publishAnswer(response, message)
        answer = message.readdressed(requestor.account.mapped(response.reply), reply)
        hops = () if path is None else path.hops
        onward = ImportPath((*hops, response), None)
        reached = requestor.account.delivery.publish(_onward(kind), answer, onward)
        isLast = response.export.response_type == SINGLETON or not message.body
        if isLast or not reached:
            self._forget(response)
        elif response.subject in self._owed:
            self._renew(response)
        return isSure or reached > 0

    def reaches(self, subject: bytes, kind: Kind, hops: int) -> bool:
        response = self._owed.get(subject)
        if response is None or hops >= MOST_HOPS:
            return False
        account = response.requestor.account
        subject = account.mapped(response.reply)
        return account.delivery.hasInterest(_onward(kind), subject, hops + 1)

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for response in list(self._owed.values()):
            self._forget(response)

    def giveUp(self, response: Response, status: int) -> None:
        if self._forget(response):
            self._publishFailure(response, status)
            if response.isPulled and self.account.interest:
                self._withdraw(response)

    def _withdraw(self, response: Response) -> None:
        """
        Show other brokers that a response has no receiver any more, by a subscription to it that
        ends at once. They know all responses by one subscription only. See
        L{natsbroker.accounts.withdrawn}.
        """
        subscription = relaySubscription(self.account, response.subject, self)
        self.account.attach(subscription)
        self.account.detach(subscription)

    def _forget(self, response: Response) -> bool:
        if self._owed.pop(response.subject, None) is None:
            return False
        same = self._byExport[id(response.export)]
        del same[response.subject]
        if not same:
            del self._byExport[id(response.export)]
        response.requestor.pending.remove(response)
        return True

    def _renew(self, response: Response) -> None:
        response.since = self.account.clock.seconds()
        same = self._byExport[id(response.export)]
        same[response.subject] = same.pop(response.subject)

    def _watch(self, export: ServiceExport) -> None:
        key = id(export)
        if key in self._timers or key not in self._byExport:
            return
        oldest = next(iter(self._byExport[key].values()))
        clock = self.account.clock
        delay = max(oldest.since + export.response_threshold - clock.seconds(), 0.0)
        self._timers[key] = clock.callLater(delay, self._expire, export)

    def _expire(self, export: ServiceExport) -> None:
        key = id(export)
        del self._timers[key]
        limit = self.account.clock.seconds() - export.response_threshold
        while key in self._byExport:
            oldest = next(iter(self._byExport[key].values()))
            if oldest.since > limit:
                break
            self.giveUp(oldest, 504)
        self._watch(export)

    def _publishAnswer(self, response: Response, message: Message) -> None:
        trigger, response.trigger = response.trigger, None
        latency = response.export.latency
        if trigger is None or latency is None:
            return
        now = self.account.clock.seconds()
        responder = originOf(message)
        event = answeredEvent(
            response.origin, responder, response.share, trigger, response.since, now
        )
        publishEvent(self.account, latency, event)

    def _publishFailure(self, response: Response, status: int) -> None:
        latency, trigger = response.export.latency, response.trigger
        if trigger is None or latency is None:
            return
        now = self.account.clock.seconds()
        event = unansweredEvent(
            status, response.origin, response.share, trigger, response.since, now
        )
        publishEvent(self.account, latency, event)

    def _newSubject(self, isMeasured: bool) -> bytes:
        """An unused reply subject, with nats-server's mark if the request is measured."""
        while True:
            subject = self._prefix + self._randomToken()
            if isMeasured:
                subject += b".T"
            if subject not in self._owed:
                return subject

    def _randomToken(self) -> bytes:
        pairs, count = _PAIRS, len(_PAIRS)
        rest, last = divmod(int(self.account.random.random() * count**3), count)
        return pairs[rest // count] + pairs[rest % count] + pairs[last]


class PendingReplies:
    __slots__ = ("_replies",)

    def __init__(self) -> None:
        self._replies: dict[bytes, dict[Response, Responses]] = {}

    def __len__(self) -> int:
        return len(self._replies)

    def add(self, responses: Responses, response: Response) -> None:
        self._replies.setdefault(response.reply, {})[response] = responses

    def remove(self, response: Response) -> None:
        waiting = self._replies.get(response.reply)
        if waiting is not None and waiting.pop(response, None) is not None and not waiting:
            del self._replies[response.reply]

    def interestLost(self, pattern: bytes, hasInterest: Any) -> None:
        """Give up the replies that have lost their interest by C{hasInterest}."""
        if not hasWildcard(pattern):
            replies = [pattern] if pattern in self._replies else []
        elif len(self._replies) <= _MOST_COMPARED:
            replies = [reply for reply in self._replies if matches(pattern, reply)]
        else:
            return
        for reply in replies:
            if not hasInterest(reply):
                for response, responses in list(self._replies.get(reply, {}).items()):
                    responses.giveUp(response, 408)
