"""
Tests for L{natsbroker.gateways.gatewayz}. Other tests compare the keys with nats-server's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from natsbroker.config.model import TLSSettings
from natsbroker.config.settings.gateways import Gateway
from natsbroker.gateways.gatewayz import GatewayPages, LinkPage
from natsbroker.monitoring.formats import uptime
from tests.gateways.gatewaypeers import Joined, remote
from tests.monitoring.staging import BEGIN, Stage

LINK: Any = SimpleNamespace(
    number=7,
    host="10.0.0.1",
    port=7222,
    started=0.0,
    lastActivity=0.0,
    roundTrip=0.001,
    outbox=SimpleNamespace(pending=1),
    counts=(2, 3, 4, 5),
)


@dataclass
class Link:
    """A connection made by the test."""

    isConfigured: bool = False
    switchAfter: int = 1000
    figures: dict[str, dict[str, Any]] = field(default_factory=dict)
    wanted: list[tuple[bytes, bytes]] = field(default_factory=list)
    peerId: str = "ID"
    link: Any = field(default_factory=lambda: LINK)

    def countInterest(self) -> int:
        return 6

    def accounts(self) -> Mapping[str, Mapping[str, Any]]:
        return self.figures

    def interests(self, account: str) -> Iterable[tuple[bytes, bytes]]:
        return self.wanted if account == "A" else ()


@dataclass
class Links:
    """The gateways made by the test."""

    out: list[tuple[str, Link]]
    into: list[tuple[str, Link]]
    name: str = "GA"
    host: str = "h"
    port: int = 1

    def outbound(self) -> Iterable[tuple[str, Link]]:
        return self.out

    def inbound(self) -> Iterable[tuple[str, Link]]:
        return self.into


def staged() -> Stage:
    """A broker that has dialled B and C, and that two members of B have dialled."""
    figures = {
        "A": {
            "mode": "optimistic",
            "no_interest": 3,
            "interest": 0,
            "queues": 2,
            "switches": 0,
            "switched": 0.0,
        },
        "B": {
            "mode": "interest-only",
            "no_interest": 0,
            "interest": 5,
            "queues": 1,
            "switches": 1,
            "switched": 1.5,
        },
    }
    stage = Stage()
    one = Link(True, figures=figures, wanted=[(b"foo.*", b""), (b"bar", b"q")])
    stage.model.links["gateway"].gateways = Links(
        [("B", one), ("C", Link())], [("B", Link(figures=figures)), ("B", Link())]
    )
    return stage


def test_noGateways() -> None:
    """The page of a broker without gateways is empty."""
    page = Stage().page("/gatewayz")
    assert (page["outbound_gateways"], page["inbound_gateways"]) == ({}, {})
    assert list(page) == ["server_id", "now", "outbound_gateways", "inbound_gateways"]


def test_connections() -> None:
    """Connections are shown by the name of their cluster, incoming ones in a list."""
    page = staged().page("/gatewayz")
    assert (page["name"], page["host"], page["port"]) == ("GA", "h", 1)
    assert [(name, row["configured"]) for name, row in page["outbound_gateways"].items()] == [
        ("B", True),
        ("C", False),
    ]
    assert [len(rows) for rows in page["inbound_gateways"].values()] == [2]
    row = page["outbound_gateways"]["B"]
    assert row["connection"]["cid"] == 7 and "accounts" not in row


def test_connection() -> None:
    """A connection is shown in nats-server's order and units."""
    stage = Stage()
    stage.model.links["gateway"].gateways = Links([("B", Link()), ("C", Link(peerId=""))], [])
    rows = stage.page("/gatewayz")["outbound_gateways"]
    row = rows["B"]["connection"]
    age = uptime(BEGIN)
    assert list(row.items()) == [
        ("cid", 7),
        ("kind", "Gateway"),
        ("ip", "10.0.0.1"),
        ("port", 7222),
        ("start", "1970-01-01T00:00:00Z"),
        ("last_activity", "1970-01-01T00:00:00Z"),
        ("rtt", "1ms"),
        ("uptime", age),
        ("idle", age),
        ("pending_bytes", 1),
        ("in_msgs", 2),
        ("out_msgs", 4),
        ("in_bytes", 3),
        ("out_bytes", 5),
        ("subscriptions", 6),
        ("name", "ID"),
    ]
    assert "name" not in rows["C"]["connection"]


def test_accounts() -> None:
    """The mode of each account is shown in nats-server's words, with additional members of ours."""
    row = staged().page("/gatewayz", accs="1")["outbound_gateways"]["B"]
    assert row["accounts"] == [
        {
            "name": "A",
            "interest_mode": "Optimistic",
            "no_interest_count": 3,
            "interest_only_threshold": 1000,
            "num_subs": 2,
            "num_queue_subs": 2,
        },
        {
            "name": "B",
            "interest_mode": "Interest-Only",
            "interest_only_threshold": 1000,
            "num_subs": 6,
            "num_queue_subs": 1,
            "switches": 1,
            "last_switch": "1970-01-01T00:00:01.5Z",
        },
    ]


