"""
Two clusters of two brokers each, joined by gateways, with a leafnode on each::

    leaf 5 -- cluster X: 1 = 2  ====  cluster Y: 3 = 4 -- leaf 6
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from natsbroker.config.model import Settings
from natsbroker.server.configuration.build import buildText
from natsbroker.testing.simulation.connection import Wire
from tests.simulation.world import CLIENTS, RECOVERY, World, address

__all__ = ["CLUSTERS", "LEAFS", "SUPER_CHOICES", "SuperWorld"]

#: The clusters, by their brokers.
CLUSTERS = {1: "X", 2: "X", 3: "Y", 4: "Y"}

#: The clusters whose leafnodes other brokers are.
LEAFS = {5: "X", 6: "Y"}

MEMBERS = {"X": (1, 2), "Y": (3, 4)}

ROUTES, GATEWAYS, HUBS = 6222, 7222, 7422

#: How long news takes: over a leafnode, a route, a gateway, a route and a leafnode.
_HOPS = 100


class SuperChoice(NamedTuple):
    """
    A choice of a super-cluster's settings.

    @ivar interest: what the C{interest} block of each cluster says.
    """

    interest: tuple[str, str]


SUPER_CHOICES = (
    SuperChoice(("switch_after: 2", "switch_after: 5")),
    SuperChoice(("switch_after: 1000", "switch_after: 1000")),
    SuperChoice(('plugin: "interest-only"', 'plugin: "interest-only"')),
    SuperChoice(("switch_after: 3", 'plugin: "interest-only"')),
)

_TOP = """
server_name: n%(number)d
listen: "10.0.0.%(number)d:4222"
fast_lane: false
ping_interval: "1s", ping_max: 2
accounts { A { users: [ { user: a, password: a } ] } }
no_auth_user: a
"""

_MEMBER = (
    _TOP
    + """
cluster {
    name: %(cluster)s, listen: "10.0.0.%(number)d:6222", ping_interval: "1s", connect_retries: 1000
    pool_size: -1
    authorization { user: r, password: r, timeout: 2 }
    routes: [ %(routes)s ]
}
gateway {
    name: %(cluster)s, listen: "10.0.0.%(number)d:7222", connect_retries: 1000
    authorization { user: g, password: g, timeout: 2 }
    gateways: [ { name: %(other)s, urls: [ %(remotes)s ] } ]
    interest { %(interest)s }
}
leafnodes {
    listen: "10.0.0.%(number)d:7422"
    authorization { user: l, password: l, account: A }
}
"""
)

_LEAF = (
    _TOP
    + """
leafnodes {
    remotes: [ { urls: [ %(remotes)s ], account: A } ]
}
"""
)


def _urls(scheme: str, user: str, members: tuple[int, ...], port: int) -> str:
    return ", ".join(f'"{scheme}://{user}:{user}@{address(member)}:{port}"' for member in members)


@cache
def superSettings(number: int, choice: SuperChoice) -> Settings:
    """
    The settings of one broker.
    """
    if number in LEAFS:
        hubs = MEMBERS[LEAFS[number]]
        text = _LEAF % {"number": number, "remotes": _urls("nats-leaf", "l", hubs, HUBS)}
        return buildText(text, {}).settings
    cluster = CLUSTERS[number]
    other = "Y" if cluster == "X" else "X"
    neighbours = tuple(member for member in MEMBERS[cluster] if member != number)
    text = _MEMBER % {
        "number": number,
        "cluster": cluster,
        "other": other,
        "routes": _urls("nats-route", "r", neighbours, ROUTES),
        "remotes": _urls("nats", "g", MEMBERS[other], GATEWAYS),
        "interest": choice.interest[cluster == "Y"],
    }
    return buildText(text, {}).settings


class SuperWorld(World):
    """
    @ivar slits: how many of the next switches of a mode are cut through.
    @ivar switches: how many were seen.
    """

    numbers = (*CLUSTERS, *LEAFS)

    def _choose(self) -> None:
        self.slits = 0
        self.switches = 0
        self.superChoice = self.random.choice(SUPER_CHOICES)
        # Pieces of the smallest size would take hours.
        self.network.largest = max(self.network.largest, 200)

    @property
    def account(self) -> str:
        return "A"

    @property
    def copies(self) -> int:
        return 1

    @property
    def settle(self) -> float:
        return 0.5 + _HOPS * self.network.latency

    def neighbours(self, number: int) -> tuple[int, ...]:
        members = MEMBERS.get(CLUSTERS.get(number, ""), ())
        return tuple(member for member in members if member != number)

    def settingsOf(self, number: int) -> Settings:
        return superSettings(number, self.superChoice)

    def start(self, number: int) -> None:
        super().start(number)
        service = self.brokers[number].leafnodes
        if service is not None:
            service.leafs.clients.nonceBytes = self.random.randbytes

    def _watch(self, wire: Wire, data: bytes) -> None:
        ends = {wire.target.getHost().port, wire.source.getHost().port}
        if CLIENTS in ends:
            return
        self._count(wire, data)
        if GATEWAYS in ends and b'"gateway_cmd":2' in data:
            self.switches += 1
            if self.slits:
                self.slits -= 1
                hosts = wire.source.host.address, wire.target.host.address
                numbers = [int(host.rpartition(".")[2]) for host in hosts]
                self.begin(*numbers)
                # The first pieces are on their way by then, and the last are not.
                delay = self.network.latency * self.random.choice([0.0, 0.5, 1.0])
                self.clock.callLater(delay, self.network.reset, *hosts)

    def slit(self) -> None:
        """Cut the connection in the middle of the next switch to interest-only mode."""
        self.slits += 1

    def isApart(self, one: int, other: int, since: float, until: float) -> bool:
        if one == other:
            return False
        concerned = {*self._around(one), *self._around(other)}
        return any(
            pair <= concerned and begin <= until and (end is None or end >= since)
            for begin, end, pair in self.troubles
        )

    def mayOvertake(self, one: int, other: int, since: float, until: float) -> bool:
        return self.isApart(one, other, since - RECOVERY, until + RECOVERY)

    def handOvers(self, key: tuple[int, int], broker: int) -> int:
        return 0

    def _around(self, number: int) -> set[int]:
        cluster = CLUSTERS.get(number) or LEAFS[number]
        return {number, *MEMBERS[cluster]}
