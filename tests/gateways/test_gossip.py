"""
Gossip about clusters and their addresses.
"""

from __future__ import annotations

import json

from natsbroker.wire.serverinfo import parseDocument
from tests.gateways.gatewaypeers import Joined, info, remote
from tests.routes.clusters import everything


def test_toInbound() -> None:
    """A cluster that dials us gets all other clusters that we know."""
    node = Joined("A", 1, [remote("C", 3, 4)])
    told = node.arrived().documents()[1:]
    assert told == [
        {
            "server_id": "ID-A-1",
            "server_name": "",
            "version": "",
            "proto": 0,
            "go": "",
            "host": "",
            "port": 0,
            "headers": False,
            "max_payload": 0,
            "gateway": "C",
            "gateway_urls": ["127.0.0.1:3", "127.0.0.1:4"],
            "gateway_cmd": 1,
        }
    ]


def test_toMembers() -> None:
    """Members of our cluster get every cluster that we have reached."""
    node = Joined("A", 1)
    wire = node.reached("B")
    (told,) = node.members.told
    assert (told["server_id"], told["server_name"]) == ("GWID-A-1", "A-1")
    assert (told["gateway"], told["gateway_cmd"]) == ("B", 1)
    assert told["gateway_urls"] == ["127.0.0.1:7777"]
    wire.send(info(gateway_urls=["127.0.0.1:8"]))
    assert node.members.told[1]["gateway_urls"] == ["127.0.0.1:8"]


def test_fromMembers() -> None:
    """A cluster that a member announces is dialled, and a known cluster gets more addresses."""
    node = Joined("A", 1)
    for port in (5, 6):
        text = b'{"gateway":"C","gateway_cmd":1,"gateway_urls":["127.0.0.1:%d"]}' % port
        node.gateways.gossip.heard(parseDocument(text), "PEER")
    assert node.dialled == [("C", 0.0)]
    assert node.gateways.remotes["C"].addresses == ["127.0.0.1:5", "127.0.0.1:6"]


def test_strangeNews() -> None:
    """An unknown gossip command of a member is logged."""
    node = Joined("A", 1)
    with everything() as said:
        node.gateways.gossip.heard(parseDocument(b'{"gateway":"C","gateway_cmd":9}'), "PEER")
    assert any("Unknown command 9 from server PEER" in line for line in said)


def test_newNeighbour() -> None:
    """A new member gets the clusters that we have reached, and other clusters get its address."""
    node = Joined("A", 1, [remote("C", 3)])
    wire = node.arrived()
    node.reached("B", server_name="other")
    wire.take()
    said: list[bytes] = []
    node.gateways.gossip.memberJoined("127.0.0.1:9", said.append)
    assert [json.loads(line[5:])["gateway"] for line in said] == ["B"]
    (told,) = wire.documents()
    assert told["gateway_urls"] == ["127.0.0.1:1", "127.0.0.1:9"]
    assert told["gateway"] == "A" and told["gateway_url"] == "127.0.0.1:1"
    node.gateways.gossip.memberLeft("127.0.0.1:9")
    (told,) = wire.documents()
    assert told["gateway_urls"] == ["127.0.0.1:1"]


def test_samePlace() -> None:
    """An address that two members share is known until both have left."""
    node = Joined("A", 1)
    for _ in range(2):
        node.gateways.gossip.memberJoined("balancer:1", lambda line: None)
    assert node.gateways.gossip.urls() == ["127.0.0.1:1", "balancer:1"]
    node.gateways.gossip.memberLeft("balancer:1")
    assert node.gateways.gossip.urls() == ["127.0.0.1:1", "balancer:1"]
    node.gateways.gossip.memberLeft("balancer:1")
    node.gateways.gossip.memberLeft("nobody:1")
    assert node.gateways.gossip.urls() == ["127.0.0.1:1"]


def test_memberWithoutGateway() -> None:
    """A member without a gateway adds no address."""
    node = Joined("A", 1)
    node.gateways.gossip.memberJoined("", lambda line: None)
    assert node.gateways.gossip.urls() == ["127.0.0.1:1"]


def test_leaving() -> None:
    """A broker that leaves announces the addresses of other members to other clusters."""
    node = Joined("A", 1)
    node.gateways.gossip.memberJoined("127.0.0.1:9", lambda line: None)
    wire = node.arrived()
    wire.take()
    node.gateways.leave()
    assert wire.documents()[0]["gateway_urls"] == ["127.0.0.1:9"]
    node.gateways.gossip.memberLeft("127.0.0.1:9")
    assert wire.documents()[0]["gateway_urls"] == ["127.0.0.1:1"]
