"""
The monitoring pages of routes in a whole broker.
"""

from __future__ import annotations

from typing import Any

from natsbroker.monitoring.answers import complete
from natsbroker.routes.pages import ClusterPages
from natsbroker.routes.service import RouteService
from tests.monitoring.staging import Stage
from tests.routes.brokers import Member
from tests.routes.clusters import Node


def varz(member: Member) -> dict[str, Any]:
    """
    The page of a broker.
    """
    found: dict[str, Any] = complete(member.broker.monitoring.varz.steps())
    return found


def test_cluster() -> None:
    """The block is shown as it is in force, without what is not there, and without passwords."""
    member = Member('routes: ["nats-route://u:secret@127.0.0.2:6222"]').start()
    shown = varz(member)["cluster"]
    assert shown["name"] == "C1"
    assert shown["cluster_port"] == member.membership.port
    assert shown["urls"] == ["127.0.0.2:6222"]
    assert (shown["auth_timeout"], shown["tls_timeout"], shown["pool_size"]) == (2, 2, -1)
    assert not {"tls_required", "tls_verify", "write_deadline"} & set(shown)
    assert "secret" not in str(shown)


def test_settings() -> None:
    """What the settings say is shown in nats-server's units."""
    shown = varz(Member("write_deadline: 3s, authorization { timeout: 1.5 }").start())["cluster"]
    assert (shown["write_deadline"], shown["auth_timeout"]) == (3_000_000_000, 1.5)


def test_counts() -> None:
    """Routes and members are counted while they are there; what has passed, for ever."""
    member = Member().start()
    peer = member.peer()
    peer.send(b"RMSG A foo 2\r\nhi\r\n")
    page = varz(member)
    assert (page["routes"], page["remotes"]) == (1, 1)
    assert (page["in_msgs"], page["in_bytes"], page["in_client_msgs"]) == (1, 2, 0)
    peer.hangUp()
    member.reactor.advance(0)
    page = varz(member)
    assert (page["routes"], page["remotes"], page["in_msgs"]) == (0, 0, 1)


def test_slow() -> None:
    """Routes that were given up stand beside clients that were."""
    member = Member().start()
    member.peer()
    member.reactor.pump([1.0] * 200)
    page = varz(member)
    assert page["stale_connection_stats"] == {"clients": 0, "routes": 1, "gateways": 0, "leafs": 0}
    assert (page["stale_connections"], page["slow_consumers"]) == (1, 0)


def test_contributed() -> None:
    """The pages of any model show it."""
    membership: RouteService = Member("permissions { import: a }").start().membership
    stage = Stage()
    ClusterPages(membership).contribute(stage.model)
    page = stage.page("/routez")
    assert page["import"] == {"allow": ["a"]}
    assert stage.page("/varz")["cluster"]["name"] == "C1"


def test_acceptedRoute() -> None:
    """A route that a member dialled, as its row needs it."""
    node = Node()
    node.clock.advance(5)
    wire = node.joined()
    node.clock.advance(2)
    wire.send(b"RS+ A foo\r\nLS+ LC A bar q 2\r\n")
    node.publish(b"foo", b"12345")
    route = wire.route
    assert (route.number, route.remoteId, route.remote) == (1, "PEER", "peer")
    assert (route.host, route.port, route.started, route.lastActivity) == ("127.0.0.9", 50000, 5, 7)
    assert (route.outbox.pending, route.counts, route.subscriptions) == (0, (0, 0, 1, 5), 2)
