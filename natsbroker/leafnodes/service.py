"""The leafnode connections of a broker: their listener, dialling, and reload."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory
from twisted.logger import Logger

from natsbroker.config.diff import Change
from natsbroker.config.model import Settings
from natsbroker.config.settings.leafnodes import Leafnodes, RemoteLeaf, splitRemote
from natsbroker.leafnodes.accepting import AcceptedLeaf
from natsbroker.leafnodes.dialling import DialledLeaf
from natsbroker.leafnodes.protocol import LeafFactory, LeafProtocol
from natsbroker.leafnodes.registry import LeafRegistry
from natsbroker.leafnodes.remote import LeafRemote
from natsbroker.leafnodes.terms import (
    acceptingTLSFrom,
    authorizerFrom,
    diallingTLSFrom,
    identityFrom,
    leafSettings,
)
from natsbroker.links.context import LinkDependencies
from natsbroker.links.dialling import DialTerms, peerEndpoint
from natsbroker.links.listener import LinkPort
from natsbroker.links.service import LinkService
from natsbroker.links.tls import LinkTLS
from natsbroker.links.tunnel import TunnelEndpoint
from natsbroker.runtime.reload import Step

if TYPE_CHECKING:
    from natsbroker.leafnodes.websockets import DialledWebSocket
    from natsbroker.routes.service import RouteService
    from natsbroker.websocket.protocol import WebSocketProtocol

_log = Logger(namespace="natsbroker")

#: The keys of the block that a reload may change.
_CHANGEABLE = frozenset({"compression", "remotes", "tls"})


class LeafnodeService(LinkService[LeafRemote]):
    def __init__(
        self,
        dependencies: LinkDependencies,
        cluster: Callable[[], RouteService | None],
    ) -> None:
        settings = dependencies.settings
        block = settings.leafnodes or Leafnodes()
        super().__init__(dependencies, leafSettings(settings, block))
        # Neighbours present themselves to leafnodes as one server.
        self._serverId = dependencies.hostId
        self._cluster = cluster
        self._isDialling = False
        self._leaving: list[Deferred[None]] = []
        self._webSockets: set[DialledWebSocket] = set()
        self.links = self.leafs = LeafRegistry(
            self.context,
            identityFrom(settings, block, self._serverId, max(block.port, 0)),
            dependencies,
            authorizerFrom(settings, block, dependencies.checks),
            self.clusterName,
            self._redial,
        )
        hostCluster = dependencies.hostCluster
        if hostCluster is not None and not self.leafs.sharesHubs:
            # A hub mistakes two spokes with one name for the same, and closes the older connection.
            self.leafs.dialling = replace(
                self.leafs.identity,
                server_id=dependencies.serverId,
                server_name=hostCluster.memberName(settings.server_name) or dependencies.serverId,
            )
        self._factory = LeafFactory(partial(AcceptedLeaf, self.leafs), acceptingTLSFrom(block))
        self._port = LinkPort(
            dependencies.reactor,
            block.host,
            block.port,
            self._factory,
            "leafnode",
            "nats-leaf",
            dependencies.sockets.pop("leafnodes", None),
        )
        self._remotes = {
            remote.name: LeafRemote(remote, diallingTLSFrom(remote), dependencies.random)
            for remote in block.remotes
        }

    @property
    def block(self) -> Leafnodes:
        return self._settings.leafnodes or Leafnodes()

    def clusterName(self) -> str:
        """A broker without a cluster that dials leafnodes is a cluster by itself."""
        cluster = self._cluster()
        if cluster is None or cluster.isPrivate:
            name = self._settings.clusterName
        else:
            name = cluster.cluster.terms.name
        if name or not self._remotes:
            return name
        return self._settings.server_name or self._serverId

    async def open(self, settings: Settings) -> None:
        await super().open(settings)
        self.linksChanged()

    def connect(self) -> None:
        self.useRemotes(not self.leafs.sharesHubs)

    def useRemotes(self, isDialling: bool) -> Deferred[None]:
        """
        Dial the remotes, or leave them to the one of the neighbours that does.

        @return: fires when connections that are not wanted have ended.
        """
        self._isDialling = isDialling
        for remote in self._remotes.values():
            self._settle(remote)
        settled: Deferred[None] = Deferred()
        self._leaving.append(settled)
        self._checkLeft()
        return settled

    def _checkLeft(self) -> None:
        if self._isDialling or not any(leaf.isDialled for leaf in self.leafs.everyone()):
            leaving, self._leaving = self._leaving, []
            for settled in leaving:
                settled.callback(None)

    def _settle(self, remote: LeafRemote) -> None:
        """Dial a remote that is wanted here, and hang up on another."""
        remote.isWanted = self._isDialling and not remote.settings.disabled
        if not remote.isWanted:
            self._drop(remote)
        elif not self.leafs.linksTo(remote):
            self._dial(remote, 0.0)

    def location(self) -> tuple[str, Sequence[str]]:
        return self.clusterName(), ()

    def neighbours(self) -> float:
        return math.inf

    def linksChanged(self) -> None:
        """
        Note that links have changed: members tell their leafnodes the addresses of each other's
        listeners.
        """
        place, cluster = self.place, self._cluster()
        others: tuple[str, ...] = ()
        webSockets: tuple[str, ...] = ()
        if cluster is not None:
            cluster.useLeafPlace(self.advertised)
            others = cluster.cluster.leafUrls()
            webSockets = cluster.cluster.webSocketConnectUrls()
        self.leafs.useUrls(dict.fromkeys([place, *others] if place else others), webSockets)

    def reauthorize(self, account: str | None) -> None:
        self.leafs.reauthorize(account)

    def _identify(self) -> None:
        self.leafs.identity = identityFrom(self._settings, self.block, self._serverId, self.port)

    def announce(self) -> None:
        block = self.block
        if self.port:
            _log.info("Listening for leafnode connections on {where}", where=str(self._port))
            if block.advertise:
                place = self.leafs.identity.ip
                _log.info("Advertise address for leafnode is set to {where}", where=place)
        if any(remote.tls is not None and remote.tls.insecure for remote in block.remotes):
            self._warnOfUnverified("leafnodes")

    @property
    def place(self) -> str:
        """The C{host:port} to which leafnodes can connect; empty for none."""
        return self.leafs.identity.ip if self.port else ""

    @property
    def advertised(self) -> str:
        """The L{place} that other members of the cluster learn; empty for none."""
        return "" if self.block.no_advertise else self.place

    def _redial(self, remote: LeafRemote) -> None:
        self._dial(remote, self.block.reconnect + remote.takeDelay())
        self._checkLeft()

    def _dial(self, remote: LeafRemote, after: float) -> None:
        if not remote.isWanted:
            return
        pause = self.block.reconnect
        terms = DialTerms(
            pause=pause,
            longest=pause,
            jitter=pause,
            reports=self._settings.connect_error_reports,
        )
        self._diallers.dial(remote, remote, terms, lambda: self._connect(remote), after)

    def _connect(self, remote: LeafRemote) -> Deferred[Any]:
        url = remote.next()
        _log.debug("Trying to connect as leafnode to remote server on {target}", target=f'"{url}"')
        isPlain = not url.isWebSocket
        factory: Factory = LeafFactory(
            partial(DialledLeaf, self.leafs, remote), remote.tls if isPlain else None, remote.name
        )
        if not isPlain:
            from natsbroker.leafnodes.websockets import WebSocketDialling

            factory = WebSocketDialling(
                self.context, remote, factory, self._webSockets, lambda: self._redial(remote)
            )
        timeout = remote.settings.dial_timeout or self.block.dial_timeout
        proxy = remote.settings.proxy
        if proxy is None:
            return self._diallers.connect(url.host, url.port, timeout, factory)
        timeout = proxy.timeout or timeout
        tunnel = TunnelEndpoint(
            self._reactor,
            peerEndpoint(self._reactor, proxy.host, proxy.port, timeout),
            str(url),
            (proxy.username, proxy.password),
            timeout,
        )
        return tunnel.connect(factory)

    def protocolOver(self, below: WebSocketProtocol) -> LeafProtocol | None:
        """A leafnode's protocol above a WebSocket; C{None} if none are accepted."""
        if not self.block.port:
            return None
        from natsbroker.leafnodes.websockets import overWebSocket

        above = LeafFactory(partial(AcceptedLeaf, self.leafs), None).buildProtocol(None)
        return overWebSocket(above, below)

    def plan(self, new: Settings, changes: Sequence[Change]) -> Step:
        before, block = self.block, new.leafnodes or Leafnodes()
        if block.port < 0 < before.port or (block.port < 0 and before.port < 0):
            block = replace(block, port=before.port)
        for field in fields(Leafnodes):
            old, wanted = getattr(before, field.name), getattr(block, field.name)
            if field.name not in _CHANGEABLE and old != wanted:
                raise ValueError(f'config reload not supported for LeafNode: "{field.name}"')
        if (before.tls is None) != (block.tls is None) and block.port:
            raise ValueError("config reload not supported for LeafNode: TLS on or off")
        tls = acceptingTLSFrom(block)
        ofLinks = leafSettings(new, block)
        remotes = {remote.name: (remote, diallingTLSFrom(remote)) for remote in block.remotes}
        self._checkRemotes(block.remotes)

        def apply() -> None:
            self._use(new, ofLinks)
            self._factory.tls = tls
            self._useBlock(new)
            self._identify()
            self._useRemotes(remotes)
            self.leafs.reauthorize()

        return apply

    def _checkRemotes(self, wanted: Sequence[RemoteLeaf]) -> None:
        """Raise C{ValueError} if a remote that stays has changes that need a restart."""
        for settings in wanted:
            known = self._remotes.get(settings.name)
            if known is None:
                continue
            before = known.settings
            same = replace(
                settings, disabled=before.disabled, compression=before.compression, tls=before.tls
            )
            if same != before:
                account = settings.localAccount
                raise ValueError(
                    f'config reload not supported for LeafNode: remote of account "{account}"'
                )

    def _useRemotes(self, wanted: dict[str, tuple[RemoteLeaf, LinkTLS]]) -> None:
        for name in [old for old in self._remotes if old not in wanted]:
            self._drop(self._remotes.pop(name))
            _log.info("Reloaded: LeafNode Remote removed")
        for name, (settings, tls) in wanted.items():
            remote = self._remotes.get(name)
            if remote is None:
                remote = self._remotes[name] = LeafRemote(settings, tls, self._random)
                _log.info("Reloaded: LeafNode Remote added")
            else:
                self._useRemoteCompression(remote, settings)
                remote.settings, remote.tls = settings, tls
            self._settle(remote)

    def _useBlock(self, new: Settings) -> None:
        before, self.leafs.settings = self.leafs.block.compression, new
        wanted = self.leafs.block.compression
        if wanted != before:
            _log.info("Reloaded: LeafNode Compression value is: {value}", value=str(wanted))
            self.leafs.useCompression(wanted)

    def _useRemoteCompression(self, remote: LeafRemote, settings: RemoteLeaf) -> None:
        if settings.compression != remote.settings.compression:
            _log.info(
                'Reloaded: LeafNode Remote urls={urls}, account="{account}" Compression value is: '
                "{value}",
                urls=f"[{' '.join(map(str, map(splitRemote, settings.urls)))}]",
                account=settings.localAccount,
                value=str(settings.compression),
            )
            self.leafs.useCompression(settings.compression, remote)

    async def stopListening(self) -> None:
        await super().stopListening()
        for webSocket in list(self._webSockets):
            webSocket.abort()

    def _drop(self, remote: LeafRemote) -> None:
        remote.isWanted = False
        self._diallers.stop(remote)
        for transport in [
            webSocket for webSocket in self._webSockets if webSocket.remote is remote
        ]:
            transport.abort()
        self.leafs.hangUp(remote)
