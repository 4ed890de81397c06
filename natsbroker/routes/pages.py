"""
Routes and the cluster as monitoring shows them, with the keys of nats-server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from natsbroker.clients.listener import joined
from natsbroker.links.facts import LinkFacts, sharedFacts
from natsbroker.monitoring.formats import nanoseconds, number
from natsbroker.routes.route import Route
from natsbroker.routes.service import RouteService
from natsbroker.routes.settings import Cluster as ClusterSettings
from natsbroker.wire.dialects.route import LinkInterest

if TYPE_CHECKING:
    from natsbroker.monitoring.model import MonitoringModel

#: Seconds for a TLS handshake where no TLS is configured: nats-server's default.
_TLS_TIMEOUT = 2


@dataclass(frozen=True, slots=True)
class RouteFacts(LinkFacts):
    """
    @ivar remoteId: the peer's id.
    @ivar remoteName: the peer's name.
    @ivar isDialled: whether this broker dialled.
    @ivar isConfigured: whether the settings name the peer.
    @ivar account: the account that it is dedicated to; empty for none.
    @ivar compression: the level at which this broker sends.
    """

    remoteId: str
    remoteName: str
    isDialled: bool
    isConfigured: bool
    account: str
    compression: str
    _route: Route

    @property
    def interest(self) -> Iterator[tuple[LinkInterest, int]]:
        """
        The peer's subscriptions, each with the number of messages that it received.
        """
        traffic = self._route.traffic
        return iter(()) if traffic is None else traffic.interest.counted()


def routeFacts(route: Route) -> RouteFacts:
    target, traffic = route.target, route.traffic
    return RouteFacts(
        *sharedFacts(route, 0 if traffic is None else len(traffic.interest)),
        route.remoteId,
        route.remote,
        route.isDialled,
        target is not None and target.isConfigured,
        route.account,
        route.compression.level,
        route,
    )


class ClusterPages:
    """
    The cluster as monitoring shows it.
    """

    def __init__(self, membership: RouteService) -> None:
        self._membership = membership

    def contribute(self, monitoring: MonitoringModel) -> None:
        cluster = self._membership.cluster
        monitoring.links["route"].cluster = self
        monitoring.varz.statistics["routes"] = cluster
        monitoring.varz.contributions |= {
            "cluster": self.varz,
            "routes": lambda: len(list(self.routes())),
            "remotes": lambda: len(cluster.members),
        }

    def routes(self) -> Iterable[RouteFacts]:
        for member in self._membership.cluster.members.values():
            for route in member:
                yield routeFacts(route)

    def permissions(self) -> Mapping[str, Any]:
        return self._membership.cluster.terms.shownPermissions

    def varz(self) -> dict[str, Any]:
        """
        The member C{cluster} of C{/varz}. URLs are without passwords.
        """
        block: ClusterSettings = self._membership.block
        cluster = self._membership.cluster
        hasTLS = block.tls is not None
        told = {
            "name": cluster.terms.name,
            "addr": block.host,
            "cluster_port": self._membership.port,
            "auth_timeout": number(cluster.context.limits.handshake),
            "urls": [joined(each.host, each.port) for each in cluster.terms.targets],
            "tls_timeout": _TLS_TIMEOUT if block.tls is None else number(block.tls.timeout),
            "tls_required": hasTLS,
            "tls_verify": hasTLS,
            "pool_size": block.pool_size,
            "write_deadline": nanoseconds(block.write_deadline),
        }
        return {key: value for key, value in told.items() if value}
