"""
The cluster as one of its members sees it.
"""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker import errors
from natsbroker.links.interest import RoutePermissions
from natsbroker.routes.cluster import IncompatiblePeers
from natsbroker.subjects.permissions import PermissionSet, SubscribePermissions
from tests.routes.clusters import Node, connect, info, mesh, target


def trio(**terms: Any) -> list[Node]:
    """Three members: two of them know the first."""
    first = Node("n1", 6001, **terms)
    others = [
        Node(f"n{place}", 6000 + place, first.clock, targets=(target(6001),), **terms)
        for place in (2, 3)
    ]
    nodes = [first, *others]
    mesh(*nodes)
    for node in others:
        node.cluster.dial(target(6001), 0.0)
    first.settle(1.0)
    return nodes


class TestMesh:
    """Members of ours, in memory."""

    @pytest.mark.parametrize("size", [-1, 1, 3])
    def test_gossip(self, size: int) -> None:
        """Members that learn of one member connect to each other."""
        one, two, three = trio(poolSize=size)
        assert (one.peers(), two.peers(), three.peers()) == (
            ["n2", "n3"],
            ["n1", "n3"],
            ["n1", "n2"],
        )
        for node in (one, two, three):
            assert len(node.cluster) == 2 * max(size, 1)

    @pytest.mark.parametrize("size", [-1, 3])
    def test_messages(self, size: int) -> None:
        """A message reaches each member once, and one member of each queue group."""
        nodes = trio(poolSize=size)
        for account in ("A", "B"):
            plain = [node.subscribe(b"foo.*", account=account) for node in nodes]
            queue = [node.subscribe(b"foo.>", b"q", account=account) for node in nodes[1:]]
            for place, node in enumerate(nodes):
                for number in range(20):
                    node.publish(b"foo.x", b"%d-%d" % (place, number), account=account)
            expected = [b"%d-%d" % (place, number) for place in range(3) for number in range(20)]
            for recorder in plain:
                assert recorder.bodies == expected
            assert sorted(queue[0].bodies + queue[1].bodies) == sorted(expected)
            assert all(recorder.got for recorder in queue)

    @pytest.mark.parametrize("size", [-1, 3])
    def test_bothDial(self, size: int) -> None:
        """Two brokers that dial each other at the same time keep the same connections."""
        clock = Node().clock
        one = Node("n1", 6001, clock, targets=(target(6002),), poolSize=size)
        two = Node("n2", 6002, clock, targets=(target(6001),), poolSize=size)
        mesh(one, two)
        one.cluster.dial(target(6002), 0.0)
        two.cluster.dial(target(6001), 0.0)
        one.settle(3.0)
        assert (one.peers(), two.peers()) == (["n2"], ["n1"])
        assert len(one.cluster) == len(two.cluster) == max(size, 1)
        recorder = two.subscribe(b"foo")
        one.publish(b"foo")
        assert recorder.bodies == [b"hi"]

    def test_restart(self) -> None:
        """A member that restarts with another id replaces its former self."""
        one, two, three = trio()
        one.isDown = True
        for route in one.cluster:
            route.close(errors.SERVER_SHUTDOWN)
        one.settle(0.1)
        assert two.peers() == ["n3"]
        again = Node("n1", 6001, one.clock)
        mesh(again, two, three)
        two.settle(3.0)
        assert again.peers() == ["n2", "n3"] and two.peers() == ["n1", "n3"]
        recorder = again.subscribe(b"foo")
        two.publish(b"foo", b"2")
        three.publish(b"foo", b"3")
        assert recorder.bodies == [b"2", b"3"]

    def test_urls(self) -> None:
        """The addresses for clients follow members that join and leave, or enter lame duck mode."""
        one, two, three = trio()
        assert one.cluster.connectUrls() == ("127.0.0.1:4001", "127.0.0.1:4002", "127.0.0.1:4003")
        before = one.changes
        three.cluster.leave()
        one.settle(0.1)
        assert one.changes > before
        assert one.cluster.connectUrls() == ("127.0.0.1:4001", "127.0.0.1:4002")
        assert three.cluster.connectUrls() == ("127.0.0.1:4001", "127.0.0.1:4002")
        two.isDown = True
        for route in two.cluster:
            route.close(errors.SERVER_SHUTDOWN)
        one.settle(0.1)
        assert one.cluster.connectUrls() == ("127.0.0.1:4001",)

    def test_lone(self) -> None:
        """A member that is alone gives clients no addresses of the cluster."""
        assert Node("n1", 6001).cluster.connectUrls() == ()

    def test_dedicatedRouteEndsLast(self) -> None:
        """
        The addresses of a member are removed when its pool is gone, even if the route of an account
        remains.
        """
        node = Node(poolSize=1, dedicated=("A",))
        pooled = node.joined(route_pool_size=1, connect_urls=["h:1"])
        own = node.joined(route_pool_size=1, route_account="A")
        assert "h:1" in node.cluster.connectUrls()
        pooled.transport.hangUp()
        node.settle()
        assert not own.closed and "h:1" not in node.cluster.connectUrls()

    def test_noAdvertise(self) -> None:
        """
        A member with C{no_advertise} is announced to no other, and its clients learn no addresses.
        """
        one, two, _ = trio(advertises=False)
        assert one.cluster.connectUrls() == two.cluster.connectUrls() == ()

    def test_close(self) -> None:
        """A member that leaves closes all routes, and reports when this is done."""
        one, two, three = trio(poolSize=3)
        done: list[bool] = []
        one.cluster.close(lambda: done.append(True))
        one.settle(0.1)
        assert done == [True] and len(one.cluster) == 0
        assert two.peers() == ["n3"] and three.peers() == ["n2"]
        late: list[bool] = []
        one.cluster.close(lambda: late.append(True))
        assert late == [True]
        wire = one.accepted()
        assert wire.closed == "Server Shutdown"


