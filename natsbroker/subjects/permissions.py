"""
Permissions to publish and subscribe: immutable values, compiled once. A recently given answer costs
one dict look-up. The number of remembered answers is bounded.

The rules are nats-server's, checked against 2.15.1 (see C{docs/topics/routing.md}): a deny beats an
allow; a subscription wider than the allowed patterns is refused; one that lies within a denied
pattern is refused; one that merely overlaps a denied pattern is accepted, and what is denied is
left out when messages are delivered.

One difference, on purpose. nats-server reads a subscription's C{>} as an ordinary token when it
looks for it among the allowed patterns, so that allow C{foo.*} accepts C{SUB foo.>} and lets its
owner hear C{foo.a.b}. Here this is a subscription wider than the allowed patterns, and refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from natsbroker.subjects.grammar import hasWildcard, isSubset, isValidSubject, notBytes, overlaps
from natsbroker.subjects.index import InvalidPattern, SubjectIndex

#: The most answers that are remembered; with one more, all are forgotten.
_REMEMBERED = 1024


#: With more denied entries than this, subscriptions with wildcards are filtered
#: without finding out whether they overlap any.
_MOST_COMPARED = 256


class Verdict(Enum):
    #: It stands, and whatever it matches may be delivered.
    ALLOWED = "allowed"

    #: It is refused.
    DENIED = "denied"

    #: It stands, but each delivery needs L{SubscribePermissions.mayDeliver}.
    FILTERED = "filtered"


ALLOWED = Verdict.ALLOWED
DENIED = Verdict.DENIED
FILTERED = Verdict.FILTERED


@dataclass(frozen=True, slots=True)
class ResponsePermission:
    """
    The permission to answer requests: it permits publishing to the reply subject of a delivered
    message, whatever the other permissions are.

    @ivar max: the most answers to one request; 0 or less is no limit.
    @ivar expires: the seconds after delivery; 0 or less is no limit.
    """

    max: int = 1
    expires: float = 120.0


class _Scope(NamedTuple):
    """The scope of a subscribe permission. C{queue} is a name, a pattern, or empty."""

    pattern: bytes
    queue: bytes


def queueMatches(queue: bytes, wanted: bytes) -> bool:
    """Whether a permission's queue covers a queue: it is the same text, or a matching pattern."""
    return queue == wanted or (hasWildcard(wanted) and isSubset(queue, wanted))


def _indexOf(scopes: Iterable[_Scope]) -> SubjectIndex[_Scope]:
    index: SubjectIndex[_Scope] = SubjectIndex()
    for scope in scopes:
        index.insert(scope.pattern, scope)
    return index


def _parseScope(entry: bytes) -> _Scope:
    pattern, _, queue = entry.strip().partition(b" ")
    queue = queue.strip()
    if not isValidSubject(pattern) or (queue and not isValidSubject(queue)):
        raise InvalidPattern(f"not a subject, nor a subject and a queue: {entry!r}")
    return _Scope(pattern, queue)


def _entries(name: str, given: Any) -> frozenset[bytes]:
    """Raise C{TypeError} for one pattern in place of several, and for a pattern that is a text."""
    if isinstance(given, (bytes, str)):
        raise TypeError(f"{name} takes several patterns: write [{given!r}], not {given!r}")
    entries = frozenset(given)
    for entry in entries:
        if not isinstance(entry, bytes):
            raise TypeError(f"{name}: a pattern is {notBytes(entry)}")
    return entries


class _Permissions:
    """Allowed and denied entries. Two values of one class with the same entries are equal."""

    __slots__ = ("_allowIndex", "_denied", "_denyIndex", "allow", "deny")

    def __init__(
        self,
        allow: Iterable[bytes] | None,
        deny: Iterable[bytes],
        scopeOf: Callable[[bytes], _Scope],
    ) -> None:
        self.allow = None if allow is None else _entries("allow", allow)
        self.deny = _entries("deny", deny)
        self._allowIndex = None if self.allow is None else _indexOf(map(scopeOf, self.allow))
        self._denied = tuple(map(scopeOf, self.deny))
        self._denyIndex = _indexOf(self._denied)

    @property
    def allowsEverything(self) -> bool:
        return self.allow is None and not self.deny

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return (self.allow, self.deny) == (other.allow, other.deny)

    def __hash__(self) -> int:
        return hash((self.allow, self.deny))

    def __repr__(self) -> str:
        allow = None if self.allow is None else sorted(self.allow)
        return f"{type(self).__name__}(allow={allow!r}, deny={sorted(self.deny)!r})"


