"""
Messages over a connection that another cluster dialled, on the compiled lane and the readable path.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zope.interface import implementer

from natsbroker.gateways.inbound import GatewayOrigin
from natsbroker.gateways.policies import InterestOnlyPolicy, SwitchingPolicy
from natsbroker.interfaces import IOrigin, IOutboxLink
from natsbroker.testing.strategies import literalSubjects, patterns, payloads
from natsbroker.wire.dialects.gateway import commandLine
from natsbroker.wire.dialects.route import messageFrame
from natsbroker.wire.serverinfo import GatewayCommand
from natsbroker.wire.values import Kind, Message
from tests.links.ears import Ear
from tests.routes.crossings import OURS, THEIRS, Town
from tests.subjects.strategies import STREAM_REPLIES
from tests.support import COMPILED, PURE, Names, Recorder, needsCompiled, onEach, pieces, using

START = commandLine("HERE", GatewayCommand.ALL_SUBS_START, b"A")
COMPLETE = commandLine("HERE", GatewayCommand.ALL_SUBS_COMPLETE, b"A")
HEADERS = b"NATS/1.0\r\nA: 1\r\n\r\n"


@implementer(IOutboxLink)
class Member(Ear):
    """
    Another member of our cluster, with an outbox.
    """

    prefix = b"A "

    def forward(self, message: Message, queues: tuple[bytes, ...]) -> None:
        self.outbox.write(messageFrame(b"A", message, queues, True))


@onEach
class TestTelling:
    """The interest that is sent to the other cluster."""

    def test_optimistic(self, names: Names) -> None:
        """
        An optimistic sender gets one refusal for each unwanted subject, after a message on it.
        """
        with using(names):
            town = Town()
            town.bus().subscribe(b"want", Recorder())
            wire = town.arriving()
            assert wire.take() == b""
            for _ in range(3):
                wire.send(b"RMSG A x 1\r\nx\r\nRMSG A want 1\r\nx\r\n")
            assert wire.take() == b"RS- A x\r\n"
            town.bus().subscribe(b"x", Recorder())
            assert wire.take() == b"RS+ A x\r\n"

    def test_noInterestAtAll(self, names: Names) -> None:
        """An account without subscriptions is refused as a whole."""
        with using(names):
            town = Town()
            wire = town.arriving()
            wire.send(b"RMSG A x 1\r\nx\r\nRMSG A y 1\r\nx\r\n")
            assert wire.take() == b"A- A\r\n"
            town.bus().subscribe(b"y", Recorder())
            assert wire.take() == b"A+ A\r\n"

    def test_switch(self, names: Names) -> None:
        """A sender gets all interest after a thousand refusals."""
        with using(names):
            town = Town(SwitchingPolicy(3))
            town.bus().subscribe(b"want", Recorder())
            wire = town.arriving()
            for number in range(6):
                wire.send(b"RMSG A x.%d 1\r\nx\r\n" % number)
            lines = b"".join(b"RS- A x.%d\r\n" % number for number in range(3))
            assert wire.take() == lines + START + b"RS+ A want\r\n" + COMPLETE
            assert wire.traffic.figures()["A"]["mode"] == "interest-only"

    @pytest.mark.parametrize(
        ("policy", "promised"), [(SwitchingPolicy(), True), (InterestOnlyPolicy(), False)]
    )
    def test_atOnce(self, names: Names, policy: Any, promised: bool) -> None:
        """
        A sender gets all interest at once if it announces all interest, or if our policy requires
        that.
        """
        with using(names):
            town = Town(policy)
            town.bus().subscribe(b"a", Recorder())
            town.bus().subscribe(b"b", Recorder(), queue=b"q")
            wire = town.arriving(gateway_iom=promised)
            assert wire.take() == b"RS+ A b q 1\r\n" + START + b"RS+ A a\r\n" + COMPLETE
            assert sorted(wire.traffic.interests("A")) == [(b"a", b""), (b"b", b"q")]

    def test_wholeCluster(self, names: Names) -> None:
        """
        A sender gets the interest of members and leafnodes, but not that of hubs or other clusters.
        """
        with using(names):
            town = Town(InterestOnlyPolicy())
            wire = town.arriving()
            wire.take()
            for kind, pattern in ((Kind.ROUTE, b"r"), (Kind.SPOKE, b"s"), (Kind.HUB, b"h")):
                town.bus(kind).subscribe(pattern, Member(names, town), b"A ")
            town.bus(Kind.LOCAL).subscribe(b"l", Recorder())
            town.leaving().say(b"RS+ A g q 1")
            assert wire.lines() == [b"RS+ A r", b"RS+ A s"]


class TestAccounts:
    """Accounts."""

    def test_unknown(self) -> None:
        """An unknown account is refused once, and wanted again when it is created."""
        town = Town()
        wire = town.arriving()
        wire.send(b"RMSG B x 1\r\nx\r\nRMSG B y 1\r\nx\r\n")
        assert wire.take() == b"A- B\r\n"
        town.add("B")
        wire.traffic.accountsChanged()
        assert wire.take() == b""
        heard = Recorder()
        town.bus(account="B").subscribe(b"x", heard)
        assert wire.take() == b"A+ B\r\n"
        wire.send(b"RMSG B x 1\r\nx\r\n")
        assert heard.bodies == [b"x"]

    def test_removedAccount(self) -> None:
        """A message for a removed account reaches no receiver."""
        town = Town()
        heard = Recorder()
        town.bus().subscribe(b"x", heard)
        wire = town.arriving()
        del town.accounts["A"]
        wire.traffic.accountsChanged()
        wire.send(b"RMSG A x 1\r\nx\r\n")
        assert (heard.got, wire.take()) == ([], b"A- A\r\n")

    def test_nothingAfterTheEnd(self) -> None:
        """Nothing is sent after the end of the connection."""
        town = Town(InterestOnlyPolicy())
        wire = town.arriving()
        traffic = wire.traffic
        wire.hangUp()
        town.bus().subscribe(b"x", Recorder())
        assert wire.traffic is None
        assert traffic.figures() == {}
        assert list(traffic.interests("A")) == []

    def test_origin(self) -> None:
        """A service receives the origin of a request from another cluster."""
        origin = GatewayOrigin("A", "there-1")
        assert IOrigin.providedBy(origin)
        assert origin.grant.account == "A"
        assert origin.clientInfo(False).server == ""
        assert (origin.clientInfo(True).server, origin.clientInfo(True).kind) == (
            "there-1",
            "Gateway",
        )


@onEach
class TestReplies:
    """Mapped reply subjects."""

    def test_asked(self, names: Names) -> None:
        """
        A client receives the original reply subject, and other members receive it with the prefix.
        """
        with using(names):
            town = Town()
            ear, member = Ear(names, town), Member(names, town)
            town.bus().subscribe(b"a", ear, b"1")
            town.bus(Kind.ROUTE).subscribe(b"a", member, b"A ")
            wire, out = town.arriving(), town.leaving()
            wire.send(b"RMSG A a %b_INBOX.x 1\r\n?\r\n" % THEIRS.prefix)
            assert ear.heard == b"MSG a 1 _INBOX.x 1\r\n?\r\n"
            assert member.heard == b"RMSG A a %b_INBOX.x 1\r\n?\r\n" % THEIRS.prefix
            town.publish(b"_INBOX.x", body=b"!")
            assert out.take() == b"RMSG A %b_INBOX.x 1\r\n!\r\n" % THEIRS.prefix

    def test_answerReachesRequester(self, names: Names) -> None:
        """An answer reaches its requester, also one in a queue group."""
        with using(names):
            town = Town()
            ear, member = Ear(names, town), Recorder()
            town.bus().subscribe(b"_INBOX.x", ear, b"1")
            town.bus().subscribe(b"_INBOX.*", member, queue=b"q")
            wire = town.arriving()
            wire.take()
            for prefix in (OURS.prefix, OURS.oldPrefix):
                wire.send(b"RMSG A %b_INBOX.x 1\r\n!\r\n" % prefix)
            assert ear.heard == b"MSG _INBOX.x 1 1\r\n!\r\n" * 2
            assert (member.bodies, wire.take()) == ([b"!", b"!"], b"")

    def test_ofAnotherMember(self, names: Names) -> None:
        """
        An answer to a request of another member is passed to that member unchanged. If the member
        has left, the answer is delivered here without its prefix.
        """
        with using(names):
            town = Town()
            ear, member = Ear(names, town), Member(names, town)
            town.bus().subscribe(b"_INBOX.x", ear, b"1")
            wire = town.arriving()
            line = b"RMSG A %bmember._INBOX.x more 1\r\n!\r\n" % OURS.prefix[:-7]
            town.members[b"member"] = member
            wire.send(line)
            town.settle()
            assert (ear.heard, member.heard) == (b"", line)
            del town.members[b"member"]
            wire.send(line)
            assert ear.heard == b"MSG _INBOX.x 1 more 1\r\n!\r\n"

    def test_streamSubject(self, names: Names) -> None:
        """
        Clients get a message of a JetStream consumer under its subject in the stream, and their
        acknowledgement is sent back. Other members get the reply subject unchanged.
        """
        ack = b"$JS.ACK.S.C.1.2.3.4.5"
        with using(names):
            town = Town()
            out = town.leaving()
            ear, member = Ear(names, town), Member(names, town)
            town.bus().subscribe(b"in.1", ear, b"1")
            town.bus(Kind.ROUTE).subscribe(b"in.2", member, b"A ")
            wire = town.arriving()
            for subject in (b"in.1", b"in.2"):
                wire.send(b"RMSG A %b %b%b@s.a 1\r\n?\r\n" % (subject, THEIRS.prefix, ack))
            town.settle()
            assert ear.heard == b"MSG s.a 1 %b 1\r\n?\r\n" % ack
            assert member.heard == b"RMSG A in.2 %b%b@s.a 1\r\n?\r\n" % (THEIRS.prefix, ack)
            town.publish(ack, body=b"+ACK")
            assert out.take() == b"RMSG A %b%b 4\r\n+ACK\r\n" % (THEIRS.prefix, ack)

    def test_notOurs(self, names: Names) -> None:
        """An answer to another broker's request is dropped, without a refusal of its subject."""
        with using(names):
            town = Town()
            everything = Recorder()
            town.bus().subscribe(b">", everything)
            wire = town.arriving()
            wire.send(b"RMSG A _GR_.xxxxxx.yyyyyy._INBOX.x 1\r\n!\r\n")
            assert (everything.got, wire.take()) == ([], b"")


