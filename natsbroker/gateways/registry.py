"""
Gateway connections: their common part, the registry, and gossip. A broker has or dials one outbound
connection to each known cluster. A cluster that dials us is dialled back, and so is one that gossip
names, unless unknown clusters are rejected.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from natsbroker import errors
from natsbroker.config.addresses import RemoteURL
from natsbroker.connections.labels import inQuotes
from natsbroker.connections.peer import LinkPeer
from natsbroker.errors import logText
from natsbroker.gateways.clustermembers import ClusterMembers
from natsbroker.gateways.remote import Remote
from natsbroker.gateways.terms import (
    GatewayTerms,
    connectOptions,
    gossipDocument,
    infoDocument,
)
from natsbroker.gateways.traffic import GatewayTraffic
from natsbroker.links.context import LinkContext
from natsbroker.links.identity import LinkIdentity
from natsbroker.links.link import Link
from natsbroker.links.registry import LinkRegistry
from natsbroker.wire import ops
from natsbroker.wire.connect import infoLine
from natsbroker.wire.dialects.gateway import FROM_GATEWAY
from natsbroker.wire.serverinfo import GatewayCommand, LinkConnect, ServerDocument, parseDocument

_log = Logger(namespace="natsbroker")

#: The end of an INFO line between gateways.
END = b"\r\n"

#: The prefix of the server id in gossip to members, which makes it no server's id.
_GOSSIP = "GW"


class GatewayLink(Link):
    """
    A connection to another cluster. Two members of two clusters that both dial each other have two
    connections. Messages go to the side that was dialled, and interest goes back.

    @ivar cluster: the cluster that was dialled; C{None} for an inbound connection.
    @ivar mayRedial: whether the cluster is dialled again when the connection is lost.
    """

    CREATED = "Gateway"
    KIND = "Gateway"
    ID_PREFIX = "gid"

    cluster: Remote | None = None
    mayRedial = False

    def __init__(self, gateways: GatewayRegistry, peer: LinkPeer) -> None:
        super().__init__(gateways, peer, FROM_GATEWAY)
        self._gateways = gateways
        self.document: ServerDocument | None = None
        self.handlers[ops.INFO] = self.parsing(parseDocument, self._informed)

    @property
    def remoteName(self) -> str:
        return self.document.server_name if self.document is not None else ""

    @property
    @abstractmethod
    def gateway(self) -> str:
        """The name of the peer's gateway; empty while it is not known."""

    def tell(self, document: dict[str, Any]) -> None:
        self.say(infoLine(document, END))

    def _informed(self, document: ServerDocument) -> None:
        if self.document is not None:
            self._informedAgain(document)
        elif self._gateways.isTaken(document.server_name):
            self._refuseName(document.server_name)
        else:
            self._introduced(document)

    @abstractmethod
    def _introduced(self, document: ServerDocument) -> None: ...

    @abstractmethod
    def _informedAgain(self, document: ServerDocument) -> None: ...

    def _misdirected(self, *_: object) -> None:
        self.close(errors.WRONG_DIRECTION)

    def begin(self, traffic: Any) -> None:
        self.traffic = traffic
        self.handlers.update(traffic.handlers)
        traffic.accountsChanged()


