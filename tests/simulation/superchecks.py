"""
The invariants of every history of a super-cluster, besides L{tests.simulation.checks}.

    I4  where all is well, every broker knows of the other cluster what its clients wish, those of
        its leafnode included: all of it, and in interest-only mode no more; of queue groups no more
        in either mode
    I5  a message comes to each broker once at most, whichever way it takes, and passes between the
        clusters once at most
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from natsbroker.gateways.tables import INTEREST_ONLY, InterestTable
from tests.simulation.checks import violationsOfWishes
from tests.simulation.superworld import CLUSTERS, LEAFS, SuperWorld

__all__ = ["violationsOfTables", "violationsOfWays"]

#: What brokers are subscribed to for purposes of their own.
_OURS = (b"$LDS.", b"$SYS.", b"_GR_.", b"$GR.")


def violationsOfWays(world: SuperWorld) -> Iterator[str]:
    """Find messages that reached a broker or crossed between clusters more than once."""
    arrived: Counter[tuple[tuple[int, int], int]] = Counter()
    crossed: Counter[tuple[tuple[int, int], str]] = Counter()
    for (key, source, target), count in world.sent.items():
        one, other = int(source.rpartition(".")[2]), int(target.rpartition(".")[2])
        arrived[key, other] += count
        if one in CLUSTERS and other in CLUSTERS and CLUSTERS[one] != CLUSTERS[other]:
            crossed[key, CLUSTERS[other]] += count
    for (key, number), count in arrived.items():
        home = world.people[key[0]].broker
        if count > 1:
            yield f"I5: {key} of broker {home} came to broker {number} {count} times"
        if number == home:
            yield f"I5: {key} came back to broker {home}"
    for (key, cluster), count in crossed.items():
        if count > 1:
            yield f"I5: {key} passed to cluster {cluster} {count} times"


def violationsOfTables(world: SuperWorld) -> Iterator[str]:
    """
    I4, for a world in which all is well.
    """
    wished: dict[int, Counter[tuple[bytes, bytes]]] = {}
    yield from violationsOfWishes(world, wished)
    around = {**CLUSTERS, **LEAFS}
    for number, cluster in CLUSTERS.items():
        gateways = world.brokers[number].gateways
        assert gateways is not None
        links = list(gateways.gateways.outbound.values())
        if len(links) != 1:
            yield f"I4: broker {number} has {len(links)} connections to the other cluster"
            continue
        there = {key for name, keys in wished.items() if around[name] != cluster for key in keys}
        traffic = links[0].traffic
        table = traffic._table(world.account.encode())
        yield from _ofTable(number, table, there)


def _ofTable(number: int, table: InterestTable, there: set[tuple[bytes, bytes]]) -> Iterator[str]:
    for pattern, queue in there:
        tokens = [b"a" if part in (b"*", b">") else part for part in pattern.split(b".")]
        plain, groups = table.match(b".".join(tokens))
        if (queue not in groups) if queue else not plain:
            yield f"I4: broker {number} would not send what {pattern!r} {queue!r} wishes"
    known = {interest for interest in table.interests() if not interest[0].startswith(_OURS)}
    more = {interest for interest in known - there if interest[1] or table.mode == INTEREST_ONLY}
    if more:
        yield f"I4: broker {number} believes that the other cluster wishes {more}"
