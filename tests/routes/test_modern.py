"""
The traffic over a route: interest and messages.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from zope.interface.verify import verifyObject

from natsbroker.interfaces import ILinkSubscriber, IOrigin
from natsbroker.routes.modern import RouteAccount
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import Message
from tests.routes.clusters import Node, connect, info
from tests.server.support import logLines
from tests.support import COMPILED, PURE, Names, Recorder, using


class TestTelling:
    """The interest of this member."""

    def test_allInterest(self) -> None:
        """A new member receives all interest, account by account."""
        other = Node()
        other.subscribe(b"foo")
        other.subscribe(b"foo")
        other.subscribe(b"bar.*", b"q")
        other.subscribe(b"bar.*", b"q")
        other.subscribe(b">", account="B")
        peer = other.accepted()
        peer.take()
        peer.send(connect() + info())
        assert sorted(peer.lines()) == [b"RS+ A bar.* q 2", b"RS+ A foo", b"RS+ B >"]

    def test_changes(self) -> None:
        """
        Interest is sent for the first and last subscription to a pattern, and for each change of a
        queue group's weight.
        """
        node = Node()
        wire = node.joined()
        one, two = node.subscribe(b"foo"), node.subscribe(b"foo")
        assert wire.lines() == [b"RS+ A foo"]
        one.subscription.cancel()
        assert wire.lines() == []
        two.subscription.cancel()
        assert wire.lines() == [b"RS- A foo"]
        three, four = node.subscribe(b"foo", b"q"), node.subscribe(b"foo", b"q")
        assert wire.lines() == [b"RS+ A foo q 1", b"RS+ A foo q 2"]
        three.subscription.cancel()
        four.subscription.cancel()
        assert wire.lines() == [b"RS+ A foo q 1", b"RS- A foo q"]

    def test_autoUnsubscribe(self) -> None:
        """The end of a subscription by its maximum is sent."""
        node = Node()
        wire = node.joined()
        recorder = node.subscribe(b"foo")
        recorder.subscription.cancelAfter(2)
        wire.send(b"RMSG A foo 1\r\na\r\nRMSG A foo 1\r\nb\r\nRMSG A foo 1\r\nc\r\n")
        assert wire.lines() == [b"RS+ A foo", b"RS- A foo"]
        assert recorder.bodies == [b"a", b"b"]

    def test_oneHop(self) -> None:
        """An interest from one member is not sent to another."""
        node = Node()
        one, two = node.joined(), node.joined(server_id="P2", server_name="p2")
        two.take()
        one.send(b"RS+ A foo\r\n")
        assert two.lines() == []


class TestHearing:
    """The interest of the peer."""

    def test_messages(self) -> None:
        """A peer gets messages that it has interest in, and no others."""
        node = Node()
        wire = node.joined()
        wire.send(b"RS+ A foo.*\r\n")
        assert node.publish(b"foo.a") == 1
        assert node.publish(b"bar") == 0
        assert node.publish(b"foo.b", b"x", account="B") == 0
        assert node.publish(b"foo.c", b"", reply=b"r") == 1
        assert wire.take() == b"RMSG A foo.a 2\r\nhi\r\nRMSG A foo.c r 0\r\n\r\n"

    @pytest.mark.parametrize("names", [PURE, COMPILED], ids=["pure", "compiled"])
    @pytest.mark.parametrize(
        "odd",
        [
            b"RS+ A a\r\n",
            b"RS+ A a q 12\r\n",
            b"RS+ A a.* \r\n",
            b"RS+ A  a\r\n",
            b"rs+ A a\r\n",
            b"RS+\tA a\r\n",
            b"RS+ A a q 0\r\n",
            b"RS+ A a..b\r\nRS+ A >\r\n",
            b"RS+ nobody a\r\n",
            b"RS+ A a\n",
            b"LS+ LC A a\r\n",
            b"RS- A x.1\r\n",
            b"PING\r\n",
            b"RS+ A a q\r\n",
            b"RS+ A a q 1 2\r\n",
            b"RS+ A\r\n",
            b"RS+ A " + b"a" * 70000 + b"\r\n",
        ],
    )
    def test_inBulk(self, names: Names | None, odd: bytes) -> None:
        """Interest that arrives in one piece has the same effect as line by line."""
        if names is None:
            pytest.skip("the compiled names are not there")
        data = b"RS+ A x.1\r\nRS+ A x.2 q 3\r\n" + odd + b"RS+ A x.3\r\nRS+ A x.4\r\n"

        def heard(pieces: list[bytes]) -> tuple[object, ...]:
            with using(names):
                node = Node()
                wire = node.joined()
                wire.take()
                for piece in pieces:
                    wire.send(piece)
                for subject in (b"x.1", b"x.2", b"x.3", b"x.4", b"a"):
                    node.publish(subject)
                return wire.take(), wire.closed

        assert heard([data]) == heard(data.splitlines(keepends=True))

    def test_sentOnce(self) -> None:
        """A peer gets a message once, however many of its patterns match."""
        node = Node()
        wire = node.joined()
        wire.send(b"RS+ A foo\r\nRS+ A >\r\nRS+ A foo q 1\r\nRS+ A * r 2\r\nLS+ LC A foo\r\n")
        assert node.publish(b"foo") == 1
        line = wire.lines()[0]
        assert sorted(line.split()) == sorted(b"RMSG A foo | q r 2".split())

    def test_queueOnly(self) -> None:
        """
        A message for queue groups only has the mark C{+} or C{|}, its reply subject, and the names
        of the groups.
        """
        node = Node()
        wire = node.joined()
        wire.send(b"RS+ A foo q 1\r\n")
        node.publish(b"foo", b"x", reply=b"rep")
        assert wire.take() == b"RMSG A foo + rep q 1\r\nx\r\n"

    def test_localMembersFirst(self) -> None:
        """A queue group with a member at this broker gets the message here."""
        node = Node()
        wire = node.joined()
        recorder = node.subscribe(b"foo", b"q")
        wire.take()
        wire.send(b"RS+ A foo q 50\r\n")
        for _ in range(20):
            node.publish(b"foo")
        assert len(recorder.got) == 20 and wire.lines() == []

    def test_weights(self) -> None:
        """Among other members, one is chosen by its weight, also after the weight has changed."""
        node = Node()
        one, two = node.joined(), node.joined(server_id="P2", server_name="p2")
        one.send(b"RS+ A foo q 1\r\n")
        two.send(b"RS+ A foo q 9\r\n")
        one.take(), two.take()
        for _ in range(400):
            node.publish(b"foo", b"")
        first = one.take().count(b"RMSG")
        assert two.take().count(b"RMSG") == 400 - first
        assert 10 < first < 90
        one.send(b"RS+ A foo q 81\r\n")
        for _ in range(400):
            node.publish(b"foo", b"")
        assert one.take().count(b"RMSG") > 300

    def test_withdrawnInterest(self) -> None:
        """
        Withdrawn interest ends at once, however often it was sent. Withdrawing unknown interest
        does nothing.
        """
        node = Node()
        wire = node.joined()
        wire.send(b"RS+ A foo\r\nRS+ A foo\r\nRS- A foo\r\nRS- A foo\r\nRS- A bar q\r\n")
        assert node.publish(b"foo") == 0 and not wire.closed

    def test_leafs(self) -> None:
        """Interest of a peer's leafnodes is counted apart from the peer's own."""
        node = Node()
        wire = node.joined()
        wire.send(b"LS+ LC A foo\r\nRS+ A foo\r\nRS- A foo\r\n")
        assert node.publish(b"foo") == 1
        wire.send(b"LS- LC A foo\r\n")
        assert node.publish(b"foo") == 0

    def test_leafsOfOldPeers(self) -> None:
        """An old peer withdraws interest of a leafnode without naming the leafnode's cluster."""
        node = Node()
        wire = node.joined(lnocu=False)
        wire.send(b"LS+ LC A foo\r\nLS- A foo\r\n")
        assert not wire.closed
        assert node.publish(b"foo") == 0

    def test_headers(self) -> None:
        """A peer without headers gets none."""
        node = Node()
        one = node.joined()
        two = node.joined(server_id="P2", server_name="p2", headers=False)
        for wire in (one, two):
            wire.send(b"RS+ A foo\r\n")
            wire.take()
        node.publish(b"foo", b"NATS/1.0\r\n\r\nhi", headerLength=12)
        assert one.take() == b"HMSG A foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"
        assert two.take() == b"RMSG A foo 2\r\nhi\r\n"

    def test_unknownAccount(self) -> None:
        """Interest of an unknown account is logged, and kept for later."""
        node = Node()
        wire = node.joined()
        with logLines() as lines:
            wire.send(b"RS+ NOPE foo\r\n")
        assert any('Unknown account "NOPE" for remote subject "foo"' in line for line in lines)
        node.buses.add("NOPE")
        node.cluster.accountsChanged()
        assert node.publish(b"foo", account="NOPE") == 1
        assert wire.take() == b"RMSG NOPE foo 2\r\nhi\r\n"

    @pytest.mark.parametrize("line", [b"RS+ A", b"RS+ A foo q", b"RS- A", b"LS+ LC", b"RMSG A 2"])
    def test_wrongArguments(self, line: bytes) -> None:
        """Wrong arguments end the connection without an error line."""
        wire = Node().joined()
        wire.send(line + b"\r\n")
        assert wire.lines() == [] and wire.closed == "Protocol Violation"

    def test_badPattern(self) -> None:
        """An invalid pattern is logged; the connection stays."""
        node = Node()
        wire = node.joined()
        with logLines() as lines:
            wire.send(b"RS+ A foo..bar\r\nRS+ A foo\r\n")
        assert any("Could not insert subscription" in line for line in lines)
        assert node.publish(b"foo") == 1 and not wire.closed


