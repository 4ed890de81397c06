"""
The handshake with a peer that dials us as a leafnode.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from natsbroker import errors
from natsbroker.accounts.tracing import AccountTracing
from natsbroker.advisories import LeafConnected, LeafDisconnected, LeafRefused
from natsbroker.subjects.mapping import Destination, Mapping, MappingTable
from natsbroker.subjects.permissions import PermissionSet, SubscribePermissions
from natsbroker.wire.compression import Compression
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import Kind
from tests.leafnodes.leaves import Broker, connect, info
from tests.links.linkpeers import linked
from tests.support import Recorder


class TestGreeting:
    """The first lines of a handshake."""

    def test_info(self) -> None:
        """INFO has our name, a nonce and further addresses."""
        broker = Broker()
        broker.leafs.useUrls(["hub:7422", "other:7422"])
        (said,) = broker.accepted().documents()
        assert said["server_name"] == "hub" and said["auth_required"] and said["info_on_connect"]
        assert said["nonce"] and said["client_id"] == 1
        assert said["leafnode_urls"] == ["hub:7422", "other:7422"]
        assert "compression" not in said and "cluster" not in said

    @pytest.mark.parametrize(
        "early",
        [b"PING\r\n", info(), b"LS+ foo\r\n", b"LMSG foo 2\r\nhi\r\n", b"x", b"LS- foo\r\n"],
    )
    def test_lineBeforeConnect(self, early: bytes) -> None:
        """A line before CONNECT ends the connection."""
        wire = Broker().accepted()
        wire.take()
        wire.send(early)
        assert wire.lines() == [b"-ERR 'Authorization Violation'"]
        assert wire.closed == "Authentication Failure"

    def test_silentPeer(self) -> None:
        """A peer that sends nothing is disconnected."""
        broker = Broker(limits=linked(timeout=2.0))
        wire = broker.accepted()
        wire.take()
        broker.settle(2.2)
        assert wire.lines() == [b"-ERR 'Authentication Timeout'"]
        assert wire.closed == "Authentication Timeout"


class TestLettingIn:
    """Leafnodes that are accepted or refused."""

    def test_letIn(self) -> None:
        """An accepted leafnode gets the name of its account, and is counted."""
        broker = Broker()
        wire = broker.accepted()
        wire.take()
        wire.send(connect(user="u", nkey="U1", sig="s", cluster="LC"))
        (said,) = wire.documents()
        assert said["connect_info"] and said["remote_account"] == "A"
        assert "import" not in said and "export" not in said
        assert len(broker.leafs) == 1 and broker.buses.counts["A"] == 1
        (hello,) = broker.decider.hellos
        assert (hello.kind, hello.connectionType) == (Kind.SPOKE, "LEAFNODE")
        assert (hello.text("user"), hello.text("nkey"), hello.nonce) == (
            "u",
            "U1",
            "bm5ubm5ubm5ubm4",
        )
        assert broker.advisories == [LeafConnected(1, "A", "u")]
        assert wire.leaf.kind is Kind.SPOKE

    def test_leftLeafnode(self) -> None:
        """A leafnode that has disconnected is no longer counted."""
        broker = Broker()
        wire = broker.spoke()
        wire.send(b"LS+ foo\r\n")
        assert broker.publish(b"foo") == 1
        wire.transport.hangUp()
        broker.settle()
        assert broker.publish(b"foo") == 0 and broker.buses.counts["A"] == 0
        assert broker.advisories[-1] == LeafDisconnected(1, "A", "u", "Client Closed")

    def test_denied(self) -> None:
        """A denied leafnode gets only the error."""
        broker = Broker()
        broker.decider.answer = errors.Unauthorized("no")
        wire = broker.accepted()
        wire.take()
        wire.send(connect(user="u"))
        assert wire.lines() == [b"-ERR 'Authorization Violation'"]
        assert wire.closed == "Authentication Failure"
        assert broker.advisories == [LeafRefused(1, "127.0.0.9", "Authentication Failure")]

    @pytest.mark.parametrize(
        "chosen", [{"account": "A"}, {"account": "B", "cluster": "a b"}, {"new_account": True}]
    )
    def test_account(self, chosen: dict[str, Any]) -> None:
        """
        A leafnode that chooses its account is denied, as a client is, because the grant names the
        account.
        """
        broker = Broker()
        wire = broker.accepted()
        wire.take()
        wire.send(connect(user="u", **chosen) + b"LS+ foo\r\n")
        assert wire.lines() == [b"-ERR 'Authorization Violation'"]
        assert wire.closed == "Authentication Failure"
        assert not broker.buses.counts["A"]
        assert broker.advisories == [LeafRefused(1, "127.0.0.9", "Authentication Failure")]

    def test_lateAnswer(self) -> None:
        """No input is read until the authorizer has answered."""
        broker = Broker()
        answer: Deferred[Grant] = Deferred()
        broker.decider.answer = answer
        wire = broker.accepted()
        wire.take()
        wire.send(connect() + b"LS+ foo\r\n")
        assert wire.lines() == [] and len(broker.leafs) == 0
        answer.callback(Grant("B"))
        broker.settle()
        assert broker.publish(b"foo", account="B") == 1

    def test_tooLate(self) -> None:
        """An authorizer that answers too late denies the login."""
        broker = Broker(limits=linked(timeout=2.0))
        broker.decider.answer = Deferred()
        wire = broker.accepted()
        wire.take()
        wire.send(connect())
        broker.settle(2.2)
        assert wire.lines() == [b"-ERR 'Authentication Timeout'"] and len(broker.leafs) == 0

    @pytest.mark.parametrize(
        "changes, line, reason",
        [
            ({"lang": "go"}, b"-ERR 'attempted to connect to leaf node port'", "Incorrect Port"),
            (
                {"cluster": "a b"},
                b"-ERR 'cluster name cannot contain spaces'",
                "Protocol Violation",
            ),
            (
                {"cluster": "C1"},
                b"-ERR 'remote leafnode has same cluster name'",
                "Cluster Names Identical",
            ),
            (
                {"gateway": "G"},
                b"-ERR 'Rejecting connection from gateway \"G\" on the leafnode port'",
                "Wrong Gateway",
            ),
            (
                {"version": "2.9.99"},
                b"-ERR 'connection rejected since minimum version required is \"2.10.0\"'",
                "Minimum Version Required",
            ),
        ],
    )
    def test_unfitPeerGetsReason(self, changes: dict[str, str], line: bytes, reason: str) -> None:
        """A peer that cannot be a leafnode here gets the reason."""
        wire = Broker(cluster="C1", min_version="2.10.0").accepted()
        wire.take()
        wire.send(connect(**changes))
        assert wire.lines() == [line] and wire.closed == reason

    @pytest.mark.parametrize(
        "line", [b"CONNECT {\r\n", b"CONNECT\r\n", b'CONNECT {"deny_pub":1}\r\n']
    )
    def test_invalidConnect(self, line: bytes) -> None:
        """An invalid CONNECT closes the connection without an error."""
        wire = Broker().accepted()
        wire.take()
        wire.send(line)
        assert wire.lines() == [] and wire.closed == "Protocol Violation"

    @pytest.mark.parametrize(
        "refusal, lines, reason",
        [
            (KeyError("A"), [], "Missing Account"),
            (
                errors.ConnectionLimit(errors.MAX_ACCOUNT_CONNECTIONS),
                [b"-ERR 'maximum account active connections exceeded'"],
                "Maximum Account Connections Exceeded",
            ),
        ],
    )
    def test_accountIsFull(self, refusal: Exception, lines: list[bytes], reason: str) -> None:
        """A leafnode is refused if its account does not exist or is at its limit."""
        broker = Broker()
        broker.buses.refusal = refusal
        wire = broker.accepted()
        wire.take()
        wire.send(connect())
        assert wire.lines() == lines and wire.closed == reason

    def test_isHub(self) -> None:
        """A leafnode that dialled us is our hub if its CONNECT says so."""
        broker = Broker()
        broker.subscribe(b"foo")
        wire = broker.accepted()
        wire.send(connect(is_hub=True))
        assert wire.leaf.kind is Kind.HUB and wire.lines() == [b"LS+ foo"]

    def test_secondConnect(self) -> None:
        """A second CONNECT changes nothing."""
        broker = Broker()
        wire = broker.spoke()
        wire.send(connect(cluster="a b") + b"PING\r\n")
        assert wire.lines() == [b"PONG"] and len(broker.decider.hellos) == 1

    def test_secondInfo(self) -> None:
        """A later INFO of a leafnode that dialled us does not change its permissions."""
        broker = Broker()
        broker.decider.answer = Grant("A", publish=PermissionSet([b"ok"]))
        ear = broker.subscribe(b">")
        wire = broker.spoke()
        wire.send(info(export={"allow": [">"]}, **{"import": {"allow": [">"]}}))
        wire.send(b"LMSG ok 1\r\nx\r\n" + b"LMSG no 1\r\nx\r\n")
        assert [message.subject for message, _ in ear.got] == [b"ok"]
        assert wire.lines()[-1] == b"-ERR 'Permissions Violation for Publish to \"no\"'"
        assert wire.closed == "Protocol Violation"


class TestPermissions:
    """The permissions of a leafnode's user."""

    def grant(self) -> Grant:
        """A user with permissions."""
        return Grant(
            "A", "u", PermissionSet([b"out.>"], [b"out.x"]), SubscribePermissions([b"in.>"])
        )

    def test_sent(self) -> None:
        """A spoke receives its permissions in INFO."""
        broker = Broker()
        broker.decider.answer = self.grant()
        wire = broker.accepted()
        wire.take()
        wire.send(connect())
        (said,) = wire.documents()
        assert said["import"] == {"allow": ["in.>"]}
        assert said["export"] == {"allow": ["out.>"], "deny": ["out.x"]}

    def test_subscribing(self) -> None:
        """A spoke that subscribes to a denied subject is disconnected."""
        broker = Broker()
        broker.decider.answer = self.grant()
        wire = broker.spoke()
        wire.send(b"LS+ in.a\r\nLS+ in.b q 2\r\nLS+ >\r\n")
        assert wire.isOpen()
        assert (broker.publish(b"in.a"), broker.publish(b"out.a")) == (1, 0)
        wire.take()
        wire.send(b"LS+ out.a\r\n")
        assert wire.lines() == [b"-ERR 'Permissions Violation for Subscription to \"out.a\"'"]
        assert wire.closed == "Protocol Violation"

    def test_interest(self) -> None:
        """A spoke does not receive interest in subjects that it may not publish to."""
        broker = Broker()
        broker.decider.answer = self.grant()
        for pattern in (b"out.a", b"out.x", b"in.a", b"*.a"):
            broker.subscribe(pattern)
        wire = broker.accepted()
        wire.send(connect())
        assert sorted(wire.lines()) == [b"LS+ *.a", b"LS+ out.a"]

    @pytest.mark.parametrize(
        "subject", [b"$JS.API.STREAM.DELETE.S", b"$JS.ACK.S.c.1.1.1.1.0", b"served"]
    )
    @pytest.mark.parametrize("isTraced", [False, True])
    def test_mappedRequest(self, subject: bytes, isTraced: bool) -> None:
        """A spoke cannot send a denied request through a mapping."""
        broker = Broker()
        bus, heard = broker.bus("A"), Recorder()
        bus.serve(subject, heard)
        account, events = broker.buses.accounts["A"], broker.subscribe(b"out.trace")
        account.tracing = AccountTracing("A", dict, float, Random(1), bus.publish)
        made = [
            Mapping(b"out.m", [Destination(subject)]),
            Mapping(b"out.n", [Destination(b"in.n")]),
        ]
        account.mapSubjects(MappingTable(made, Random(1).randrange))
        other = broker.subscribe(b"in.n")
        block = b"NATS/1.0\r\nNats-Trace-Dest: out.trace\r\n\r\n" if isTraced else b""
        for grant, count in ((self.grant(), 0), (Grant("A", "u"), 1)):
            broker.decider.answer = grant
            wire = broker.spoke()
            for name in (b"out.n", b"out.m"):
                head = b"HMSG %b %d" % (name, len(block)) if block else b"LMSG %b" % name
                wire.send(b"%b %d\r\n%bhi\r\n" % (head, len(block) + 2, block))
            broker.settle()
            assert (len(heard.got), wire.isOpen()) == (count, bool(count))
        assert len(other.got) == 2
        assert len(events.got) == (4 if isTraced else 0)

    @pytest.mark.parametrize(
        ("line", "isAllowed"),
        [
            (b"Nats-Schedule-Target: out.b", True),
            (b"Nats-Schedule-Target: in.b", False),
            (b"Nats-Schedule-Target: out.b\r\nNats-Schedule-Source: in.b", True),
            (b"Nats-Schedule-Target: out.b\r\nNats-Schedule-Source: secret", False),
        ],
    )
    def test_schedule(self, line: bytes, isAllowed: bool) -> None:
        """A leafnode's schedules publish and show no more than its user may; the link stays."""
        broker = Broker()
        heard = broker.subscribe(b"out.a")
        broker.decider.answer = self.grant()
        wire = broker.spoke()
        block = b"NATS/1.0\r\n%b\r\n\r\n" % line
        wire.send(b"HMSG out.a %d %d\r\n%bx\r\n" % (len(block), len(block) + 1, block))
        broker.settle()
        assert (len(heard.got), wire.isOpen()) == (isAllowed, True)

    def test_acknowledgements(self) -> None:
        """
        A spoke's acknowledgements are ignored for consumers that it may not pull from, and the link
        stays.
        """
        broker = Broker()
        heard = Recorder()
        broker.bus("A").serve(b"$JS.ACK.S.c.>", heard)
        for grant, count in ((self.grant(), 0), (Grant("A", "u"), 1)):
            broker.decider.answer = grant
            wire = broker.spoke()
            wire.send(b"LMSG $JS.ACK.S.c.1.1.1.1.0 _INBOX.r 4\r\n+NXT\r\n")
            broker.settle()
            assert (len(heard.got), wire.isOpen()) == (count, True)

    def test_denyPub(self) -> None:
        """A spoke can refuse messages with C{deny_pub}."""
        broker = Broker()
        wire = broker.spoke(deny_pub=["no.>"])
        wire.send(b"LS+ *.a\r\n")
        assert (broker.publish(b"no.a"), broker.publish(b"ok.a")) == (0, 1)

    def test_changed(self) -> None:
        """A changed grant applies at once, and is sent to the spoke."""
        broker = Broker()
        wire = broker.spoke()
        wire.send(b"LS+ in.a\r\nLS+ out.a\r\n")
        broker.subscribe(b"out.b")
        broker.subscribe(b"in.b")
        wire.take()
        broker.decider.answer = self.grant()
        broker.leafs.reauthorize("B")
        assert broker.publish(b"out.a") == 1
        wire.take()
        broker.leafs.reauthorize()
        (said,) = wire.documents()
        assert said["import"] == {"allow": ["in.>"]}
        assert (broker.publish(b"out.a"), broker.publish(b"in.a")) == (0, 1)
        assert b"LMSG in.a 2" in wire.lines()

    @pytest.mark.parametrize(
        "answer, lines, reason",
        [
            (errors.Unauthorized(), [b"-ERR 'Authorization Violation'"], "Authentication Failure"),
            (
                errors.Unauthorized("", errors.AUTH_REVOKED),
                [b"-ERR 'User Authentication Revoked'"],
                "Credentials Revoked",
            ),
            (Grant("B"), [], "Client Closed"),
        ],
    )
    def test_revoked(self, answer: Any, lines: list[bytes], reason: str) -> None:
        """
        A spoke that is denied now, or whose user has moved to another account, is disconnected.
        """
        broker = Broker()
        wire = broker.spoke()
        broker.decider.answer = answer
        broker.leafs.reauthorize("A")
        assert wire.lines() == lines and wire.closed == reason

    def test_expired(self) -> None:
        """A spoke is disconnected when its grant expires."""
        broker = Broker()
        broker.decider.answer = Grant("A", expires=broker.clock.seconds() + 5.0)
        wire = broker.spoke()
        broker.settle(4.0)
        assert wire.isOpen()
        broker.settle(2.0)
        assert wire.lines()[-1] == b"-ERR 'User Authentication Expired'"
        assert wire.closed == "Authentication Expired"

    def test_largest(self) -> None:
        """A message above the payload limit is refused."""
        broker = Broker()
        broker.decider.answer = Grant("A", maxPayload=3)
        wire = broker.spoke()
        wire.send(b"LMSG a 3\r\nxxx\r\nLMSG a 4\r\n")
        assert wire.lines() == [b"-ERR 'Maximum Payload Violation'"]
        assert wire.closed == "Maximum Message Payload Exceeded"

    def test_mostSubscriptions(self) -> None:
        """A spoke may not have more subscriptions than the limit."""
        broker = Broker()
        broker.decider.answer = Grant("A", maxSubscriptions=1)
        wire = broker.spoke()
        wire.send(b"LS+ a\r\nLS+ b\r\n")
        assert wire.lines() == [b"-ERR 'maximum subscriptions exceeded'"] and not wire.closed
        assert (broker.publish(b"a"), broker.publish(b"b")) == (1, 0)


