"""
The traffic over a classic route.
"""

from __future__ import annotations

from collections import Counter

import pytest
from zope.interface.verify import verifyObject

from natsbroker.interfaces import ILinkSubscriber, IOrigin
from natsbroker.links.interest import RoutePermissions
from natsbroker.routes.classic import ClassicMember, ClassicTraffic
from natsbroker.routes.dialects import RouteDialect
from natsbroker.subjects.permissions import PermissionSet, SubscribePermissions
from natsbroker.wire.values import Message
from tests.links.linkpeers import linked
from tests.routes.clusters import Node, Wire, connect, info, mesh, oldConnect, oldInfo, target
from tests.server.support import logLines
from tests.support import Recorder

HEADERS = b"NATS/1.0\r\nA: 1\r\n\r\n"


def linkTraffic(wire: Wire) -> ClassicTraffic:
    """The traffic over a connection."""
    assert isinstance(wire.route.traffic, ClassicTraffic)
    return wire.route.traffic


class TestTelling:
    """Announcing the interest of this member."""

    def test_members(self) -> None:
        """
        A queue group is announced with a sid for each of its members, so that old servers choose
        fairly.
        """
        node = Node.classic()
        wire = node.joinedOld()
        one, two = node.subscribe(b"foo", b"q", "$G"), node.subscribe(b"foo", b"q", "$G")
        node.subscribe(b"foo", account="$G"), node.subscribe(b"foo", account="$G")
        assert wire.lines() == [
            b"SUB foo q QRSID:1:1",
            b"SUB foo q QRSID:1:2",
            b"SUB foo  RSID:2:1",
        ]
        one.subscription.cancel()
        assert wire.lines() == [b"UNSUB QRSID:1:2"]
        two.subscription.cancel()
        assert wire.lines() == [b"UNSUB QRSID:1:1"]

    def test_globalAccount(self) -> None:
        """Only the interest and messages of the global account pass over a classic route."""
        node = Node.classic(accounts=("$G", "A"))
        wire = node.joinedOld()
        node.subscribe(b"foo", account="A")
        assert wire.lines() == []
        wire.send(b"SUB foo  RSID:1:1\r\n")
        assert node.publish(b"foo", account="A") == 1
        assert wire.lines() == []
        assert node.publish(b"foo", account="$G") == 1
        assert wire.lines() == [b"MSG foo RSID:1:1 2", b"hi"]

    def test_noGlobalAccount(self) -> None:
        """
        Without a global account, no message passes. The peer's interest is kept for when the
        account exists.
        """
        node = Node.classic(accounts=())
        wire = node.joinedOld()
        with logLines() as lines:
            wire.send(b"SUB foo  RSID:1:1\r\nMSG foo RSID:1:1 1\r\nx\r\nPING\r\n")
        assert wire.lines() == [b"PONG"] and "Unknown account" in "".join(lines)
        node.buses.add("$G")
        node.cluster.accountsChanged()
        node.subscribe(b"bar", account="$G")
        node.publish(b"foo", account="$G")
        assert wire.lines() == [b"SUB bar  RSID:1:1", b"MSG foo RSID:1:1 2", b"hi"]

    def test_oneHop(self) -> None:
        """
        Neither messages nor interest from one member are passed on to another, in either dialect.
        """
        node = Node("n1", dialect=RouteDialect.AUTO)
        one, two = node.joinedOld(), node.joinedOld(server_id="P2")
        three = node.joined(server_id="P3", server_name="p3")
        for wire in (one, two, three):
            wire.take()
        one.send(b"SUB foo  RSID:1:1\r\nSUB foo q QRSID:1:2\r\n")
        two.send(b"MSG foo RSID:1:1 1\r\nx\r\nPUB foo 1\r\nx\r\nMSG foo QRSID:1:1 1\r\nx\r\n")
        three.send(b"RMSG $G foo | r 1\r\nx\r\n")
        assert one.lines() == two.lines() == three.lines() == []

    def test_permissions(self) -> None:
        """
        A reload withdraws interest that is no longer permitted, and sends interest that now is.
        """
        node = Node.classic()
        wire = node.joinedOld()
        for pattern in (b"a.b", b"c.d"):
            node.subscribe(pattern, account="$G")
        wire.send(b"SUB x.y RSID:1:1\r\nSUB z RSID:1:2\r\nSUB x.* q QRSID:1:3\r\n")
        assert wire.lines() == [b"SUB a.b  RSID:1:1", b"SUB c.d  RSID:2:1"]
        permissions = RoutePermissions(
            PermissionSet([b"a.>"]), SubscribePermissions([b"x.>"], [b"x.secret"])
        )
        node.use(permissions=permissions)
        said = wire.take()
        assert b"UNSUB RSID:2:1\r\n" in said and said.count(b"INFO ") == 1
        assert (node.publish(b"x.y", account="$G"), node.publish(b"z", account="$G")) == (1, 0)
        assert wire.lines() == [b"MSG x.y RSID:1:1 2", b"hi", b"MSG x.y QRSID:1:3 2", b"hi"]
        assert node.publish(b"x.secret", account="$G") == 0
        node.use(permissions=RoutePermissions())
        assert {b"SUB a.b  RSID:1:1", b"SUB c.d  RSID:3:1"} == set(wire.lines())
        assert node.publish(b"z", account="$G") == 1

    def test_peersPermissions(self) -> None:
        """
        When a peer starts to accept more interest, all interest is sent again under the same sids.
        """
        node = Node.classic()
        wire = node.joinedOld(export={"allow": ["b"]})
        node.subscribe(b"a", account="$G")
        assert wire.lines() == [b"SUB a  RSID:1:1"]
        wire.send(oldInfo(export={"allow": ["a"]}))
        assert wire.lines() == [b"SUB a  RSID:1:1"]

    def test_noUpdate(self) -> None:
        """
        INFO is sent again only to servers that announce support for it; an older one would
        disconnect.
        """
        node = Node.classic()
        old, oldest = node.joinedOld(), node.joinedOld(server_id="P0", proto=0)
        old.take(), oldest.take()
        node.cluster.leave()
        node.cluster.use(node.cluster.terms)
        assert len(old.documents()) == 2 and oldest.documents() == []