class TestMessages:
    """Messages of the peer."""

    def test_plainSubscribers(self) -> None:
        """A message without queue groups goes to plain subscribers only."""
        node = Node()
        plain, member = node.subscribe(b"foo"), node.subscribe(b"foo", b"q")
        node.joined().send(b"RMSG A foo rep 5\r\nhello\r\n")
        assert plain.bodies == [b"hello"] and plain.got[0][0].reply == b"rep"
        assert member.bodies == []

    def test_queues(self) -> None:
        """One member of each named group gets the message."""
        node = Node()
        members = [node.subscribe(b"foo", b"q") for _ in range(3)]
        other = node.subscribe(b"foo", b"r")
        wire = node.joined()
        for _ in range(30):
            wire.send(b"RMSG A foo | q 1\r\nx\r\n")
        assert sum(len(member.got) for member in members) == 30
        assert all(member.got for member in members) and not other.got

    def test_headers(self) -> None:
        """Headers come through, also with an origin."""
        node = Node()
        recorder = node.subscribe(b"foo")
        wire = node.joined()
        wire.send(b"HMSG A foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\nLMSG LC A foo 0 2\r\nho\r\n")
        assert [(message.headers, message.payload) for message, _ in recorder.got] == [
            (b"NATS/1.0\r\n\r\n", b"hi"),
            (b"", b"ho"),
        ]

    def test_oneHop(self) -> None:
        """A message from one member is not passed on to another, nor sent back."""
        node = Node()
        one, two = node.joined(), node.joined(server_id="P2", server_name="p2")
        for wire in (one, two):
            wire.send(b"RS+ A foo\r\nRS+ A foo r 1\r\n")
            wire.take()
        recorder = node.subscribe(b"foo")
        one.take(), two.take()
        one.send(b"RMSG A foo | q 2\r\nhi\r\n")
        assert recorder.bodies == [b"hi"]
        assert one.lines() == two.lines() == []

    def test_lastMemberGone(self) -> None:
        """
        A message for a queue group that has no member here any more goes to a member elsewhere, and
        otherwise back to the sender.
        """
        node = Node()
        one, two = node.joined(), node.joined(server_id="P2", server_name="p2")
        member = node.subscribe(b"foo", b"q")
        for wire in (one, two):
            wire.send(b"RS+ A foo q 1\r\n")
            wire.take()
        member.subscription.cancel()
        one.send(b"RMSG A foo + r q 2\r\nhi\r\n")
        assert one.lines() == [b"RS- A foo q"]
        assert two.lines() == [b"RS- A foo q", b"RMSG A foo + r q 2", b"hi"]
        two.hangUp()
        one.send(b"RMSG A foo | q 2\r\nho\r\n")
        assert one.lines() == [b"RMSG A foo | q 2", b"ho"]
        assert member.got == []

    def test_accounts(self) -> None:
        """
        A message is delivered in its own account only. A message for an unknown account is dropped.
        """
        node = Node()
        here, there = node.subscribe(b"foo"), node.subscribe(b"foo", account="B")
        wire = node.joined()
        wire.send(b"RMSG B foo 1\r\nb\r\nRMSG NOPE foo 1\r\nx\r\nPING\r\n")
        assert (here.bodies, there.bodies) == ([], [b"b"])
        assert b"PONG" in wire.lines()

    def test_origin(self) -> None:
        """
        The origin of a message over a route is its account, without restrictions of permissions.
        """
        node = Node()
        recorder: Recorder = node.subscribe(b"foo")
        node.joined().send(b"RMSG A foo 1\r\nx\r\n")
        origin = recorder.got[0][0].origin
        assert isinstance(origin, RouteAccount)
        assert verifyObject(IOrigin, origin) and verifyObject(ILinkSubscriber, origin)
        assert origin.grant.account == "A" and origin.grant.publish is None
        assert origin.clientInfo(False).server == ""
        assert origin.clientInfo(True).server == "peer"

    @pytest.mark.parametrize(
        ("account", "line"), [("A", b"LMSG E A foo 0 2"), ("B", b"RMSG A foo 2")]
    )
    def test_cluster(self, account: str, line: bytes) -> None:
        """
        A message from a leafnode names the leafnode's cluster, unless it comes from another
        account.
        """
        node = Node()
        wire = node.joined()
        wire.send(b"RS+ A foo\r\n")
        wire.take()
        leaf = SimpleNamespace(cluster=b"E", grant=Grant(account))
        node.publish(b"foo", origin=leaf)
        assert wire.lines() == [line, b"hi"]