class GatewayRegistry(LinkRegistry[GatewayLink]):
    """
    All gateway connections of one broker.

    @ivar outbound: the started outbound connections, by the name of the cluster.
    @ivar url: our C{host:port} for other clusters.
    @ivar isLeaving: whether other clusters shall dial other members, since this broker stops.
    """

    def __init__(
        self,
        context: LinkContext,
        identity: LinkIdentity,
        terms: GatewayTerms,
        traffic: GatewayTraffic,
        members: ClusterMembers,
        dial: Callable[[Remote, float], None],
    ) -> None:
        super().__init__(context)
        self.identity = identity
        self.terms = terms
        self.members = members
        self.url = ""
        self.inbound: dict[int, GatewayLink] = {}
        self.outbound: dict[str, GatewayLink] = {}
        self.remotes: dict[str, Remote] = {
            settings.name: Remote(settings.name, settings)
            for settings in terms.block.gateways
            if settings.name != terms.block.name
        }
        self._traffic = traffic
        self._dial = dial
        self.gossip = GatewayGossip(self)

    def document(self) -> dict[str, Any]:
        return infoDocument(self.identity, self.terms, self.url, self.gossip.urls())

    def connectOptions(self, remote: Remote, target: RemoteURL) -> dict[str, Any]:
        hasTLS = remote.tls(self.terms) is not None
        return connectOptions(self.identity, self.terms, target, hasTLS)

    def update(self) -> None:
        document = self.document()
        for link in list(self.inbound.values()):
            link.tell(document)

    def admits(self, given: LinkConnect, certificate: Any) -> bool | Deferred[bool]:
        login, checks = self.terms.login, self.context.checks
        return login.admits(checks, given.user, given.password, certificate)

    def welcomes(self, name: str) -> bool:
        block = self.terms.block
        return name != block.name and (not block.reject_unknown_cluster or name in self.remotes)

    def isTaken(self, name: str) -> bool:
        return bool(name) and (name == self.identity.server_name or self.members.hasName(name))

    def arrived(self, link: GatewayLink, document: ServerDocument) -> None:
        self.inbound[link.number] = link
        _log.info(
            "{link} - Inbound gateway connection from {name} ({id}) registered",
            link=str(link),
            name=inQuotes(document.gateway),
            id=logText(document.server_id),
        )
        link.begin(self._traffic.arriving(link))
        self.learned(document.gateway, document.gateway_urls)
        self.gossip.tellClusters(link, document.gateway)

    def reached(self, link: GatewayLink, remote: Remote, document: ServerDocument) -> None:
        if self.isOver or remote.name in self.outbound:
            link.mayRedial = False
            link.close(errors.DUPLICATE_GATEWAY)
            return
        self.outbound[remote.name] = link
        remote.failures = 0
        remote.update(document.gateway_urls)
        _log.info(
            "{link} - Outbound gateway connection to {name} ({id}) registered",
            link=str(link),
            name=inQuotes(remote.name),
            id=logText(document.server_id),
        )
        link.begin(self._traffic.leaving(link))
        self.gossip.spread(document.gateway, document.gateway_urls)

    def linkEnding(self, link: GatewayLink) -> None:
        self.inbound.pop(link.number, None)
        if link.cluster is not None and self.outbound.get(link.cluster.name) is link:
            del self.outbound[link.cluster.name]

    def linkGone(self, link: GatewayLink) -> None:
        super().linkGone(link)
        remote = link.cluster
        if remote is None or not link.mayRedial:
            return
        if self.remotes.get(remote.name) is remote and remote.name not in self.outbound:
            if link.document is None:
                self._failed(link, remote)
            self.dial(remote, remote.pause)

    def _failed(self, link: GatewayLink, remote: Remote) -> None:
        remote.failures += 1
        reports = self.terms.settings.connect_error_reports
        isReported = remote.failures == 1 or remote.failures % reports == 0
        (_log.warn if isReported else _log.debug)(
            "{link} - Connection to gateway {name} ended before its INFO was taken: {why} "
            "(attempt {attempt})",
            link=str(link),
            name=inQuotes(remote.name),
            why=link.reason,
            attempt=remote.failures,
        )

    def dial(self, remote: Remote, after: float) -> None:
        if not self.isOver:
            self._dial(remote, after)

    def solicit(self) -> None:
        for remote in list(self.remotes.values()):
            if not remote.isImplicit and remote.name not in self.outbound:
                self.dial(remote, 0.0)

    def unreachable(self, remote: Remote) -> None:
        if any(link.gateway == remote.name for link in self.inbound.values()):
            self.dial(remote, remote.pause)
        elif remote.isImplicit and self.remotes.get(remote.name) is remote:
            del self.remotes[remote.name]

    def informed(self, link: GatewayLink, remote: Remote, document: ServerDocument) -> None:
        command = document.gateway_cmd
        if not document.gateway:
            link.close(errors.NO_GATEWAY_THERE, link.gateway)
        elif command == GatewayCommand.GOSSIP:
            if self.welcomes(document.gateway):
                self.learned(document.gateway, document.gateway_urls)
        elif document.gateway != link.gateway:
            link.close(errors.WRONG_GATEWAY, self.terms.block.name, link.gateway, document.gateway)
        elif not command:
            remote.update(document.gateway_urls)
            self.gossip.spread(document.gateway, document.gateway_urls)
        elif link.traffic is not None and not link.traffic.commanded(document):
            _log.warn(
                "{link} - Received unknown command {command} from gateway {name}",
                link=str(link),
                command=command,
                name=inQuotes(link.gateway),
            )

    def learned(self, name: str, urls: Iterable[str]) -> None:
        if name == self.terms.block.name:
            return
        remote = self.remotes.get(name)
        if remote is not None:
            remote.learn(urls)
            return
        remote = Remote(name, None)
        remote.learn(urls)
        if remote.addresses:
            self.remotes[name] = remote
            self.dial(remote, 0.0)

    def use(self, terms: GatewayTerms) -> None:
        self.terms = terms
        settings = {block.name: block for block in terms.block.gateways}
        for remote in self.remotes.values():
            remote.settings = settings.get(remote.name)

    def accountsChanged(self) -> None:
        for link in self:
            if link.traffic is not None:
                link.traffic.accountsChanged()

    def leave(self) -> None:
        super().leave()
        self.update()


