"""
The matches of a subject router, sorted for delivery and cached in bounded memory. A change of
subscriptions is announced to L{Matcher.changed} with its pattern, so that cached matches are never
stale; other subjects mostly stay cached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from natsbroker.subjects.cache import DEFAULT_LONGEST, MatchCache
from natsbroker.subjects.epochs import Epochs
from natsbroker.subjects.requests import isRequest
from natsbroker.subjects.subscription import (
    FIRST_LINK_KIND,
    ServiceSubscription,
    Shadow,
    Subscription,
)

#: A queue group among the matches: its name, the members here, and the ones behind links.
Group = tuple[bytes, tuple[Subscription, ...], tuple[Subscription, ...]]


class MatchSource(Protocol):
    def match(self, subject: bytes) -> Iterable[Subscription]:
        pass


class TrafficCounter:
    """
    Sums over messages of clients.

    @ivar size: their headers and payloads, in bytes.
    @ivar copies: the number of copies for receivers of this broker: plain subscriptions, and one
        member of each queue group.
    @ivar copiedSize: the bytes of these copies.
    """

    __slots__ = ("copiedSize", "copies", "messages", "size")

    def __init__(self) -> None:
        self.messages = 0
        self.size = 0
        self.copies = 0
        self.copiedSize = 0

    def add(self, messages: int, size: int, copies: int) -> None:
        self.messages += messages
        self.size += size
        self.copies += messages * copies
        self.copiedSize += size * copies


class Matches:
    """
    The receivers of a subject.

    @ivar links: plain subscriptions that links made for other brokers.
    @ivar counter: counts the clients' messages to the subject; C{None} without counting.
    @ivar isServed: whether the subject is that of a request to a service here or to a broker.
        Messages without a user are then delivered only to the receivers that
        L{natsbroker.accounts.delivery.unserved} leaves.
    """

    __slots__ = ("copies", "counter", "groups", "isServed", "links", "plain")

    def __init__(
        self,
        plain: tuple[Subscription, ...],
        groups: tuple[Group, ...],
        links: tuple[Subscription, ...],
    ) -> None:
        self.plain = plain
        self.groups = groups
        self.links = links
        self.counter: TrafficCounter | None = None
        self.isServed = False
        self.copies = len(plain) + sum(1 for _, here, _ in groups if here)

    def __bool__(self) -> bool:
        return bool(self.plain or self.groups or self.links)


#: The subscriptions among matches that weigh as much as the memory of a subject.
_SUBSCRIPTIONS_PER_WEIGHT = 8


def _weigh(matches: Matches) -> int:
    members = sum(len(here) + len(there) for _, here, there in matches.groups)
    return 1 + (len(matches.plain) + members) // _SUBSCRIPTIONS_PER_WEIGHT


#: The work of asking a router, and of each entry that it gives and each shape that it looks at
#: (see L{natsbroker.pure.backlog}).
_LOOK_UP = 32
_ENTRY = 2

_NOBODY = Matches((), (), ())

#: The smallest limit of a cache, and the length of a subject that none is short enough for.
_SMALLEST_LIMIT = 2
_NOTHING = -1

_CONTROL_BYTES = bytes([*range(0x20), 0x7F])


def isDeliverable(subject: bytes) -> bool:
    """
    Whether a message on a subject is delivered at all. It is not if there is an empty token (as in
    nats-server) or a control byte. Wildcards are literal tokens.
    """
    return not (
        subject.startswith(b".")
        or subject.endswith(b".")
        or b".." in subject
        or len(subject.translate(None, _CONTROL_BYTES)) != len(subject)
        or not subject
    )


def sortMatches(entries: Iterable[Subscription], subject: bytes) -> Matches:
    """
    Sort entries into plain subscriptions, groups and links. The subject alone decides which links
    may have messages, once for all of them.
    """
    plain: list[Subscription] = []
    links: list[Subscription] = []
    groups: dict[bytes, tuple[list[Subscription], list[Subscription]]] = {}
    isServed = isRequest(subject)
    for entry in entries:
        if hasEnded(entry):
            continue
        isServed = isServed or isinstance(entry, ServiceSubscription)
        isLink = entry.kind >= FIRST_LINK_KIND
        permissions = entry.permissions if isLink else None
        if permissions is not None and not permissions.mayDeliver(subject, entry.queue):
            continue
        if entry.queue:
            groups.setdefault(entry.queue, ([], []))[isLink].append(entry)
        elif isLink:
            links.append(entry)
        else:
            plain.append(entry)
    matches = Matches(
        tuple(plain),
        tuple((name, tuple(here), tuple(there)) for name, (here, there) in groups.items()),
        tuple(links),
    )
    matches.isServed = isServed
    return matches


def hasEnded(entry: Subscription) -> bool:
    """Whether a subscription has ended and may be left out. A link's may not."""
    if isinstance(entry, Shadow) and not entry.closed:
        entry = entry.original
    if entry.closed:
        return entry.kind < FIRST_LINK_KIND
    return entry.outbox is not None and bool(entry.outbox.closed)


