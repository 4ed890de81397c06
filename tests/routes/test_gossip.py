"""
Gossip about members.
"""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker.routes.gossip import isConfigured, isNews, modeFor, reachable, targetFrom
from natsbroker.routes.terms import RouteTarget
from natsbroker.wire.serverinfo import GossipMode, ServerDocument
from tests.routes.clusters import Node, Wire, connect, info, target


@pytest.mark.parametrize(
    "isDialled, isConfiguredRoute, gossip, said, news",
    [
        (False, False, GossipMode.DEFAULT, 0, True),
        (False, False, GossipMode.DEFAULT, 1, False),
        (False, False, GossipMode.DEFAULT, 2, True),
        (True, True, GossipMode.DEFAULT, 0, True),
        (True, False, GossipMode.DEFAULT, 0, False),
        (True, False, GossipMode.DISABLED, 0, False),
        (True, False, GossipMode.OVERRIDE, 0, True),
        (True, False, GossipMode.OVERRIDE, 1, False),
    ],
)
def test_isNews(
    isDialled: bool, isConfiguredRoute: bool, gossip: GossipMode, said: int, news: bool
) -> None:
    """
    An address is news for other members depending on the gossip mode. A hidden address never is.
    """
    node = Node()
    wire = (
        node.dialling(isConfigured=isConfiguredRoute, gossip=gossip)
        if isDialled
        else node.accepted()
    )
    assert isNews(wire.route, ServerDocument(gossip_mode=said)) is news


def test_modeFor() -> None:
    """
    The gossip mode about a new member depends on which ends of the routes were dialled, and why.
    """
    node = Node()
    accepted, other = node.accepted().route, node.accepted().route
    configured, discovered = node.dialling().route, node.dialling(isConfigured=False).route
    assert modeFor(accepted, other) is GossipMode.DISABLED
    assert modeFor(accepted, configured) is GossipMode.OVERRIDE
    assert modeFor(accepted, discovered) is GossipMode.DISABLED
    assert modeFor(configured, other) is GossipMode.OVERRIDE
    assert modeFor(discovered, other) is GossipMode.DEFAULT
    assert modeFor(discovered, configured) is GossipMode.DEFAULT


@pytest.mark.parametrize(
    "document, host, ip",
    [
        (ServerDocument(port=7), "10.0.0.1", "nats-route://10.0.0.1:7/"),
        (ServerDocument(port=7), "::1", "nats-route://[::1]:7/"),
        (ServerDocument(port=7, ip="nats-route://a:1/"), "10.0.0.1", "nats-route://a:1/"),
        (ServerDocument(port=7), "", ""),
    ],
)
def test_reachable(document: ServerDocument, host: str, ip: str) -> None:
    """The address of a member is that of its connection, unless its INFO has another one."""
    assert reachable(document, host).ip == ip


def test_targetFrom() -> None:
    """The target that follows from an announcement."""
    document = ServerDocument(ip="nats-route://h:1/", gossip_mode=2, route_account="A")
    assert targetFrom(document, "u", "p", "n") == RouteTarget(
        "h", 1, "", "", False, "A", GossipMode.OVERRIDE, "n"
    )
    asking = ServerDocument(ip="nats-route://[::1]:1/", auth_required=True, gossip_mode=9)
    assert targetFrom(asking, "u", "p", "") == RouteTarget("::1", 1, "u", "p", False)


@pytest.mark.parametrize("ip", ["", "x", "nats-route://h", "nats-route://h:x/", "//:1"])
def test_newsWithoutAddress(ip: str) -> None:
    """News of a member without an address is invalid."""
    with pytest.raises(ValueError):
        targetFrom(ServerDocument(ip=ip), "", "", "")


def test_isConfigured() -> None:
    """A member is recognised by either of its addresses."""
    targets = [target(1), RouteTarget("Seed.Example", 2)]
    assert isConfigured(ServerDocument(host="127.0.0.1", port=1), targets)
    assert isConfigured(ServerDocument(host="0.0.0.0", port=1, ip="x://127.0.0.1:1/"), targets)
    assert isConfigured(ServerDocument(host="seed.EXAMPLE", port=2), targets)
    assert not isConfigured(ServerDocument(host="127.0.0.1", port=2), targets)
    assert not isConfigured(ServerDocument(host="127.0.0.1", port=1), [])


class TestGossip:
    """News of members."""

    def told(self, wire: Wire) -> list[tuple[str, str, int]]:
        """The announcements that a peer received."""
        return [
            (document["server_id"], document["ip"], document.get("gossip_mode", 0))
            for document in wire.documents()
        ]

    def test_toldOf(self) -> None:
        """A new member is announced to the others with its address."""
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
        """Over configured routes, gossip is passed on."""
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

    def test_announcedOnce(self) -> None:
        """A member that was discovered, or whose mode is C{disabled}, is not announced."""
        node = Node()
        one = node.joined()
        one.take()
        two = node.dialling(isConfigured=False)
        two.send(info(server_id="P2", server_name="p2"))
        node.joined(server_id="P3", server_name="p3", gossip_mode=1)
        assert one.documents() == []

    def test_dials(self) -> None:
        """An announced member is dialled."""
        node = Node(user="u", password="p")
        wire = node.accepted()
        wire.send(connect(user="u", **{"pass": "p"}) + info())
        news = info(
            server_id="P2", ip="nats-route://10.0.0.2:8888/", auth_required=True, gossip_mode=2
        )
        wire.send(news)
        ((goal, after),) = node.dialled
        assert (goal.host, goal.port, goal.user, goal.password) == ("10.0.0.2", 8888, "u", "p")
        assert (goal.isConfigured, goal.gossip, after) == (False, GossipMode.OVERRIDE, 0.0)

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
        """This broker, known members, configured members, and malformed addresses are ignored."""
        node = Node(targets=(target(7777),))
        node.joined(server_id="P3", server_name="p3")
        wire = node.joined()
        wire.send(info(**news))
        assert node.dialled == [] and not wire.closed

    def test_advertised(self) -> None:
        """An address in a member's INFO is used."""
        node = Node()
        one = node.joined()
        one.take()
        node.joined(server_id="P2", server_name="p2", ip="nats-route://public:1/")
        assert self.told(one)[0][1] == "nats-route://public:1/"

    def test_certifiedName(self) -> None:
        """
        A member that is discovered by its address is expected to have a certificate for a
        configured name.
        """
        known = target(7777)
        node = Node(targets=(known, target(7778).__class__("seed.example", 1)))
        node.joined().send(info(server_id="P2", port=1, ip="nats-route://10.0.0.2:8888/"))
        assert node.dialled[0][0].name == "seed.example"


class TestThemselves:
    """Later INFOs that a member sends about itself."""

    def test_urls(self) -> None:
        """A member's addresses for clients follow its INFO, until it is in lame duck mode."""
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
        """Announcements of gateways are logged and ignored."""
        node = Node()
        wire = node.joined()
        wire.send(info(server_id="X", gateway="G", ip="nats-route://10.0.0.1:1/"))
        assert node.dialled == [] and not wire.closed
