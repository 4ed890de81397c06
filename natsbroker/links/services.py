"""
Everything that connects a broker with others: its cluster, its leafnodes, and other clusters.

What one kind of link has to know of another is passed on here. A kind that is not configured is
not there, and its modules are not loaded. All begin and end together, in an order in which each
finds what it needs. Nothing here knows what is said on links, or clients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import ensureDeferred

from natsbroker.auth.passwords import PasswordChecks
from natsbroker.config.diff import Change
from natsbroker.config.model import Settings
from natsbroker.interfaces import IGatewayInterestPolicy
from natsbroker.links.dependencies import LinkDependencies
from natsbroker.server.planners import clusterPlanner, gatewayPlanner, nothing
from natsbroker.server.reload import Planner, Step

if TYPE_CHECKING:
    from natsbroker.gateways.advisingsettings import GatewayAdvice
    from natsbroker.gateways.service import GatewayService
    from natsbroker.leafnodes.service import LeafnodeService
    from natsbroker.links.service import LinkService
    from natsbroker.monitoring.model import MonitoringModel
    from natsbroker.routes.service import RouteService

__all__ = ["Links"]


class Links:
    """
    The links of one broker.

    @ivar membership: its part in a cluster; C{None} without.
    @ivar leafnodes: its leafnode connections; C{None} until the settings name some.
    @ivar gateways: its part in a super-cluster; C{None} without.
    @ivar advice: takes advice about what other clusters send; C{None} without.
    """

    def __init__(
        self,
        dependencies: LinkDependencies,
        checks: PasswordChecks,
        policy: Callable[[], IGatewayInterestPolicy],
        changed: Callable[[], None],
    ) -> None:
        """
        @param checks: of passwords, for leafnodes.
        @param policy: makes what decides what other clusters are sent, where there may be any.
        @param changed: called when it has changed what clients are told of the cluster.
        @raise natsbroker.connections.tlscontext.TLSSettingsError: if a certificate is no good.
        """
        self._dependencies = dependencies
        self._checks = checks
        self._changed = changed
        self._poller: Any = None
        self._monitoring: MonitoringModel | None = None
        settings = dependencies.settings
        self.membership: RouteService | None = None
        self.leafnodes: LeafnodeService | None = None
        self.gateways: GatewayService | None = None
        self.advice: GatewayAdvice | None = None
        self._switchAfter = 0
        dependencies.accounts.location = self._location
        if settings.cluster is not None and settings.cluster.port:
            from natsbroker.routes.service import RouteService

            self.membership = RouteService(dependencies, self._clusterChanged)
        if settings.leafnodes is not None:
            self.leafnodes = self._makeLeafnodes()
        if settings.gateway is not None and settings.gateway.isOn:
            self._makeGateways(policy())

    def _makeLeafnodes(self) -> LeafnodeService:
        from natsbroker.leafnodes.service import LeafnodeService

        return LeafnodeService(
            self._dependencies, self._checks, self._clusterName, self._leafPlacesChanged
        )

    def _makeGateways(self, policy: IGatewayInterestPolicy) -> None:
        from natsbroker.gateways.advice import AdvisedPolicy
        from natsbroker.gateways.advisingsettings import GatewayAdvice
        from natsbroker.gateways.service import GatewayService

        dependencies, membership = self._dependencies, self.membership
        advised = AdvisedPolicy(policy, dependencies.reactor.seconds)
        cluster = None if membership is None else membership.cluster
        self.gateways = GatewayService(dependencies, cluster, advised)
        self.advice = GatewayAdvice(advised, self.gateways.gateways, dependencies.accounts)
        self._switchAfter = int(getattr(policy, "switchAfter", 0))

    def show(self, monitoring: MonitoringModel, settings: Callable[[], Settings]) -> None:
        """
        Have the pages show them.

        @param settings: gives those in force.
        """
        self._monitoring = monitoring
        if self.membership is not None:
            from natsbroker.routes.pages import ClusterPages

            ClusterPages(self.membership).contribute(monitoring)
        self._showLeafnodes()
        if self.gateways is not None and self.advice is not None:
            from natsbroker.gateways.pages import GatewayPages, showGateways

            gateways = self.gateways.gateways
            pages = GatewayPages(gateways, settings, self._switchAfter, self.advice.shown)
            showGateways(monitoring, pages, gateways)

    def _showLeafnodes(self) -> None:
        if self.leafnodes is not None and self._monitoring is not None:
            from natsbroker.leafnodes.pages import LeafPages

            LeafPages(self.leafnodes).contribute(self._monitoring)

    def planners(self) -> Sequence[Planner]:
        """
        Who is asked about other settings.
        """
        return [
            clusterPlanner(self.membership),
            self._planLeafnodes,
            gatewayPlanner(self.gateways),
        ]

    def _planLeafnodes(self, new: Settings, changes: Sequence[Change]) -> Step:
        """
        Leafnodes. It comes after the planners of accounts and of authorization.

        Settings that are the first to name leafnodes find the service of a broker without them: it
        listens nowhere, which a reload cannot change, and dials nobody yet.
        """
        if self.leafnodes is None:
            if new.leafnodes is None:
                return nothing
            self.leafnodes = self._makeLeafnodes()
            self.leafnodes.context.poller = self._poller
            ensureDeferred(self.leafnodes.open())
            self._showLeafnodes()
        return self.leafnodes.plan(new, changes)

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
        if self.gateways is not None or self.leafnodes is not None:
            return math.inf
        routes = () if self.membership is None else self.membership.cluster
        return len({route.document.server_id for route in routes if route.document is not None})

    def addresses(self) -> dict[str, list[str]]:
        """
        Where others can connect, as URLs.
        """
        return {
            "cluster": [] if self.membership is None else self.membership.urls(),
            "leafnodes": [] if self.leafnodes is None else self.leafnodes.urls(),
            "gateway": [] if self.gateways is None else self.gateways.urls(),
        }

    def _clusterName(self) -> str:
        return "" if self.membership is None else self.membership.cluster.terms.name

    def _location(self) -> tuple[str, tuple[str, ...]]:
        """
        The name of our cluster, and those of the others that are joined to it, nearest first.
        """
        if self.gateways is None:
            leafnodes = self.leafnodes
            return self._clusterName() if leafnodes is None else leafnodes.clusterName(), ()
        gateways = self.gateways.gateways
        outbound = gateways.outbound
        nearest = sorted(outbound, key=lambda name: outbound[name].roundTrip)
        return gateways.terms.name, tuple(nearest)

    def _clusterChanged(self) -> None:
        self._leafPlacesChanged()
        self._changed()

    def _leafPlacesChanged(self) -> None:
        """
        Members of the cluster tell each other where leafnodes can connect.
        """
        if self.leafnodes is None:
            return
        place = self.leafnodes.place
        others: tuple[str, ...] = ()
        if self.membership is not None:
            self.membership.useLeafPlace(self.leafnodes.told)
            others = self.membership.cluster.leafUrls()
        self.leafnodes.leafs.useUrls(dict.fromkeys([place, *others] if place else others))

    # Beginning and end.

    def usePoller(self, poller: Any) -> None:
        """
        Have connections over plain TCP go through a poller.
        """
        self._poller = poller
        for each in self._services():
            each.context.poller = poller

    async def open(self, settings: Settings) -> None:
        """
        Listen, and dial.

        @param settings: in force, with the ports that the kernel chose.
        @raise StartError: if a place is taken.
        """
        if self.leafnodes is not None:
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
        if self.leafnodes is not None:
            self.leafnodes.announce()

    def reauthorize(self, account: str | None) -> None:
        """
        Ask again whether leafnodes may stay connected.

        @param account: those of one account; C{None} for all.
        """
        if self.leafnodes is not None:
            self.leafnodes.leafs.reauthorize(account)

    def leave(self) -> None:
        """
        Tell the others that this broker will go.
        """
        if self.membership is not None:
            self.membership.cluster.leave()
        if self.leafnodes is not None:
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
