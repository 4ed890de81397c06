"""
The other members of a cluster, and the connections to each.

Each place in a pool has one connection at most; when both ends dial at once, both keep
the same connection wherever that can be known; nothing here says or closes anything.

Two members that dial each other at the same moment each have a connection of their own when the
other's arrives. nats-server closes whatever comes second, so both may go, and both dial again a
little later. Here is known more:

  - A peer with a pool names a place that was free at its end. If ours is taken, what we have there
    is gone, or is about to be closed over there; so the newcomer has it.
  - Two natsbrokers keep what the one with the lower id dialled.
  - A connection to an old server that has stood for some time stands on one end only: a peer that
    still had it would not have dialled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from natsbroker.subjects.functions import partitionOf
from natsbroker.wire.serverinfo import ServerDocument

if TYPE_CHECKING:
    from natsbroker.routes.route import Route

__all__ = ["IncompatiblePeers", "Member", "poolIndex", "prevails"]

#: How long two connections may be on their way at the same time, in seconds.
_RACE = 5.0

#: How long it takes at most until somebody is dialled again who speaks another dialect, in seconds.
_LONGEST = 60.0

#: What our INFO has and no other server's.
_OURS = "natsbroker"


def poolIndex(size: int, account: str) -> int:
    """
    Which connection of a pool an account's interest and messages take: its 32-bit FNV-1a hash.

    @param size: how many there are.
    """
    if size <= 1:
        return 0
    return partitionOf(account.encode("utf-8", "surrogateescape"), size)


def prevails(newcomer: Route, there: Route, ours: str, now: float) -> bool:
    """
    Whether a connection takes the place of one that is there.

    @param ours: our id.
    @param now: what time it is.
    """
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
    Another member.

    @ivar serverId: its id.
    @ivar name: its name.
    @ivar isPooled: whether it shares connections among accounts.
    @ivar pool: the connections by their place in the pool.
    @ivar dedicated: the connections that are dedicated to an account.
    @ivar size: how many connections the pool is to have.
    @ivar urls: where clients can connect to it.
    @ivar gatewayUrl: where gateways can; empty for nowhere.
    @ivar leafUrls: where leafnodes can.
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

    def placeFor(self, route: Route, index: int) -> int | None:
        """
        The place that a connection has in the pool; C{None} if there is none.

        @param index: the place that the peer named, if it dialled.
        """
        if not self.isPooled:
            return 0
        if not route.isDialled:
            return index
        free = (place for place in range(self.size) if place not in self.pool)
        return next(free, None)

    def leading(self, account: str, size: int) -> Route | None:
        """
        The connection that an account's messages take.

        @param size: how many connections of a pool we share accounts among.
        """
        place = poolIndex(size, account) if self.isPooled else 0
        return self.dedicated.get(account) or self.pool.get(place) or self.first

    def remove(self, route: Route) -> bool:
        """
        Forget a connection.

        @return: whether it was the last one of the pool.
        """
        if self.dedicated.get(route.account) is route:
            del self.dedicated[route.account]
        elif self.pool.get(route.poolIndex) is route:
            del self.pool[route.poolIndex]
            return not self.pool
        return False

    @property
    def first(self) -> Route | None:
        """
        Any connection of the pool.
        """
        return next(iter(self.pool.values()), None)

    def __iter__(self) -> Iterator[Route]:
        return iter([*self.pool.values(), *self.dedicated.values()])

    def __bool__(self) -> bool:
        return bool(self.pool or self.dedicated)


class IncompatiblePeers:
    """
    Those whom the settings name and who speak another dialect: they are dialled less and less
    often, until they speak ours.
    """

    def __init__(self) -> None:
        self._pauses: dict[tuple[str, int], float] = {}

    def pause(self, route: Route, usual: float) -> float:
        """
        How long to wait before somebody is dialled again, in seconds.

        @param route: the connection that was lost.
        @param usual: how long if there is nothing special about it.
        """
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