class TestHearing:
    """The interest of the peer."""

    def test_headers(self) -> None:
        """Headers are removed, because no classic server understands them."""
        node = Node.classic()
        wire = node.joinedOld()
        wire.send(b"SUB foo  RSID:1:1\r\n")
        node.publish(b"foo", HEADERS + b"x", "$G", reply=b"r", headerLength=len(HEADERS))
        assert wire.lines() == [b"MSG foo RSID:1:1 r 1", b"x"]
        assert (wire.route.outbox.messages, wire.route.outbox.messageBytes) == (1, 1)

    def test_balance(self) -> None:
        """Each sid of a group counts when a member is chosen, wherever it is."""
        node = Node.classic()
        one, two = node.joinedOld(), node.joinedOld(server_id="P2")
        one.send(b"SUB job q QRSID:1:1\r\n")
        two.send(b"".join(b"SUB job q QRSID:2:%d\r\n" % number for number in range(9)))
        for _ in range(500):
            node.publish(b"job", b"", account="$G")
        first = one.take().count(b"MSG")
        second = Counter(line.split()[2] for line in two.lines() if line.startswith(b"MSG"))
        assert first + second.total() == 500
        assert 20 < first < 100
        assert len(second) == 9 and max(second.values()) - min(second.values()) <= 1

    def test_twoPatterns(self) -> None:
        """A queue group with several patterns at the peer gets a message once."""
        node = Node.classic()
        wire = node.joinedOld()
        wire.send(b"SUB job q QRSID:1:1\r\nSUB * q QRSID:1:2\r\nSUB > q QRSID:1:3\r\n")
        for _ in range(60):
            assert node.publish(b"job", b"", account="$G") == 1
        sids = Counter(line.split()[2] for line in wire.lines())
        assert sids.total() == 60 and len(sids) == 3

    def test_maximumOfGroup(self) -> None:
        """A member of a queue group that has reached its maximum is not chosen any more."""
        node = Node.classic()
        wire = node.joinedOld()
        wire.send(b"SUB job q QRSID:1:1\r\nSUB job q QRSID:1:2\r\nUNSUB QRSID:1:1 1\r\n")
        for _ in range(3):
            node.publish(b"job", b"", account="$G")
        assert wire.lines() == [
            b"MSG job QRSID:1:1 0",
            b"MSG job QRSID:1:2 0",
            b"MSG job QRSID:1:2 0",
        ]

    def test_lastMemberGone(self) -> None:
        """
        A message for a queue group that has no member here any more goes to a member elsewhere, and
        otherwise back to the sender.
        """
        node = Node.classic()
        one, two = node.joinedOld(), node.joinedOld(server_id="P2")
        member = node.subscribe(b"foo", b"q", "$G")
        one.send(b"SUB foo q QRSID:1:1\r\n")
        two.send(b"SUB foo  RSID:2:1\r\nSUB foo q QRSID:2:2\r\n")
        one.take(), two.take()
        member.subscription.cancel()
        assert one.lines() == two.lines() == [b"UNSUB QRSID:1:1"]
        one.send(b"MSG foo QRSID:1:1 2\r\nhi\r\n")
        assert (one.lines(), two.lines()) == ([], [b"MSG foo QRSID:2:2 2", b"hi"])
        two.hangUp()
        one.send(b"MSG foo QRSID:1:1 2\r\nho\r\n")
        assert one.lines() == [b"MSG foo QRSID:1:1 2", b"ho"]

    def test_overflow(self) -> None:
        """
        A peer that does not read is closed, even in the middle of a message, and its interest ends.
        """
        node = Node.classic(limits=linked(max_pending=5000, no_fast_producer_stall=True))
        wire = node.joinedOld()
        wire.send(b"SUB foo  RSID:1:1\r\nSUB foo q QRSID:1:2\r\nSUB foo r QRSID:1:3\r\n")
        wire.protocol.pauseProducing()
        assert node.publish(b"foo", b"x" * 9000, account="$G") == 1
        assert wire.closed == "Slow Consumer (Pending Bytes)"
        assert node.publish(b"foo", b"x", account="$G") == 0

    def test_controlBytes(self) -> None:
        """A subject that is invalid here but not in old servers does not end the connection."""
        node = Node.classic()
        wire = node.joinedOld()
        with logLines() as lines:
            wire.send(b"SUB foo.\x01 RSID:1:1\r\nPING\r\n")
        assert wire.lines() == [b"PONG"]
        assert any("Could not insert subscription" in line for line in lines)

    def test_peerIsGone(self) -> None:
        """The interest of a peer ends when the peer is gone."""
        node = Node.classic()
        wire = node.joinedOld()
        wire.send(b"SUB foo  RSID:1:1\r\nSUB foo q QRSID:1:2\r\n")
        traffic = linkTraffic(wire)
        assert len(traffic.interest) == 2
        wire.hangUp()
        assert len(traffic.interest) == 0 and node.publish(b"foo", account="$G") == 0

    def test_facts(self) -> None:
        """Monitoring shows the interest of the peer, and the counted messages."""
        node = Node.classic()
        wire = node.joinedOld()
        wire.send(b"SUB foo  RSID:1:1\r\nSUB foo q QRSID:1:2\r\nSUB foo q QRSID:1:3\r\n")
        wire.send(b"MSG bar RSID:1:1 3\r\nabc\r\nPUB bar 4\r\nabcd\r\n")
        node.publish(b"foo", b"12345", "$G")
        route = wire.route
        assert (route.remoteId, route.remoteName, route.subscriptions) == ("PEER", "PEER", 2)
        assert route.counts == (2, 7, 2, 10) and route.traffic is not None
        told = {
            (interest.pattern, interest.queue, interest.weight)
            for interest in route.traffic.interest
        }
        assert told == {(b"foo", b"", 0), (b"foo", b"q", 2)}

    def test_manyBytes(self) -> None:
        """Lines and messages may arrive in pieces of any size."""
        data = (
            oldConnect() + oldInfo() + b"SUB foo RSID:1:1\r\nMSG bar RSID:1:1 4\r\nabcd\r\nPING\r\n"
        )
        for size in (1, 2, 7, len(data)):
            node = Node.classic()
            ear = node.subscribe(b"bar", account="$G")
            wire = node.accepted()
            for place in range(0, len(data), size):
                wire.send(data[place : place + size])
            assert wire.lines() == [b"SUB bar  RSID:1:1", b"PONG"]
            assert ear.bodies == [b"abcd"]


