"""
Who publishes how much, by account and by what subjects begin with.

A bounded number of places count exactly. What finds all of them taken counts for the rest of its
account, in one of a few buckets by a hash of what its subjects begin with. When a bucket turns out
heavier than the lightest place, those who come from it take the lightest places over from then on,
as in the sketch called space-saving. A place that was given up is told of once more, with all that
it counted: so sums are exact, and what is heavy has a place after two intervals.

Promises: every message that is counted is told of once, in no more rows than there are places, and
those for the rest of each account.
Must never know: messages, or what the figures are for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from natsbroker import hot
from natsbroker.wire.values import Kind

__all__ = ["REST", "SubjectTraffic", "TrafficCount", "prefixOf"]

#: What stands for all subjects that have no row of their own.
REST = b">"

#: Longer prefixes have no row of their own.
_LONGEST = 200

_INBOX = b"_INBOX."

#: How many buckets there are for the rest of an account.
_BUCKETS = 256

#: What a message weighs beside its bytes.
_MESSAGE = 128


def prefixOf(subject: bytes, depth: int) -> bytes:
    """
    What a subject, or a pattern, begins with, as a pattern: C{orders.eu.>} of C{orders.eu.de.7}
    with a depth of two. Inboxes are all alike.

    @param depth: how many tokens are kept.
    """
    if subject.startswith(_INBOX):
        return b"_INBOX.>"
    tokens = subject.split(b".", depth)
    if len(tokens) > depth:
        tokens[depth:] = [REST]
    prefix = b".".join(tokens)
    return prefix if len(prefix) <= _LONGEST else REST


@dataclass(frozen=True, slots=True)
class TrafficCount:
    """
    What clients published in a while.

    @ivar account: the account's name.
    @ivar prefix: what the subjects begin with.
    @ivar gateways: the other clusters that it was sent to for plain subscriptions.
    @ivar isWanted: whether there was anybody at all for it.
    @ivar figures: messages, bytes, and the same of the copies for receivers of this broker.
    """

    account: str
    prefix: bytes
    gateways: tuple[str, ...]
    isWanted: bool
    figures: tuple[int, int, int, int]

    @property
    def weight(self) -> int:
        """
        How much of the traffic it was.
        """
        return self.figures[1] + _MESSAGE * self.figures[0]


_Key = tuple[str, bytes, tuple[str, ...], bool]

#: An account, and a hash.
_Bucket = tuple[str, int]


class _Place:
    __slots__ = ("key", "tally", "told")

    def __init__(self, key: _Key) -> None:
        self.key = key
        self.tally = hot.Tally()
        self.told = (0, 0, 0, 0)

    def seen(self) -> tuple[int, int, int, int]:
        tally = self.tally
        return (tally.messages, tally.size, tally.copies, tally.copiedSize)

    def since(self) -> tuple[int, int, int, int]:
        a, b, c, d = self.seen()
        e, f, g, h = self.told
        return (a - e, b - f, c - g, d - h)

    def take(self) -> TrafficCount:
        since, self.told = self.since(), self.seen()
        return TrafficCount(*self.key, since)


class SubjectTraffic:
    """
    The places.
    """

    def __init__(self, depth: int, most: int) -> None:
        """
        @param depth: how many tokens of subjects are kept.
        @param most: how many places there are.
        """
        self._depth = depth
        self._most = most
        self._places: dict[_Key, _Place] = {}
        self._rests: dict[_Bucket, _Place] = {}
        self._heavy: set[_Bucket] = set()
        self._retired: list[_Place] = []
        self._lightest: list[_Place] | None = None
        self._displaced: set[str] = set()

    def tallyOf(self, account: str, subject: bytes, matches: Any) -> Any:
        """
        What counts the messages to a subject, for as long as the same matches it.

        @param matches: a L{natsbroker.hot.Matches}.
        """
        prefix = prefixOf(subject, self._depth)
        gateways = tuple(sorted(_gatewaysOf(matches))) if matches.links else ()
        key = (account, prefix, gateways, bool(matches))
        place = self._places.get(key)
        if place is None:
            place = self._admitted(key)
        return place.tally

    def _admitted(self, key: _Key) -> _Place:
        account, prefix = key[:2]
        if len(self._places) < self._most:
            place = self._places[key] = _Place(key)
            return place
        self._displaced.add(account)
        bucket = (account, crc32(prefix) % _BUCKETS)
        if bucket in self._heavy and self._retire():
            place = self._places[key] = _Place(key)
            return place
        if bucket not in self._rests and len(self._rests) >= _BUCKETS + self._most:
            bucket = ("", bucket[1])
        if bucket not in self._rests:
            self._rests[bucket] = _Place((bucket[0], REST, (), True))
        return self._rests[bucket]

    def _retire(self) -> bool:
        """
        Have the lightest give its place up, unless half of them did since the last L{take}.
        """
        if self._lightest is None:
            ordered = sorted(self._places.values(), key=_weigh, reverse=True)
            self._lightest = ordered[-max(len(ordered) // 2, 1) :]
        if not self._lightest:
            return False
        place = self._lightest.pop()
        del self._places[place.key]
        self._retired.append(place)
        self._displaced.add(place.key[0])
        return True

    def take(self) -> tuple[list[TrafficCount], set[str]]:
        """
        What was counted since the last call, the heaviest first and no more than there are places;
        and the accounts whose matches must be forgotten now, since the places that count for them
        are no more, or they have none.
        """
        talks = [each.take() for each in self._places.values()]
        lightest = min((talk.weight for talk in talks), default=0)
        talks += [each.take() for each in self._retired]
        rests = {bucket: place.take() for bucket, place in self._rests.items()}
        heavy = sorted(rests, key=lambda bucket: rests[bucket].weight, reverse=True)
        heavy = heavy[: max(self._most // 2, 1)]
        self._heavy = {bucket for bucket in heavy if rests[bucket].weight > lightest}
        displaced, self._displaced = self._displaced, set()
        self._retired.clear()
        self._rests.clear()
        self._lightest = None
        talks = sorted(filter(_isTalk, talks), key=lambda talk: talk.weight, reverse=True)
        rest = _summed([*talks[self._most :], *filter(_isTalk, rests.values())])
        return [*talks[: self._most], *rest], displaced


def _weigh(place: _Place) -> int:
    messages, size, _, _ = place.since()
    return size + _MESSAGE * messages


def _isTalk(talk: TrafficCount) -> bool:
    return any(talk.figures)


def _gatewaysOf(matches: Any) -> Iterator[str]:
    for each in matches.links:
        if each.kind == Kind.GATEWAY and not each.closed:
            yield each.subscriber.link.gateway


def _summed(talks: Iterable[TrafficCount]) -> list[TrafficCount]:
    """
    One for each account, cluster and way, for the rest of its subjects.
    """
    sums: dict[tuple[str, tuple[str, ...], bool], tuple[int, ...]] = {}
    for each in talks:
        key = (each.account, each.gateways, each.isWanted)
        before = sums.get(key, (0, 0, 0, 0))
        sums[key] = tuple(a + b for a, b in zip(before, each.figures, strict=True))
    return [
        TrafficCount(account, REST, gateways, isWanted, (a, b, c, d))
        for (account, gateways, isWanted), (a, b, c, d) in sums.items()
    ]
