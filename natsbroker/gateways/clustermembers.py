"""The other members of our own cluster, as gateways need them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from natsbroker.interfaces import ILinkSubscriber
from natsbroker.routes.cluster import Routes
from natsbroker.routes.modern import ModernTraffic

#: The most servers whose hashes are remembered.
_REMEMBERED = 1024


class ClusterMembers:
    def __init__(self, cluster: Routes | None, hashOf: Callable[[str], bytes]) -> None:
        self._cluster = cluster
        self._hashOf = lru_cache(_REMEMBERED)(hashOf)

    def hasName(self, name: str) -> bool:
        cluster = self._cluster
        return cluster is not None and any(
            member.name == name for member in cluster.members.values()
        )

    def linkTo(self, server: bytes, account: str) -> ILinkSubscriber | None:
        cluster = self._cluster
        members = [] if cluster is None else list(cluster.members.values())
        for member in members:
            if cluster is not None and self._hashOf(member.serverId) == server:
                route = member.routeFor(account, cluster.terms.poolSize)
                traffic = None if route is None else route.traffic
                return traffic.wayTo(account) if isinstance(traffic, ModernTraffic) else None
        return None

    def send(self, line: bytes) -> None:
        """Send a line to each member, except those that speak the classic dialect."""
        if self._cluster is None:
            return
        for member in list(self._cluster.members.values()):
            first = member.first
            if first is not None and not first.isClassic:
                first.say(line)