class PermissionSet(_Permissions):
    """The subjects that may be published to, except C{deny}. C{allow} is C{None} for all."""

    __slots__ = ("_answers",)

    def __init__(self, allow: Iterable[bytes] | None = None, deny: Iterable[bytes] = ()) -> None:
        """Raise L{InvalidPattern}, or C{TooManyShapes} for too many wildcard shapes."""
        super().__init__(allow, deny, lambda pattern: _Scope(pattern, b""))
        self._answers: dict[bytes, bool] = {}

    def allows(self, subject: bytes) -> bool:
        """Whether a message's literal subject is allowed: C{req.>} covers C{req.*}."""
        answer = self._answers.get(subject)
        if answer is None:
            answer = self._judge(subject)
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
            self._answers[subject] = answer
        return answer

    def allowsAll(self, pattern: bytes) -> bool:
        """
        Whether one entry allows all subjects that a pattern matches, and none of them is denied.
        """
        if any(overlaps(pattern, entry) for entry in self.deny):
            return False
        return self.allow is None or any(isSubset(pattern, entry) for entry in self.allow)

    def _judge(self, subject: bytes) -> bool:
        if self._allowIndex is not None and not self._allowIndex.hasInterest(subject):
            return False
        return not self._denyIndex.hasInterest(subject)


class SubscribePermissions(_Permissions):
    """
    The subjects that may be subscribed to, perhaps for some queues only.

    An entry is a pattern, or a pattern and a queue separated by a space; the queue may hold
    wildcards. The meanings of entries:

      - allow C{foo}: plain and queue subscriptions to C{foo}.
      - allow C{foo v1}: only subscriptions to C{foo} in queue C{v1}.
      - allow C{foo} and C{foo v1}: plain ones, and in queue C{v1} only.
      - deny C{foo}: no subscription to C{foo}.
      - deny C{foo v1}: none in queue C{v1}; plain ones are not touched.
    """

    __slots__ = ("_answers",)

    def __init__(self, allow: Iterable[bytes] | None = None, deny: Iterable[bytes] = ()) -> None:
        super().__init__(allow, deny, _parseScope)
        self._answers: dict[tuple[bytes, bytes], bool] = {}

    def verdict(self, pattern: bytes, queue: bytes = b"") -> Verdict:
        """
        Judge a new subscription. With very many denied entries, the verdict may be L{FILTERED}
        without need.
        """
        if not self._mayAsk(pattern, queue) or not self.mayDeliver(pattern, queue):
            return DENIED
        if not self._denied or not hasWildcard(pattern):
            return ALLOWED
        if len(self._denied) > _MOST_COMPARED:
            return FILTERED
        for scope in self._denied:
            concerned = not scope.queue or (queue and queueMatches(queue, scope.queue))
            if concerned and overlaps(scope.pattern, pattern):
                return FILTERED
        return ALLOWED

    def mayDeliver(self, subject: bytes, queue: bytes = b"") -> bool:
        """Whether a L{FILTERED} subscription may have a message. Others always may."""
        key = (subject, queue)
        answer = self._answers.get(key)
        if answer is None:
            answer = not any(
                not scope.queue or (queue and queueMatches(queue, scope.queue))
                for scope in self._denyIndex.match(subject)
            )
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
            self._answers[key] = answer
        return answer

    def _mayAsk(self, pattern: bytes, queue: bytes) -> bool:
        """Whether entries cover a subscription, including its queue if they name queues."""
        if self._allowIndex is None:
            return True
        covering = [s for s in self._allowIndex.match(pattern) if isSubset(pattern, s.pattern)]
        queues = [scope.queue for scope in covering if scope.queue]
        if queue and queues:
            return any(queueMatches(queue, wanted) for wanted in queues)
        return len(covering) > len(queues)
