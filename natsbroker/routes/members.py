"""
The members of a cluster, and the routes to each.

Each place in a pool has one route at most. When both ends dial at once, both keep the same route if
they can know which.

Two members that dial each other at the same moment each have a connection of their own when the
other's arrives. nats-server closes the second one, so both may be closed, and both members dial
again a little later. Natsbroker knows more:

  - A peer with a pool names a place that was free at its end. If this place is taken here, the
    route in it is gone, or the peer is about to close it. So the new route gets the place.
  - Two natsbrokers keep the route that the one with the lower id dialled.
  - An old connection to an old server exists at one end only: a peer that still had it would not
    have dialled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from natsbroker.accounts.registry import LinkBuses
from natsbroker.links.context import LinkContext
from natsbroker.links.gatewayreplies import GatewayReplyRouter
from natsbroker.links.identity import LinkIdentity
from natsbroker.links.registry import LinkRegistry
from natsbroker.routes.route import Route
from natsbroker.routes.terms import (
    HOST,
    ClusterTerms,
    RouteTarget,
    connectOptions,
    infoDocument,
)
from natsbroker.subjects.functions import partitionOf
from natsbroker.wire.serverinfo import GossipMode, LinkConnect, ServerDocument

#: The time, in seconds, in which two members may have dialled each other at once.
_RACE = 5.0

#: The key that only natsbroker's INFO has.
_OURS = "natsbroker"


def poolIndex(size: int, account: str) -> int:
    """The connection of a pool for an account: its 32-bit FNV-1a hash."""
    if size <= 1:
        return 0
    return partitionOf(account.encode("utf-8", "surrogateescape"), size)


def prevails(newcomer: Route, there: Route, ours: str, now: float) -> bool:
    document = newcomer.document
    if document is None:
        return False
    isRace = now - there.started < _RACE
    if _OURS in document.raw and isRace:
        lowerDialled = (ours < document.server_id) == newcomer.isDialled
        return newcomer.isDialled != there.isDialled and lowerDialled
    if newcomer.isDialled:
        return False
    return (newcomer.isPooled and not newcomer.account) or not isRace


class Member:
    """
    @ivar isPooled: whether it shares connections among accounts.
    @ivar size: how many connections the pool is to have.
    @ivar urls: the addresses for clients; those for leafnodes are C{leafUrls}.
    @ivar gatewayUrl: the address for gateways; empty for none.
    """

    def __init__(self, document: ServerDocument) -> None:
        self.serverId = document.server_id
        self.name = document.server_name
        self.isPooled = False
        self.pool: dict[int, Route] = {}
        self.dedicated: dict[str, Route] = {}
        self.size = 1
        self.urls: tuple[str, ...] = ()
        self.gatewayUrl = ""
        self.leafUrls: tuple[str, ...] = ()
        self.webSocketUrls: tuple[str, ...] = ()

    @property
    def addresses(self) -> tuple[tuple[str, ...], ...]:
        """The addresses of the member: for clients, for leafnodes, for clients over WebSocket."""
        return self.urls, self.leafUrls, self.webSocketUrls

    def useAddresses(self, document: ServerDocument | None) -> None:
        """Use the addresses in a member's INFO; C{None} if it cannot be reached any more."""
        if document is None:
            self.urls = self.leafUrls = self.webSocketUrls = ()
            return
        self.urls = document.connect_urls
        self.leafUrls = document.leafnode_urls
        self.webSocketUrls = document.ws_connect_urls

    def placeFor(self, route: Route, index: int) -> int | None:
        if not self.isPooled:
            return 0
        if not route.isDialled:
            return index
        free = (place for place in range(self.size) if place not in self.pool)
        return next(free, None)

    def routeFor(self, account: str, size: int) -> Route | None:
        place = poolIndex(size, account) if self.isPooled else 0
        return self.dedicated.get(account) or self.pool.get(place) or self.first

    def remove(self, route: Route) -> bool:
        if self.dedicated.get(route.account) is route:
            del self.dedicated[route.account]
        elif self.pool.get(route.poolIndex) is route:
            del self.pool[route.poolIndex]
            return not self.pool
        return False

    @property
    def first(self) -> Route | None:
        return next(iter(self.pool.values()), None)

    def __iter__(self) -> Iterator[Route]:
        return iter([*self.pool.values(), *self.dedicated.values()])

    def __bool__(self) -> bool:
        return bool(self.pool or self.dedicated)


class GatewayGossipListener(Protocol):
    """A gossip listener for the cluster: L{natsbroker.gateways.registry.GatewayGossip}."""

    def memberJoined(self, url: str, say: Callable[[bytes], None]) -> None: ...

    def memberLeft(self, url: str) -> None: ...

    def heard(self, document: ServerDocument, who: str) -> None: ...


