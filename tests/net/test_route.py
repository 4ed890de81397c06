"""
How a route is agreed on.
"""

from __future__ import annotations

import pytest

from natsbroker.net.linkcontext import LinkLimits
from tests.hosting.support import logLines
from tests.net.clusters import CONNECT, Node, connect, everything, info, target


class TestAccepting:
    """Somebody dials us."""

    def test_first(self) -> None:
        """We say who we are before anything was said to us."""
        (said,) = Node().accepted().documents()
        assert said["server_id"] == "ID-n1" and said["cluster"] == "C1"
        assert (said["host"], said["port"]) == ("127.0.0.1", 6222)
        assert said["connect_urls"] == ["127.0.0.1:4222"]
        assert said["lnoc"] and said["lnocu"] and "compression" not in said
        assert "route_pool_size" not in said and "auth_required" not in said

    def test_letIn(self) -> None:
        """Who says the right things is a member."""
        node = Node()
        wire = node.joined()
        assert not wire.closed and node.peers() == ["peer"]
        wire.send(b"PING\r\n")
        assert wire.lines() == [b"PONG"]

    @pytest.mark.parametrize("user, password", [("u", "x"), ("x", "p"), ("", ""), ("u", "")])
    def test_password(self, user: str, password: str) -> None:
        """Who says a wrong user or password is told that, and closed."""
        node = Node(user="u", password="p")
        wire = node.accepted()
        assert wire.documents()[0]["auth_required"] is True
        wire.send(connect(user=user, **{"pass": password}) + info())
        assert wire.lines() == [b"-ERR 'Authorization Violation'"]
        assert wire.closed == "Authentication Failure" and not node.peers()

    def test_rightPassword(self) -> None:
        """The right one is fine."""
        node = Node(user="u", password="p")
        wire = node.accepted()
        wire.send(connect(user="u", **{"pass": "p"}) + info())
        assert not wire.closed and node.peers() == ["peer"]

    @pytest.mark.parametrize("early", [b"PING\r\n", info(), b"RS+ A foo\r\n", b"x"])
    def test_early(self, early: bytes) -> None:
        """Nothing may be said before CONNECT."""
        wire = Node().accepted()
        wire.send(early)
        assert wire.lines() == [b"-ERR 'Authorization Violation'"]
        assert wire.closed == "Authentication Failure"

    def test_silent(self) -> None:
        """Who says nothing is closed."""
        node = Node(limits=LinkLimits(handshake=2.0))
        wire = node.accepted()
        wire.take()
        node.settle(1.9)
        assert wire.transport.connected
        node.settle(0.3)
        assert wire.lines() == [b"-ERR 'Authentication Timeout'"]
        assert wire.closed == "Authentication Timeout"

    def test_halfway(self) -> None:
        """A CONNECT alone is not enough."""
        node = Node()
        wire = node.accepted()
        wire.send(connect())
        node.settle(2.2)
        assert wire.closed == "Authentication Timeout"

    @pytest.mark.parametrize(
        "changes, line, reason",
        [
            (
                {"cluster": "ZZ"},
                b'-ERR \'Rejecting connection, cluster name "ZZ" does not match "C1"\'',
                "Cluster Name Conflict",
            ),
            (
                {"cluster": ""},
                b'-ERR \'Rejecting connection, cluster name "" does not match "C1"\'',
                "Cluster Name Conflict",
            ),
            ({"lang": "go"}, b"-ERR 'attempted to connect to route port'", "Incorrect Port"),
            (
                {"gateway": "G"},
                b"-ERR 'Rejecting connection from gateway \"G\" on the Route port'",
                "Wrong Gateway",
            ),
        ],
    )
    def test_refused(self, changes: dict[str, str], line: bytes, reason: str) -> None:
        """Who is no member of this cluster is told why."""
        wire = Node().accepted()
        wire.send(connect(**changes))
        assert wire.lines() == [line]
        assert wire.closed == reason

    @pytest.mark.parametrize("line", [b"CONNECT {\r\n", b"CONNECT\r\n", b'CONNECT {"name":1}\r\n'])
    def test_nonsense(self, line: bytes) -> None:
        """A CONNECT that is none ends the connection without a word."""
        wire = Node().accepted()
        wire.send(line)
        assert wire.lines() == [] and wire.closed == "Protocol Violation"

    def test_badInfo(self) -> None:
        """So does an INFO that is none."""
        wire = Node().accepted()
        wire.send(connect() + b"INFO {x\r\n")
        assert wire.lines() == [] and wire.closed == "Protocol Violation"

    def test_sameName(self) -> None:
        """Two servers of one name cannot be told apart."""
        with logLines() as lines:
            wire = Node().joined(server_name="n1")
        assert wire.closed == "Duplicate Server Name"
        assert any('Remote server has a duplicate name: "n1"' in line for line in lines)

    def test_otherClusterInInfo(self) -> None:
        """What CONNECT and INFO say must agree."""
        wire = Node().joined(cluster="ZZ")
        assert wire.closed == "Cluster Name Conflict"

    def test_secondConnect(self) -> None:
        """A second CONNECT changes nothing."""
        wire = Node().joined()
        wire.send(connect(cluster="ZZ") + b"PING\r\n")
        assert wire.lines() == [b"PONG"]

    def test_unknownOperation(self) -> None:
        """What nobody says over routes ends one."""
        wire = Node().joined()
        wire.send(b"SUB foo  RSID:1:1\r\n")
        assert wire.lines() == [b"-ERR 'Unknown Protocol Operation'"]
        assert wire.closed == "Protocol Violation"

    def test_interestBeforeInfo(self) -> None:
        """Interest of somebody who is not a member yet is none."""
        wire = Node().accepted()
        wire.send(connect() + b"RS+ A foo\r\n")
        assert wire.closed == "Protocol Violation"


