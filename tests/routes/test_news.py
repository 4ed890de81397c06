"""
What members say of themselves and of each other.
"""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker.wire.serverinfo import GossipMode
from tests.routes.clusters import Node, Wire, connect, info, target


class TestGossip:
    """News of members."""

    def told(self, wire: Wire) -> list[tuple[str, str, int]]:
        """Of whom somebody is told."""
        return [
            (each["server_id"], each["ip"], each.get("gossip_mode", 0)) for each in wire.documents()
        ]

    def test_toldOf(self) -> None:
        """Of a new member the others are told, with where it is."""
        node = Node()
        one = node.joined()
        one.take()
        two = node.joined(server_id="P2", server_name="p2", port=8888, nonce="n", ln=True)
        (said,) = one.documents()
        assert said["ip"] == "nats-route://127.0.0.9:8888/" and said["server_id"] == "P2"
        assert "nonce" not in said and said["ln"] is True
        assert said["gossip_mode"] == GossipMode.DISABLED
        assert two.documents() == []

    def test_modes(self) -> None:
        """Over routes that the settings name, the news goes on."""
        node = Node(targets=(target(7777),))
        dialled = node.dialling()
        dialled.send(info())
        dialled.take()
        accepted = node.joined(server_id="P2", server_name="p2", port=8888)
        assert self.told(dialled) == [("P2", "nats-route://127.0.0.9:8888/", GossipMode.OVERRIDE)]
        accepted.take()
        third = node.dialling(isConfigured=False, port=9999, gossip=GossipMode.OVERRIDE)
        third.send(info(server_id="P3", server_name="p3", port=9999))
        assert self.told(accepted) == [("P3", "nats-route://127.0.0.9:9999/", GossipMode.DEFAULT)]

    def test_ends(self) -> None:
        """Who was told tells nobody; nor does who is told not to."""
        node = Node()
        one = node.joined()
        one.take()
        two = node.dialling(isConfigured=False)
        two.send(info(server_id="P2", server_name="p2"))
        node.joined(server_id="P3", server_name="p3", gossip_mode=1)
        assert one.documents() == []

    def test_dials(self) -> None:
        """Who is told of somebody dials."""
        node = Node(user="u", password="p")
        wire = node.accepted()
        wire.send(connect(user="u", **{"pass": "p"}) + info())
        news = info(
            server_id="P2", ip="nats-route://10.0.0.2:8888/", auth_required=True, gossip_mode=2
        )
        wire.send(news)
        ((whom, after),) = node.dialled
        assert (whom.host, whom.port, whom.user, whom.password) == ("10.0.0.2", 8888, "u", "p")
        assert (whom.isConfigured, whom.gossip, after) == (False, GossipMode.OVERRIDE, 0.0)

    @pytest.mark.parametrize(
        "news",
        [
            {"server_id": "ID-n1", "ip": "nats-route://10.0.0.2:1/"},
            {"server_id": "P2", "ip": "nats-route://10.0.0.2:7777/"},
            {"server_id": "P3", "ip": "nats-route://10.0.0.9:8888/"},
            {"server_id": "P4", "ip": "nonsense"},
            {"server_id": "P4", "ip": "nats-route://h:99999/"},
            {"server_id": "P5", "ip": "nats-route://10.0.0.9:1/", "route_account": "A"},
            {"server_id": "P6", "client_id": 3},
        ],
    )
    def test_ignored(self, news: dict[str, Any]) -> None:
        """Not ourselves, whom we know, whom the settings name, nor what is no address."""
        node = Node(targets=(target(7777),))
        node.joined(server_id="P3", server_name="p3")
        wire = node.joined()
        wire.send(info(**news))
        assert node.dialled == [] and not wire.closed

    def test_advertised(self) -> None:
        """A member that says where it is found is believed."""
        node = Node()
        one = node.joined()
        one.take()
        node.joined(server_id="P2", server_name="p2", ip="nats-route://public:1/")
        assert self.told(one)[0][1] == "nats-route://public:1/"

    def test_certifiedName(self) -> None:
        """Who is dialled by its address shows a certificate for the name that the settings know."""
        known = target(7777)
        node = Node(targets=(known, target(7778).__class__("seed.example", 1)))
        node.joined().send(info(server_id="P2", port=1, ip="nats-route://10.0.0.2:8888/"))
        assert node.dialled[0][0].name == "seed.example"


class TestThemselves:
    """What a member says of itself while it is one."""

    def test_urls(self) -> None:
        """Where its clients connect, until it is a lame duck."""
        node = Node()
        wire = node.joined(connect_urls=["h:1"])
        assert node.cluster.connectUrls() == ("127.0.0.1:4222", "h:1")
        wire.send(info(connect_urls=["h:2"]))
        assert node.cluster.connectUrls() == ("127.0.0.1:4222", "h:2")
        before = node.changes
        wire.send(info(connect_urls=["h:2"]))
        assert node.changes == before
        wire.send(info(ldm=True))
        assert node.cluster.connectUrls() == ("127.0.0.1:4222",)

    def test_gateways(self) -> None:
        """What it says of gateways concerns nobody here."""
        node = Node()
        wire = node.joined()
        wire.send(info(server_id="X", gateway="G", ip="nats-route://10.0.0.1:1/"))
        assert node.dialled == [] and not wire.closed
