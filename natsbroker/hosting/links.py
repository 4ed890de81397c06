"""
Everything that connects a broker with others: its cluster, its leafnodes, and other clusters.

Promises: what one kind of link has to know of another is passed on here; where a kind is not
configured, nothing of it is there; they begin and end together, in an order in which each finds
what it needs.
Must never know: what is said on links, or clients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from natsbroker.auth.passwords import PasswordChecks
from natsbroker.config.model import Settings
from natsbroker.gateways.advice import AdvisedPolicy
from natsbroker.hosting.advising import GatewayAdvice
from natsbroker.hosting.cluster import ClusterMembership
from natsbroker.hosting.clusterpages import ClusterPages
from natsbroker.hosting.gatewaypages import GatewayPages, showGateways
from natsbroker.hosting.gateways import GatewayService
from natsbroker.hosting.leafnodes import LeafnodeService
from natsbroker.hosting.leafpages import LeafPages
from natsbroker.hosting.linkservice import LinkGround, LinkService
from natsbroker.hosting.planners import clusterPlanner, gatewayPlanner, leafnodePlanner
from natsbroker.hosting.reload import Planner
from natsbroker.interfaces import IGatewayInterestPolicy
from natsbroker.stats.model import MonitoringModel

__all__ = ["Links"]


class Links:
    """
    The links of one broker.

    @ivar membership: its part in a cluster; C{None} without.
    @ivar leafnodes: its leafnode connections.
    @ivar gateways: its part in a super-cluster; C{None} without.
    @ivar advice: takes advice about what other clusters send; C{None} without.
    """

    def __init__(
        self,
        ground: LinkGround,
        checks: PasswordChecks,
        policy: Callable[[], IGatewayInterestPolicy],
        changed: Callable[[], None],
    ) -> None:
        """
        @param checks: of passwords, for leafnodes.
        @param policy: makes what decides what other clusters are sent, where there may be any.
        @param changed: called when it has changed what clients are told of the cluster.
        @raise natsbroker.hosting.tls.TLSError: if a certificate is no good.
        """
        self._changed = changed
        settings = ground.settings
        gateway = settings.gateway
        isGateway = gateway is not None and gateway.isOn
        self._isOpenEnded = isGateway or settings.leafnodes is not None
        self.membership: ClusterMembership | None = None
        if settings.cluster is not None and settings.cluster.port:
            self.membership = ClusterMembership(
                ground,
                self._clusterChanged,
            )
        self.leafnodes = LeafnodeService(
            ground,
            checks,
            self._clusterName,
            self._leafPlacesChanged,
        )
        self.gateways: GatewayService | None = None
        self.advice: GatewayAdvice | None = None
        self._switchAfter = 0
        if settings.gateway is not None and settings.gateway.isOn:
            chosen = policy()
            advised = AdvisedPolicy(chosen, ground.reactor.seconds)
            self.gateways = GatewayService(
                ground,
                None if self.membership is None else self.membership.cluster,
                advised,
            )
            self.advice = GatewayAdvice(advised, self.gateways.gateways, ground.accounts)
            self._switchAfter = int(getattr(chosen, "switchAfter", 0))

    def show(self, monitoring: MonitoringModel, settings: Callable[[], Settings]) -> None:
        """
        Have the pages show them.

        @param settings: gives those in force.
        """
        if self.membership is not None:
            ClusterPages(self.membership).contribute(monitoring)
        LeafPages(self.leafnodes).contribute(monitoring)
        if self.gateways is not None and self.advice is not None:
            gateways = self.gateways.gateways
            pages = GatewayPages(gateways, settings, self._switchAfter, self.advice.shown)
            showGateways(monitoring, pages, gateways)

    def planners(self) -> Sequence[Planner]:
        """
        Who is asked about other settings.
        """
        return [
            clusterPlanner(self.membership),
            leafnodePlanner(self.leafnodes),
            gatewayPlanner(self.gateways),
        ]

    # What clients, and each other, are told.

    def clusterInfo(self) -> dict[str, Any]:
        """
        What INFO tells clients of the cluster.
        """
        if self.membership is None:
            return {}
        cluster = self.membership.cluster
        return {
            "cluster": cluster.terms.name,
            "cluster_dynamic": cluster.terms.isDynamic,
            "connect_urls": cluster.connectUrls(),
        }

    def countNeighbours(self) -> float:
        """
        How many other brokers there are; infinity where nobody here knows how many are behind those
        that we are connected to.
        """
        if self._isOpenEnded:
            return math.inf
        routes = () if self.membership is None else self.membership.cluster
        return len({route.document.server_id for route in routes if route.document is not None})

    def addresses(self) -> dict[str, list[str]]:
        """
        Where others can connect, as URLs.
        """
        return {
            "cluster": [] if self.membership is None else self.membership.urls(),
            "leafnodes": self.leafnodes.urls(),
            "gateway": [] if self.gateways is None else self.gateways.urls(),
        }

    def _clusterName(self) -> str:
        return "" if self.membership is None else self.membership.cluster.terms.name

    def _clusterChanged(self) -> None:
        self._leafPlacesChanged()
        self._changed()

    def _leafPlacesChanged(self) -> None:
        """
        Members of the cluster tell each other where leafnodes can connect.
        """
        place = self.leafnodes.place
        others: tuple[str, ...] = ()
        if self.membership is not None:
            self.membership.useLeafPlace(self.leafnodes.told)
            others = self.membership.cluster.leafUrls()
        self.leafnodes.leafs.useUrls(dict.fromkeys([place, *others] if place else others))

    # Beginning and end.

    def useHub(self, hub: Any) -> None:
        """
        Have connections over plain TCP go through a hub.
        """
        for each in self._services():
            each.context.hub = hub

    async def open(self, settings: Settings) -> None:
        """
        Listen, and dial.

        @param settings: in force, with the ports that the kernel chose.
        @raise StartError: if a place is taken.
        """
        await self.leafnodes.open()
        if self.gateways is not None:
            await self.gateways.open()
        if self.membership is not None:
            await self.membership.open(settings.host, settings.port)

    def announce(self) -> None:
        """
        Say where others can connect.
        """
        if self.gateways is not None:
            self.gateways.announce()
        if self.membership is not None:
            self.membership.announce()
        self.leafnodes.announce()

    def leave(self) -> None:
        """
        Tell the others that this broker will go.
        """
        if self.membership is not None:
            self.membership.cluster.leave()
        self.leafnodes.leafs.leave()
        if self.gateways is not None:
            self.gateways.gateways.leave()

    async def stopListening(self) -> None:
        """
        Let nobody connect any more.
        """
        for each in self._services():
            await each.stopListening()

    async def close(self) -> None:
        """
        End all links.
        """
        for each in self._services():
            await each.close()

    def _services(self) -> list[LinkService[Any]]:
        found: list[LinkService[Any] | None] = [self.leafnodes, self.membership, self.gateways]
        return [each for each in found if each is not None]
