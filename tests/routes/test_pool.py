"""
Which connection to a member has which place.
"""

from __future__ import annotations

import pytest

from tests.routes.clusters import Node, connect, info, target


class TestPool:
    """The connections of a peer, and the accounts that share them."""

    def test_places(self) -> None:
        """
        A dialling peer names its place in the pool, and replaces the connection at that place.
        """
        node = Node(poolSize=3)
        wires = [node.joined(route_pool_size=3, route_pool_idx=place) for place in (0, 1, 2)]
        assert [wire.route.poolIndex for wire in wires] == [0, 1, 2]
        again = node.joined(route_pool_size=3, route_pool_idx=1)
        assert wires[1].closed == "Duplicate Route" and not again.closed
        assert len(node.cluster.members["PEER"].pool) == 3

    @pytest.mark.parametrize("index, size", [(7, 3), (-1, 3), (3, 3)])
    def test_wrongPlace(self, index: int, size: int) -> None:
        """A place outside the pool is refused with nats-server's text."""
        wire = Node(poolSize=3).accepted()
        wire.send(connect() + info(route_pool_size=size, route_pool_idx=index))
        assert wire.lines() == [
            b"-ERR 'Invalid route pool index: %d - pool size is %d'" % (index, size)
        ]
        assert wire.closed == "Protocol Violation"

    def test_largerPool(self) -> None:
        """The larger of both pool sizes applies."""
        wire = Node(poolSize=2).accepted()
        wire.send(connect() + info(route_pool_size=5, route_pool_idx=4))
        assert not wire.closed

    def test_dialledNamesNone(self) -> None:
        """A dialled peer that names a place in the pool is refused."""
        wire = Node(poolSize=3).dialling()
        wire.send(info(route_pool_size=3, route_pool_idx=1))
        assert wire.lines() == [b"-ERR 'Route pool index should not be set but is set to 1'"]

    def test_nextConnection(self) -> None:
        """The next connection is dialled when the peer has answered a PING."""
        node = Node(poolSize=3, targets=(target(7777),))
        wire = node.dialling()
        wire.send(info(route_pool_size=3))
        assert wire.take().endswith(b"PING\r\n") and node.dialled == []
        wire.send(b"PONG\r\n")
        assert node.dialled == [(target(7777), 0.0)]
        second = node.dialling()
        second.send(info(route_pool_size=3))
        (said,) = second.documents()
        assert said["route_pool_idx"] == 1

    def test_fullPool(self) -> None:
        """
        A surplus connection to a complete pool is closed, and its target is not dialled again.
        """
        node = Node(poolSize=1, targets=(target(7777),))
        for closed in ("", "Duplicate Route"):
            wire = node.dialling()
            wire.send(info(route_pool_size=1))
            assert wire.closed == closed
        node.settle(1.0)
        assert node.dialled == []

    def test_accounts(self) -> None:
        """Each account's interest is sent over its own connection of the pool."""
        node = Node(poolSize=3, accounts=["$G", "A", "B", "C", "D", "E", "F"])
        wires = [node.joined(route_pool_size=3, route_pool_idx=place) for place in range(3)]
        for account in "ABCDEF":
            node.subscribe(b"foo", account=account)
        told = [wire.lines() for wire in wires]
        assert sorted(line for lines in told for line in lines) == [
            b"RS+ %c foo" % letter for letter in b"ABCDEF"
        ]
        # nats-server's places: FNV-1a of the name.
        assert [sorted(line[4:5] for line in lines) for lines in told] == [
            [b"A", b"B", b"D"],
            [b"C", b"E", b"F"],
            [],
        ]

    def test_oldPeer(self) -> None:
        """A peer without a pool has one connection for all accounts."""
        node = Node(poolSize=3)
        wire = node.joined()
        node.subscribe(b"foo", account="A")
        node.subscribe(b"foo", account="B")
        assert sorted(wire.lines()) == [b"RS+ A foo", b"RS+ B foo"]
        node.settle(6.0)
        again = node.joined()
        assert wire.closed == "Duplicate Route" and not again.closed

    def test_oldPeerRace(self) -> None:
        """Of two simultaneous connections of a peer without a pool, the first one stays."""
        node = Node()
        first, second = node.joined(), node.joined()
        assert (first.closed, second.closed) == ("", "Duplicate Route")


