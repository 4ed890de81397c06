"""
The handshake of a route.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from natsbroker.auth.passwords import PasswordChecks
from natsbroker.links.identity import LinkLogin
from natsbroker.wire.compression import Compression
from tests.auth.certificates import certificate
from tests.auth.hashes import blowfish
from tests.auth.threads import Threads
from tests.links.linkpeers import linked
from tests.links.s2frames import BEGIN, plain
from tests.routes.clusters import CONNECT, Node, connect, everything, info, mesh, target
from tests.server.support import logLines

#: Of the password "bar".
HASH = blowfish("bar")


class TestAccepting:
    """Somebody dials us."""

    def test_connectFirst(self) -> None:
        """CONNECT is sent before the peer has sent a line."""
        (said,) = Node().accepted().documents()
        assert said["server_id"] == "ID-n1" and said["cluster"] == "C1"
        assert (said["host"], said["port"]) == ("127.0.0.1", 6222)
        assert said["connect_urls"] == ["127.0.0.1:4222"]
        assert said["lnoc"] and said["lnocu"] and said["compression"] == "not supported"
        assert "route_pool_size" not in said and "auth_required" not in said

    def test_letIn(self) -> None:
        """A peer that has sent CONNECT and INFO is a member."""
        node = Node()
        wire = node.joined()
        assert not wire.closed and node.peers() == ["peer"]
        wire.send(b"PING\r\n")
        assert wire.lines() == [b"PONG"]

    @pytest.mark.parametrize("user, password", [("u", "x"), ("x", "p"), ("", ""), ("u", "")])
    def test_password(self, user: str, password: str) -> None:
        """A wrong user or password is refused with an error."""
        node = Node(user="u", password="p")
        wire = node.accepted()
        assert wire.documents()[0]["auth_required"] is True
        wire.send(connect(user=user, **{"pass": password}) + info())
        assert wire.lines() == [b"-ERR 'Authorization Violation'"]
        assert wire.closed == "Authentication Failure" and not node.peers()

    def test_rightPassword(self) -> None:
        """A peer with the right user and password is a member."""
        node = Node(user="u", password="p")
        wire = node.accepted()
        wire.send(connect(user="u", **{"pass": "p"}) + info())
        assert not wire.closed and node.peers() == ["peer"]

    @pytest.mark.parametrize("password, isRight", [("bar", True), ("baz", False)])
    def test_hash(self, password: str, isRight: bool) -> None:
        """While a password is compared with its hash, further input waits."""
        node = Node(login=LinkLogin("u", HASH))
        threads = Threads()
        node.context.checks = PasswordChecks(threads)
        wire = node.accepted()
        wire.take()
        wire.send(connect(user="u", **{"pass": password}) + info() + b"PING\r\n")
        node.settle()
        assert not wire.closed and not wire.lines() and not node.peers()
        threads.run()
        node.settle()
        assert node.peers() == (["peer"] if isRight else [])
        assert (b"PONG" in wire.lines()) == isRight
        assert wire.closed == ("" if isRight else "Authentication Failure")

    def test_hashOfNobody(self) -> None:
        """A peer that disconnects while its password is compared does not become a member."""
        node = Node(login=LinkLogin("u", HASH))
        threads = Threads()
        node.context.checks = PasswordChecks(threads)
        wire = node.accepted()
        wire.send(connect(user="u", **{"pass": "bar"}) + info())
        wire.hangUp()
        threads.run()
        node.settle()
        assert not node.peers()

    def test_mapped(self) -> None:
        """With C{verify_and_map}, the certificate names the user."""
        for name, isRight in (("route.example.com", True), ("other.example.com", False)):
            node = Node(login=LinkLogin("route.example.com", "", True))
            wire = node.accepted()
            wire.protocol.certificate = certificate(names=[name])
            wire.send(connect() + info())
            assert node.peers() == (["peer"] if isRight else [])
            assert wire.closed == ("" if isRight else "Authentication Failure")

    @pytest.mark.parametrize("early", [b"PING\r\n", info(), b"RS+ A foo\r\n", b"x"])
    def test_lineBeforeConnect(self, early: bytes) -> None:
        """A peer whose first line is not CONNECT is refused."""
        wire = Node().accepted()
        wire.send(early)
        assert wire.lines() == [b"-ERR 'Authorization Violation'"]
        assert wire.closed == "Authentication Failure"

    def test_silentPeer(self) -> None:
        """A peer that is silent is closed."""
        node = Node(limits=linked(timeout=2.0))
        wire = node.accepted()
        wire.take()
        node.settle(1.9)
        assert wire.transport.connected
        node.settle(0.3)
        assert wire.lines() == [b"-ERR 'Authentication Timeout'"]
        assert wire.closed == "Authentication Timeout"

    def test_connectWithoutInfo(self) -> None:
        """A peer that sends CONNECT but no INFO is closed after a timeout."""
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
    def test_peersOfOtherClusters(self, changes: dict[str, str], line: bytes, reason: str) -> None:
        """A peer that is no member of this cluster receives the reason."""
        wire = Node().accepted()
        wire.send(connect(**changes))
        assert wire.lines() == [line]
        assert wire.closed == reason

    @pytest.mark.parametrize("line", [b"CONNECT {\r\n", b"CONNECT\r\n", b'CONNECT {"name":1}\r\n'])
    def test_invalidConnect(self, line: bytes) -> None:
        """An invalid CONNECT closes the connection without an error line."""
        wire = Node().accepted()
        wire.send(line)
        assert wire.lines() == [] and wire.closed == "Protocol Violation"

    def test_badInfo(self) -> None:
        """A peer with a malformed INFO is closed."""
        wire = Node().accepted()
        wire.send(connect() + b"INFO {x\r\n")
        assert wire.lines() == [] and wire.closed == "Protocol Violation"

    def test_sameName(self) -> None:
        """A second server with the same name is refused."""
        with logLines() as lines:
            wire = Node().joined(server_name="n1")
        assert wire.closed == "Duplicate Server Name"
        assert any('Remote server has a duplicate name: "n1"' in line for line in lines)

    def test_otherClusterInInfo(self) -> None:
        """A peer whose INFO names another cluster than its CONNECT is refused."""
        wire = Node().joined(cluster="ZZ")
        assert wire.closed == "Cluster Name Conflict"

    def test_secondConnect(self) -> None:
        """A second CONNECT is ignored."""
        wire = Node().joined()
        wire.send(connect(cluster="ZZ") + b"PING\r\n")
        assert wire.lines() == [b"PONG"]

    def test_unknownOperation(self) -> None:
        """An operation of no route dialect ends the connection."""
        wire = Node().joined()
        wire.send(b"SUB foo  RSID:1:1\r\n")
        assert wire.lines() == [b"-ERR 'Unknown Protocol Operation'"]
        assert wire.closed == "Protocol Violation"

    def test_interestBeforeInfo(self) -> None:
        """A peer that sends interest before its INFO is closed."""
        wire = Node().accepted()
        wire.send(connect() + b"RS+ A foo\r\n")
        assert wire.closed == "Protocol Violation"


class TestDialling:
    """The handshake with a peer that this broker dialled."""

    def test_connectWithoutWaiting(self) -> None:
        """CONNECT is sent without waiting."""
        wire = Node().dialling(user="u", password="p")
        said = wire.take()
        assert said.startswith(
            b'CONNECT {"echo":true,"verbose":false,"pedantic":false,"user":"u","pass":"p",'
            b'"tls_required":false,"headers":true,"name":"ID-n1","cluster":"C1","lnoc":true}\r\n'
            b'INFO {"server_id":"ID-n1",'
        )

    def test_letIn(self) -> None:
        """A peer that identifies itself is a member."""
        node = Node()
        wire = node.dialling()
        wire.send(info())
        assert node.peers() == ["peer"] and not wire.closed

    def test_pool(self) -> None:
        """With a pool, the dialling end sends its INFO after the peer's."""
        node = Node(poolSize=3)
        wire = node.dialling()
        assert wire.documents() == []
        wire.send(info(route_pool_size=3))
        (said,) = wire.documents()
        assert said["route_pool_size"] == 3 and "route_pool_idx" not in said

    def test_redialAfterRefusal(self) -> None:
        """A peer that refuses us is dialled again later."""
        node = Node(targets=(target(7777),))
        with logLines() as lines:
            wire = node.dialling()
            wire.send(info() + b"-ERR 'Authorization Violation'\r\n")
        assert wire.closed == "Parse Error"
        assert any("Route Error" in line and "Authorization Violation" in line for line in lines)
        assert node.dialled == [(target(7777), 1.0)]

    def test_ourselves(self) -> None:
        """
        A broker that dials itself closes the connection, and does not dial that address again.
        """
        node = Node(targets=(target(7777),))
        wire = node.dialling()
        wire.send(info(server_id="ID-n1", server_name="n1"))
        assert wire.closed == "Duplicate Route" and node.peers() == []
        node.cluster.dial(target(7777), 0.0)
        assert node.dialled == []

    def test_sameName(self) -> None:
        """Only the accepting end refuses a server of the same name."""
        wire = Node().dialling()
        wire.send(info(server_name="n1"))
        assert not wire.closed

    def test_password(self) -> None:
        """Traces of CONNECT show no password."""
        node = Node()
        node.context.tracing = True
        with everything() as lines:
            node.dialling(user="u", password="canary")
            node.accepted().send(connect(user="u", **{"pass": "canary"}))
        assert lines and not any("canary" in line for line in lines)
        assert any("<<- [CONNECT" in line for line in lines)