def test_oneAccount() -> None:
    """A named account is shown alone, also if accounts were not requested."""
    page = staged().page("/gatewayz", acc_name="B")
    assert [account["name"] for account in page["outbound_gateways"]["B"]["accounts"]] == ["B"]
    assert "accounts" not in page["outbound_gateways"]["C"]


def test_subscriptions() -> None:
    """The known interest is shown on request."""
    row = staged().page("/gatewayz", acc_name="A", subs="1")["outbound_gateways"]["B"]
    assert row["accounts"][0]["subscriptions_list"] == ["foo.*", "bar"]
    row = staged().page("/gatewayz", acc_name="A", subs="detail")["outbound_gateways"]["B"]
    detail = row["accounts"][0]["subscriptions_list_detail"]
    assert [(entry["subject"], entry.get("qgroup")) for entry in detail] == [
        ("foo.*", None),
        ("bar", "q"),
    ]


def test_oneGateway() -> None:
    """A named cluster is shown alone, and an unknown one is null, as with nats-server."""
    page = staged().page("/gatewayz", gw_name="C")
    assert list(page["outbound_gateways"]) == ["C"] and page["inbound_gateways"] == {}
    page = staged().page("/gatewayz", gw_name="X")
    assert page["outbound_gateways"] is None and page["inbound_gateways"] == {}


@pytest.mark.parametrize("name", ["accs", "subs"])
def test_invalidFlagIsRefused(name: str) -> None:
    """An invalid boolean is refused with nats-server's error."""
    text = Stage().refusal("/gatewayz", **{name: "x"})
    wanted = f"Error decoding boolean for '{name}': strconv.ParseBool: parsing \"x\": "
    assert text == wanted + "invalid syntax"


def test_link() -> None:
    """A dialled connection shows the interest of the other cluster."""
    node = Joined("A", 1, [remote("B", 7777)])
    page = LinkPage(node.reached("B").link, 7)
    assert page.isConfigured and page.switchAfter == 7
    assert page.countInterest() == 3 and page.peerId == "PEER"
    assert list(page.interests("A")) == [(b"foo", b"")] and "A" in page.accounts()


def test_otherLink() -> None:
    """An accepted connection, or one before its handshake, shows no interest."""
    node = Joined()
    page = LinkPage(node.arrived().link, 7)
    assert not page.isConfigured and page.countInterest() == 0
    assert list(page.interests("A")) == [] and "A" in page.accounts()
    page = LinkPage(node.dialling("C").link, 7)
    assert page.accounts() == {} and list(page.interests("A")) == [] and page.peerId == ""


def test_pages() -> None:
    """All connections are listed by the names of their clusters."""
    node = Joined("A", 1)
    node.reached("B"), node.arrived(gateway="C", server_name="c")
    pages = GatewayPages(node.gateways, 7)
    assert (pages.name, pages.host, pages.port) == ("A", "127.0.0.1", 1)
    assert [name for name, _ in pages.outbound()] == ["B"]
    assert [name for name, _ in pages.inbound()] == ["C"]


def test_varz() -> None:
    """C{/varz} has the gateway settings, with the known addresses of other clusters."""
    node = Joined(
        "A",
        5,
        [remote("A", 1), remote("B", 6)],
        block=Gateway(
            name="A",
            host="127.0.0.1",
            port=-1,
            user="u",
            password="canary",
            tls=TLSSettings(timeout=3.0),
            reject_unknown_cluster=True,
        ),
    )
    node.gateways.learned("B", ["127.0.0.1:7"])
    pages = GatewayPages(node.gateways, 7)
    assert pages.varz() == {
        "name": "A",
        "host": "127.0.0.1",
        "port": 5,
        "auth_timeout": 4,
        "tls_timeout": 3,
        "tls_required": True,
        "tls_verify": True,
        "gateways": [
            {"name": "A", "urls": ["127.0.0.1:5"]},
            {"name": "B", "urls": ["127.0.0.1:7", "127.0.0.1:6"]},
        ],
        "reject_unknown": True,
    }


def test_onThePages() -> None:
    """The monitoring pages show the policy and the modes of connections."""
    node = Joined()
    stage = Stage()
    service = SimpleNamespace(
        gateways=node.gateways,
        switchAfter=7,
        advice=SimpleNamespace(rowFor=None),
        clusterName="A",
    )
    stage.model.links["gateway"].contribute(service, stage.model)
    node.gateways.ended["Stale Connection"] += 2
    assert stage.page("/gatewayz")["name"] == "A"
    page = stage.page("/varz")
    assert page["cluster"]["name"] == "A"
    assert page["gateway"]["tls_timeout"] == 2
    assert page["stale_connection_stats"]["gateways"] == 2
