"""The route pool: the place of each route to a member, among the shared ones or for one account."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from natsbroker import errors
from natsbroker.routes.gossip import ClusterGossip
from natsbroker.routes.members import Member, Membership, prevails
from natsbroker.routes.route import Route
from natsbroker.routes.terms import RouteTarget
from natsbroker.wire.serverinfo import ServerDocument


@dataclass(eq=False)
class RoutePool:
    """
    @ivar dial: dials a target after some seconds, unless a dial is under way. An address at which
        this broker reached itself is dialled too, since it may later belong to another broker.
    """

    cluster: Membership
    gossip: ClusterGossip
    dial: Callable[[RouteTarget, float], None]

    def place(self, route: Route, document: ServerDocument) -> None:
        cluster = self.cluster
        size = cluster.terms.poolSize
        route.isPooled = document.route_pool_size > 0 and size > 0
        largest = max(size, document.route_pool_size)
        index = document.route_pool_idx
        if not route.isPooled and route.account:
            route.mayRedial = False
            route.close(errors.NO_DEDICATED_ROUTE, route.account)
        elif route.isPooled and route.isDialled and index:
            route.close(errors.SET_POOL_INDEX, str(index))
        elif route.isPooled and not 0 <= index < largest:
            route.close(errors.WRONG_POOL_INDEX, str(index), str(document.route_pool_size))
        elif route.account and not cluster.isDedicated(route.account):
            isKnown = cluster.buses.busOf(route.account) is not None
            error = errors.UNKNOWN_ROUTE_ACCOUNT if isKnown else errors.MISSING_ROUTE_ACCOUNT
            route.close(error, route.account)
        else:
            member = cluster.members.get(document.server_id)
            if member is None:
                member = cluster.members[document.server_id] = Member(document)
            if route.account:
                self._placeDedicated(route, member)
            else:
                self._placePooled(route, member, document, largest if route.isPooled else 1)

    def _placeDedicated(self, route: Route, member: Member) -> None:
        current = member.dedicated.get(route.account)
        if not self._prevails(route, current):
            return
        member.dedicated[route.account] = route
        self._closeDuplicate(current, route)
        route.begin([route.account])
        self.gossip.tell(route, member)

    def _placePooled(
        self, route: Route, member: Member, document: ServerDocument, size: int
    ) -> None:
        member.isPooled, member.size = route.isPooled, max(size, member.size)
        index = member.placeFor(route, document.route_pool_idx)
        if index is None:
            self._closeDuplicate(route, member.first)
            return
        current, isFirst = member.pool.get(index), not member.pool
        if not self._prevails(route, current):
            return
        route.poolIndex = index
        member.pool[index] = route
        self._closeDuplicate(current, route)
        route.begin(self.cluster.accountsOf(route, member))
        if isFirst:
            self.cluster.learn(member, document)
            self.gossip.tell(route, member)
            self.gossip.tellGateways(member, document)
            self.cluster.changed()
        if route.isDialled and route.isPooled:
            route.wantsMore = True
            route.ping()

    def _prevails(self, newcomer: Route, current: Route | None) -> bool:
        now = self.cluster.context.reactor.seconds()
        if current is None or prevails(newcomer, current, self.cluster.identity.server_id, now):
            return True
        self._closeDuplicate(newcomer, current)
        return False

    def _closeDuplicate(self, duplicate: Route | None, kept: Route | None) -> None:
        """
        Close a second route. The kept one takes over its target, in order to dial it after a loss.
        """
        if duplicate is None:
            return
        target = duplicate.target
        if target is not None and kept is not None:
            if kept.target is None or target.isConfigured:
                kept.target = target
        duplicate.mayRedial = False
        duplicate.close(errors.DUPLICATE_ROUTE)

    def extend(self, route: Route) -> None:
        cluster = self.cluster
        member, target = cluster.members.get(route.remoteId), route.target
        if member is None or target is None:
            return
        if len(member.pool) < member.size:
            self.dial(target, 0.0)
        for account in cluster.terms.dedicated:
            if account not in member.dedicated and cluster.isDedicated(account):
                self.dial(target.forAccount(account), 0.0)
