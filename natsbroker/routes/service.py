"""The service of routes: the listener, the dialled members, and the settings of the cluster."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from natsbroker.accounts.account import Account
from natsbroker.accounts.registry import LinkBuses
from natsbroker.config.diff import Change
from natsbroker.config.model import Settings
from natsbroker.config.settings.routes import Cluster
from natsbroker.connections.hostaddresses import clientUrls
from natsbroker.connections.listener import PortListener
from natsbroker.links.context import LinkDependencies
from natsbroker.links.dialling import DialTerms
from natsbroker.links.hostcluster import SocketFileEndpoint
from natsbroker.links.identity import LinkIdentity
from natsbroker.links.listener import LinkPort
from natsbroker.links.protocol import LinkFactory
from natsbroker.links.service import LinkService
from natsbroker.links.settingsmapper import backoffTerms, linkTLSFrom
from natsbroker.routes.classic import GLOBAL_ACCOUNT
from natsbroker.routes.cluster import Routes
from natsbroker.routes.dialects import RouteDialect
from natsbroker.routes.terms import (
    PRIVATE_CLUSTER,
    ClusterTerms,
    RouteTarget,
    identityFrom,
    routeSettings,
    termsFrom,
)
from natsbroker.runtime.reload import Step
from natsbroker.wire.values import Kind

_log = Logger(namespace="natsbroker")

#: The letters of a name for a cluster without one.
_LETTERS = string.ascii_letters + string.digits
_NAME_LENGTH = 22

#: The longest attempt to connect, in seconds.
_DIAL = 5.0

#: A neighbour is dialled as long as the server runs. The parent logs why it is away.
_NEAR = DialTerms(pause=0.1, longest=0.1, jitter=0.02, reports=0)


class RouteService(LinkService[tuple[str, int, str]]):
    """
    @ivar isPrivate: whether the settings have no cluster, so that it consists of neighbours alone.
    """

    def __init__(self, dependencies: LinkDependencies, changed: Callable[[], None]) -> None:
        settings = dependencies.settings
        self._hostCluster = hostCluster = dependencies.hostCluster
        self.isPrivate = hostCluster is not None and not settings.isMember
        block = self._blockOf(settings)
        super().__init__(dependencies, routeSettings(settings, block))
        self._tls = linkTLSFrom(block.tls)
        self._name = "".join(dependencies.random.choices(_LETTERS, k=_NAME_LENGTH))
        if hostCluster is not None:
            # Neighbours need not agree on a name first.
            self._name = dependencies.hostId
        self.links = self.cluster = Routes(
            self.context,
            self._identityWith(settings, max(block.port, 0)),
            LinkBuses(dependencies.accounts, Kind.ROUTE),
            self._termsWith(settings, self._name),
            self._dial,
            changed,
        )
        if hostCluster is not None:
            self.cluster.hostId = dependencies.hostId
        self._factory = LinkFactory(self.cluster.routeFor(None), self._tls)
        self._port = LinkPort(
            dependencies.reactor,
            block.host,
            block.port,
            self._factory,
            "router",
            "nats-route",
            dependencies.sockets.pop("cluster", None),
        )
        # A new route announces the existing accounts.
        self._areToldOf = True
        dependencies.accounts.watch(self._accountMade)
        self._areToldOf = False
        self._near: PortListener | None = None
        if hostCluster is not None:
            endpoint = SocketFileEndpoint(dependencies.reactor, hostCluster.path)
            self._near = PortListener(endpoint, LinkFactory(self.cluster.neighbourFor, None))

    def _accountMade(self, account: Account) -> None:
        """Tell peers of an account whose JWT has come, once for all of one turn."""
        self.cluster.accountMade(account.name)
        if not self._areToldOf:
            self._areToldOf = True
            self.context.reactor.callLater(0, self._tellOfAccounts)

    def _tellOfAccounts(self) -> None:
        self._areToldOf = False
        self.cluster.accountsChanged()

    def _blockOf(self, settings: Settings) -> Cluster:
        return PRIVATE_CLUSTER if self.isPrivate else settings.cluster or Cluster()

    def _identityWith(self, settings: Settings, port: int) -> LinkIdentity:
        block = self._blockOf(settings)
        return identityFrom(settings, block, self._serverId, port, self._hostCluster)

    def _termsWith(self, settings: Settings, name: str) -> ClusterTerms:
        return termsFrom(settings, self._blockOf(settings), name, self._hostCluster)

    @property
    def block(self) -> Cluster:
        return self._blockOf(self._settings)

    async def open(self, settings: Settings) -> None:
        if self._near is not None:
            await self._near.open()
        await super().open(settings)
        self.cluster.urls = clientUrls(self._settings, settings.host, settings.port)

    def connect(self) -> None:
        for target in self.cluster.terms.targets:
            self.cluster.dial(target, 0.0)

    async def stopListening(self) -> None:
        await super().stopListening()
        if self._near is not None:
            await self._near.close()

    def clientInfo(self) -> Mapping[str, Any]:
        if self.isPrivate:
            return {}
        cluster = self.cluster
        return {
            "cluster": cluster.terms.name,
            "cluster_dynamic": cluster.terms.isDynamic,
            "connect_urls": cluster.connectUrls(),
            "ws_connect_urls": cluster.webSocketConnectUrls(),
        }

    def location(self) -> tuple[str, Sequence[str]] | None:
        return None if self.isPrivate else (self.cluster.terms.name, ())

    def neighbours(self) -> float:
        routes = self.cluster
        return len({route.document.server_id for route in routes if route.document is not None})

    def _identify(self) -> None:
        """Identify the listener. That of gateways stays."""
        cluster = self.cluster
        identity = self._identityWith(self._settings, self.port)
        cluster.identity = replace(identity, gateway_url=cluster.identity.gateway_url)

    def announce(self) -> None:
        if self.isPrivate:
            return
        terms = self.cluster.terms
        _log.info("Cluster name is {name}", name=terms.name)
        if terms.isDynamic:
            _log.warn("Cluster name was dynamically generated, consider setting one")
        others = set(self.cluster.buses.names()) - {GLOBAL_ACCOUNT, self._settings.system_account}
        if terms.dialect is RouteDialect.CLASSIC and others:
            _log.warn("Only messages of the global account pass over classic routes")
        _log.info("Listening for route connections on {where}", where=str(self._port))
        if self._tls is not None and self._tls.settings.insecure:
            self._warnOfUnverified("routes")

    def useLeafPlace(self, place: str) -> None:
        """Use the leafnodes' C{host:port}; empty for none."""
        cluster = self.cluster
        if cluster.leafPlace != place:
            cluster.leafPlace = place
            for member in cluster.members.values():
                if member.first is not None:
                    member.first.update()

    def _dial(self, target: RouteTarget, after: float) -> None:
        self._diallers.dial(
            (target.host, target.port, target.account),
            f"to route {target}",
            _NEAR
            if target.isNeighbour
            else backoffTerms(self._settings, self.block, target.isConfigured),
            lambda: self._connect(target),
            after,
        )

    def _connect(self, target: RouteTarget) -> Deferred[Any]:
        _log.debug("Trying to connect to route on {target}", target=str(target))
        tls = None if target.isNeighbour else self._tls
        factory = LinkFactory(self.cluster.routeFor(target), tls, target.name or target.host)
        return self._diallers.connect(target.host, target.port, _DIAL, factory)

    def plan(self, new: Settings, changes: Sequence[Change]) -> Step:
        if self.isPrivate is new.isMember:
            way = "joined" if self.isPrivate else "left"
            raise ValueError(f"config reload not supported for cluster: it cannot be {way}")
        block = self._blockOf(new)
        tls = linkTLSFrom(block.tls)
        terms = self._termsWith(new, self.cluster.terms.name)
        ofLinks = routeSettings(new, block)

        def apply() -> None:
            self._use(new, ofLinks)
            self._tls = self._factory.tls = tls
            self._stopUnwanted(terms.targets)
            self._identify()
            self.cluster.accountsChanged()
            self.cluster.use(terms)

        return apply

    def _stopUnwanted(self, targets: Sequence[RouteTarget]) -> None:
        before = self.cluster.terms.targets
        gone = {(target.host, target.port) for target in before if target not in targets}
        for key in [dialler for dialler in self._diallers if dialler[:2] in gone]:
            self._diallers.stop(key)