class Matcher:
    """
    Asks a router, sorts its matches and caches them.

    @ivar router: the router. After setting it L{changed} is called.
    @ivar needsSlowPath: whether every message must take the readable path because a publish filter
        decides about each of them.
    @ivar tracesParents: whether a C{traceparent} header may have a message traced. After setting it
        L{changed} is called.
    @ivar mapSubject: gives the subject to which all client messages to a subject are mapped;
        C{None} if it is not always the same, so that they must take the readable path.
        C{mapSubject} itself is C{None} without mappings. After setting it L{changed} is called.
    @ivar generation: grows with every change.
    @ivar recentSubscriptions: matches recent subscriptions, which other clusters may not know yet.
        Requests with such a reply subject take the readable path. C{None} without other clusters.
    @ivar counterFor: called with a subject and its matches before they are cached; gives the
        counter of client messages to the subject, or C{None}. Must not raise. After setting it
        L{changed} is called.
    """

    #: The most subjects that are remembered: enough for several thousand subjects in use, and for
    #: the reply subjects in between, in a few megabytes.
    LIMIT = 16384

    def __init__(self, router: MatchSource, limit: int = LIMIT) -> None:
        """
        C{limit} is the weight of the cache. One unit stands for a subject with up to eight
        subscriptions.
        """
        self.needsSlowPath = False
        self.tracesParents = False
        self.mapSubject: Callable[[bytes], bytes | None] | None = None
        self.generation = 0
        self.recentSubscriptions: Matcher | None = None
        self.counterFor: Callable[[bytes, Any], TrafficCounter | None] | None = None
        self.router = router
        self._cost = 0
        self._epochs = Epochs()
        self._cache: MatchCache[Matches] = MatchCache(
            self._ask,
            self._epochs.epochOf,
            limit or _SMALLEST_LIMIT,
            weigh=_weigh,
            longest=DEFAULT_LONGEST if limit else _NOTHING,
        )

    def match(self, subject: bytes) -> Matches:
        return self._cache.get(subject)

    def changed(self, pattern: bytes) -> None:
        self.generation += 1
        self._epochs.changed(pattern)

    def takeCost(self) -> int:
        """
        The router's work since the last call, in units of L{natsbroker.pure.backlog}. A router that
        many wildcard shapes slow down has their number in C{shapes}.
        """
        cost, self._cost = self._cost, 0
        return cost

    @property
    def hits(self) -> int:
        return self._cache.hits

    @property
    def misses(self) -> int:
        return self._cache.misses

    def __len__(self) -> int:
        return len(self._cache)

    def remembered(self) -> list[Matches]:
        return self._cache.results()

    def _ask(self, subject: bytes) -> Matches:
        if not isDeliverable(subject):
            return _NOBODY
        matches = sortMatches(self.router.match(subject), subject)
        if self.counterFor is not None:
            matches.counter = self.counterFor(subject, matches)
        shapes = getattr(self.router, "shapes", 0)
        entries = len(matches.plain) + len(matches.links)
        for _, here, there in matches.groups:
            entries += len(here) + len(there)
        self._cost += _LOOK_UP + _ENTRY * (entries + shapes)
        return matches
