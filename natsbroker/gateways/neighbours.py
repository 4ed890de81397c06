"""
The other members of our own cluster, as gateways need to know them.

A name that one of them has is known; what is told reaches each of them once, save for
those that speak the classic dialect, which know no gateways. Without a cluster there is nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from natsbroker.interfaces import ILinkSubscriber
from natsbroker.routes.cluster import Routes
from natsbroker.routes.modern import ModernTraffic

__all__ = ["ClusterNeighbours"]

#: How many servers' hashes are remembered.
_REMEMBERED = 1024


class ClusterNeighbours:
    """
    The members of a cluster.
    """

    def __init__(self, cluster: Routes | None, hashOf: Callable[[str], bytes]) -> None:
        """
        @param cluster: C{None} for none.
        @param hashOf: gives what stands for a server's id in mapped subjects.
        """
        self._cluster = cluster
        self._hashOf = lru_cache(_REMEMBERED)(hashOf)

    def isNamed(self, name: str) -> bool:
        cluster = self._cluster
        return cluster is not None and any(
            member.name == name for member in cluster.members.values()
        )

    def way(self, server: bytes, account: str) -> ILinkSubscriber | None:
        """
        The way to a member for an account; C{None} if it is not there.

        @param server: what stands for its id.
        """
        cluster = self._cluster
        members = [] if cluster is None else list(cluster.members.values())
        for member in members:
            if cluster is not None and self._hashOf(member.serverId) == server:
                route = member.leading(account, cluster.terms.poolSize)
                traffic = None if route is None else route.traffic
                return traffic.wayTo(account) if isinstance(traffic, ModernTraffic) else None
        return None

    def tell(self, line: bytes) -> None:
        if self._cluster is None:
            return
        for member in list(self._cluster.members.values()):
            first = member.first
            if first is not None and not first.isClassic:
                first.say(line)
