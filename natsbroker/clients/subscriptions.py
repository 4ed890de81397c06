"""
The subscriptions of one connection by sid, with nats-server's checks in its order: permission,
number of tokens, number of subscriptions, sid in use, valid subject.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from natsbroker import errors, hot
from natsbroker.interfaces import IMessageBus
from natsbroker.subjects import grammar
from natsbroker.subjects.permissions import Verdict
from natsbroker.subjects.shapes import TooManyShapes
from natsbroker.wire.grants import Grant, Verb

#: The queue group that nats-server reserves for itself.
_SYSTEM_QUEUE = b"_sys_"


@dataclass(eq=False, slots=True)
class SubscriptionTable:
    """Subscriptions with maxima of their number and of tokens; 0 for none."""

    bus: IMessageBus
    subscriber: Any
    grant: Grant
    maximum: int = 0
    maxTokens: int = 0
    _sids: hot.SidTable = field(default_factory=lambda: hot.SidTable(), init=False)

    def __len__(self) -> int:
        return len(self._sids)

    @property
    def isOverfull(self) -> bool:
        return 0 < self.maximum < len(self._sids)

    def __iter__(self) -> Iterator[tuple[bytes, Any]]:
        return ((subscription.tag, subscription) for subscription in self._sids)

    def subscribe(self, subject: bytes, queue: bytes, sid: bytes) -> None:
        verdict = self.grant.may(Verb.SUBSCRIBE, subject, queue)
        if verdict is Verdict.DENIED or queue == _SYSTEM_QUEUE:
            raise _refused(subject, queue)
        if self.maxTokens and subject.count(b".") >= self.maxTokens:
            raise errors.ProtocolViolation(errors.TOO_MANY_TOKENS, _text(subject))
        if self.maximum > 0 and len(self._sids) >= self.maximum:
            raise errors.ProtocolViolation(errors.MAX_SUBSCRIPTIONS)
        if sid in self._sids:
            return
        if not grammar.isValidSubject(subject):
            raise errors.ProtocolViolation(errors.INVALID_SUBJECT)
        try:
            subscription: Any = self.bus.subscribe(subject, self.subscriber, sid, queue)
        except (TooManyShapes, errors.BrokerError):
            raise errors.ProtocolViolation(errors.MAX_SHAPES) from None
        if verdict is Verdict.FILTERED:
            subscription.permissions = self.grant.subscribe
        self._sids.add(subscription)

    def unsubscribe(self, sid: bytes, maximum: int) -> None:
        """End after C{maximum} messages, earlier ones included; 0 for at once."""
        subscription = self._sids.get(sid)
        if subscription is None:
            return
        subscription.cancelAfter(maximum)
        if subscription.closed:
            self._sids.pop(sid)

    def ended(self, sid: bytes) -> None:
        self._sids.pop(sid)

    def clear(self) -> None:
        if not self._sids:
            return
        sids, self._sids = self._sids, hot.SidTable()
        ended: Any = sids
        self.bus.cancelAll(ended)

    def permit(self, grant: Grant) -> Iterator[tuple[bytes, bytes, bytes] | None]:
        """
        Use another grant, and end the subscriptions that it does not allow, one at each step. Give
        subject, queue and sid of each that ended, and C{None} for others.
        """
        self.grant = grant
        return self._permitted(grant)

    def _permitted(self, grant: Grant) -> Iterator[tuple[bytes, bytes, bytes] | None]:
        for sid, subscription in self:
            if self.grant is not grant:
                return
            if subscription.closed:
                continue
            verdict = grant.may(Verb.SUBSCRIBE, subscription.pattern, subscription.queue)
            if verdict is Verdict.DENIED:
                self._sids.pop(sid)
                subscription.cancel()
                yield subscription.pattern, subscription.queue, sid
            else:
                isFiltered = verdict is Verdict.FILTERED
                subscription.permissions = grant.subscribe if isFiltered else None
                yield None

    def sidFor(self, subject: bytes) -> bytes | None:
        """The sid of a plain subscription to this literal subject, if any."""
        for subscription in self.bus.matcher.match(subject).plain:
            if subscription.subscriber is self.subscriber:
                return bytes(subscription.tag)
        return None


def _text(subject: bytes) -> str:
    return subject.decode("utf-8", "surrogateescape")


def _refused(subject: bytes, queue: bytes) -> errors.ProtocolViolation:
    if queue:
        return errors.ProtocolViolation(errors.QUEUE_DENIED, _text(subject), _text(queue))
    return errors.ProtocolViolation(errors.SUBSCRIBE_DENIED, _text(subject))
