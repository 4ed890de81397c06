"""All routes of a broker: admission, redialling, and reloads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from twisted.logger import Logger
from zope.interface import implementer

from natsbroker import errors
from natsbroker.accounts.registry import LinkBuses
from natsbroker.connections.labels import inQuotes
from natsbroker.connections.peer import LinkPeer
from natsbroker.errors import logText
from natsbroker.links.context import LinkContext
from natsbroker.links.identity import LinkIdentity
from natsbroker.routes.gossip import ClusterGossip
from natsbroker.routes.members import Membership
from natsbroker.routes.pool import RoutePool
from natsbroker.routes.route import IRouteOwner, Route
from natsbroker.routes.terms import ClusterTerms, RouteTarget
from natsbroker.wire.connect import infoLine
from natsbroker.wire.serverinfo import ServerDocument

_log = Logger(namespace="natsbroker")

#: The longest pause before a peer with another dialect is dialled again, in seconds.
_LONGEST = 60.0

#: The pause before a lost route is dialled again, in seconds.
_REDIAL = 1.0

#: The pause before another attempt to dial that should succeed soon, in seconds.
_SOON = 0.1


class IncompatiblePeers:
    """The pauses before peers without a common dialect are dialled again. They grow each time."""

    def __init__(self) -> None:
        self._pauses: dict[tuple[str, int], float] = {}

    def pause(self, route: Route, usual: float) -> float:
        target = route.target
        if target is None:
            return usual
        place = target.host, target.port
        if not route.isIncompatible:
            if route.document is not None:
                self._pauses.pop(place, None)
            return usual
        pause = self._pauses.get(place, usual)
        self._pauses[place] = min(2 * pause, _LONGEST)
        return pause


@implementer(IRouteOwner)
class Routes(Membership):
    def __init__(
        self,
        context: LinkContext,
        identity: LinkIdentity,
        buses: LinkBuses,
        terms: ClusterTerms,
        dial: Callable[[RouteTarget, float], None],
        changed: Callable[[], None],
    ) -> None:
        super().__init__(context, identity, buses, terms, dial, changed)
        self._gossip = ClusterGossip(self)
        self._pool = RoutePool(self, self._gossip, dial)
        self._incompatible = IncompatiblePeers()

    def routeFor(self, target: RouteTarget | None) -> Callable[[LinkPeer], Route]:
        isNeighbour = target is not None and target.isNeighbour
        return lambda peer: Route(self, peer, target, isNeighbour)

    def neighbourFor(self, peer: LinkPeer) -> Route:
        """The route of a neighbour that dialled."""
        return Route(self, peer, None, isNeighbour=True)

    def agreesOn(self, name: str, isDynamic: bool, remoteId: str) -> bool:
        """
        Whether a peer's cluster name is ours. A generated name first gives way to a better one.
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
        if self.isOver:
            route.close(errors.SERVER_SHUTDOWN)
        else:
            self._pool.place(route, document)

    def extend(self, route: Route) -> None:
        self._pool.extend(route)

    def metSelf(self, route: Route) -> None:
        if route.target is not None:
            self._selves.add((route.target.host, route.target.port))
            _log.debug("Detected route to self, ignoring {target}", target=str(route.target))

    def informed(self, route: Route, document: ServerDocument) -> None:
        if document.client_id:
            return
        if document.gateway:
            self._gossip.heardOfGateway(route, document)
        elif document.route_acc_add_reqid:
            self._dedicate(route, document)
        else:
            self._gossip.heard(route, document)

    def _dedicate(self, route: Route, document: ServerDocument) -> None:
        """Dedicate connections to an account. Its interest moves to them."""
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
            for connection in member.pool.values():
                if connection.isPooled and connection.traffic is not None:
                    connection.traffic.forget(account)
        route.say(infoLine(document.changed(route_account="").raw))
        if route.target is not None:
            # The peer waits for the answers of all before it takes such connections.
            self.dial(route.target.forAccount(account), _SOON)

    def linkEnding(self, route: Route) -> None:
        member = self.members.get(route.remoteId)
        if member is None:
            return
        wasLast = member.remove(route)
        if wasLast and self.gateways is not None:
            self.gateways.memberLeft(member.gatewayUrl)
        if not member:
            del self.members[member.serverId]
        if wasLast and any(member.addresses):
            # A route of one account alone, as the system account's, may end later.
            self.learn(member, None)
            self.changed()

    def linkGone(self, route: Route) -> None:
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
        isTold = not target.isConfigured and route.document is not None
        isBrief = isTold or target.isNeighbour
        self.dial(target, self._incompatible.pause(route, _SOON if isBrief else _REDIAL))

    def _isWanted(self, target: RouteTarget) -> bool:
        if target.account and not self.isDedicated(target.account):
            return False
        return not target.isConfigured or target.forAccount("") in self.terms.targets

    def use(self, terms: ClusterTerms) -> None:
        before, self.terms = self.terms, terms
        isOther = (before.poolSize, before.dedicated, before.hasTLS, before.dialect) != (
            terms.poolSize,
            terms.dedicated,
            terms.hasTLS,
            terms.dialect,
        )
        self._selves.clear()
        for route in self:
            if (isOther and not route.isNeighbour) or (
                route.target is not None and not self._isWanted(route.target)
            ):
                route.close(errors.ROUTE_REMOVED)
                continue
            if terms.login != before.login:
                route.checkLogin()
            if route.traffic is not None and not route.reason:
                route.traffic.permit(route.terms.permissions)
                route.update()
            route.useCompression(route.terms.compression)
        known = set(before.targets)
        for target in terms.targets:
            if target not in known:
                self.dial(target, 0.0)

    def accountMade(self, account: str) -> None:
        """Have members get its first message, which may be a request, if they want it already."""
        name = account.encode("utf-8", "surrogateescape")
        for member in self.members.values():
            for route in member:
                if route.traffic is not None:
                    route.traffic.interest.accountMade(name)

    def accountsChanged(self) -> None:
        for member in list(self.members.values()):
            for route in member:
                if route.traffic is not None:
                    route.traffic.accountsChanged()
                    route.traffic.tell(self.accountsOf(route, member))

    def leave(self) -> None:
        super().leave()
        for member in self.members.values():
            if member.first is not None:
                member.first.update()