class TestDialling:
    """We dial somebody."""

    def test_first(self) -> None:
        """We say who we are, without waiting."""
        wire = Node().dialling(user="u", password="p")
        said = wire.take()
        assert said.startswith(
            b'CONNECT {"echo":true,"verbose":false,"pedantic":false,"user":"u","pass":"p",'
            b'"tls_required":false,"headers":true,"name":"ID-n1","cluster":"C1","lnoc":true}\r\n'
            b'INFO {"server_id":"ID-n1",'
        )

    def test_letIn(self) -> None:
        """Who says who it is, is a member."""
        node = Node()
        wire = node.dialling()
        wire.send(info())
        assert node.peers() == ["peer"] and not wire.closed

    def test_pool(self) -> None:
        """With a pool, our INFO waits for the peer's, and says which connection this is."""
        node = Node(poolSize=3)
        wire = node.dialling()
        assert wire.documents() == []
        wire.send(info(route_pool_size=3))
        (said,) = wire.documents()
        assert said["route_pool_size"] == 3 and "route_pool_idx" not in said

    def test_refused(self) -> None:
        """Who refuses us is dialled again later."""
        node = Node(targets=(target(7777),))
        with logLines() as lines:
            wire = node.dialling()
            wire.send(info() + b"-ERR 'Authorization Violation'\r\n")
        assert wire.closed == "Parse Error"
        assert any("Route Error" in line and "Authorization Violation" in line for line in lines)
        assert node.dialled == [(target(7777), 1.0)]

    def test_ourselves(self) -> None:
        """We are not a member to ourselves, and not dialled again."""
        node = Node(targets=(target(7777),))
        wire = node.dialling()
        wire.send(info(server_id="ID-n1", server_name="n1"))
        assert wire.closed == "Duplicate Route" and node.peers() == []
        node.cluster.dial(target(7777), 0.0)
        assert node.dialled == []

    def test_sameName(self) -> None:
        """Whoever dials leaves it to the other side to refuse a server of the same name."""
        wire = Node().dialling()
        wire.send(info(server_name="n1"))
        assert not wire.closed

    def test_password(self) -> None:
        """Nobody's password is in the trace."""
        node = Node()
        node.context.tracing = True
        with everything() as lines:
            node.dialling(user="u", password="canary")
            node.accepted().send(connect(user="u", **{"pass": "canary"}))
        assert lines and not any("canary" in line for line in lines)
        assert any("<<- [CONNECT" in line for line in lines)


def test_names() -> None:
    """A route is called in the log as nats-server calls it."""
    node = Node()
    with logLines() as lines:
        wire = node.joined()
        wire.hangUp()
    assert lines == [
        "[INF] 127.0.0.9:50000 - rid:1 - Route connection created",
        "[INF] 127.0.0.9:50000 - rid:1 - Router connection closed: Client Closed - Remote: peer",
    ]


def test_sample() -> None:
    """The CONNECT that these tests send is the one that nats-server sends."""
    assert list(CONNECT)[:4] == ["echo", "verbose", "pedantic", "tls_required"]
