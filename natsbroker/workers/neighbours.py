"""The other workers, to which one worker has routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from natsbroker.broker import Broker

GLANCE = 0.02
"""The seconds from one look at whether others have answered to the next."""


def neighboursOf(broker: Broker) -> list[Any]:
    """The routes to other workers."""
    membership = broker.membership
    routes = () if membership is None else membership.cluster
    return [route for route in routes if route.isNeighbour and route.traffic]


class Echo:
    """A PING to other workers, which answer when they have seen to all that was sent before."""

    def __init__(self, routes: Sequence[Any]) -> None:
        self._asked = [(route, route.pongs) for route in routes]
        for route in routes:
            route.ping()

    @property
    def isAwaited(self) -> bool:
        """Whether a worker that is still there has not answered."""
        return any(not route.reason and route.pongs == before for route, before in self._asked)
