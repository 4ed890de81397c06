"""The gateway of a broker: its listener, dialling, and reload."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.error import ConnectError
from twisted.logger import Logger

from natsbroker.accounts.registry import LinkBuses
from natsbroker.config.addresses import RemoteURL
from natsbroker.config.diff import Change
from natsbroker.config.model import Settings
from natsbroker.config.settings.gateways import Gateway
from natsbroker.gateways.advice import AdvisedPolicy, GatewayAdvice
from natsbroker.gateways.advicerequests import AdviceResponder
from natsbroker.gateways.clustermembers import ClusterMembers
from natsbroker.gateways.gateway import InboundGateway, OutboundGateway
from natsbroker.gateways.registry import GatewayRegistry
from natsbroker.gateways.remote import Remote
from natsbroker.gateways.terms import gatewaySettings, identityFrom, termsFrom
from natsbroker.gateways.traffic import GatewayTraffic
from natsbroker.links.context import LinkDependencies
from natsbroker.links.gatewayreplies import GatewayDependencies, ReplyNames, newHash
from natsbroker.links.identity import LinkIdentity
from natsbroker.links.listener import LinkPort
from natsbroker.links.protocol import LinkFactory
from natsbroker.links.service import LinkService
from natsbroker.links.settingsmapper import backoffTerms
from natsbroker.routes.service import RouteService
from natsbroker.runtime.reload import Step
from natsbroker.wire.values import Kind

_log = Logger(namespace="natsbroker")

#: Seconds for one attempt to connect.
_DIAL = 5.0

#: Seconds before the clusters in the settings are dialled: by then the members of our own cluster
#: have found each other.
_SOLICIT = 1.0


class GatewayService(LinkService[str]):
    """The service; C{switchAfter} refusals announce an account as a whole, 0 for never."""

    def __init__(self, dependencies: LinkDependencies, routes: RouteService | None) -> None:
        settings = dependencies.settings
        block = settings.gateway or Gateway()
        super().__init__(dependencies, gatewaySettings(settings, block))
        self._hostCluster = dependencies.hostCluster
        cluster = self._cluster = None if routes is None else routes.cluster
        chosen = dependencies.policy()
        self.switchAfter = int(getattr(chosen, "switchAfter", 0))
        self._policy = policy = AdvisedPolicy(chosen, dependencies.reactor.seconds)
        self._soliciting: Any = None
        members = ClusterMembers(cluster, newHash)
        traffic = GatewayTraffic(
            GatewayDependencies(
                block.name,
                LinkBuses(dependencies.accounts, Kind.GATEWAY),
                policy,
                ReplyNames(block.name, dependencies.serverId),
                members.linkTo,
                dependencies.reactor.seconds,
                not settings.no_header_support,
                dependencies.clients.notify,
            )
        )
        terms = termsFrom(settings, block, policy.tellsAll)
        self.links = self.gateways = GatewayRegistry(
            self.context,
            self._identityWith(settings, max(block.port, 0)),
            terms,
            traffic,
            members,
            self._dial,
        )
        self.advice = GatewayAdvice(policy, self.gateways, dependencies.accounts)
        self.children = (AdviceResponder(self.advice, dependencies),)
        if cluster is not None:
            cluster.gateways = self.gateways.gossip
            cluster.replyRouter = traffic.replyRouter
        self._factory = LinkFactory(partial(InboundGateway, self.gateways), terms.tls)
        self._port = LinkPort(
            dependencies.reactor,
            block.host,
            block.port,
            self._factory,
            "gateway",
            "nats-gw",
            dependencies.sockets.pop("gateway", None),
        )

    def _identityWith(self, settings: Settings, port: int) -> LinkIdentity:
        block = settings.gateway or Gateway()
        return identityFrom(settings, block, self._serverId, port, self._hostCluster)

    @property
    def block(self) -> Gateway:
        return self._settings.gateway or Gateway()

    @property
    def clusterName(self) -> str:
        return self._settings.clusterName

    def clientInfo(self) -> Mapping[str, Any]:
        return {"cluster": self.clusterName}

    def location(self) -> tuple[str, Sequence[str]]:
        outbound = self.gateways.outbound
        nearest = sorted(outbound, key=lambda name: outbound[name].roundTrip)
        return self.clusterName, tuple(nearest)

    def neighbours(self) -> float:
        return math.inf

    def connect(self) -> None:
        self._soliciting = self._reactor.callLater(_SOLICIT, self._solicit)

    def _identify(self) -> None:
        """Set the address. Our own cluster announces the address, too."""
        identity = self._identityWith(self._settings, self.port)
        self.gateways.identity = identity
        self.gateways.url = identity.gateway_url
        if self._cluster is not None:
            self._cluster.identity = replace(
                self._cluster.identity, gateway_url=identity.gateway_url
            )

    def _solicit(self) -> None:
        self._soliciting = None
        self.gateways.solicit()

    def announce(self) -> None:
        gateways = self.gateways
        name, terms = gateways.terms.block.name, gateways.terms
        _log.info("Gateway name is {name}", name=name)
        _log.info("Listening for gateways connections on {where}", where=str(self._port))
        _log.info('Address for gateway "{name}" is {url}', name=name, url=gateways.url)
        if any(tls and tls.settings.insecure for tls in [terms.tls, *terms.remoteTLS.values()]):
            self._warnOfUnverified("gateways")

    async def stopListening(self) -> None:
        soliciting, self._soliciting = self._soliciting, None
        if soliciting is not None:
            soliciting.cancel()
        await super().stopListening()

    def _dial(self, remote: Remote, after: float) -> None:
        kind = "implicit" if remote.isImplicit else "explicit"
        self._diallers.dial(
            remote.name,
            f'to {kind} gateway "{remote.name}"',
            backoffTerms(self._settings, self.block, not remote.isImplicit),
            lambda: ensureDeferred(self._reach(remote)),
            after,
            lambda isReached: self._dialled(remote, isReached),
        )

    def _dialled(self, remote: Remote, isReached: bool) -> None:
        if not isReached:
            self.gateways.unreachable(remote)

    async def _reach(self, remote: Remote) -> None:
        problem: Exception = ValueError("its address is unknown")
        for target in remote.shuffled(self._random):
            try:
                await self._connect(remote, target)
            except (ConnectError, OSError, ValueError) as error:
                _log.debug(
                    "Error connecting to gateway {name} at {place}: {why}",
                    name=remote.name,
                    place=str(target),
                    why=str(error),
                )
                problem = error
            else:
                return
        raise problem

    def _connect(self, remote: Remote, target: RemoteURL) -> Deferred[Any]:
        _log.debug("Connecting to gateway {name} at {place}", name=remote.name, place=str(target))
        gateways = self.gateways
        factory = LinkFactory(
            partial(OutboundGateway, gateways, remote, target),
            remote.tls(gateways.terms),
            remote.certified(target),
        )
        return self._diallers.connect(target.host, target.port, _DIAL, factory)

    def plan(self, new: Settings, changes: Sequence[Change]) -> Step:
        """Plan a reload. As with nats-server, only TLS can change."""
        block = new.gateway
        if block is None or _fixed(block, self.port) != _fixed(self.block, self.port):
            raise ValueError("config reload not supported for Gateway")
        terms = termsFrom(new, block, self._policy.tellsAll)
        ofLinks = gatewaySettings(new, block)

        def apply() -> None:
            self._use(new, ofLinks)
            self._factory.tls = terms.tls
            self.gateways.use(terms)
            self._identify()
            self.gateways.accountsChanged()

        return apply


def _fixed(block: Gateway, port: int) -> Gateway:
    remotes = sorted(
        (replace(remote, tls=None) for remote in block.gateways), key=lambda it: it.name
    )
    number = port if block.port < 0 else block.port
    return replace(block, port=number, tls=None, gateways=tuple(remotes))