class TestEnd:
    """The end of a connection leaves nothing."""

    def test_atOnce(self) -> None:
        """A route that ends gets no more messages, even before its transport is closed."""
        node = Node()
        wire = node.joined()
        wire.send(b"RS+ A foo\r\nRS+ A foo q 1\r\n")
        assert node.publish(b"foo") == 1
        wire.transport.taking = False
        wire.send(b"nonsense\r\n")
        assert wire.closed
        assert node.bus().publish(Message(b"foo", b"")) == 0

    def test_lostPeer(self) -> None:
        """A link whose peer disconnects ends, and nothing more is sent to it."""
        node = Node()
        wire = node.joined()
        wire.send(b"RS+ A foo\r\n")
        wire.hangUp()
        assert node.publish(b"foo") == 0
        assert len(node.buses.accounts["A"]) == 0
        node.subscribe(b"more")
        assert node.cluster.members == {}

    def test_manyTimes(self) -> None:
        """Links that open and close leave nothing behind."""
        node = Node()
        node.subscribe(b"foo")
        for number in range(20):
            wire = node.joined(server_id=f"P{number}", server_name=f"p{number}")
            wire.send(b"RS+ A foo\r\nRS+ B bar q 3\r\n")
            wire.hangUp()
        assert len(node.buses.accounts["A"]) == 1 and len(node.buses.accounts["B"]) == 0
        assert len(node.cluster) == 0