class Membership(LinkRegistry[Route]):
    """
    @ivar members: the others, by their ids.
    @ivar hostId: the id of the server that neighbours are to others; empty without neighbours.
    @ivar leafPlace: the address for leafnodes that members announce; empty for none.
    @ivar changed: called when the addresses for clients, or the cluster's name, have changed.
    @ivar gateways: receives gossip about other clusters; C{None} without gateways.
    @ivar replyRouter: takes replies that members received from other clusters; C{None} without
        gateways.
    """

    def __init__(
        self,
        context: LinkContext,
        identity: LinkIdentity,
        buses: LinkBuses,
        terms: ClusterTerms,
        dial: Callable[[RouteTarget, float], None],
        changed: Callable[[], None],
    ) -> None:
        super().__init__(context)
        self.identity = identity
        self.buses = buses
        self.terms = terms
        self.members: dict[str, Member] = {}
        self.urls: tuple[str, ...] = ()
        self.webSocketUrls: tuple[str, ...] = ()
        self.hostId = ""
        self.leafPlace = ""
        self.changed = changed
        self.gateways: GatewayGossipListener | None = None
        self.replyRouter: GatewayReplyRouter | None = None
        self._dial = dial
        self._hasUrls = self._hasWebSocketUrls = False
        self._selves: set[tuple[str, int]] = set()
        self._learned: set[str] = set()

    def document(
        self,
        account: str,
        index: int,
        mode: GossipMode,
        compression: str = "",
        isNeighbour: bool = False,
    ) -> dict[str, Any]:
        terms = self.terms.amongNeighbours() if isNeighbour else self.terms
        tells = terms.advertises and not self.isLeaving
        leafPlace = "" if self.isLeaving or isNeighbour else self.leafPlace
        return infoDocument(
            self.identity,
            terms,
            connect_urls=list(self.urls if tells else ()),
            ws_connect_urls=list(self.webSocketUrls if tells else ()),
            compression=compression,
            leafnode_urls=[leafPlace] if leafPlace else [],
            ldm=self.isLeaving,
            route_pool_idx=index,
            route_account=account,
            gossip_mode=int(mode),
            **(self._hostKeys() if self.hostId else {}),
        )

    def _hostKeys(self) -> dict[str, Any]:
        """
        The part of INFO that members with neighbours have. Neighbours show it to other members,
        which learn from it how they are to dial this one.
        """
        return {
            HOST: self.hostId,
            "auth_required": bool(self.terms.login.user),
            "tls_required": self.terms.hasTLS,
            "tls_verify": self.terms.hasTLS,
        }

    def connectOptions(self, target: RouteTarget) -> dict[str, Any]:
        terms = self.terms.amongNeighbours() if target.isNeighbour else self.terms
        return connectOptions(self.identity, terms, target)

    def admits(self, given: LinkConnect, certificate: Any) -> bool | Deferred[bool]:
        login, checks = self.terms.login, self.context.checks
        return login.admits(checks, given.user, given.password, certificate)

    def placed(self) -> list[Route]:
        return [route for member in self.members.values() for route in member]

    def isDedicated(self, account: str) -> bool:
        known = account in self.terms.dedicated or account in self._learned
        return known and self.buses.busOf(account) is not None

    def accountsOf(self, route: Route, member: Member) -> list[str]:
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

    def learn(self, member: Member, document: ServerDocument | None) -> None:
        member.useAddresses(document)
        self._hasUrls = self._hasUrls or bool(member.urls)
        self._hasWebSocketUrls = self._hasWebSocketUrls or bool(member.webSocketUrls)

    def connectUrls(self) -> tuple[str, ...]:
        """
        The client addresses of the cluster, this broker's first; none before another member has
        sent its own, as with nats-server.
        """
        others = (member.urls for member in self.members.values())
        return self._advertised(self._hasUrls, self.urls, others)

    def webSocketConnectUrls(self) -> tuple[str, ...]:
        others = (member.webSocketUrls for member in self.members.values())
        return self._advertised(self._hasWebSocketUrls, self.webSocketUrls, others)

    def _advertised(
        self, isShared: bool, own: tuple[str, ...], others: Iterable[tuple[str, ...]]
    ) -> tuple[str, ...]:
        if not self.terms.advertises or not isShared:
            return ()
        advertised = dict.fromkeys(() if self.isLeaving else own)
        for urls in others:
            advertised.update(dict.fromkeys(urls))
        return tuple(advertised)

    def leafUrls(self) -> tuple[str, ...]:
        urls: dict[str, None] = {}
        for member in self.members.values():
            urls.update(dict.fromkeys(member.leafUrls))
        return tuple(urls)

    def dial(self, target: RouteTarget, after: float) -> None:
        """Dial a member, unless the address was found to be this broker's."""
        if not self.isOver and (target.host, target.port) not in self._selves:
            self._dial(target, after)
