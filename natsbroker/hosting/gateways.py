"""
The broker's part in a super-cluster, with everything that it has of the world: a listener, whom it
dials, and the settings.

Promises: it listens before it dials; each cluster is dialled by one at a time, at all its places in
any order; a reload brings other certificates, and other accounts.
Must never know: what is said between gateways.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.error import ConnectError
from twisted.logger import Logger

from natsbroker.config.diff import Change
from natsbroker.config.gateway import Gateway
from natsbroker.config.model import Settings
from natsbroker.gateways.replies import ReplyNames, newHash
from natsbroker.hosting.accounts import AccountRegistry, LinkDoors
from natsbroker.hosting.diallers import Diallers
from natsbroker.hosting.gatewaysettings import (
    dialTermsFrom,
    identityFrom,
    limitsFrom,
    remoteTLSFrom,
    termsFrom,
)
from natsbroker.hosting.linkports import LinkPort, ended
from natsbroker.hosting.linksettings import linkTLSFrom
from natsbroker.hosting.reload import Step
from natsbroker.interfaces import IGatewayInterestPolicy
from natsbroker.net.cluster import Cluster
from natsbroker.net.context import ClientContext
from natsbroker.net.gatewayneighbours import ClusterNeighbours
from natsbroker.net.gatewayremote import Remote
from natsbroker.net.gateways import Gateways
from natsbroker.net.gatewayterms import GatewayTarget
from natsbroker.net.gatewaytraffic import GatewayTraffic
from natsbroker.net.linkcontext import LinkContext
from natsbroker.net.linkprotocol import LinkFactory
from natsbroker.wire.values import Kind

__all__ = ["GatewayService"]

_log = Logger(namespace="natsbroker")

#: How long one attempt to connect may take, in seconds.
_DIAL = 5.0

#: How long after listening the clusters are dialled that the settings name, in seconds: by then
#: the members of our own cluster have found each other.
_SOLICIT = 1.0


class GatewayService:
    """
    One broker's part.

    @ivar gateways: the connections.
    """

    def __init__(
        self,
        reactor: Any,
        settings: Settings,
        clients: ClientContext,
        accounts: AccountRegistry,
        serverId: str,
        random: Random,
        cluster: Cluster | None,
        policy: IGatewayInterestPolicy,
    ) -> None:
        """
        @param settings: with a C{gateway} block.
        @param clients: what is shared with client connections: turns, deadlines, tracing.
        @param cluster: our own; C{None} for none.
        @param policy: decides what other clusters are sent and told.
        @raise natsbroker.hosting.tls.TLSError: if a certificate is no good.
        """
        block = _blockOf(settings)
        self._reactor = reactor
        self._settings = settings
        self._clients = clients
        self._serverId = serverId
        self._random = random
        self._cluster = cluster
        self._policy = policy
        self._diallers: Diallers[str] = Diallers(reactor, random)
        self._soliciting: Any = None
        neighbours = ClusterNeighbours(cluster, newHash)
        traffic = GatewayTraffic(
            block.name,
            LinkDoors(accounts, Kind.GATEWAY),
            policy,
            ReplyNames(block.name, serverId),
            neighbours.way,
            reactor.seconds,
            not settings.no_header_support,
            clients.notify,
        )
        tls = linkTLSFrom(block.tls)
        context = LinkContext(
            reactor, clients.turn, clients.wheel, random, limitsFrom(settings, block)
        )
        context.fastLane = settings.fast_lane
        self.gateways = Gateways(
            context,
            identityFrom(settings, block, serverId, max(block.port, 0)),
            termsFrom(settings, block, tls, remoteTLSFrom(block), policy.tellsAll),
            traffic,
            neighbours,
            self._dial,
        )
        if cluster is not None:
            cluster.gateways = self.gateways.gossip
            cluster.ledBack = traffic.ledBack
        self._factory = LinkFactory(self.gateways.accepting, tls)
        self._port = LinkPort(reactor, block.host, block.port, self._factory, "gateway", "nats-gw")
        self.tracingChanged()

    # Beginning and end.

    async def open(self) -> None:
        """
        Listen for other clusters, and dial those that the settings name a little later.

        @raise StartError: if the place is taken.
        """
        await self._port.open()
        self._identify()
        self._diallers.open()
        self._soliciting = self._reactor.callLater(_SOLICIT, self._solicit)

    def _identify(self) -> None:
        """
        Say where we are listening now.
        """
        block = _blockOf(self._settings)
        identity = identityFrom(self._settings, block, self._serverId, self.port)
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
        """
        Say where other clusters can connect.
        """
        gateways = self.gateways
        _log.info("Gateway name is {name}", name=gateways.terms.name)
        _log.info("Listening for gateways connections on {where}", where=str(self._port))
        _log.info(
            'Address for gateway "{name}" is {url}', name=gateways.terms.name, url=gateways.url
        )
        terms = gateways.terms
        if any(tls is not None and tls.insecure for tls in [terms.tls, *_tlsOf(gateways)]):
            _log.warn(
                "TLS certificate chain and hostname of solicited gateways will not be verified. "
                "DO NOT USE IN PRODUCTION!"
            )

    async def stopListening(self) -> None:
        """
        Let no gateway connect any more, and dial none.
        """
        self._diallers.close()
        soliciting, self._soliciting = self._soliciting, None
        if soliciting is not None:
            soliciting.cancel()
        await self._port.close()

    async def close(self) -> None:
        """
        End everything.
        """
        await self.stopListening()
        await ended(self.gateways.close)

    @property
    def port(self) -> int:
        """
        Where it listens; 0 while it does not.
        """
        return self._port.number

    def urls(self) -> list[str]:
        """
        Where it listens, as URLs.
        """
        return self._port.urls()

    # Dialling.

    def _dial(self, remote: Remote, after: float) -> None:
        kind = "implicit" if remote.isImplicit else "explicit"
        self._diallers.dial(
            remote.name,
            f'{kind} gateway "{remote.name}"',
            dialTermsFrom(self._settings, _blockOf(self._settings), remote.isImplicit),
            lambda: ensureDeferred(self._reach(remote)),
            after,
            lambda isReached: self._dialled(remote, isReached),
        )

    def _dialled(self, remote: Remote, isReached: bool) -> None:
        if not isReached:
            self.gateways.unreachable(remote)

    async def _reach(self, remote: Remote) -> None:
        """
        Dial the places of a cluster one after the other until one answers.
        """
        problem: Exception = ValueError("nobody knows where it is")
        for target in remote.shuffled(self._random):
            try:
                await self._connect(remote, target)
            except (ConnectError, OSError, ValueError) as error:
                _log.debug(
                    "Error connecting to gateway {name} at {place}: {why}",
                    name=remote.name,
                    place=target.place,
                    why=str(error),
                )
                problem = error
            else:
                return
        raise problem

    def _connect(self, remote: Remote, target: GatewayTarget) -> Deferred[Any]:
        _log.debug("Connecting to gateway {name} at {place}", name=remote.name, place=target.place)
        gateways = self.gateways
        factory = LinkFactory(
            gateways.dialling(remote, target),
            remote.tls(gateways.terms),
            remote.certified(target),
        )
        return self._diallers.connect(target.host, target.port, _DIAL, factory)

    # Changing.

    def tracingChanged(self) -> None:
        """
        How much is traced has changed.
        """
        self.gateways.context.useTracing(self._clients.tracing)

    def plan(self, new: Settings, changes: Sequence[Change]) -> Step:
        """
        See L{natsbroker.hosting.reload.Planner}: as with nats-server, only TLS can change.
        """
        block = new.gateway
        before = _blockOf(self._settings)
        if block is None or _fixed(block, self.port) != _fixed(before, self.port):
            raise ValueError("config reload not supported for Gateway")
        tls = linkTLSFrom(block.tls)
        terms = termsFrom(new, block, tls, remoteTLSFrom(block), self._policy.tellsAll)
        limits = limitsFrom(new, block)

        def apply() -> None:
            self._settings = new
            self._factory.tls = tls
            gateways = self.gateways
            gateways.context.limits = limits
            gateways.use(terms)
            self._identify()
            self.tracingChanged()
            for link in gateways:
                link.limitsChanged()
            gateways.accountsChanged()

        return apply


def _blockOf(settings: Settings) -> Gateway:
    block = settings.gateway
    if block is None or not block.isOn:
        raise ValueError("the settings have no gateway")
    return block


def _fixed(block: Gateway, port: int) -> Gateway:
    """
    What of the settings cannot change.

    @param port: where it listens, if that was left to the kernel.
    """
    remotes = sorted((replace(each, tls=None) for each in block.gateways), key=lambda it: it.name)
    number = port if block.port < 0 else block.port
    return replace(block, port=number, tls=None, gateways=tuple(remotes))


def _tlsOf(gateways: Gateways) -> list[Any]:
    return [remote.tls for remote in gateways.terms.remotes]
