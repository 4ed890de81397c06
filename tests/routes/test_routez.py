"""Tests for L{natsbroker.routes.routez}; nats-server's page is compared elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker.monitoring.answers import complete
from natsbroker.routes.service import RouteService
from tests.monitoring.staging import Stage
from tests.routes.brokers import Member
from tests.routes.clusters import Node, Wire, info


def showing(*wires: Wire, **permissions: Any) -> Stage:
    """
    The pages of a broker with these routes.
    """
    stage = Stage()
    page = stage.model.links["route"]
    page.routes = lambda: [wire.route for wire in wires]
    page.permissions = lambda: permissions
    return stage


def test_pageWithoutRoutes() -> None:
    """Without a cluster there are no routes."""
    page = Stage().page("/routez")
    assert (page["server_id"], page["server_name"]) == ("ID", "name")
    assert (page["num_routes"], page["routes"]) == (0, [])


def test_route() -> None:
    """A route is shown with its peer and its counted messages."""
    node = Node()
    wire = node.joined()
    wire.send(b"RS+ A foo\r\nRMSG A x 2\r\nhi\r\n")
    node.publish(b"foo", b"12345")
    page = showing(wire).page("/routez")
    (row,) = page["routes"]
    assert page["num_routes"] == 1
    assert (row["rid"], row["remote_id"], row["remote_name"]) == (1, "PEER", "peer")
    assert (row["ip"], row["port"], row["subscriptions"]) == ("127.0.0.9", 50000, 1)
    assert [row[key] for key in ("in_msgs", "in_bytes", "out_msgs", "out_bytes")] == [1, 2, 1, 5]
    assert row["compression"] == "not supported"
    assert not {"account", "import", "export", "subscriptions_list"} & set(row)


def test_permissions() -> None:
    """The permissions of the cluster and of each route are shown if they are restricted."""
    page = showing(Node().joined(), **{"import": {"allow": ["a"]}}).page("/routez")
    assert page["import"] == page["routes"][0]["import"] == {"allow": ["a"]}
    assert "export" not in page


def test_subscriptions() -> None:
    """The interest of a route is listed on request, or left out if there is none."""
    node = Node()
    wire, other = node.joined(server_id="P1"), node.joined(server_id="P2")
    wire.send(b"RS+ A foo\r\nRS+ A foo q 2\r\nLS+ LC A bar\r\n")
    stage = showing(wire, other)
    rows = stage.page("/routez", subs="1")["routes"]
    assert rows[0]["subscriptions_list"] == ["foo", "foo", "bar"]
    assert "subscriptions_list" not in rows[1]
    details = stage.page("/routez", subs="detail")["routes"][0]["subscriptions_list_detail"]
    assert details == [
        {"subject": "foo", "sid": "R A foo", "msgs": 0, "cid": 1},
        {"subject": "foo", "qgroup": "q", "sid": "R A foo q", "msgs": 0, "cid": 1},
        {"subject": "bar", "sid": "L A bar LC", "msgs": 0, "cid": 1},
    ]


def test_dedicated() -> None:
    """
    The route of a single account shows the account's name, and the ids of its interest do not.
    """
    node = Node(poolSize=3, dedicated=("A",))
    wire = node.joined(route_pool_size=3, route_account="A")
    wire.send(b"RS+ foo\r\n")
    (row,) = showing(wire).page("/routez", subs="DETAIL")["routes"]
    assert row["account"] == "A"
    assert row["subscriptions_list_detail"][0]["sid"] == "R foo"


def test_configured() -> None:
    """A dialled route shows whether its peer is configured."""
    node = Node()
    named, told = node.dialling(), node.dialling(isConfigured=False)
    told.send(info(server_id="P2"))
    rows = showing(named, told).page("/routez", subs="1")["routes"]
    assert [row["did_solicit"] for row in rows] == [True, True]
    assert [row["is_configured"] for row in rows] == [True, False]
    assert (rows[0]["remote_id"], rows[0]["subscriptions"]) == ("", 0)


def test_boundedRow() -> None:
    """The list of a route's interest is cut at a limit, and marked as truncated."""
    node = Node()
    wire = node.joined()
    wire.send(b"".join(b"RS+ A %b%d\r\n" % (b"x" * 1000, number) for number in range(400)))
    (row,) = showing(wire).page("/routez", subs="1")["routes"]
    assert row["truncated"] is True
    assert row["subscriptions"] == 400 > len(row["subscriptions_list"]) > 100


@pytest.mark.parametrize("value", ["maybe", "2", "details"])
def test_invalidParameters(value: str) -> None:
    """An invalid parameter is refused."""
    assert "Error decoding boolean for 'subs'" in showing().refusal("/routez", subs=value)


def varz(member: Member) -> dict[str, Any]:
    """
    The page of a broker.
    """
    page: dict[str, Any] = complete(member.broker.monitoring.varz.steps())
    return page


def test_cluster() -> None:
    """The block is shown with its values in force, without missing keys and passwords."""
    member = Member('routes: ["nats-route://u:secret@127.0.0.2:6222"]').start()
    shown = varz(member)["cluster"]
    assert shown["name"] == "C1"
    assert shown["cluster_port"] == member.membership.port
    assert shown["urls"] == ["127.0.0.2:6222"]
    assert (shown["auth_timeout"], shown["tls_timeout"], shown["pool_size"]) == (2, 2, -1)
    assert not {"tls_required", "tls_verify", "write_deadline"} & set(shown)
    assert "secret" not in str(shown)


def test_settings() -> None:
    """The settings are shown in nats-server's units."""
    shown = varz(Member("write_deadline: 3s, authorization { timeout: 1.5 }").start())["cluster"]
    assert (shown["write_deadline"], shown["auth_timeout"]) == (3_000_000_000, 1.5)


def test_counts() -> None:
    """Routes and members count while they are connected. Messages stay counted."""
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
    """Routes that were closed as stale are counted."""
    member = Member().start()
    member.peer()
    member.reactor.pump([1.0] * 200)
    page = varz(member)
    assert page["stale_connection_stats"] == {"clients": 0, "routes": 1, "gateways": 0, "leafs": 0}
    assert (page["stale_connections"], page["slow_consumers"]) == (1, 0)


def test_contributed() -> None:
    """The pages of a model show the cluster that was added to it."""
    membership: RouteService = Member("permissions { import: a }").start().membership
    stage = Stage()
    stage.model.links["route"].contribute(membership, stage.model)
    page = stage.page("/routez")
    assert page["import"] == {"allow": ["a"]}
    assert stage.page("/varz")["cluster"]["name"] == "C1"


def test_acceptedRoute() -> None:
    """A route has the values that its row on the page shows."""
    node = Node()
    node.clock.advance(5)
    wire = node.joined()
    node.clock.advance(2)
    wire.send(b"RS+ A foo\r\nLS+ LC A bar q 2\r\n")
    node.publish(b"foo", b"12345")
    route = wire.route
    assert (route.number, route.remoteId, route.remoteName) == (1, "PEER", "peer")
    assert (route.host, route.port, route.started, route.lastActivity) == ("127.0.0.9", 50000, 5, 7)
    assert (route.outbox.pending, route.counts, route.subscriptions) == (0, (0, 0, 1, 5), 2)
