"""
Subject mappings. A table is immutable. The first mapping that matches decides, once. Finding it
costs the same for any number of mappings.

A mapping has one or more destinations, each with a weight in percent. The rest up to 100 keeps the
subject. If the source is itself one of the destinations, the rest is lost: this is how artificial
loss is configured in nats-server. Destinations may be for brokers of one cluster only. If there are
any for ours, the others do not count. Unlike in nats-server, they do not count either as a
destination that is the source itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from natsbroker.subjects.cache import MatchCache
from natsbroker.subjects.functions import InvalidMapping, RandRange
from natsbroker.subjects.grammar import isSubset
from natsbroker.subjects.index import SubjectIndex
from natsbroker.subjects.renaming import numbered
from natsbroker.subjects.transforms import SubjectTransform

#: The subject that a message has when a mapping lets it vanish.
NOWHERE = b""

#: For how many subjects a table remembers which mapping applies.
_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class Destination:
    """
    @ivar subject: as L{natsbroker.subjects.transforms} describes.
    @ivar weight: in percent.
    @ivar cluster: the cluster whose brokers it is for; empty for those without destinations of
        their own.
    """

    subject: bytes
    weight: int = 100
    cluster: bytes = b""


#: A destination compiled, and the weights up to and with its own.
_Share = tuple[int, SubjectTransform]


class Mapping:
    __slots__ = ("_shares", "destinations", "source")

    def __init__(self, source: bytes, destinations: Sequence[Destination]) -> None:
        self.source = source
        self.destinations = tuple(destinations)
        _checkWeights(self.destinations)
        byCluster: dict[bytes, list[Destination]] = {b"": []}
        for destination in self.destinations:
            byCluster.setdefault(destination.cluster, []).append(destination)
        self._shares = {cluster: self._sharesOf(members) for cluster, members in byCluster.items()}

    def sharesFor(self, cluster: bytes = b"") -> tuple[_Share, ...]:
        """The destinations of a cluster, each with the sum of all weights up to its own."""
        return self._shares.get(cluster, self._shares[b""])

    def choose(self, randrange: RandRange, cluster: bytes = b"") -> SubjectTransform | None:
        shares = self.sharesFor(cluster)
        if shares and shares[0][0] == 100:
            return shares[0][1]
        lot = randrange(100)
        for upTo, transform in shares:
            if lot < upTo:
                return transform
        return None

    def _sharesOf(self, members: list[Destination]) -> tuple[_Share, ...]:
        total = sum(member.weight for member in members)
        rest: list[Destination] = []
        if total != 100 and all(member.subject != self.source for member in members):
            rest = [Destination(numbered(self.source), 100 - total)]
        shares, upTo = [], 0
        for member in (*members, *rest):
            upTo += member.weight
            shares.append((upTo, SubjectTransform(self.source, member.subject)))
        return tuple(shares)


class MappingTable:
    """
    The mappings of one account. Of several mappings of a source the last one counts, in the place
    of the first.
    """

    __slots__ = ("_cache", "_cluster", "_index", "_randrange", "mappings")

    def __init__(
        self, mappings: Iterable[Mapping], randrange: RandRange, cluster: bytes = b""
    ) -> None:
        """C{randrange} is C{random.Random().randrange}. This may raise C{TooManyShapes}."""
        bySource: dict[bytes, Mapping] = {}
        for mapping in mappings:
            bySource[mapping.source] = mapping
        self.mappings = tuple(bySource.values())
        self._randrange = randrange
        self._cluster = cluster
        self._index: SubjectIndex[tuple[int, Mapping]] = SubjectIndex()
        for place, mapping in enumerate(self.mappings):
            self._index.insert(mapping.source, (place, mapping))
        self._cache = MatchCache(self._plan, lambda subject: 0, _REMEMBERED)

    def map(self, subject: bytes) -> bytes:
        """The mapped subject: itself without a mapping, L{NOWHERE} if the message is lost."""
        if not self.mappings:
            return subject
        plan = self._cache.get(subject)
        if isinstance(plan, bytes):
            # Callers ask whether it is the same object, and the plan was made for an equal one.
            return subject if plan == subject else plan
        transform = plan.choose(self._randrange, self._cluster)
        return NOWHERE if transform is None else transform.rewrite(subject, self._randrange)

    def fixed(self, subject: bytes) -> bytes | None:
        """The destination of all messages on the subject; C{None} if it is not always the same."""
        plan = self._cache.get(subject)
        return plan if isinstance(plan, bytes) else None

    def _plan(self, subject: bytes) -> bytes | Mapping:
        """The constant destination of a subject, or the mapping that chooses for each message."""
        entries = self._index.match(subject)
        if subject == b">" or subject.endswith(b".>") or b".>." in subject:
            # To nats-server a > that is published is more than a * of a mapping stands for.
            entries = [candidate for candidate in entries if isSubset(subject, candidate[1].source)]
        if not entries:
            return subject
        mapping = min(entries, key=lambda ranked: ranked[0])[1]
        upTo, transform = (*mapping.sharesFor(self._cluster), (0, None))[0]
        if transform is None or upTo < 100 or transform.isRandom:
            return mapping
        return transform.rewrite(subject, self._randrange)


def _checkWeights(destinations: tuple[Destination, ...]) -> None:
    if not destinations:
        raise InvalidMapping("no destination")
    totals: dict[bytes, int] = {}
    seen: set[bytes] = set()
    for destination in destinations:
        if destination.subject in seen:
            shown = destination.subject.decode("utf-8", "backslashreplace")
            raise InvalidMapping(f'duplicate entry for "{shown}"')
        seen.add(destination.subject)
        if not 0 <= destination.weight <= 100:
            raise InvalidMapping("individual weights need to be <= 100")
        total = totals.get(destination.cluster, 0) + destination.weight
        if total > 100:
            raise InvalidMapping("total weight needs to be <= 100")
        totals[destination.cluster] = total
