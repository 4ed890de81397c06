"""
The page C{/routez}, with the parameters, refusals and keys of nats-server's page. A row is bounded,
however much a peer is subscribed to.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from natsbroker.clients.state import BrokerState
from natsbroker.config.addresses import joined
from natsbroker.config.tls import TLSSettings
from natsbroker.monitoring.answers import JSON, Answer, Listing, bodyOf
from natsbroker.monitoring.formats import instant, nanoseconds, number
from natsbroker.monitoring.queries import Query
from natsbroker.monitoring.rows import (
    Row,
    askedFor,
    durations,
    peerMembers,
    subscriptionMembers,
    subscriptionRow,
    trafficMembers,
)
from natsbroker.wire.text import decoded

if TYPE_CHECKING:
    from natsbroker.routes.route import Route
    from natsbroker.routes.service import RouteService
    from natsbroker.system.pages import ServerPages

#: The bytes that a subscription counts besides its text.
_EACH = 96


class Routez:
    def __init__(self, state: BrokerState) -> None:
        self.routes: Callable[[], Iterable[Route]] = tuple
        self.permissions: Callable[[], Mapping[str, Any]] = dict
        self._state = state

    def contribute(self, service: RouteService, monitoring: ServerPages) -> None:
        cluster = service.cluster
        self.routes = monitoring.statsz.routes = cluster.placed
        self.permissions = lambda: cluster.terms.shownPermissions
        monitoring.varz.statistics["routes"] = cluster
        monitoring.varz.contributions |= {
            "cluster": lambda: _varz(service),
            "routes": lambda: len(cluster.placed()),
            "remotes": lambda: len(cluster.members),
        }

    def __call__(self, query: Query) -> Answer:
        return Answer(200, JSON, bodyOf(self.steps(*askedFor(query))), isLong=True)

    def steps(self, isListed: bool, isDetailed: bool) -> Generator[bytes, None, Listing]:
        now, info = self._state.seconds(), self._state.context.info
        routes, permissions = list(self.routes()), dict(self.permissions())
        head: Row = {
            "server_id": info.server_id,
            "server_name": info.server_name,
            "now": instant(now),
        }
        head |= permissions
        head["num_routes"] = len(routes)
        yield b""
        rows = _rows(routes, permissions, now, isListed, isDetailed)
        return Listing(head, "routes", rows)


def _rows(
    routes: list[Route], permissions: Row, now: float, isListed: bool, isDetailed: bool
) -> Iterator[Row | None]:
    for route in routes:
        row: Row = {
            "rid": route.number,
            "remote_id": route.remoteId,
            "remote_name": route.remoteName,
            "did_solicit": route.isDialled,
            "is_configured": route.target is not None and route.target.isConfigured,
        }
        row |= peerMembers(route) | durations(route, now) | permissions
        row["pending_size"] = route.outbox.pending
        row |= trafficMembers(route.counts, route.subscriptions)
        if route.subscriptions and (isListed or isDetailed):
            sized = _interest(route, isDetailed)
            row |= yield from subscriptionMembers(sized, route.subscriptions, isDetailed)
        if route.account:
            row["account"] = route.account
        row["compression"] = route.compression.level
        yield row


def _interest(route: Route, isDetailed: bool) -> Iterator[tuple[int, str | Row]]:
    """A peer's interest with its counts; a dedicated route does not name its account."""
    for interest, delivered in () if route.traffic is None else route.traffic.interest.counted():
        size = 2 * len(interest.pattern) + len(interest.queue) + _EACH
        if not isDetailed:
            yield size, decoded(interest.pattern)
            continue
        names = [b"L" if interest.origin else b"R", b"" if route.account else interest.account]
        sid = [*names, interest.pattern, interest.queue, interest.origin.strip()]
        told = b" ".join(filter(None, sid))
        yield size, subscriptionRow(interest.pattern, interest.queue, told, delivered, route.number)


def _varz(service: RouteService) -> dict[str, Any]:
    block, cluster = service.block, service.cluster
    hasTLS = block.tls is not None
    told = {
        "name": cluster.terms.name,
        "addr": block.host,
        "cluster_port": service.port,
        "auth_timeout": number(cluster.context.settings.authorization.timeout),
        "urls": [joined(target.host, target.port) for target in cluster.terms.targets],
        "tls_timeout": number((block.tls or TLSSettings()).timeout),
        "tls_required": hasTLS,
        "tls_verify": hasTLS,
        "pool_size": block.pool_size,
        "write_deadline": nanoseconds(block.write_deadline),
        "tls_cert_not_after": service.expiry,
    }
    return {key: value for key, value in told.items() if value}
