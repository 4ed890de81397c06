"""
Gateways as the monitoring pages show them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from natsbroker.gateways.registry import GatewayLink, GatewayRegistry
from natsbroker.links.settingsmapper import handshakeOf
from natsbroker.monitoring.formats import number

if TYPE_CHECKING:
    from natsbroker.monitoring.model import MonitoringModel

#: Seconds that nats-server shows where the settings say nothing.
_TIMEOUT = 2.0


class LinkPage:
    """
    @ivar switchAfter: the refusals after which an account is announced as a whole; 0 for never.
    """

    def __init__(
        self,
        link: GatewayLink,
        switchAfter: int,
        advice: Callable[[str, str], Mapping[str, Any] | None] = lambda gateway, account: None,
    ) -> None:
        """
        @param advice: gives the advice about a gateway and an account.
        """
        self.link = link
        self._advice = advice
        self.switchAfter = switchAfter

    @property
    def isConfigured(self) -> bool:
        link = self.link
        return link.cluster is not None and not link.cluster.isImplicit

    @property
    def peerId(self) -> str:
        """
        Empty while it is not known.
        """
        document = self.link.document
        return "" if document is None else document.server_id

    def countInterest(self) -> int:
        """
        The amount of interest of the peer.
        """
        if self.link.cluster is None:
            return 0
        counts = self.accounts().values()
        return sum(each.get("interest", 0) + each.get("queues", 0) for each in counts)

    def accounts(self) -> Mapping[str, Mapping[str, Any]]:
        traffic = self.link.traffic
        figures: Mapping[str, Mapping[str, Any]] = {} if traffic is None else traffic.figures()
        if self.link.cluster is not None:
            return figures
        advised = {name: self._advice(self.link.gateway, name) for name in figures}
        return {
            name: {**each, "advice": advised[name]} if advised[name] else each
            for name, each in figures.items()
        }

    def interests(self, account: str) -> Iterable[tuple[bytes, bytes]]:
        traffic = self.link.traffic
        if traffic is None or self.link.cluster is None:
            return ()
        found: Iterable[tuple[bytes, bytes]] = traffic.interests(account)
        return found


class GatewayPages:
    def __init__(
        self,
        gateways: GatewayRegistry,
        switchAfter: int,
        advice: Callable[[str, str], Mapping[str, Any] | None] = lambda gateway, account: None,
    ) -> None:
        self._advice = advice
        self._gateways = gateways
        self._switchAfter = switchAfter

    def contribute(self, monitoring: MonitoringModel) -> None:
        monitoring.links["gateway"].gateways = self
        monitoring.varz.contributions["gateway"] = self.varz
        monitoring.varz.statistics["gateways"] = self._gateways

    @property
    def name(self) -> str:
        return self._gateways.terms.block.name

    @property
    def host(self) -> str:
        return self._gateways.identity.host

    @property
    def port(self) -> int:
        return self._gateways.identity.port

    def outbound(self) -> Iterable[tuple[str, LinkPage]]:
        found = self._gateways.outbound.items()
        return [(name, LinkPage(link, self._switchAfter)) for name, link in found]

    def inbound(self) -> Iterable[tuple[str, LinkPage]]:
        found = list(self._gateways.inbound.values())
        return [(link.gateway, LinkPage(link, self._switchAfter, self._advice)) for link in found]

    def varz(self) -> dict[str, Any]:
        gateway = self._gateways.terms.block
        tls = gateway.tls
        own = {
            "name": gateway.name,
            "host": gateway.host,
            "port": self._gateways.identity.port if gateway.port < 0 else gateway.port,
            "auth_timeout": number(handshakeOf(gateway)),
            "tls_timeout": number(_TIMEOUT if tls is None else tls.timeout),
            "tls_required": tls is not None,
            "tls_verify": tls is not None,
            "advertise": gateway.advertise,
            "connect_retries": gateway.connect_retries,
            "gateways": [self._remote(each.name) for each in gateway.gateways],
            "reject_unknown": gateway.reject_unknown_cluster,
        }
        return {key: value for key, value in own.items() if value}

    def _remote(self, name: str) -> dict[str, Any]:
        remote = self._gateways.remotes.get(name)
        if remote is None:
            return {"name": name, "urls": self._gateways.gossip.urls()}
        tls = remote.tls(self._gateways.terms)
        timeout = {} if tls is None else {"tls_timeout": number(tls.settings.timeout)}
        return {"name": name, **timeout, "urls": remote.addresses}