class TestDedicated:
    """Accounts with connections of their own, apart from the pool."""

    def node(self) -> Node:
        """A member with one such account."""
        return Node(poolSize=3, dedicated=("A",))

    def test_accepted(self) -> None:
        """
        On a connection for one account, lines do not name the account. Its interest is sent over no
        other connection.
        """
        node = self.node()
        pool = [node.joined(route_pool_size=3, route_pool_idx=place) for place in range(3)]
        wire = node.joined(route_pool_size=3, route_account="A")
        recorder = node.subscribe(b"foo")
        assert wire.lines() == [b"RS+ foo"]
        assert [connection.lines() for connection in pool] == [[], [], []]
        wire.send(b"RS+ bar\r\nRMSG foo rep 2\r\nhi\r\n")
        assert recorder.bodies == [b"hi"]
        node.publish(b"bar", b"x")
        assert wire.take() == b"RMSG bar 1\r\nx\r\n"

    def test_dialled(self) -> None:
        """
        The connection for an account is dialled after the first one of the pool, and again when it
        is lost.
        """
        node = Node(poolSize=1, dedicated=("A", "nope"), targets=(target(7777),))
        wire = node.dialling()
        wire.send(info(route_pool_size=1) + b"PONG\r\n")
        assert node.dialled == [(target(7777, account="A"), 0.0)]
        second = node.dialling(account="A")
        assert second.documents()[0]["route_account"] == "A"
        second.send(info(route_pool_size=1))
        assert not second.closed and node.cluster.members["PEER"].dedicated["A"] is second.route
        second.hangUp()
        assert node.dialled[1:] == [(target(7777, account="A"), 1.0)]

    def test_unknown(self) -> None:
        """A connection for an account that is not configured for it is refused."""
        node = self.node()
        wire = node.accepted()
        wire.send(connect() + info(route_pool_size=3, route_account="B"))
        assert wire.lines() == [b"-ERR 'No route for account \"B\"'"]
        other = node.accepted()
        other.send(connect() + info(route_pool_size=3, route_account="C"))
        assert other.lines() == [b"-ERR 'Unable to lookup account \"C\": account missing'"]

    def test_impossible(self) -> None:
        """A connection for an account is refused if there is no pool."""
        wire = Node().accepted()
        wire.send(connect() + info(route_pool_size=3, route_account="A"))
        assert wire.lines() == [
            b"-ERR 'Not possible to have a dedicated route for account \"A\" between those servers'"
        ]

    def test_duplicate(self) -> None:
        """Each account has one connection."""
        node = self.node()
        first = node.joined(route_pool_size=3, route_account="A")
        second = node.joined(route_pool_size=3, route_account="A")
        assert (first.closed, second.closed) == ("", "Duplicate Route")

    def test_connectionOnRequest(self) -> None:
        """A peer may ask for a connection for an account at any time."""
        node = Node(poolSize=1)
        wire = node.joined(route_pool_size=1)
        recorder = node.subscribe(b"foo", account="B")
        wire.send(b"RS+ B bar\r\n")
        wire.take()
        wire.send(info(route_pool_size=1, route_account="B", route_acc_add_reqid="x"))
        said = wire.take()
        assert b"RS- B foo" in said and b'"route_acc_add_reqid":"x"' in said
        assert b"route_account" not in said
        assert node.publish(b"bar", account="B") == 0
        assert node.dialled == []
        own = node.joined(route_pool_size=1, route_account="B")
        assert not own.closed
        own.send(b"RS+ bar\r\nRMSG foo 1\r\nx\r\n")
        assert recorder.bodies == [b"x"] and node.publish(b"bar", account="B") == 1

    def test_laterDialled(self) -> None:
        """
        If a peer asks for a connection for an account, the end that dialled the pool dials it.
        """
        node = Node(poolSize=1, targets=(target(7777),))
        wire = node.dialling()
        wire.send(info(route_pool_size=1))
        wire.send(info(route_pool_size=1, route_account="B", route_acc_add_reqid="x"))
        assert node.dialled == [(target(7777, account="B"), 0.1)]
