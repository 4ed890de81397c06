"""
Gateways as a kind of connection. What it calls loads only for a broker that has a gateway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from natsbroker.config.blocks import Diagnostics, ParsedBlock
    from natsbroker.config.model import Settings


class GatewayKind:
    """
    Provides L{natsbroker.interfaces.IConnectionKind}.
    """

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
        from natsbroker.gateways.pages import GatewayPages

        pages = GatewayPages(service.gateways, service.switchAfter, service.advice.rowFor)
        pages.contribute(monitoring)