class TestRedialling:
    """The redialling of lost routes."""

    def test_configured(self) -> None:
        """A configured member is dialled again after a second."""
        node = Node(targets=(target(7777),))
        wire = node.dialling()
        wire.send(info())
        wire.hangUp()
        assert node.dialled == [(target(7777), 1.0)]

    def test_discovered(self) -> None:
        """A discovered member is dialled again soon."""
        node = Node()
        wire = node.dialling(isConfigured=False)
        wire.send(info())
        wire.hangUp()
        assert [(remote.isConfigured, after) for remote, after in node.dialled] == [(False, 0.1)]

    def test_accepted(self) -> None:
        """A member that dialled this one is not dialled back after its route is lost."""
        node = Node()
        node.joined().hangUp()
        assert node.dialled == []

    def test_inherited(self) -> None:
        """When a duplicate route is closed, the remaining one takes over its configured target."""
        node = Node(targets=(target(7777),))
        first = node.joined()
        second = node.dialling()
        second.send(info())
        assert (first.closed, second.closed) == ("", "Duplicate Route")
        assert node.dialled == []
        first.hangUp()
        assert node.dialled == [(target(7777), 1.0)]


class TestChanging:
    """Settings that change while it runs."""

    def test_routes(self) -> None:
        """New routes are dialled, and removed ones are closed."""
        node = Node(targets=(target(7777),))
        wire = node.dialling()
        wire.send(info())
        node.use(targets=(target(7778),))
        node.settle()
        assert wire.closed == "Route Removed"
        assert node.dialled == [(target(7778), 0.0)]

    def test_permissions(self) -> None:
        """
        Interest that permissions exclude is withdrawn, and interest that they now admit is sent.
        """
        node = Node()
        wire = node.joined()
        node.subscribe(b"a.b")
        node.subscribe(b"c.d")
        wire.send(b"RS+ A x.y\r\nRS+ A z\r\n")
        assert wire.lines() == [b"RS+ A a.b", b"RS+ A c.d"]
        permissions = RoutePermissions(PermissionSet([b"a.>"]), SubscribePermissions([b"x.>"]))
        node.use(permissions=permissions, shownPermissions={"import": {"allow": ["a.>"]}})
        said = wire.take()
        assert b"RS- A c.d\r\n" in said and b'"import":{"allow":["a.>"]}' in said
        assert (node.publish(b"x.y"), node.publish(b"z")) == (1, 0)
        wire.send(b"RS+ A w\r\n")
        assert node.publish(b"w") == 0
        node.subscribe(b"c.e")
        node.use(permissions=RoutePermissions())
        assert sorted(line for line in wire.lines() if line.startswith(b"RS+")) == [
            b"RS+ A a.b",
            b"RS+ A c.d",
            b"RS+ A c.e",
        ]
        assert (node.publish(b"z"), node.publish(b"w")) == (1, 1)

    def test_deniedWithin(self) -> None:
        """Interest with a denied part is accepted without that part."""
        node = Node(permissions=RoutePermissions(None, SubscribePermissions(None, [b"x.secret"])))
        wire = node.joined()
        wire.send(b"RS+ A x.*\r\nRS+ A x.* q 5\r\nRS+ A x.secret\r\n")
        assert node.publish(b"x.a") == 1
        assert node.publish(b"x.secret") == 0
        assert wire.take().count(b"RMSG") == 1

    def test_peersPermissions(self) -> None:
        """When a peer starts to accept more interest, all interest is sent again."""
        node = Node()
        wire = node.joined(export={"allow": ["b"]})
        node.subscribe(b"a")
        wire.take()
        wire.send(info(export={"allow": ["a"]}))
        assert wire.lines() == [b"RS+ A a"]

    def test_password(self) -> None:
        """After a reload with another password, routes with the former password are closed."""
        node = Node(user="u", password="p")
        wire = node.accepted()
        wire.send(connect(user="u", **{"pass": "p"}) + info())
        wire.take()
        node.use(password="other")
        assert wire.lines() == [b"-ERR 'Authorization Violation'"]

    def test_pool(self) -> None:
        """With another pool, all routes begin again."""
        node = Node(poolSize=3, targets=(target(7777),))
        wire = node.dialling()
        wire.send(info(route_pool_size=3))
        node.use(poolSize=1)
        node.settle()
        assert wire.closed == "Route Removed"
        assert node.dialled == [(target(7777), 1.0)]

    def test_accounts(self) -> None:
        """Interest of new accounts is sent, and that of removed ones withdrawn."""
        node = Node()
        wire = node.joined()
        node.buses.add("N")
        node.subscribe(b"foo", account="N")
        node.subscribe(b"foo", account="B")
        node.cluster.accountsChanged()
        assert sorted(wire.lines()) == [b"RS+ B foo", b"RS+ N foo"]
        wire.send(b"RS+ B bar\r\n")
        del node.buses.accounts["B"]
        node.cluster.accountsChanged()
        assert wire.lines() == [b"RS- B foo"]