class TestOrigin:
    """The object that stands for a peer in matching."""

    def test_interfaces(self) -> None:
        """The stand-in for a classic peer is a link, and an origin."""
        wire = Node.classic().joinedOld()
        member = ClassicMember(linkTraffic(wire), wire.route)
        assert verifyObject(ILinkSubscriber, member) and verifyObject(IOrigin, member)
        assert member.clientInfo(False).server == ""
        told = member.clientInfo(True)
        assert (told.acc, told.server, told.kind) == ("$G", "PEER", "Router")

    def test_closed(self) -> None:
        """Nothing is sent to a peer that has disconnected."""
        wire = Node.classic().joinedOld()
        traffic = linkTraffic(wire)
        wire.send(b"SUB foo RSID:1:1\r\n")
        wire.hangUp()
        traffic.forward(Message(b"foo", b"x"), ())
        assert wire.route.outbox.messages == 0


class TestAgreeing:
    """The handshake of a classic route."""

    def test_dialling(self) -> None:
        """The dialling end sends CONNECT and INFO at once, as old servers know them."""
        wire = Node.classic().dialling(user="u", password="p")
        said = wire.take()
        assert said.startswith(
            b'CONNECT {"echo":true,"verbose":false,"pedantic":false,"user":"u","pass":"p",'
            b'"tls_required":false,"name":"ID-n1"}\r\nINFO {"server_id":"ID-n1",'
        )
        assert b'"proto":1,' in said and b'"cluster"' not in said and b'"headers"' not in said
        wire.send(oldInfo())
        assert not wire.closed and isinstance(wire.route.traffic, ClassicTraffic)

    @pytest.mark.parametrize("size", [-1, 3])
    def test_autoDials(self, size: int) -> None:
        """With the dialect C{auto}, the INFO of the dialled peer decides the dialect."""
        node = Node("n1", dialect=RouteDialect.AUTO, poolSize=size)
        node.subscribe(b"foo", account="$G")
        old, new = node.dialling(), node.dialling()
        old.send(oldInfo())
        new.send(info(server_id="P2", server_name="p2"))
        assert old.lines() == [b"SUB foo  RSID:1:1"]
        assert new.lines() == [b"RS+ $G foo"]
        assert node.dialled == []

    def test_autoAccepts(self) -> None:
        """With the dialect C{auto}, an accepted peer's CONNECT decides the dialect."""
        node = Node("n1", dialect=RouteDialect.AUTO, poolSize=3)
        node.subscribe(b"foo", account="$G")
        old, new = node.accepted(), node.accepted()
        old.send(oldConnect() + oldInfo() + b"SUB bar  RSID:7:1\r\n")
        new.send(connect(name="P2") + info(server_id="P2", server_name="p2") + b"RS+ $G bar\r\n")
        assert old.lines() == [b"SUB foo  RSID:1:1"]
        assert new.lines() == [b"RS+ $G foo"]
        assert node.publish(b"bar", account="$G") == 2
        assert old.lines() == [b"MSG bar RSID:7:1 2", b"hi"]

    def test_autoNameless(self) -> None:
        """
        With the dialect C{auto}, a peer with the modern dialect must send CONNECT first, with the
        cluster's name.
        """
        node = Node("n1", dialect=RouteDialect.AUTO)
        nameless, early = node.accepted(), node.accepted()
        nameless.send(connect(cluster="") + info())
        assert nameless.closed == "Cluster Name Conflict"
        early.send(info())
        assert early.lines() == [b"-ERR 'Authorization Violation'"]

    @pytest.mark.parametrize("isDialled", [True, False])
    def test_modernRefuses(self, isDialled: bool) -> None:
        """
        A member with the modern dialect refuses a classic peer with an error, and dials it less and
        less often.
        """
        node = Node(targets=(target(7777),))
        for _ in range(8):
            wire = node.dialling() if isDialled else node.accepted()
            wire.send((b"" if isDialled else connect()) + oldInfo())
            assert wire.lines() == [
                b"-ERR 'Rejecting connection, routes do not speak the classic dialect here'"
            ]
            assert wire.closed == "Wrong Dialect" and node.peers() == []
        if isDialled:
            assert [after for _, after in node.dialled] == [1, 2, 4, 8, 16, 32, 60, 60]
            wire = node.dialling()
            wire.send(info())
            wire.hangUp()
            assert node.dialled[-1] == (target(7777), 1.0)

    def test_discoveredForeigner(self) -> None:
        """A discovered member whose dialect differs is not dialled again."""
        node = Node.classic()
        wire = node.dialling(isConfigured=False)
        wire.send(info())
        assert wire.closed == "Wrong Dialect" and node.dialled == []

    def test_newPassword(self) -> None:
        """After a reload adds a password, a peer without one is closed, even before its CONNECT."""
        node = Node.classic()
        wire = node.accepted()
        wire.send(oldInfo())
        node.use(user="u", password="p")
        assert wire.lines() == [b"-ERR 'Authorization Violation'"]

    def test_reload(self) -> None:
        """A reload with another dialect closes all routes and dials them again."""
        node = Node.classic(targets=(target(7777),))
        wire = node.dialling()
        wire.send(oldInfo())
        node.use(dialect=RouteDialect.AUTO)
        node.settle()
        assert wire.closed == "Route Removed" and node.dialled == [(target(7777), 1.0)]

    def test_names(self) -> None:
        """A change of a generated cluster name does not close routes to classic members."""
        node = Node("n1", dialect=RouteDialect.AUTO)
        node.use(name="AAA", isDynamic=True)
        old = node.joinedOld()
        wire = node.accepted()
        wire.send(connect(cluster="ZZZ", name="P3") + info(cluster="ZZZ", server_id="P3"))
        assert node.cluster.terms.name == "ZZZ" and not old.closed


