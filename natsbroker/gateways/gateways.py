"""
The gateways of one broker: which other clusters there are, and the connections to and from them.

Each cluster that is known has one connection that we dialled, or is being dialled;
whoever dials us is dialled back; of whom others tell is dialled, too, if it may be joined to us.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from twisted.logger import Logger

from natsbroker import errors
from natsbroker.connections.labels import inQuotes
from natsbroker.connections.peer import LinkPeer
from natsbroker.errors import logText
from natsbroker.gateways.clustermembers import ClusterMembers
from natsbroker.gateways.gateway import GatewayLink, InboundGateway, OutboundGateway
from natsbroker.gateways.gossip import GatewayGossip
from natsbroker.gateways.remote import Remote
from natsbroker.gateways.terms import (
    GatewayTarget,
    GatewayTerms,
    connectOptions,
    infoDocument,
)
from natsbroker.gateways.traffic import GatewayTraffic
from natsbroker.links.context import LinkContext
from natsbroker.links.registry import LinkRegistry
from natsbroker.routes.terms import LinkIdentity, isLogin
from natsbroker.wire.serverinfo import GatewayCommand, ServerDocument

__all__ = ["GatewayRegistry"]

_log = Logger(namespace="natsbroker")


class GatewayRegistry(LinkRegistry[GatewayLink]):
    """
    All gateway connections of one broker.

    @ivar identity: who we are.
    @ivar terms: how we are joined to others.
    @ivar members: the other members of our cluster.
    @ivar remotes: the other clusters, by their names.
    @ivar inbound: the connections that others dialled and that are agreed on, by their numbers.
    @ivar url: where we can be dialled, as C{host:port}.
    @ivar isLeaving: whether others are to dial the other members of our cluster.
    @ivar gossip: tells others of all that.
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
        """
        @param dial: has a cluster dialled after so many seconds, unless that is going on already.
        """
        super().__init__(context)
        self.identity = identity
        self.terms = terms
        self.members = members
        self.url = ""
        self.inbound: dict[int, InboundGateway] = {}
        self.remotes: dict[str, Remote] = {
            each.name: Remote(each.name, each) for each in terms.remotes if each.name != terms.name
        }
        self._traffic = traffic
        self._dial = dial
        self.isLeaving = False
        self.gossip = GatewayGossip(self)

    def accepting(self, peer: LinkPeer) -> InboundGateway:
        """
        Make the session of a connection that was dialled by the other side.
        """
        return InboundGateway(self, peer)

    def dialling(
        self, remote: Remote, target: GatewayTarget
    ) -> Callable[[LinkPeer], OutboundGateway]:
        """
        What makes the session of a connection that we dial.
        """
        return lambda peer: OutboundGateway(self, peer, remote, target)

    @property
    def outbound(self) -> dict[str, OutboundGateway]:
        """
        The connections that we dialled and that are agreed on, by the names of the clusters.
        """
        found = ((each.name, each.link) for each in self.remotes.values())
        return {name: link for name, link in found if link is not None}

    # What others are told.

    def document(self) -> dict[str, Any]:
        """
        What our INFO says.
        """
        return infoDocument(self.identity, self.terms, self.url, self.gossip.urls())

    def connectOptions(self, link: OutboundGateway) -> dict[str, Any]:
        """
        What our CONNECT says.
        """
        hasTLS = link.cluster.tls(self.terms) is not None
        return connectOptions(self.identity, self.terms, link.target, hasTLS)

    def update(self) -> None:
        """
        Tell those who dialled us anew who we are.
        """
        document = self.document()
        for link in list(self.inbound.values()):
            link.tell(document)

    # Who is let in.

    def admits(self, user: str, password: str) -> bool:
        """
        Whether somebody who dialled us says the right thing.
        """
        return isLogin(self.terms, user, password)

    def welcomes(self, name: str) -> bool:
        """
        Whether a gateway of this name may be joined to ours.
        """
        return name != self.terms.name and (not self.terms.rejectsUnknown or name in self.remotes)

    def isTaken(self, name: str) -> bool:
        """
        Whether a server of our own cluster has a name.
        """
        return bool(name) and (name == self.identity.server_name or self.members.hasName(name))

    # Coming and going.

    def arrived(self, link: InboundGateway, document: ServerDocument) -> None:
        """
        Somebody who dialled us has said who it is.
        """
        self.inbound[link.number] = link
        _log.info(
            "{link} - Inbound gateway connection from {name} ({id}) registered",
            link=str(link),
            name=inQuotes(document.gateway),
            id=logText(document.server_id),
        )
        link.begin(self._traffic.arriving(link))
        self.learned(document.gateway, document.gateway_urls)
        self.gossip.tellOthers(link, document.gateway)

    def reached(self, link: OutboundGateway, document: ServerDocument) -> None:
        """
        Somebody whom we dialled has said who it is.
        """
        remote = link.cluster
        if self.isOver or remote.link is not None:
            link.mayRedial = False
            link.close(errors.DUPLICATE_GATEWAY)
            return
        remote.link = link
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
        """
        A connection ends: at once it leads to nobody.
        """
        self.inbound.pop(link.number, None)
        if isinstance(link, OutboundGateway) and link.cluster.link is link:
            link.cluster.link = None

    def linkGone(self, link: GatewayLink) -> None:
        """
        A connection is gone: dial again if it was we who dialled.
        """
        super().linkGone(link)
        if not isinstance(link, OutboundGateway) or not link.mayRedial:
            return
        remote = link.cluster
        if self.remotes.get(remote.name) is remote and remote.link is None:
            if link.document is None:
                remote.failures += 1
            self.dial(remote, remote.pause)

    def dial(self, remote: Remote, after: float) -> None:
        """
        Have a cluster dialled.
        """
        if not self.isOver:
            self._dial(remote, after)

    def solicit(self) -> None:
        """
        Dial the clusters that the settings name.
        """
        for remote in list(self.remotes.values()):
            if not remote.isImplicit and remote.link is None:
                self.dial(remote, 0.0)

    def unreachable(self, remote: Remote) -> None:
        """
        A cluster was dialled as often as it may be: forget it, unless it has dialled us.
        """
        if any(link.gateway == remote.name for link in self.inbound.values()):
            self.dial(remote, remote.pause)
        elif remote.isImplicit and self.remotes.get(remote.name) is remote:
            del self.remotes[remote.name]

    # News.

    def informed(self, link: OutboundGateway, document: ServerDocument) -> None:
        """
        Somebody whom we dialled has said something more.
        """
        command = document.gateway_cmd
        if not document.gateway:
            link.close(errors.NO_GATEWAY_THERE, link.gateway)
        elif command == GatewayCommand.GOSSIP:
            if self.welcomes(document.gateway):
                self.learned(document.gateway, document.gateway_urls)
        elif document.gateway != link.gateway:
            link.close(errors.WRONG_GATEWAY, self.terms.name, link.gateway, document.gateway)
        elif not command:
            link.cluster.update(document.gateway_urls)
            self.gossip.spread(document.gateway, document.gateway_urls)
        elif link.traffic is not None and not link.traffic.commanded(document):
            _log.warn(
                "{link} - Received unknown command {command} from gateway {name}",
                link=str(link),
                command=command,
                name=inQuotes(link.gateway),
            )

    def learned(self, name: str, urls: Iterable[str]) -> None:
        """
        There is a cluster of this name: dial it if it is new.

        @param urls: where its members are.
        """
        if name == self.terms.name:
            return
        remote = self.remotes.get(name)
        if remote is not None:
            remote.learn(urls)
            return
        remote = Remote(name, None)
        remote.learn(urls)
        if remote.places:
            self.remotes[name] = remote
            self.dial(remote, 0.0)

    # Changing.

    def use(self, terms: GatewayTerms) -> None:
        """
        Be joined in another way from now on: with other certificates.
        """
        self.terms = terms
        found = {each.name: each for each in terms.remotes}
        for remote in self.remotes.values():
            remote.terms = found.get(remote.name)

    def accountsChanged(self) -> None:
        """
        There may be other accounts now.
        """
        for link in self:
            if link.traffic is not None:
                link.traffic.accountsChanged()

    def leave(self) -> None:
        """
        Tell other clusters to dial the other members of ours.
        """
        self.isLeaving = True
        self.update()
