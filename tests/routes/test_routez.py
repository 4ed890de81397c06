"""Tests for L{natsbroker.routes.routez}; nats-server's page is compared elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from natsbroker.routes.route import Route
from tests.monitoring.staging import Stage
from tests.routes.clusters import Node, Wire, info


class View:
    """
    The routes of a member.
    """

    def __init__(self, *wires: Wire, **permissions: Any) -> None:
        self._wires = wires
        self._permissions = permissions

    def routes(self) -> Iterable[Route]:
        return [wire.route for wire in self._wires]

    def permissions(self) -> Mapping[str, Any]:
        return self._permissions


def showing(*wires: Wire, **permissions: Any) -> Stage:
    """
    The pages of a broker with these routes.
    """
    stage = Stage()
    stage.model.links["route"].cluster = View(*wires, **permissions)
    return stage


def test_pageWithoutRoutes() -> None:
    """Without a cluster there are no routes."""
    page = Stage().page("/routez")
    assert (page["server_id"], page["server_name"]) == ("ID", "name")
    assert (page["num_routes"], page["routes"]) == (0, [])


def test_route() -> None:
    """A route is shown with its peer and what has passed."""
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
    """What passes is shown where not everything does, of the page and of each route."""
    page = showing(Node().joined(), **{"import": {"allow": ["a"]}}).page("/routez")
    assert page["import"] == page["routes"][0]["import"] == {"allow": ["a"]}
    assert "export" not in page


def test_subscriptions() -> None:
    """Interest is listed if it is asked for, where there is any."""
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
    """A connection of one account names it, and its interest does not."""
    node = Node(poolSize=3, dedicated=("A",))
    wire = node.joined(route_pool_size=3, route_account="A")
    wire.send(b"RS+ foo\r\n")
    (row,) = showing(wire).page("/routez", subs="DETAIL")["routes"]
    assert row["account"] == "A"
    assert row["subscriptions_list_detail"][0]["sid"] == "R foo"


def test_configured() -> None:
    """A dialled route says whether the settings name its peer; a silent peer has no interest."""
    node = Node()
    named, told = node.dialling(), node.dialling(isConfigured=False)
    told.send(info(server_id="P2"))
    rows = showing(named, told).page("/routez", subs="1")["routes"]
    assert [row["did_solicit"] for row in rows] == [True, True]
    assert [row["is_configured"] for row in rows] == [True, False]
    assert (rows[0]["remote_id"], rows[0]["subscriptions"]) == ("", 0)


def test_many() -> None:
    """A row is bounded, and says so."""
    node = Node()
    wire = node.joined()
    wire.send(b"".join(b"RS+ A %b%d\r\n" % (b"x" * 1000, number) for number in range(400)))
    (row,) = showing(wire).page("/routez", subs="1")["routes"]
    assert row["truncated"] is True
    assert row["subscriptions"] == 400 > len(row["subscriptions_list"]) > 100


@pytest.mark.parametrize("value", ["maybe", "2", "details"])
def test_invalidParameters(value: str) -> None:
    """What makes no sense is refused."""
    assert "Error decoding boolean for 'subs'" in showing().refusal("/routez", subs=value)