Arriving = tuple[bytes, bytes, bytes, list[bytes], bool]

ARRIVING = st.lists(
    st.tuples(
        literalSubjects(),
        st.just(b"") | literalSubjects() | st.just(THEIRS.prefix + b"r") | STREAM_REPLIES,
        payloads(),
        st.lists(st.sampled_from([b"q", b"r"]), max_size=2, unique=True),
        st.booleans(),
    ),
    max_size=8,
)

MINE = st.lists(
    st.tuples(
        patterns(),
        st.sampled_from([b"", b"", b"q"]),
        st.sampled_from([Kind.CLIENT, Kind.CLIENT, Kind.ROUTE, Kind.SPOKE, Kind.HUB]),
    ),
    max_size=5,
)


def arriving(messages: list[Arriving]) -> bytes:
    """The frames that a peer sends."""
    data = b""
    for subject, reply, body, queues, hasHeaders in messages:
        block = HEADERS if hasHeaders else b""
        data += messageFrame(b"A", Message(subject, block + body, reply, len(block)), queues, True)
    return data


def inbound(
    names: Names, mine: list[tuple[bytes, bytes, Kind]], data: bytes, cuts: list[int]
) -> tuple[list[bytes], bytes]:
    """The messages that all receivers get from a peer, and the lines that the peer gets."""
    with using(names):
        town = Town(SwitchingPolicy(4))
        # What stands for another cluster among the answers must not get anything.
        out = town.leaving()
        ears = []
        for number, (pattern, queue, kind) in enumerate(mine):
            ear = Ear(names, town) if kind is Kind.CLIENT else Member(names, town)
            tag = b"%d" % number if kind is Kind.CLIENT else b"A "
            town.bus(kind).subscribe(pattern, ear, tag, queue)
            ears.append(ear)
        wire = town.arriving()
        for piece in pieces(data, cuts):
            wire.send(piece)
        assert not wire.closed
        assert out.take() == b""
        return [ear.heard for ear in ears], wire.take()


