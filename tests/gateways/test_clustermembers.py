"""
The members of our own cluster, as gateways use them.
"""

from __future__ import annotations

from typing import Any

from natsbroker.gateways.clustermembers import ClusterMembers
from natsbroker.wire.serverinfo import ServerDocument
from natsbroker.wire.values import Message
from tests.routes.clusters import Node, everything, info


class Heard:
    """Records the lines that the cluster gives to gateways."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def memberJoined(self, url: str, say: Any) -> None:
        self.events.append(("joined", url))
        say(b"INFO hello\r\n")

    def memberLeft(self, url: str) -> None:
        self.events.append(("left", url))

    def heard(self, document: ServerDocument, who: str) -> None:
        self.events.append((document.gateway, who))


def hashOf(name: str) -> bytes:
    """The hash that stands for a server id."""
    return b"#" + name.encode()


def test_noCluster() -> None:
    """Without a cluster there are no members."""
    nobody = ClusterMembers(None, hashOf)
    nobody.send(b"x")
    assert not nobody.hasName("") and nobody.linkTo(b"#PEER", "A") is None


def test_members() -> None:
    """
    A line is sent to each member once, over one of its connections. The names of members are known.
    """
    node = Node()
    members = ClusterMembers(node.cluster, hashOf)
    assert not members.hasName("peer")
    wire = node.joined()
    members.send(b"PING\r\n")
    assert wire.lines() == [b"PING"]
    assert members.hasName("peer") and not members.hasName("other")


def test_news() -> None:
    """
    Gateways are notified when members join and leave, and of the clusters that members announce.
    """
    node = Node()
    node.cluster.gateways = heard = Heard()
    wire = node.joined(gateway_url="h:1")
    wire.send(info(server_id="GWx", gateway="B", gateway_cmd=1, gateway_urls=["b:1"]))
    wire.hangUp()
    assert heard.events == [("joined", "h:1"), ("B", "PEER"), ("left", "h:1")]
    assert not node.dialled


def test_newMember() -> None:
    """A new member gets the known gateways, and our INFO has the address of our gateway."""
    node = Node()
    node.cluster.gateways = Heard()
    wire = node.accepted()
    assert "gateway_url" not in wire.documents()[0]
    node.cluster.identity = type(node.cluster.identity)("ID-n1", "n1", gateway_url="h:1")
    assert node.accepted().documents()[0]["gateway_url"] == "h:1"


def test_notConfigured() -> None:
    """A member that announces gateways to a broker without gateways is logged."""
    wire = Node().joined()
    with everything() as said:
        wire.send(info(server_id="GWx", gateway="B", gateway_cmd=1, gateway_urls=["b:1"]))
    wanted = 'Received information about gateway "B" from PEER, but gateway is not configured'
    assert any(wanted in line for line in said)
    assert not wire.closed


def test_linkTo() -> None:
    """A member is found by the hash of its id, with its connection for the account."""
    node = Node()
    members = ClusterMembers(node.cluster, hashOf)
    wire = node.joined()
    wire.take()
    link = members.linkTo(b"#PEER", "A")
    assert link is not None and members.linkTo(b"#OTHER", "A") is None
    link.forward(Message(b"_GR_.AAAAAA.BBBBBB.foo", b"hi"), ())
    assert wire.lines() == [b"RMSG A _GR_.AAAAAA.BBBBBB.foo 2", b"hi"]


class Taking:
    """Records the messages with reply prefixes."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, bytes, bytes, bytes, bool]] = []

    def take(self, account: str, message: Message, isFromMember: bool) -> bool:
        self.taken.append((account, message.subject, message.reply, message.via, isFromMember))
        return message.subject.startswith(b"_GR_.")


def test_mappedReply() -> None:
    """A message with a reply prefix goes to the reply router, and clients do not see the prefix."""
    node = Node()
    taking: Any = Taking()
    node.cluster.replyRouter = taking
    node.renewAccount("A")
    ears = node.subscribe(b"foo")
    wire = node.joined()
    prefix = b"_GR_.AAAAAA.BBBBBB."
    wire.send(b"RMSG A %bfoo 2\r\nhi\r\nRMSG A foo %br 2\r\nho\r\n" % (prefix, prefix))
    assert taking.taken == [
        ("A", prefix + b"foo", b"", b"", True),
        ("A", b"foo", b"r", prefix, True),
    ]
    assert [(message.body, message.reply) for message, _ in ears.got] == [(b"ho", b"r")]
