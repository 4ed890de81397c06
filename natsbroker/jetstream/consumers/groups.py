"""
The priority group of a pull consumer: the waiting requests that may have a message. As in
nats-server a consumer has one pinned client, whatever the number of its groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from natsbroker.jetstream.consumers.pull import PullRequest
from natsbroker.jetstream.model.consumerconfig import ConsumerConfig, PriorityPolicy


class GroupVerdict:
    """
    The fate of a waiting request.

    @cvar SERVE: it may have a message.
    @cvar SERVE_PINNED: it may have a message, which pins its client.
    @cvar WAIT: it continues to wait.
    @cvar WRONG_PIN: it ends, because its client is not pinned any more.
    """

    SERVE = 0
    SERVE_PINNED = 1
    WAIT = 2
    WRONG_PIN = 3


class PriorityGroup:
    """
    The state of priority policies.

    @ivar pin: the id of the pinned client; empty for none.
    @ivar pinnedAt: nanoseconds since 1970; 0 for none.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        newId: Callable[[], str],
        now: Callable[[], int],
    ) -> None:
        """The state; C{newId} makes the id of a pinned client, C{now} is the wall clock."""
        self.applyConfig(config)
        self._newId = newId
        self._now = now
        self.pin = ""
        self.pinnedAt = 0

    def applyConfig(self, config: ConsumerConfig) -> None:
        self.policy = config.priority_policy
        self.isPinning = self.policy is PriorityPolicy.PINNED_CLIENT

    def isWrongPin(self, request: PullRequest) -> bool:
        """Whether a new request has an id that is not that of the pinned client."""
        terms = request.terms
        if not self.pin or terms is None:
            return False
        return bool(terms.pin) and terms.pin != self.pin

    def isFromPinned(self, request: PullRequest) -> bool:
        terms = request.terms
        return bool(self.pin) and terms is not None and terms.pin == self.pin

    def judge(self, request: PullRequest, pending: int, ackPending: int) -> int:
        """The L{GroupVerdict}, by the consumer's undelivered and unacknowledged messages."""
        if self.isPinning:
            return self._judgePinned(request)
        if self.policy is PriorityPolicy.OVERFLOW and not _overflows(request, pending, ackPending):
            return GroupVerdict.WAIT
        return GroupVerdict.SERVE

    def _judgePinned(self, request: PullRequest) -> int:
        terms = request.terms
        if not self.pin:
            if terms is not None and terms.pin:
                return GroupVerdict.WRONG_PIN
            if terms is None or not terms.group:
                return GroupVerdict.SERVE
            self.pin = self._newId()
            request.terms = replace(terms, pin=self.pin)
            self.pinnedAt = self._now()
            return GroupVerdict.SERVE_PINNED
        if terms is None or not terms.pin:
            return GroupVerdict.WAIT
        return GroupVerdict.SERVE if terms.pin == self.pin else GroupVerdict.WRONG_PIN

    def unpin(self) -> None:
        """Unpin the client: that of the next request is pinned instead."""
        self.pin = ""
        self.pinnedAt = 0


def _overflows(request: PullRequest, pending: int, ackPending: int) -> bool:
    """Whether the consumer has reached one of a request's bounds, or the request has none."""
    terms = request.terms
    if terms is None or (terms.minPending <= 0 and terms.minAckPending <= 0):
        return True
    if 0 < terms.minPending <= pending:
        return True
    return 0 < terms.minAckPending <= ackPending
