"""
The cluster as one of its members sees it.

Everybody who is told of is dialled, once; of two connections for the same purpose one
goes; clients learn where else they can connect, as members come and go; whose interest passes over
which connection follows from the pool, from one moment to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from twisted.logger import Logger

from natsbroker import errors
from natsbroker.connections.labels import inQuotes
from natsbroker.connections.peer import LinkPeer
from natsbroker.errors import logText
from natsbroker.gateways.replyrouter import GatewayReplyRouter
from natsbroker.links.context import LinkContext
from natsbroker.links.registry import LinkRegistry
from natsbroker.routes.interest import AccountBuses
from natsbroker.routes.members import IncompatiblePeers, Member, poolIndex
from natsbroker.routes.news import ClusterGossip, GatewayGossipListener
from natsbroker.routes.pool import RoutePool
from natsbroker.routes.route import Route
from natsbroker.routes.terms import (
    ClusterTerms,
    LinkIdentity,
    RouteTarget,
    connectOptions,
    infoDocument,
    isLogin,
)
from natsbroker.wire.serverinfo import GossipMode, ServerDocument, infoLine

__all__ = ["Routes"]

_log = Logger(namespace="natsbroker")

#: How long after a route was lost it is dialled again, in seconds.
_REDIAL = 1.0

#: How long after something that should not take long, in seconds.
_SOON = 0.1


class Routes(LinkRegistry[Route]):
    """
    All routes of one broker.

    @ivar identity: who we are.
    @ivar buses: where messages find their accounts.
    @ivar terms: how we take part.
    @ivar members: the others, by their ids.
    @ivar urls: where our own clients connect.
    @ivar leafPlace: where leafnodes connect to us, for others to tell; empty for nowhere.
    @ivar changed: to be called when it has changed where clients can connect.
    @ivar gateways: what members tell of other clusters is for them; C{None} without.
    @ivar replyRouter: takes answers that members got from other clusters; C{None} without.
    """

    def __init__(
        self,
        context: LinkContext,
        identity: LinkIdentity,
        buses: AccountBuses,
        terms: ClusterTerms,
        dial: Callable[[RouteTarget, float], None],
        changed: Callable[[], None],
    ) -> None:
        """
        @param dial: has somebody dialled after so many seconds, unless that is going on already.
        @param changed: called when it has changed where clients can connect, or the cluster's name.
        """
        super().__init__(context)
        self.identity = identity
        self.buses = buses
        self.terms = terms
        self.members: dict[str, Member] = {}
        self.urls: tuple[str, ...] = ()
        self.leafPlace = ""
        self.isLeaving = False
        self._dial = dial
        self.changed = changed
        self.gateways: GatewayGossipListener | None = None
        self.replyRouter: GatewayReplyRouter | None = None
        self._news = ClusterGossip(self)
        self._pool = RoutePool(self, self._news, dial)
        self._incompatible = IncompatiblePeers()
        self._selves: set[tuple[str, int]] = set()
        self._learned: set[str] = set()

    def routeFor(self, target: RouteTarget | None) -> Callable[[LinkPeer], Route]:
        """
        What makes the session of a connection.

        @param target: whom we dialled; C{None} where we are dialled.
        """
        return lambda peer: Route(self, peer, target)

    # What others are told.

    def document(
        self, account: str, index: int, mode: GossipMode, compression: str = ""
    ) -> dict[str, Any]:
        """
        What our INFO says on a connection.

        @param compression: while it is agreed on: our mode, or that of the connection.
        """
        urls = () if self.isLeaving or not self.terms.advertises else self.urls
        return infoDocument(
            self.identity,
            self.terms,
            connect_urls=list(urls),
            compression=compression,
            leafnode_urls=[self.leafPlace] if self.leafPlace and not self.isLeaving else [],
            ldm=self.isLeaving,
            route_pool_idx=index,
            route_account=account,
            gossip_mode=int(mode),
        )

    def connectOptions(self, target: RouteTarget) -> dict[str, Any]:
        """
        What our CONNECT says to whom we dial.
        """
        return connectOptions(self.identity, self.terms, target)

    # Who is let in.

    def admits(self, user: str, password: str) -> bool:
        """
        Whether somebody who dialled us says the right thing.
        """
        return isLogin(self.terms, user, password)

    def agreesOn(self, name: str, isDynamic: bool, remoteId: str) -> bool:
        """
        Whether a peer is of our cluster. If our name was made up and it has a better one, its name
        becomes ours, and whoever else we had a route to is of another cluster.
        """
        terms = self.terms
        if name == terms.name:
            return True
        if not name or not terms.isDynamic or (isDynamic and name < terms.name):
            return False
        self.terms = replace(terms, name=name, isDynamic=isDynamic)
        _log.info("Cluster name updated to {name}", name=logText(name))
        for route in self:
            isNamed = route.traffic is not None and not route.isClassic
            if isNamed and route.remoteId != remoteId:
                route.close(errors.CLUSTER_CONFLICT)
        self.changed()
        return True

    def introduced(self, route: Route, document: ServerDocument) -> None:
        """
        A peer has said who it is: give its connection a place, or close it.
        """
        if self.isOver:
            route.close(errors.SERVER_SHUTDOWN)
        else:
            self._pool.place(route, document)

    def extend(self, route: Route) -> None:
        """
        A peer that we dialled has let us in: dial the other connections that there are to be.
        """
        self._pool.extend(route)

    def isDedicated(self, account: str) -> bool:
        """
        Whether an account has connections of its own.
        """
        known = account in self.terms.dedicated or account in self._learned
        return known and self.buses.busOf(account) is not None

    def metSelf(self, route: Route) -> None:
        """
        We have dialled ourselves.
        """
        if route.target is not None:
            self._selves.add((route.target.host, route.target.port))
            _log.debug("Detected route to self, ignoring {target}", target=str(route.target))

    # Gossip.

    def informed(self, route: Route, document: ServerDocument) -> None:
        """
        A peer has said something more: of itself, or of another member.
        """
        if document.client_id:
            return
        if document.gateway:
            self._news.heardOfGateway(route, document)
        elif document.route_acc_add_reqid:
            self._dedicatedLater(route, document)
        else:
            self._news.heard(route, document)

    def _dedicatedLater(self, route: Route, document: ServerDocument) -> None:
        """
        An account gets connections of its own while we run: interest in it is told over those from
        now on.
        """
        account = document.route_account
        if not account:
            return
        if self.buses.busOf(account) is None:
            _log.error(
                "{link} - Error looking up account {name}: account missing",
                link=str(route),
                name=inQuotes(account),
            )
            return
        self._learned.add(account)
        self.accountsChanged()
        for member in self.members.values():
            for each in member.pool.values():
                if each.isPooled and each.traffic is not None:
                    each.traffic.forget(account)
        route.say(infoLine(document.changed(route_account="").raw))
        if route.target is not None:
            # The peer waits for the answers of all before it takes such connections.
            self.dial(route.target.forAccount(account), _SOON)

    def dial(self, target: RouteTarget, after: float) -> None:
        """
        Have somebody dialled, unless it is us.
        """
        if not self.isOver and (target.host, target.port) not in self._selves:
            self._dial(target, after)

    # Coming and going.

    def linkEnding(self, route: Route) -> None:
        """
        A connection ends: at once it leads to nobody.
        """
        member = self.members.get(route.remoteId)
        if member is None:
            return
        wasLast = member.remove(route)
        if wasLast and self.gateways is not None:
            self.gateways.memberLeft(member.gatewayUrl)
        if not member:
            del self.members[member.serverId]
        if wasLast and (member.urls or member.leafUrls):
            self.changed()

    def linkGone(self, route: Route) -> None:
        """
        A connection is gone: dial again if somebody wants it.
        """
        super().linkGone(route)
        target = route.target
        if target is None or not route.mayRedial or self.isOver or not self._isWanted(target):
            return
        member = self.members.get(route.remoteId)
        if member is not None:
            if route.account in member.dedicated:
                return
            first = member.first
            if not route.account and not member.isPooled and first is not None:
                first.target = first.target or target
                return
        isBrief = not target.isConfigured and route.document is not None
        self.dial(target, self._incompatible.pause(route, _SOON if isBrief else _REDIAL))

    def _isWanted(self, target: RouteTarget) -> bool:
        if target.account and not self.isDedicated(target.account):
            return False
        return not target.isConfigured or target.forAccount("") in self.terms.targets

    # Changing.

    def use(self, terms: ClusterTerms) -> None:
        """
        Take part in another way from now on.
        """
        before, self.terms = self.terms, terms
        isOther = (before.poolSize, before.dedicated, before.hasTLS, before.dialect) != (
            terms.poolSize,
            terms.dedicated,
            terms.hasTLS,
            terms.dialect,
        )
        self._selves.clear()
        for route in self:
            connect = route.credentials
            if isOther or (route.target is not None and not self._isWanted(route.target)):
                route.close(errors.ROUTE_REMOVED)
            elif connect is not None and not self.admits(*connect):
                route.close(errors.AUTHORIZATION)
            elif route.traffic is not None:
                route.traffic.permit(terms.permissions)
                route.update()
            route.useCompression(terms.compression)
        known = set(before.targets)
        for target in terms.targets:
            if target not in known:
                self.dial(target, 0.0)

    def accountsChanged(self) -> None:
        """
        There may be other accounts now.
        """
        for member in list(self.members.values()):
            for route in member:
                if route.traffic is not None:
                    route.traffic.accountsChanged()
                    route.traffic.tell(self.accountsOf(route, member))

    def accountsOf(self, route: Route, member: Member) -> list[str]:
        """
        Whose interest is told over a connection.
        """
        if route.account:
            return [route.account]
        names = self.buses.names()
        if not member.isPooled:
            return list(names)
        size = self.terms.poolSize
        return [
            name
            for name in names
            if not self.isDedicated(name) and poolIndex(size, name) == route.poolIndex
        ]

    def connectUrls(self) -> tuple[str, ...]:
        """
        Where clients can connect in the whole cluster: our own places first.
        """
        if not self.terms.advertises:
            return ()
        found = dict.fromkeys(() if self.isLeaving else self.urls)
        for member in self.members.values():
            found.update(dict.fromkeys(member.urls))
        return tuple(found)

    def leafUrls(self) -> tuple[str, ...]:
        """
        Where leafnodes can connect to the other members.
        """
        found: dict[str, None] = {}
        for member in self.members.values():
            found.update(dict.fromkeys(member.leafUrls))
        return tuple(found)

    def leave(self) -> None:
        """
        Tell the others that our clients will come to them.
        """
        self.isLeaving = True
        for member in self.members.values():
            if member.first is not None:
                member.first.update()
