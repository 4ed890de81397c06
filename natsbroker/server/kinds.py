"""
The table of the broker's own kinds of connection. It loads without zope.interface, because the
configuration iterates it and loads without it too. The modules of a kind load only if the broker
has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from natsbroker.config.blocks import Diagnostics, ParsedBlock
    from natsbroker.config.model import Settings


@dataclass(eq=False)
class LinkKind:
    """
    Provides L{natsbroker.interfaces.IConnectionKind}.

    @ivar reading: the module that reads and checks the block of the settings.
    @ivar accountsOf: gives the accounts that a block names.
    """

    name: str
    key: str
    dialect: str
    page: str
    reading: Callable[[], Any]
    makeService: Callable[[Any, Any], Any]
    makePage: Callable[[Any], Any] = lambda state: None
    accountsOf: Callable[[Any], Iterable[str]] = lambda block: ()
    reloadError: str = ""

    def read(self, root: ParsedBlock, diagnostics: Diagnostics) -> Any:
        block = root.block(self.key)
        return None if block is None else self.reading().readBlock(block, diagnostics)

    def check(self, settings: Settings, root: ParsedBlock, diagnostics: Diagnostics) -> Settings:
        block = getattr(settings, self.key)
        if block is None:
            return settings
        checked: Settings = self.reading().checkBlock(settings, block, root, diagnostics)
        return checked

    def isConfigured(self, settings: Settings) -> bool:
        block = getattr(settings, self.key)
        return block is not None and bool(block.isOn)

    def accounts(self, settings: Settings) -> Iterable[str]:
        block = getattr(settings, self.key)
        return () if block is None else self.accountsOf(block)

    def contribute(self, service: Any, monitoring: Any) -> None:
        if self.page:
            monitoring.links[self.name].contribute(service, monitoring)
        else:
            monitoring.varz.contributions[self.key] = service.varz


#: Services are made and closed in this order, since gateways need the cluster; they listen and
#: announce their addresses in the opposite one, as nats-server does. A reload that is the first to
#: name leafnodes finds a service that listens nowhere, which a reload cannot change, and dials no
#: remote yet. Clients and leafnodes whose transport is a WebSocket have no links and no page of
#: their own.
KINDS: tuple[Any, ...] = (
    LinkKind(
        name="leaf",
        key="leafnodes",
        dialect="nats-leaf",
        page="/leafz",
        reading=lambda: import_module("natsbroker.leafnodes.reading"),
        makePage=lambda state: import_module("natsbroker.leafnodes.leafz").Leafz(state),
        makeService=lambda host, links: import_module(
            "natsbroker.leafnodes.service"
        ).LeafnodeService(links.dependencies, lambda: links.find("route")),
        accountsOf=lambda block: (block.account, *(remote.account for remote in block.remotes)),
    ),
    LinkKind(
        name="route",
        key="cluster",
        dialect="nats-route",
        page="/routez",
        reading=lambda: import_module("natsbroker.routes.reading"),
        makePage=lambda state: import_module("natsbroker.routes.routez").Routez(state),
        makeService=lambda host, links: import_module("natsbroker.routes.service").RouteService(
            links.dependencies, links.changed
        ),
        reloadError="config reload not supported for cluster: it cannot be joined",
    ),
    LinkKind(
        name="gateway",
        key="gateway",
        dialect="nats-gw",
        page="/gatewayz",
        reading=lambda: import_module("natsbroker.gateways.reading"),
        makePage=lambda state: import_module("natsbroker.gateways.gatewayz").Gatewayz(state),
        makeService=lambda host, links: import_module("natsbroker.gateways.service").GatewayService(
            links.dependencies, links.find("route")
        ),
        reloadError="config reload not supported for Gateway",
    ),
    LinkKind(
        name="websocket",
        key="websocket",
        dialect="ws",
        page="",
        reading=lambda: import_module("natsbroker.websocket.reading"),
        makeService=lambda host, links: import_module(
            "natsbroker.websocket.service"
        ).WebSocketService(links.dependencies, host, links),
        reloadError="config reload not supported for Websocket",
    ),
    LinkKind(
        name="mqtt",
        key="mqtt",
        dialect="mqtt",
        page="",
        reading=lambda: import_module("natsbroker.mqtt.reading"),
        makeService=lambda host, links: import_module("natsbroker.mqtt.service").MQTTService(
            host, links.dependencies.sockets.pop("mqtt", None)
        ),
        reloadError="config reload not supported for MQTT",
    ),
)
