"""
Routes as a kind of connection. What it calls loads only for a broker that has a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from natsbroker.config.blocks import Diagnostics, ParsedBlock
    from natsbroker.config.model import Settings


class RouteKind:
    """
    Provides L{natsbroker.interfaces.IConnectionKind}.
    """

    name = "route"
    key = "cluster"
    dialect = "nats-route"
    page = "/routez"
    reloadError = "config reload not supported for cluster: it cannot be joined"

    def read(self, root: ParsedBlock, diagnostics: Diagnostics, read: Callable[[str], str]) -> Any:
        from natsbroker.routes.reading import clusterFrom

        return clusterFrom(root, diagnostics, read)

    def check(self, settings: Settings, root: ParsedBlock, diagnostics: Diagnostics) -> Settings:
        if settings.cluster is None:
            return settings
        from natsbroker.routes.reading import checkCluster

        return replace(settings, cluster=checkCluster(settings.cluster, root, diagnostics))

    def isConfigured(self, settings: Settings) -> bool:
        return settings.cluster is not None and bool(settings.cluster.port)

    def accounts(self, settings: Settings) -> Iterable[str]:
        return ()

    def makePage(self, state: Any) -> Any:
        from natsbroker.routes.routez import Routez

        return Routez(state)

    def makeService(self, host: Any, links: Any) -> Any:
        from natsbroker.routes.service import RouteService

        return RouteService(links.dependencies, links.changed)

    def contribute(self, service: Any, monitoring: Any) -> None:
        from natsbroker.routes.pages import ClusterPages

        ClusterPages(service).contribute(monitoring)
