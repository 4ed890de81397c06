"""
A route at one moment, as monitoring shows it.

Facts alone, none of them secret; what the peer is subscribed to is gone through only by
who asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from natsbroker.links.facts import LinkFacts, sharedFacts
from natsbroker.routes.route import Route
from natsbroker.wire.dialects.route import LinkInterest

__all__ = ["RouteFacts", "routeFacts"]


@dataclass(frozen=True, slots=True)
class RouteFacts(LinkFacts):
    """
    @ivar remoteId: the peer's id.
    @ivar remoteName: what the peer calls itself.
    @ivar isDialled: whether it was we who dialled.
    @ivar isConfigured: whether the settings name the peer.
    @ivar account: the account that it is dedicated to; empty for none.
    @ivar compression: at which level we send.
    """

    remoteId: str
    remoteName: str
    isDialled: bool
    isConfigured: bool
    account: str
    compression: str
    _route: Route

    @property
    def interest(self) -> Iterator[tuple[LinkInterest, int]]:
        """
        What the peer is subscribed to, and how many messages it has had for each.
        """
        traffic = self._route.traffic
        return iter(()) if traffic is None else traffic.interest.counted()


def routeFacts(route: Route) -> RouteFacts:
    """
    The facts of a route.
    """
    target, traffic = route.target, route.traffic
    return RouteFacts(
        *sharedFacts(route, 0 if traffic is None else len(traffic.interest)),
        route.remoteId,
        route.remote,
        route.isDialled,
        target is not None and target.isConfigured,
        route.account,
        route.compression.level,
        route,
    )