class TestGossip:
    """Gossip among classic members."""

    def test_newMemberIsAnnounced(self) -> None:
        """A new member is announced to the other members, and not to itself."""
        node = Node.classic()
        one = node.joinedOld(server_id="P1")
        one.take()
        two = node.joinedOld(server_id="P2", port=7002, connect_urls=["1.2.3.4:4222"])
        (told,) = one.documents()
        assert (told["server_id"], told["ip"]) == ("P2", "nats-route://127.0.0.9:7002/")
        assert told["connect_urls"] == ["1.2.3.4:4222"]
        assert [document["server_id"] for document in two.documents()] == ["ID-n1"]

    def test_advertised(self) -> None:
        """An address that a member announces itself is passed on."""
        node = Node.classic()
        one = node.joinedOld(server_id="P1")
        one.take()
        node.joinedOld(server_id="P2", ip="nats-route://far:7002/")
        assert one.documents()[0]["ip"] == "nats-route://far:7002/"

    def test_unreachable(self) -> None:
        """A member without an address is not announced."""
        node = Node.classic()
        one = node.joinedOld(server_id="P1")
        one.take()
        node.joinedOld(server_id="P2", port=0)
        assert one.documents() == []

    def test_otherDialect(self) -> None:
        """A new member is announced only to members with the same dialect."""
        node = Node("n1", dialect=RouteDialect.AUTO)
        old, new = node.joinedOld(server_id="P1"), node.joined(server_id="P2", server_name="p2")
        old.take(), new.take()
        node.joinedOld(server_id="P3", port=7003)
        node.joined(server_id="P4", server_name="p4", port=7004)
        assert [document["server_id"] for document in old.documents()] == ["P3"]
        assert [document["server_id"] for document in new.documents()] == ["P4"]

    def test_announcedMemberIsDialled(self) -> None:
        """An announced member is dialled once, with the cluster's password."""
        node = Node.classic(user="u", password="p")
        wire = node.accepted()
        wire.send(oldConnect(user="u", **{"pass": "p"}) + oldInfo())
        ip = "nats-route://10.0.0.3:7003/"
        wire.send(oldInfo(server_id="P3", ip=ip, auth_required=True))
        ((goal, after),) = node.dialled
        assert (goal.host, goal.port, goal.user, goal.password) == ("10.0.0.3", 7003, "u", "p")
        assert not goal.isConfigured and after == 0.0
        wire.send(oldInfo(server_id="ID-n1", ip=ip) + oldInfo(server_id="PEER", ip=ip))
        assert len(node.dialled) == 1

    def test_urls(self) -> None:
        """Clients learn the addresses of members that are connected."""
        node = Node.classic()
        wire = node.joinedOld(connect_urls=["1.2.3.4:4222"])
        assert "1.2.3.4:4222" in node.cluster.connectUrls()
        wire.hangUp()
        assert "1.2.3.4:4222" not in node.cluster.connectUrls()