def test_names() -> None:
    """Log lines name a route as nats-server does."""
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


def shownIn(data: bytes) -> list[dict[str, Any]]:
    """The INFOs among some lines."""
    lines = [line for line in data.split(b"\r\n") if line.startswith(b"INFO")]
    return [json.loads(document[5:]) for document in lines]


class TestCompression:
    """
    The negotiation of compression: both ends first exchange INFO uncompressed, then use S2 for
    everything.
    """

    def test_accepting(self) -> None:
        """
        The accepting end answers the peer's INFO with its own in S2, and then accepts only S2.
        """
        node = Node(compression=Compression("s2_fast"), user="u", password="p")
        wire = node.accepted()
        assert wire.documents()[0]["compression"] == "s2_fast"
        wire.send(connect(user="u", **{"pass": "p"}))
        wire.send(info(compression="accept", server_name="first"))
        before, said = wire.unpack()
        (document,) = shownIn(said)
        assert before == b"" and document["compression"] == "s2_fast"
        assert not node.peers() and wire.route.compression.level == "s2_fast"
        wire.squeeze(info(compression="accept", route_account=""), b"PI", b"NG\r\n")
        before, said = wire.unpack()
        assert node.peers() == ["peer"] and before == b"" and said == b"PONG\r\n"

    def test_dialling(self) -> None:
        """The dialling end sends nothing in S2 before it has received the peer's INFO in S2."""
        node = Node(compression=Compression("s2_better"), poolSize=3)
        wire = node.dialling()
        assert wire.take().startswith(b"CONNECT ")
        wire.send(info(compression="s2_fast", route_pool_size=3))
        said = wire.take()
        (document,) = shownIn(said)
        assert said.endswith(b"} \r\n") and document["compression"] == "s2_better"
        node.settle(1.9)
        assert wire.take() == b"" and not node.peers()
        wire.squeeze(info(compression="s2_fast", route_pool_size=3))
        before, said = wire.unpack()
        assert before == b"" and len(shownIn(said)) == 1 and node.peers() == ["peer"]

    def test_inputBehindInfo(self) -> None:
        """Input after the peer's INFO may be S2, even in the same piece."""
        node = Node(compression=Compression("accept"))
        wire = node.accepted()
        wire.take()
        first = connect() + info(compression="s2_auto")
        wire.send(first + BEGIN + plain(info(compression="s2_auto") + b"PING\r\n"))
        before, said = wire.unpack()
        assert before == b"" and said.endswith(b"PONG\r\n") and node.peers() == ["peer"]
        assert wire.route.compression.level == "s2_fast"

    @pytest.mark.parametrize(
        "mode, peer, shown",
        [
            ("s2_fast", None, "not supported"),
            ("s2_fast", "off", "off"),
            ("accept", "accept", "off"),
            ("off", "s2_fast", "off"),
        ],
    )
    @pytest.mark.parametrize("size", [-1, 3])
    def test_noCompression(self, mode: str, peer: str | None, shown: str, size: int) -> None:
        """Without compression at either end, one INFO is sent, and interest follows at once."""
        node = Node(compression=Compression(mode), poolSize=size)
        node.subscribe(b"foo")
        wire = node.dialling()
        said = wire.take()
        assert bool(shownIn(said)) == (mode == "off" and size < 0)
        wire.send(info(**({} if peer is None else {"compression": peer})))
        said += wire.take()
        (document,) = shownIn(said)
        assert document["compression"] == shown and b"RS+ A foo" in said
        assert wire.route.compression.level == shown

    @pytest.mark.parametrize("isDialled", [False, True])
    def test_unknown(self, isDialled: bool) -> None:
        """A peer with an unknown mode of compression is refused with an error in plain text."""
        node = Node(compression=Compression("accept"))
        wire = node.dialling() if isDialled else node.accepted()
        wire.take()
        wire.send((b"" if isDialled else connect()) + info(compression="gzip"))
        assert wire.lines() == [b"-ERR 'unsupported route compression mode \"gzip\"'"]
        assert wire.closed == "Protocol Violation"

    @pytest.mark.parametrize(
        "changes, reason",
        [
            ({"server_id": "ID-n1"}, "Duplicate Route"),
            ({"server_name": "n1"}, "Duplicate Server Name"),
            ({"cluster": "ZZ"}, "Cluster Name Conflict"),
        ],
    )
    def test_refusedEarly(self, changes: dict[str, str], reason: str) -> None:
        """A peer that is refused gets its error before compression begins."""
        wire = Node(compression=Compression("s2_fast")).accepted()
        wire.take()
        wire.send(connect() + info(compression="s2_fast", **changes))
        assert wire.closed == reason and BEGIN not in wire.take()

    def test_notYetAdmitted(self) -> None:
        """An INFO without a CONNECT starts no negotiation."""
        wire = Node(compression=Compression("s2_fast")).accepted()
        wire.take()
        wire.send(info(compression="s2_fast"))
        assert wire.closed == "Authentication Failure" and BEGIN not in wire.take()

    def test_plainText(self) -> None:
        """Plain text after the switch to S2 closes the connection."""
        node = Node(compression=Compression("s2_fast"))
        wire = node.accepted()
        wire.send(connect() + info(compression="s2_fast"))
        wire.take()
        wire.send(info(compression="s2_fast"))
        assert wire.take() == b"" and wire.closed == "Read Error"

    def test_noPingMeanwhile(self) -> None:
        """No PING is sent during the negotiation. Afterwards the round trip chooses the level."""
        limits = linked(timeout=60.0, ping_interval=1.0, ping_max=20)
        auto = Compression("s2_auto", (0.01, 0.05, 0.1))
        node = Node(compression=auto, limits=limits)
        wire = node.accepted()
        wire.take()
        node.settle(3.0)
        wire.send(connect())
        node.settle(3.0)
        assert wire.take() == b""
        wire.send(info(compression="s2_auto"))
        wire.take()
        node.settle(3.0)
        assert wire.take() == b"" and wire.route.compression.level == "s2_best"
        wire.squeeze(info(compression="s2_auto"))
        wire.take()
        said = b""
        while b"PING\r\n" not in said:
            wire.squeeze(b"PING\r\n")
            said = wire.unpack()[1]
            node.clock.advance(0.05)
        wire.squeeze(b"PONG\r\n")
        assert wire.route.compression.level == "s2_better"

    def test_messages(self) -> None:
        """Compressed messages pass both ways, and are counted with their uncompressed size."""
        node = Node(compression=Compression("s2_fast"))
        heard = node.subscribe(b"foo")
        wire = node.accepted()
        wire.send(connect() + info(compression="s2_fast"))
        wire.squeeze(info(compression="s2_fast"), b"RS+ A bar\r\n")
        wire.take()
        wire.squeeze(b"RMSG A foo 300\r\n", bytes(300) + b"\r\n")
        assert heard.bodies == [bytes(300)]
        node.publish(b"bar", b"a" * 5000)
        stream = wire.take()
        assert len(stream) < 400
        assert wire.route.outbox.messageBytes == 5000 and wire.route.decoder.messageBytes == 300

    def test_reload(self) -> None:
        """A reload changes the level of an open connection. Switching compression off closes it."""
        node = Node(compression=Compression("s2_fast"))
        wire = node.accepted()
        wire.send(connect() + info(compression="s2_fast"))
        wire.squeeze(info(compression="s2_fast"))
        wire.take()
        node.use(compression=Compression("s2_best"))
        before, said = wire.unpack()
        assert before == b"" and wire.route.compression.level == "s2_best"
        assert all("compression" not in document for document in shownIn(said))
        node.use(compression=Compression("off"))
        assert wire.closed == "Client Closed" and b"-ERR" not in wire.unpack()[1]

    @pytest.mark.parametrize("isDialled", [False, True])
    @pytest.mark.parametrize("isMet", [False, True])
    def test_reloadMeanwhile(self, isDialled: bool, isMet: bool) -> None:
        """A reload that changes the mode closes connections whose negotiation is under way."""
        goal = target(7777)
        node = Node(compression=Compression("s2_fast"), targets=(goal,))
        wire = node.dialling() if isDialled else node.accepted()
        if isMet:
            wire.send((b"" if isDialled else connect()) + info(compression="s2_fast"))
        node.use(compression=Compression("s2_fast"))
        reasons = [wire.closed]
        node.use(compression=Compression("off"))
        assert [*reasons, wire.closed] == ["", "Client Closed"]

    @pytest.mark.parametrize("one", ["s2_fast", "s2_auto", "accept", "off"])
    @pytest.mark.parametrize("other", ["s2_best", "accept"])
    @pytest.mark.parametrize("size", [-1, 2])
    def test_pair(self, one: str, other: str, size: int) -> None:
        """Two brokers with any modes agree on whether to compress."""
        first = Node("n1", 6222, compression=Compression(one, (0.01,)), poolSize=size)
        clock = first.clock
        second = Node("n2", 6223, clock, compression=Compression(other), poolSize=size)
        mesh(first, second)
        heard = first.subscribe(b"foo")
        second.cluster.dial(target(6222), 0.0)
        first.settle(3.0)
        assert first.peers() == ["n2"] and second.peers() == ["n1"]
        second.publish(b"foo", b"x" * 1000)
        first.settle()
        assert heard.bodies == [b"x" * 1000]
        levels = {route.compression.level for route in (*first.cluster, *second.cluster)}
        assert levels <= {"off"} or not levels & {"off", "not supported"}
