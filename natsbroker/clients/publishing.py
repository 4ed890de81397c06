"""
The subjects that a connection may publish to, checked in nats-server's order (client.go's inbound
path; PROTOCOL part 4, point 4): reserved subject, permission, reserved for the cluster, reserved
reply.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from natsbroker import errors
from natsbroker.subjects.permissions import DENIED, PermissionSet, ResponsePermission
from natsbroker.wire.grants import Grant, Verb
from natsbroker.wire.reserved import CLUSTER_SUBJECTS, isReserved, isReservedReply
from natsbroker.wire.schedules import subjectsIn


@dataclass(eq=False, slots=True)
class ReplyTracker:
    """The requests that a connection may answer, at most C{LIMIT}; the oldest goes first."""

    LIMIT = 10_000

    permission: ResponsePermission
    now: Callable[[], float]
    _replies: dict[bytes, tuple[float, int]] = field(default_factory=dict, init=False)

    def delivered(self, reply: bytes) -> None:
        self._replies.pop(reply, None)
        if len(self._replies) >= self.LIMIT:
            del self._replies[next(iter(self._replies))]
        self._replies[reply] = (self.now(), 0)

    def allows(self, subject: bytes) -> bool:
        """Whether one more answer to this subject is allowed. If so, it is counted."""
        entry = self._replies.get(subject)
        if entry is None:
            return False
        since, count = entry
        permission = self.permission
        expired = permission.expires > 0 and self.now() - since > permission.expires
        if expired or 0 < permission.max <= count:
            del self._replies[subject]
            return False
        self._replies[subject] = (since, count + 1)
        return True

    def __len__(self) -> int:
        return len(self._replies)


class PublishRule(NamedTuple):
    """
    @ivar violation: returns the violation of a publish; its arguments are the rules of the
        connection, the subject and the reply subject.
    @ivar isInLane: whether the lane leaves each publish that breaks the rule to the readable path.
        If a connection has a rule for which this is false, the lane leaves all its publishes.
    """

    violation: Callable[[PublishRules, bytes, bytes], errors.ProtocolViolation | None]
    isInLane: bool = False


class PublishRules:
    """
    The rules for publishes of one connection.

    @ivar rules: in the order in which they are looked at.
    @ivar permissions: what the lane needs to know for the rule about permissions.
    @ivar replies: the requests that the connection may answer; C{None} without
        C{allow_responses}.
    """

    __slots__ = ("_grant", "_isSystem", "permissions", "replies", "rules")

    def __init__(self, grant: Grant, isSystem: bool, now: Callable[[], float]) -> None:
        self._grant = grant
        self._isSystem = isSystem
        self.permissions: PermissionSet | None = grant.publishing
        self.replies: ReplyTracker | None = None
        if grant.responses is not None:
            self.replies = ReplyTracker(grant.responses, now)
        self.rules: tuple[PublishRule, ...] = _RULES

    @property
    def areInLane(self) -> bool:
        """Whether the connection may have a lane."""
        return all(rule.isInLane for rule in self.rules)

    def violation(self, subject: bytes, reply: bytes) -> errors.ProtocolViolation | None:
        for rule in self.rules:
            violation = rule.violation(self, subject, reply)
            if violation is not None:
                return violation
        return None

    def violationIn(self, body: bytes, headerLength: int) -> errors.ProtocolViolation | None:
        """
        Check a schedule in headers: JetStream publishes to its target for the client, and shows it
        the last message of its source.
        """
        if not headerLength:
            return None
        targets, sources = subjectsIn(body, headerLength)
        for target in targets:
            violation = self.violation(target, b"")
            if violation is not None:
                return violation
        for source in sources:
            if self._grant.may(Verb.SUBSCRIBE, source) is DENIED:
                return _denied(errors.SUBSCRIBE_DENIED, source)
        return None

    def _forbidden(self, subject: bytes, reply: bytes) -> errors.ProtocolViolation | None:
        if self._grant.may(Verb.PUBLISH, subject) is not DENIED:
            return None
        if self.replies is not None and self.replies.allows(subject):
            return None
        return _denied(errors.PUBLISH_DENIED, subject)

    def _ofCluster(self, subject: bytes, reply: bytes) -> errors.ProtocolViolation | None:
        if subject.startswith(CLUSTER_SUBJECTS) and not self._isSystem:
            return _denied(errors.PUBLISH_DENIED, subject)
        return None

    def _reservedSubject(self, subject: bytes, reply: bytes) -> errors.ProtocolViolation | None:
        return _denied(errors.PUBLISH_DENIED, subject) if isReserved(subject) else None

    def _reservedReply(self, subject: bytes, reply: bytes) -> errors.ProtocolViolation | None:
        return _denied(errors.REPLY_DENIED, reply) if isReservedReply(reply) else None


_RULES = (
    PublishRule(PublishRules._reservedSubject, isInLane=True),
    PublishRule(PublishRules._forbidden, isInLane=True),
    PublishRule(PublishRules._ofCluster, isInLane=True),
    PublishRule(PublishRules._reservedReply, isInLane=True),
)


def _denied(error: errors.WireError, subject: bytes) -> errors.ProtocolViolation:
    return errors.ProtocolViolation(error, subject.decode("utf-8", "surrogateescape"))