class TestClusters:
    """Three members of ours."""

    DIALECTS = {
        "classic": ("classic", "classic", "classic"),
        "auto in the middle": ("auto", "classic", "classic"),
        "auto and one classic": ("auto", "auto", "classic"),
        "auto": ("auto", "auto", "auto"),
    }

    def made(self, dialects: tuple[str, ...]) -> list[Node]:
        """A cluster in which two members know the first."""
        nodes = [Node("n0", 6000, dialect=RouteDialect(dialects[0]), accounts=("$G",))]
        nodes += [
            Node(
                f"n{place}",
                6000 + place,
                nodes[0].clock,
                dialect=RouteDialect(dialects[place]),
                accounts=("$G",),
                targets=(target(6000),),
            )
            for place in (1, 2)
        ]
        mesh(*nodes)
        for node in nodes[1:]:
            node.cluster.dial(target(6000), 0.0)
        nodes[0].settle(1.0)
        return nodes

    @pytest.mark.parametrize("dialects", DIALECTS.values(), ids=DIALECTS)
    def test_everyMember(self, dialects: tuple[str, ...]) -> None:
        """All members find each other, and a message at any of them reaches all, once."""
        nodes = self.made(dialects)
        for node in nodes:
            assert len(node.peers()) == 2
            for route in node.cluster:
                isClassic = isinstance(route.traffic, ClassicTraffic)
                assert route.traffic is not None and route.isClassic is isClassic
        ears = [
            node.subscribe(pattern, account="$G") for node in nodes for pattern in (b"a.*", b">")
        ]
        groups: list[Recorder] = []
        for node in nodes:
            groups += [node.subscribe(b"a.>", b"q", "$G") for _ in range(2)]
        far = nodes[2].subscribe(b"a.b", b"far", "$G")
        for number in range(20):
            for place, node in enumerate(nodes):
                node.publish(b"a.b", b"%d %d" % (place, number), "$G", reply=b"r")
        sent = sorted(b"%d %d" % (place, number) for place in range(3) for number in range(20))
        for ear in ears:
            assert sorted(ear.bodies) == sent
            for place in range(3):
                own = [body for body in ear.bodies if body.startswith(b"%d " % place)]
                assert own == [b"%d %d" % (place, number) for number in range(20)]
        assert sorted(body for group in groups for body in group.bodies) == sent
        assert sorted(far.bodies) == sent
        for place in range(3):
            members = groups[2 * place : 2 * place + 2]
            here = [body for member in members for body in member.bodies]
            assert sum(body.startswith(b"%d " % place) for body in here) == 20

    @pytest.mark.parametrize("dialects", DIALECTS.values(), ids=DIALECTS)
    @pytest.mark.parametrize("gone", range(3))
    def test_restart(self, dialects: tuple[str, ...], gone: int) -> None:
        """A member that was away is back in everything."""
        nodes = self.made(dialects)
        ears = [node.subscribe(b"x", account="$G") for node in nodes]
        nodes[gone].isDown = True
        for route in nodes[gone].cluster:
            route.peer.abort()
        nodes[0].settle(2.0)
        for place, node in enumerate(nodes):
            assert node.publish(b"x", b"", "$G") == (1 if place == gone else 2)
        nodes[gone].isDown = False
        for node in nodes:
            for goal in node.cluster.terms.targets:
                node.cluster.dial(goal, 0.0)
        nodes[0].settle(3.0)
        for node in nodes:
            assert len(node.peers()) == 2
            assert node.publish(b"x", b"back", "$G") == 3
        assert [ear.bodies.count(b"back") for ear in ears] == [3, 3, 3]
