"""
Routes and the cluster as monitoring shows them, with the keys of nats-server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from natsbroker.clients.listener import joined
from natsbroker.monitoring.formats import nanoseconds, number
from natsbroker.routes.route import Route
from natsbroker.routes.service import RouteService
from natsbroker.routes.settings import Cluster as ClusterSettings

if TYPE_CHECKING:
    from natsbroker.monitoring.model import MonitoringModel

#: Seconds for a TLS handshake where no TLS is configured: nats-server's default.
_TLS_TIMEOUT = 2


class ClusterPages:
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

    def routes(self) -> Iterable[Route]:
        for member in self._membership.cluster.members.values():
            yield from member

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
