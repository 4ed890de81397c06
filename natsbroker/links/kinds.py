"""
The table of the broker's own kinds of connection. It loads without zope.interface, as the
configuration does, which iterates it too. What a kind calls loads only for a broker that has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from natsbroker.auth.settings import GLOBAL_ACCOUNT

if TYPE_CHECKING:
    from natsbroker.config.blocks import Diagnostics, ParsedBlock
    from natsbroker.config.model import Settings


class LeafnodeKind:
    """
    Provides L{natsbroker.interfaces.IConnectionKind}. A reload that is the first to name leafnodes
    finds a service that listens nowhere, which a reload cannot change, and dials no remote yet.
    """

    name = "leaf"
    key = "leafnodes"
    dialect = "nats-leaf"
    page = "/leafz"
    reloadError = ""

    def read(self, root: ParsedBlock, diagnostics: Diagnostics, read: Callable[[str], str]) -> Any:
        from natsbroker.leafnodes.reading import leafnodesFrom

        return leafnodesFrom(root, diagnostics, read)

    def check(self, settings: Settings, root: ParsedBlock, diagnostics: Diagnostics) -> Settings:
        if settings.leafnodes is None:
            return settings
        from natsbroker.leafnodes.reading import checkLeafnodes

        names = {GLOBAL_ACCOUNT, *settings.accounts}
        if not settings.no_system_account:
            names.add(settings.system_account)
        isOperated = settings.operator.isOn
        checkLeafnodes(settings.leafnodes, names, isOperated, root, diagnostics)
        return settings

    def isConfigured(self, settings: Settings) -> bool:
        return settings.leafnodes is not None

    def accounts(self, settings: Settings) -> Iterable[str]:
        block = settings.leafnodes
        return () if block is None else (block.account, *(each.account for each in block.remotes))

    def makePage(self, state: Any) -> Any:
        from natsbroker.leafnodes.leafz import Leafz

        return Leafz(state)

    def makeService(self, host: Any, links: Any) -> Any:
        from natsbroker.leafnodes.service import LeafnodeService

        return LeafnodeService(links.dependencies, lambda: links.find("route"))

    def contribute(self, service: Any, monitoring: Any) -> None:
        from natsbroker.leafnodes.leafz import LeafPages

        LeafPages(service).contribute(monitoring)


class RouteKind:
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
        from natsbroker.routes.routez import ClusterPages

        ClusterPages(service).contribute(monitoring)


class GatewayKind:
    name = "gateway"
    key = "gateway"
    dialect = "nats-gw"
    page = "/gatewayz"
    reloadError = "config reload not supported for Gateway"

    def read(self, root: ParsedBlock, diagnostics: Diagnostics, read: Callable[[str], str]) -> Any:
        from natsbroker.gateways.reading import gatewayFrom

        return gatewayFrom(root, diagnostics, read)

    def check(self, settings: Settings, root: ParsedBlock, diagnostics: Diagnostics) -> Settings:
        if settings.gateway is None:
            return settings
        from natsbroker.gateways.reading import checkGateway

        return checkGateway(settings, settings.gateway, root, diagnostics)

    def isConfigured(self, settings: Settings) -> bool:
        return settings.gateway is not None and settings.gateway.isOn

    def accounts(self, settings: Settings) -> Iterable[str]:
        return ()

    def makePage(self, state: Any) -> Any:
        from natsbroker.gateways.gatewayz import Gatewayz

        return Gatewayz(state)

    def makeService(self, host: Any, links: Any) -> Any:
        from natsbroker.gateways.service import GatewayService

        route = links.find("route")
        return GatewayService(links.dependencies, None if route is None else route.cluster)

    def contribute(self, service: Any, monitoring: Any) -> None:
        from natsbroker.gateways.gatewayz import GatewayPages

        pages = GatewayPages(service.gateways, service.switchAfter, service.advice.rowFor)
        pages.contribute(monitoring)


class WebSocketKind:
    """
    Clients and leafnodes whose transport is a WebSocket: it has no links and no page of its own.
    """

    name = "websocket"
    key = "websocket"
    dialect = "ws"
    page = ""
    reloadError = "config reload not supported for Websocket"

    def read(self, root: ParsedBlock, diagnostics: Diagnostics, read: Callable[[str], str]) -> Any:
        from natsbroker.websocket.reading import websocketFrom

        return websocketFrom(root, diagnostics, read)

    def check(self, settings: Settings, root: ParsedBlock, diagnostics: Diagnostics) -> Settings:
        if settings.websocket is None:
            return settings
        from natsbroker.websocket.reading import checkWebsocket

        checkWebsocket(settings.websocket, settings, root, diagnostics)
        return settings

    def isConfigured(self, settings: Settings) -> bool:
        return settings.websocket is not None and bool(settings.websocket.port)

    def accounts(self, settings: Settings) -> Iterable[str]:
        return ()

    def makePage(self, state: Any) -> Any:
        raise NotImplementedError("the kind has no page")

    def makeService(self, host: Any, links: Any) -> Any:
        from natsbroker.websocket.service import WebSocketService

        return WebSocketService(links.dependencies, host, links)

    def contribute(self, service: Any, monitoring: Any) -> None:
        monitoring.varz.contributions["websocket"] = service.varz


#: Services are made and closed in this order, since gateways need the cluster; they listen and
#: announce their addresses in the opposite one, as nats-server does.
KINDS: tuple[Any, ...] = (LeafnodeKind(), RouteKind(), GatewayKind(), WebSocketKind())