class TestCompression:
    """Compression, which a spoke requests in an INFO before its CONNECT."""

    def offering(self, mode: str = "s2_fast", **more: Any) -> tuple[Broker, Any]:
        """A hub that offers compression, and a spoke that has dialled it."""
        broker = Broker(compression=Compression(mode, (0.01,) if mode == "s2_auto" else ()), **more)
        return broker, broker.accepted()

    @pytest.mark.parametrize(
        "mode, peer, level",
        [
            ("s2_fast", "s2_auto", "s2_fast"),
            ("accept", "s2_better", "s2_better"),
            ("s2_auto", "accept", "s2_uncompressed"),
        ],
    )
    def test_agreed(self, mode: str, peer: str, level: str) -> None:
        """The hub answers with an INFO in S2 with the same nonce, and CONNECT follows as usual."""
        broker, wire = self.offering(mode)
        broker.subscribe(b"foo")
        (first,) = wire.documents()
        assert first["compression"] == mode
        wire.send(info(compression=peer))
        before, said = wire.unpack()
        again = json.loads(said[5:])
        assert before == b"" and again["nonce"] == first["nonce"]
        assert again["compression"] == ("s2_auto" if mode == "s2_auto" else level)
        wire.squeeze(connect(compress_mode="s2_fast"))
        before, said = wire.unpack()
        assert before == b"" and b"connect_info" in said and b"LS+ foo\r\n" in said
        assert b'"compression"' not in said and wire.leaf.compression.level == level

    @pytest.mark.parametrize("claimed", ["s2_fast", "not supported", "gzip", ""])
    def test_plainConnect(self, claimed: str) -> None:
        """Without the INFO that chooses a compression, S2 is not used, whatever CONNECT says."""
        broker, wire = self.offering("s2_auto", limits=linked(ping_interval=1.0))
        wire.take()
        wire.send(connect(compress_mode=claimed))
        assert wire.documents()[0]["connect_info"]
        broker.settle(2.0)
        wire.send(b"PONG\r\nPING\r\n")
        assert wire.lines() == [b"PING", b"PONG"]
        assert wire.leaf.compression.level == "not supported"

    @pytest.mark.parametrize("line", [connect(compress_mode="off"), info(compression="off")])
    def test_compressionOff(self, line: bytes) -> None:
        """A spoke that requests no compression gets none."""
        _, wire = self.offering()
        wire.take()
        wire.send(line)
        wire.send(connect() if line.startswith(b"INFO") else b"")
        assert b"connect_info" in wire.take() and wire.leaf.compression.level == "off"

    def test_unsupported(self) -> None:
        """
        A hub without support for compression does not offer it, and accepts no line before CONNECT.
        """
        _, wire = self.offering("not supported")
        assert "compression" not in wire.documents()[0]
        wire.send(info(compression="s2_fast"))
        assert wire.lines() == [b"-ERR 'Authorization Violation'"]

    def test_unknown(self) -> None:
        """An unknown mode ends the connection."""
        _, wire = self.offering()
        wire.take()
        wire.send(info(compression="gzip"))
        assert wire.lines() == [b"-ERR 'unsupported route compression mode \"gzip\"'"]
        assert wire.closed == "Protocol Violation"

    @pytest.mark.parametrize(
        "early", [b"PING\r\n", b"LS+ foo\r\n", info(compression="s2_fast"), b"x"]
    )
    def test_lineBeforeConnectInS2(self, early: bytes) -> None:
        """A line before CONNECT ends a connection with S2 too."""
        _, wire = self.offering()
        wire.send(info(compression="s2_fast"))
        wire.take()
        wire.squeeze(early)
        assert wire.unpack() == (b"", b"-ERR 'Authorization Violation'\r\n")
        assert wire.closed == "Authentication Failure"

    def test_silentPeerInS2(self) -> None:
        """A spoke that sends nothing after agreeing on S2 is disconnected."""
        broker, wire = self.offering(limits=linked(timeout=2.0))
        wire.send(info(compression="s2_fast"))
        wire.take()
        broker.settle(2.2)
        assert wire.unpack() == (b"", b"-ERR 'Authentication Timeout'\r\n")

    def test_smallChunks(self) -> None:
        """A chunk before the login may contain one line at most, and later more."""
        limits = linked(max_control_line=2000)
        _, wire = self.offering(limits=limits)
        wire.send(info(compression="s2_fast"))
        wire.squeeze(connect(name="x" * 2000))
        assert wire.closed == "Read Error"
        broker, wire = self.offering(limits=limits)
        heard = broker.subscribe(b"foo")
        wire.send(info(compression="s2_fast"))
        wire.squeeze(connect(), b"LMSG foo 5000\r\n" + bytes(5000) + b"\r\n")
        assert [len(body) for body in heard.bodies] == [5000] and not wire.closed

    def test_waiting(self) -> None:
        """Nothing more is decompressed while the authorizer decides."""
        broker, wire = self.offering()
        heard = broker.subscribe(b"foo")
        answer: Deferred[Grant] = Deferred()
        broker.decider.answer = answer
        wire.send(info(compression="s2_fast"))
        wire.squeeze(connect(), b"LMSG foo 2\r\nhi\r\n", b"PING\r\n")
        assert heard.bodies == [] and not wire.transport.isReading
        answer.callback(Grant("A", "u"))
        broker.settle()
        assert heard.bodies == [b"hi"] and wire.transport.isReading
        assert wire.unpack()[1].endswith(b"PONG\r\n")