class TestNames:
    """The name of the cluster."""

    def test_madeUp(self) -> None:
        """A generated name is replaced by a peer's configured one."""
        node = Node(name="n1", isDynamic=True)
        other = node.joined(cluster="C1")
        wire = node.accepted()
        wire.send(connect(cluster="C9", name="P2") + info(server_id="P2", cluster="C9"))
        assert node.cluster.terms.name == "C9" and not node.cluster.terms.isDynamic
        assert other.closed == "Cluster Name Conflict" and not wire.closed

    @pytest.mark.parametrize("name, isTaken", [("C2", True), ("C0", False)])
    def test_bothMadeUp(self, name: str, isTaken: bool) -> None:
        """Of two generated names, the greater one is used."""
        node = Node(isDynamic=True)
        wire = node.accepted()
        wire.send(connect(cluster=name, cluster_dynamic=True))
        assert (node.cluster.terms.name == name) is isTaken
        assert bool(wire.closed) is not isTaken


def test_incompatiblePeers() -> None:
    """A peer with another dialect is dialled at growing intervals, independently of other peers."""
    node, backoff = Node(), IncompatiblePeers()
    strange, other, accepted = node.dialling(), node.dialling(port=7778), node.accepted()
    for wire in (strange, other):
        wire.send(info(proto=1))
    pauses = [backoff.pause(strange.route, 1.0) for _ in range(8)]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert backoff.pause(other.route, 1.0) == 1.0
    assert backoff.pause(accepted.route, 0.1) == 0.1
    silent, known = node.dialling(), node.dialling()
    assert backoff.pause(silent.route, 1.0) == 1.0
    assert backoff.pause(strange.route, 1.0) == 60.0
    known.send(info())
    assert backoff.pause(known.route, 1.0) == 1.0
    assert backoff.pause(strange.route, 1.0) == 1.0