@needsCompiled
class TestLanes:
    """The compiled lane, compared with the readable path."""

    @given(MINE, ARRIVING, st.lists(st.integers(0, 400), max_size=5))
    @settings(max_examples=150, deadline=None)
    def test_sameBytesOnBothPaths(
        self,
        mine: list[tuple[bytes, bytes, Kind]],
        messages: list[Arriving],
        cuts: list[int],
    ) -> None:
        """
        All receivers and the peer get the same bytes on both paths, if no random choice is left.
        """
        assert COMPILED is not None
        groups = [interest for interest in mine if interest[1]]
        mine = [interest for interest in mine if not interest[1]] + groups[:1]
        data = arriving(messages)
        assert inbound(COMPILED, mine, data, cuts) == inbound(PURE, mine, data, cuts)

    def test_takenByTheLane(self) -> None:
        """The lane takes messages for clients and other members, groups included."""
        assert COMPILED is not None
        with using(COMPILED):
            town = Town()
            town.leaving()
            client, member = Ear(COMPILED, town), Member(COMPILED, town)
            town.bus().subscribe(b"a", client, b"1")
            town.bus(Kind.ROUTE).subscribe(b"a", member, b"A ")
            town.bus(Kind.ROUTE).subscribe(b"a", member, b"A ", b"q")
            wire = town.arriving()
            link = wire.link
            link.decoder.append(
                b"RMSG A a 1\r\n1\r\nRMSG A a r 1\r\n2\r\nRMSG A a | q 1\r\n3\r\n"
                b"HMSG A a + r q 18 19\r\n%b4\r\n" % HEADERS
            )
            assert link.lane.forward() == 4
            town.batch.flush()
            assert client.heard == (
                b"MSG a 1 1\r\n1\r\nMSG a 1 r 1\r\n2\r\nMSG a 1 1\r\n3\r\n"
                b"HMSG a 1 r 18 19\r\n%b4\r\n" % HEADERS
            )
            assert member.heard == (
                b"RMSG A a 1\r\n1\r\nRMSG A a r 1\r\n2\r\nRMSG A a | q 1\r\n3\r\n"
                b"HMSG A a + r q 18 19\r\n%b4\r\n" % HEADERS
            )

    def test_onlyGroups(self) -> None:
        """
        The lane takes messages that only queue groups want, here or at another member, after the
        subject was refused for others, until that changes.
        """
        assert COMPILED is not None
        with using(COMPILED):
            town = Town()
            client, member = Ear(COMPILED, town), Member(COMPILED, town)
            town.bus().subscribe(b"a", client, b"1", b"q")
            town.bus(Kind.ROUTE).subscribe(b"b", member, b"A ", b"q")
            wire = town.arriving()
            wire.take()
            lines = b"RMSG A a | q 1\r\n1\r\nRMSG A b + r q 1\r\n2\r\n"
            wire.send(lines)
            assert wire.take() == b"RS- A a\r\nRS- A b\r\n"
            wire.link.decoder.append(lines * 2)
            assert wire.link.lane.forward() == 4
            town.batch.flush()
            assert client.heard == b"MSG a 1 1\r\n1\r\n" * 3
            assert member.heard == b"RMSG A b + r q 1\r\n2\r\n" * 3
            plain = town.bus().subscribe(b"a", Recorder())
            assert wire.take() == b"RS+ A a\r\n"
            plain.cancel()
            wire.link.decoder.append(lines)
            assert wire.link.lane.forward() == 0
            wire.send(b"")
            assert wire.take() == b"RS- A a\r\n"

    def test_onlyGroupsOfAll(self) -> None:
        """A sender that has all interest gets no refusals for messages that only groups want."""
        assert COMPILED is not None
        with using(COMPILED):
            town = Town(InterestOnlyPolicy())
            client = Ear(COMPILED, town)
            town.bus().subscribe(b"a.*", client, b"1", b"q")
            wire = town.arriving()
            wire.link.decoder.append(
                b"RMSG A a.1 | q 1\r\n1\r\nRMSG A a.2 | q 1\r\n2\r\nRMSG A a.2 | r 1\r\n3\r\n"
            )
            assert wire.link.lane.forward() == 3
            town.batch.flush()
            assert client.heard == b"MSG a.1 1 1\r\n1\r\nMSG a.2 1 1\r\n2\r\n"

    @pytest.mark.parametrize(
        "line",
        [
            b"RMSG A x 1\r\n1\r\n",
            b"RMSG A a %br 1\r\n1\r\n" % THEIRS.prefix,
            b"RMSG A a + %br q 1\r\n1\r\n" % THEIRS.prefix,
            b"RMSG A %ba 1\r\n1\r\n" % OURS.prefix,
        ],
        ids=["unwanted", "mapped reply", "mapped reply, queues", "mapped subject"],
    )
    def test_declines(self, line: bytes) -> None:
        """
        The lane leaves unwanted messages, and those with mapped subjects, to the readable path.
        """
        assert COMPILED is not None
        with using(COMPILED):
            town = Town()
            town.bus().subscribe(b"a", Ear(COMPILED, town), b"1")
            link = town.arriving().link
            link.decoder.append(line)
            assert link.lane.forward() == 0