class GatewayGossip:
    """
    The gossip of one broker, which is the L{natsbroker.routes.members.GatewayGossipListener} of its
    cluster. A cluster that dials the broker learns of all other clusters. The other members learn
    of each cluster that the broker reaches. Other clusters learn the addresses of all members.
    """

    def __init__(self, gateways: GatewayRegistry) -> None:
        self._gateways = gateways
        self._urls: Counter[str] = Counter()

    def urls(self) -> list[str]:
        gateways = self._gateways
        own = [gateways.url] if gateways.url else []
        others = [url for url in self._urls if url != gateways.url]
        return others if gateways.isLeaving and others else own + others

    def tellClusters(self, link: GatewayLink, name: str) -> None:
        gateways = self._gateways
        for remote in gateways.remotes.values():
            addresses = remote.addresses
            if remote.name != name and addresses:
                link.tell(gossipDocument(gateways.identity.server_id, remote.name, addresses))

    def spread(self, name: str, urls: Iterable[str]) -> None:
        gateways = self._gateways
        serverName = gateways.identity.server_name
        document = gossipDocument(self._sender, name, urls, serverName)
        gateways.members.send(infoLine(document))

    @property
    def _sender(self) -> str:
        return f"{_GOSSIP}{self._gateways.identity.server_id}"

    def heard(self, document: ServerDocument, who: str) -> None:
        if document.gateway_cmd != GatewayCommand.GOSSIP:
            _log.error(
                "Unknown command {command} from server {who}",
                command=document.gateway_cmd,
                who=logText(who),
            )
        elif self._gateways.welcomes(document.gateway):
            self._gateways.learned(document.gateway, document.gateway_urls)

    def memberJoined(self, url: str, say: Callable[[bytes], None]) -> None:
        """
        Announce the gateway address of a new member to other clusters, and send the member the
        gossip about the clusters that this broker reaches.

        @param url: the address; empty for none.
        """
        gateways = self._gateways
        if url:
            self._urls[url] += 1
            if self._urls[url] == 1:
                gateways.update()
        for remote in gateways.remotes.values():
            addresses = remote.addresses
            if remote.name in gateways.outbound and addresses:
                say(infoLine(gossipDocument(self._sender, remote.name, addresses)))

    def memberLeft(self, url: str) -> None:
        if not self._urls[url]:
            return
        self._urls[url] -= 1
        if not self._urls[url]:
            del self._urls[url]
            if not self._gateways.isOver:
                self._gateways.update()
