"""The lanes for routes: the compiled lane and the readable path give the same bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsbroker import hot
from natsbroker.accounts.shadows import ImportedStream
from natsbroker.subjects.renaming import Renaming
from natsbroker.testing.strategies import literalSubjects, patterns, payloads
from natsbroker.wire.dialects.route import messageFrame
from natsbroker.wire.values import Kind, Message
from tests.links.ears import Ear, Mouth
from tests.routes.clusters import Node
from tests.subjects.strategies import STREAM_REPLIES
from tests.support import COMPILED, PURE, LinkRecorder, Names, needsCompiled, pieces, using

HEADERS = b"NATS/1.0\r\nA: 1\r\n\r\n"

#: Queue groups; most members of one are given the same messages in any case, since which of them is
#: chosen is a matter of luck.
QUEUES = [b"q", b"r"]

Published = tuple[bytes, bytes, bytes, bool]

PUBLISHED = st.lists(
    st.tuples(literalSubjects(), st.just(b"") | literalSubjects(), payloads(), st.booleans()),
    max_size=8,
)


COUNTS = st.lists(st.sampled_from([1, 1, 2, 3, 40]), min_size=8, max_size=8)
"""For each message, how many have its line in a row: the lanes forward such runs together."""


def inRuns(messages: list[Any], counts: list[int]) -> list[Any]:
    """Repeat messages a number of times, with different bodies of equal length."""
    return [
        (subject, reply, (b"%d." % number * len(body))[: len(body)], *more)
        for (subject, reply, body, *more), count in zip(messages, counts, strict=False)
        for number in range(count)
    ]


def published(messages: list[Published]) -> bytes:
    """The publishes of a client."""
    data = b""
    for subject, reply, body, hasHeaders in messages:
        names = b"%b %b" % (subject, reply) if reply else subject
        if hasHeaders:
            size = len(HEADERS) + len(body)
            data += b"HPUB %b %d %d\r\n%b%b\r\n" % (names, len(HEADERS), size, HEADERS, body)
        else:
            data += b"PUB %b %d\r\n%b\r\n" % (names, len(body), body)
    return data


INTERESTS = st.lists(
    st.builds(b"RS+ A %b\r\n".__mod__, patterns())
    | st.builds(
        lambda pattern, queue: b"RS+ A %b %b 2\r\n" % (pattern, queue),
        patterns(),
        st.sampled_from(QUEUES),
    ),
    max_size=5,
)


def inAnyOrder(data: bytes) -> list[list[bytes]]:
    """The frames for a peer, without regard to the order of queue groups."""
    subjects = []
    for frame in re.split(rb"(?=[RH]MSG A)", data):
        line, _, body = frame.partition(b"\r\n")
        words = line.split(b" ")
        subjects.append([*sorted(words), *words[:3], body])
    return subjects


def outbound(
    names: Names,
    interest: list[bytes],
    data: bytes,
    headers: bool,
    members: list[tuple[bytes, bytes]] | None = None,
) -> tuple[bytes, bytes, int]:
    """
    Publish as a client; return the frames for a peer and for a local client, and the number that
    the lane took.

    @param members: patterns and queue groups of the client.
    """
    with using(names):
        node = Node()
        wire = node.joined(headers=headers)
        ear = Ear(names, node)
        node.bus().subscribe(b"a.>", ear, b"7")
        for pattern, queue in members or []:
            node.bus().subscribe(pattern, ear, queue, queue)
        wire.send(b"".join(interest))
        wire.take()
        taken = Mouth(names, node).say(data)
        return wire.take(), ear.heard, taken


@needsCompiled
class TestOutbound:
    """Messages of clients."""

    @given(
        interest=INTERESTS,
        messages=PUBLISHED,
        counts=COUNTS,
        headers=st.booleans(),
        members=st.lists(st.tuples(patterns(), st.sampled_from(QUEUES)), max_size=3),
    )
    @settings(max_examples=80, deadline=None)
    def test_sentOnceOnBothPaths(
        self,
        interest: list[bytes],
        messages: list[Published],
        counts: list[int],
        headers: bool,
        members: list[tuple[bytes, bytes]],
    ) -> None:
        """The compiled lane sends the same frames to a peer as the readable path."""
        assert COMPILED is not None
        data = published(inRuns(messages, counts))
        fast = outbound(COMPILED, interest, data, headers, members)
        slow = outbound(PURE, interest, data, headers, members)
        assert inAnyOrder(fast[0]) == inAnyOrder(slow[0])
        assert sorted(fast[1].split(b"MSG")) == sorted(slow[1].split(b"MSG"))

    def test_takenByTheLane(self) -> None:
        """
        The lane takes a message for a peer, and sends it once even if several patterns of the peer
        match.
        """
        assert COMPILED is not None
        interest = [b"RS+ A a.b\r\n", b"RS+ A a.*\r\n", b"LS+ LC A a.b\r\n"]
        data = published([(b"a.b", b"r", b"x", False), (b"a.b", b"", b"y", True)])
        peer, ear, taken = outbound(COMPILED, interest, data, True)
        assert taken == 2
        assert peer == b"RMSG A a.b r 1\r\nx\r\nHMSG A a.b 18 19\r\n" + HEADERS + b"y\r\n"
        assert ear == b"MSG a.b 7 r 1\r\nx\r\nHMSG a.b 7 18 19\r\n" + HEADERS + b"y\r\n"

    def test_workOfARun(self) -> None:
        """Messages of a run for a peer cost less work than single ones."""
        assert COMPILED is not None
        with using(COMPILED):
            node = Node()
            wire, ear = node.joined(), Ear(COMPILED, node)
            wire.send(b"RS+ A a.b\r\n")
            node.bus().subscribe(b"a.b", ear, b"7")
            wire.take()
            batch = node.batch
            before = batch.work
            assert Mouth(COMPILED, node).say(b"PUB a.b 1\r\nx\r\n" * 2000) == 2000
            assert batch.work - before < 2000
            assert wire.take() == b"RMSG A a.b 1\r\nx\r\n" * 2000
            assert ear.heard == b"MSG a.b 7 1\r\nx\r\n" * 2000

    def test_queues(self) -> None:
        """The lane sends one frame for all queue groups of a peer, with their names."""
        assert COMPILED is not None
        interest = [b"RS+ A a.b q 1\r\n", b"RS+ A a.* q 2\r\n", b"RS+ A a.b r 1\r\n"]
        data = published([(b"a.b", b"", b"x", False), (b"a.b", b"_R", b"y", True)])
        peer, _, taken = outbound(COMPILED, interest, data, True)
        assert taken == 2
        assert inAnyOrder(peer) == inAnyOrder(
            b"RMSG A a.b | q r 1\r\nx\r\nHMSG A a.b + _R q r 18 19\r\n" + HEADERS + b"y\r\n"
        )

    def test_localMembersFirst(self) -> None:
        """
        The lane delivers to a queue group's local member. Other groups get the message at the peer.
        """
        assert COMPILED is not None
        interest = [b"RS+ A a.b\r\n", b"RS+ A a.b q 1\r\n", b"RS+ A a.b r 1\r\n"]
        data = published([(b"a.b", b"", b"x", False)])
        peer, ear, taken = outbound(COMPILED, interest, data, True, [(b"a.b", b"q")])
        assert (peer, taken) == (b"RMSG A a.b | r 1\r\nx\r\n", 1)
        assert sorted(ear.split(b"\r\n")) == sorted(
            b"MSG a.b 7 1\r\nx\r\nMSG a.b q 1\r\nx\r\n".split(b"\r\n")
        )

    def test_weights(self) -> None:
        """
        The lane chooses among peers by the weight of their queue groups, and sends each message
        once.
        """
        assert COMPILED is not None
        with using(COMPILED):
            node = Node()
            weights = {"P1": 1, "P2": 3, "P3": 6}
            wires = {name: node.joined(server_id=name, server_name=name) for name in weights}
            for name, wire in wires.items():
                wire.send(b"RS+ A foo q %d\r\n" % weights[name])
                wire.take()
            messages: list[Published] = [(b"foo", b"", b"%03d" % n, False) for n in range(1000)]
            assert Mouth(COMPILED, node).say(published(messages)) == 1000
            got = {name: wire.take() for name, wire in wires.items()}
            counts = {name: data.count(b"RMSG A foo | q 3\r\n") for name, data in got.items()}
            bodies = sorted(re.findall(rb"\r\n(\d{3})\r\n", b"".join(got.values())))
            assert bodies == [b"%03d" % n for n in range(1000)]
            assert 50 < counts["P1"] < 160 < counts["P2"] < 400 < counts["P3"] < 720

    def test_peerOfGroupIsGone(self) -> None:
        """When a peer of a queue group is gone, the lane sends all messages to the other peer."""
        assert COMPILED is not None
        with using(COMPILED):
            node = Node()
            wire, other = node.joined(server_id="P1"), node.joined(server_id="P2")
            for peer in (wire, other):
                peer.send(b"RS+ A foo q 1\r\n")
            wire.hangUp()
            other.take()
            data = published([(b"foo", b"", b"x", False)] * 5)
            assert Mouth(COMPILED, node).say(data) == 5
            assert other.take() == b"RMSG A foo | q 1\r\nx\r\n" * 5


Arriving = tuple[bytes, bytes, bytes, list[bytes], bool, bytes]

ARRIVING = st.lists(
    st.tuples(
        literalSubjects(),
        st.just(b"") | literalSubjects() | STREAM_REPLIES,
        payloads(),
        st.lists(st.sampled_from([*QUEUES, b"unknown", b"qq"]), max_size=3),
        st.booleans(),
        st.sampled_from([b"", b"E"]),
    ),
    max_size=8,
)


def inbound(
    names: Names,
    mine: list[tuple[bytes, bytes]],
    data: bytes,
    cuts: list[int],
    dedicated: bool,
) -> tuple[bytes, int]:
    """
    Send frames as a peer; return the frames for a local client, and their number.

    @param mine: patterns and queue groups of the client.
    """
    with using(names):
        node = Node(poolSize=3, dedicated=("A",) if dedicated else ())
        more = {"route_account": "A"} if dedicated else {}
        wire = node.joined(route_pool_size=3, **more)
        ear = Ear(names, node)
        for number, (pattern, queue) in enumerate(mine):
            node.bus().subscribe(pattern, ear, queue or b"%d" % number, queue)
        node.settle()
        for piece in pieces(data, cuts):
            wire.send(piece)
        node.settle()
        assert not wire.closed
        return ear.heard, wire.route.decoder.messages


@needsCompiled
class TestInbound:
    """Messages of peers."""

    @given(
        mine=st.lists(st.tuples(patterns(), st.sampled_from([b"", *QUEUES])), max_size=5),
        messages=ARRIVING,
        counts=COUNTS,
        cuts=st.lists(st.integers(0, 300), max_size=3),
        dedicated=st.booleans(),
    )
    @settings(max_examples=80, deadline=None)
    def test_sameBytesOnBothPaths(
        self,
        mine: list[tuple[bytes, bytes]],
        messages: list[Arriving],
        counts: list[int],
        cuts: list[int],
        dedicated: bool,
    ) -> None:
        """
        The compiled lane sends the same frames to clients as the readable path, however the input
        is cut.
        """
        assert COMPILED is not None
        data = b""
        arriving = inRuns(messages, counts)
        for subject, reply, body, queues, hasHeaders, origin in arriving:
            block = HEADERS if hasHeaders else b""
            made = Message(subject, block + body, reply, len(block))
            data += messageFrame(b"" if dedicated else b"A", made, queues, True, origin)
        fast = inbound(COMPILED, mine, data, cuts, dedicated)
        slow = inbound(PURE, mine, data, cuts, dedicated)
        assert fast[1] == slow[1] == len(arriving)
        assert sorted(fast[0].split(b"MSG")) == sorted(slow[0].split(b"MSG"))

    def test_workOfARun(self) -> None:
        """A message of a run from a peer costs a part of the work of a single one."""
        assert COMPILED is not None
        with using(COMPILED):
            node = Node()
            wire, ear = node.joined(), Ear(COMPILED, node)
            node.bus().subscribe(b"foo", ear, b"1")
            wire.send(b"RMSG A foo 1\r\na\r\n")
            decoder, lane, batch = wire.route.decoder, wire.route.lane, node.batch
            decoder.append(b"RMSG A foo 1\r\nb\r\n" * 2000)
            before = batch.work
            assert lane.forward() == 2000
            assert batch.work - before < 2000
            node.settle()
            assert ear.heard == b"MSG foo 1 1\r\na\r\n" + b"MSG foo 1 1\r\nb\r\n" * 2000

    def test_takenByTheLaneOnceKnown(self) -> None:
        """
        The lane takes a message after the first one of its account, and delivers it in that account
        only.
        """
        assert COMPILED is not None
        with using(COMPILED):
            node = Node()
            wire = node.joined()
            ears = {name: Ear(COMPILED, node) for name in ("A", "B")}
            for name, ear in ears.items():
                node.bus(name).subscribe(b"foo", ear, b"1")
            wire.send(b"RMSG A foo 1\r\na\r\nRMSG B foo 1\r\nb\r\n")
            assert set(wire.route.lane.matchers) == {b"A", b"B"}
            wire.send(b"RMSG A foo 1\r\nc\r\nRMSG B foo r 1\r\nd\r\nRMSG nope foo 1\r\ne\r\n")
            node.settle()
            assert ears["A"].heard == b"MSG foo 1 1\r\na\r\nMSG foo 1 1\r\nc\r\n"
            assert ears["B"].heard == b"MSG foo 1 1\r\nb\r\nMSG foo 1 r 1\r\nd\r\n"

    @pytest.mark.parametrize(
        ("line", "heard"),
        [
            (b"RMSG A foo | q 2", b"MSG foo q 2"),
            (b"RMSG A foo | other q more 2", b"MSG foo q 2"),
            (b"LMSG E A foo | q 0 2", b"MSG foo q 2"),
            (b"LMSG E A foo + _R.1 q r 0 2", b"MSG foo q _R.1 2"),
            (b"LMSG E A foo | q 0 002", b"MSG foo q 002"),
            (b"RMSG A foo + _R.1 q 2", b"MSG foo q _R.1 2"),
            (b"RMSG A foo + _R.1 q r 2", b"MSG foo q _R.1 2"),
            (b"RMSG A foo + _R.1 2", b""),
            (b"RMSG A foo | qq 2", b""),
            (b"RMSG A foo | 2", b""),
            (b"RMSG A foo + | q 002", b"MSG foo q | 002"),
            (b"RMSG A foo + $JS.ACK.S.C.1.2.3.4.5@s.a q 2", b"MSG s.a q $JS.ACK.S.C.1.2.3.4.5 2"),
        ],
    )
    def test_queues(self, line: bytes, heard: bytes) -> None:
        """The lane delivers a message for queue groups to members of the named groups only."""
        assert COMPILED is not None
        with using(COMPILED):
            node = Node()
            wire = node.joined()
            ear = Ear(COMPILED, node)
            wire.send(b"RMSG A nobody 2\r\nhi\r\n")
            for queue in (b"q", b"s"):
                node.bus().subscribe(b"foo", ear, queue, queue)
            decoder, lane = wire.route.decoder, wire.route.lane
            decoder.append(b"%b\r\nhi\r\n" % line * 3)
            assert lane.forward() == 3
            assert decoder.pending == 0
            node.settle()
            assert ear.heard == (b"%b\r\nhi\r\n" % heard if heard else b"") * 3

    @pytest.mark.parametrize(
        "line",
        [
            b"RMSG A foo ! q 2",
            b"RMSG A foo |  q 2",
            b"RMSG A foo |\tq 2",
            b"RMSG A foo + %b q 2" % (b"r" * 1500),
            b"RMSG A foo _R q 2",
            b"LMSG E A foo 00 2",
            b"LMSG  E A foo 0 2",
            b"LMSG E A foo 2",
        ],
    )
    def test_declined(self, line: bytes) -> None:
        """A line in an unusual spelling is left to the readable path, untouched."""
        assert COMPILED is not None
        with using(COMPILED):
            node = Node()
            wire = node.joined()
            wire.send(b"RMSG A nobody 2\r\nhi\r\n")
            decoder, lane = wire.route.decoder, wire.route.lane
            decoder.append(b"%b\r\nhi\r\n" % line)
            assert lane.forward() == 0
            assert decoder.pending == len(line) + 6

    def test_leafnodesElsewhere(self) -> None:
        """The lane takes messages from a peer's leafnodes, unless a leafnode here has interest."""
        assert COMPILED is not None
        with using(COMPILED):
            node = Node()
            wire = node.joined()
            wire.send(b"LMSG E A nobody 0 2\r\nhi\r\n")
            ear = Ear(COMPILED, node)
            node.bus().subscribe(b"foo", ear, b"1")
            decoder, lane = wire.route.decoder, wire.route.lane
            decoder.append(
                b"LMSG E A foo r 0 2\r\nhi\r\nLMSG E A foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"
            )
            assert lane.forward() == 2
            node.settle()
            assert ear.heard == b"MSG foo 1 r 2\r\nhi\r\nHMSG foo 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"
            leafs = node.buses.accounts["A"].busFor(Kind.SPOKE)
            leafs.subscribe(b"foo", LinkRecorder(), b"")
            decoder.append(b"LMSG E A foo 0 2\r\nhi\r\n")
            assert lane.forward() == 0

    def test_streamSubject(self) -> None:
        """
        The lane takes messages of a consumer on another member. Clients see the subject in the
        stream, which the reply subject carries.
        """
        assert COMPILED is not None
        with using(COMPILED):
            node = Node()
            wire = node.joined()
            ear, plain = Ear(COMPILED, node), Ear(COMPILED, node)
            plain.outbox.headers = False
            wire.send(b"RMSG A nobody 2\r\nhi\r\n")
            node.bus().subscribe(b"in.1", ear, b"7")
            node.bus().subscribe(b"in.1", plain, b"8")
            wire.route.decoder.append(
                b"HMSG A in.1 $JS.ACK.S.C.1.2.3.4.5@s.a 18 19\r\n%b1\r\n"
                b"RMSG A in.1 $JS.ACK.S.C.1.2.3.4.5@s.longer 1\r\n2\r\n"
                b"RMSG A in.1 r 1\r\n3\r\n" % HEADERS
            )
            assert wire.route.lane.forward() == 3
            node.settle()
            assert ear.heard == (
                b"HMSG s.a 7 $JS.ACK.S.C.1.2.3.4.5 18 19\r\n%b1\r\n"
                b"MSG s.longer 7 $JS.ACK.S.C.1.2.3.4.5 1\r\n2\r\n"
                b"MSG in.1 7 r 1\r\n3\r\n" % HEADERS
            )
            assert plain.heard.startswith(b"MSG s.a 8 $JS.ACK.S.C.1.2.3.4.5 1\r\n1\r\n")

    def test_importedStreamSubject(self) -> None:
        """
        Messages of a consumer on another member show the subject in the stream in an importing
        account too.
        """
        assert COMPILED is not None
        with using(COMPILED):
            node = Node()
            wire = node.joined()
            renaming = Renaming(b"in.>", b"from.>")
            imported = ImportedStream(node.buses.accounts["A"], renaming)
            assert node.buses.accounts["B"].importStreams([imported]) == []
            ear = Ear(COMPILED, node)
            node.bus("B").subscribe(b"from.1", ear, b"7")
            wire.send(b"RMSG A nobody 2\r\nhi\r\n")
            wire.route.decoder.append(
                b"RMSG A in.1 $JS.ACK.S.C.1.2.3.4.5@s.a 1\r\n1\r\nRMSG A in.1 1\r\n2\r\n"
            )
            assert wire.route.lane.forward() == 2
            node.settle()
            assert ear.heard == (
                b"MSG s.a 7 $JS.ACK.S.C.1.2.3.4.5 1\r\n1\r\nMSG from.1 7 1\r\n2\r\n"
            )

    def test_leafnodes(self) -> None:
        """The lane leaves messages for leafnodes to the readable path."""
        assert COMPILED is not None
        with using(COMPILED):
            node = Node()
            wire = node.joined()
            wire.send(b"RMSG A nobody 2\r\nhi\r\n")
            leafs, ear = [LinkRecorder(), LinkRecorder()], Ear(COMPILED, node)
            bus = node.buses.accounts["A"].busFor(Kind.SPOKE)
            bus.subscribe(b"foo", leafs[0])
            bus.subscribe(b"bar", leafs[1], None, b"q")
            node.bus().subscribe(b"foo", ear, b"1")
            wire.send(b"RMSG A foo 2\r\nhi\r\nRMSG A bar | q 2\r\nyo\r\n")
            assert [leaf.got for leaf in leafs] == [[(b"hi", ())], [(b"yo", (b"q",))]]
            assert ear.heard == b"MSG foo 1 2\r\nhi\r\n"

    @pytest.mark.parametrize(
        ("name", "end"),
        [
            ("A", lambda member: member.cancel()),
            ("A", lambda member: member.outbox.close()),
            ("B", lambda member: hot.closeAll([member])),
        ],
        ids=["cancelled", "unreachable", "imported"],
    )
    def test_lastMemberGone(self, name: str, end: Callable[[Any], Any]) -> None:
        """The lane leaves messages for a queue group without local members to the readable path."""
        assert COMPILED is not None
        with using(COMPILED):
            node = Node()
            one, two = node.joined(), node.joined(server_id="P2", server_name="p2")
            imported = ImportedStream(node.buses.accounts["A"], Renaming(b"foo", b"foo"))
            assert node.buses.accounts["B"].importStreams([imported]) == []
            ear = Ear(COMPILED, node)
            member = node.bus(name).subscribe(b"foo", ear, b"1", b"q")
            two.send(b"RS+ A foo q 1\r\n")
            one.send(b"RMSG A foo | q 1\r\na\r\n")
            one.link.decoder.append(b"RMSG A foo | q 1\r\nb\r\n")
            assert one.link.lane.forward() == 1
            node.settle()
            assert ear.heard == b"MSG foo 1 1\r\na\r\nMSG foo 1 1\r\nb\r\n"
            two.take()
            end(member)
            one.send(b"RMSG A foo | q 1\r\nc\r\n")
            assert two.lines()[-2:] == [b"RMSG A foo | q 1", b"c"]

    def test_accountReplaced(self) -> None:
        """After an account is replaced, the lane delivers in the new one."""
        assert COMPILED is not None
        with using(COMPILED):
            node = Node()
            wire = node.joined()
            wire.send(b"RMSG A foo 1\r\na\r\n")
            node.buses.add("A")
            node.cluster.accountsChanged()
            ear = Ear(COMPILED, node)
            node.bus().subscribe(b"foo", ear, b"1")
            wire.send(b"RMSG A foo 1\r\nb\r\n" * 2)
            node.settle()
            assert ear.heard == b"MSG foo 1 1\r\nb\r\n" * 2

    def test_lastMessage(self) -> None:
        """
        A subscription that reaches its maximum within a run gets no more, and its end is sent to
        the peer.
        """
        assert COMPILED is not None
        with using(COMPILED):
            node = Node()
            wire = node.joined()
            ear = Ear(COMPILED, node)
            node.bus().subscribe(b"foo", ear, b"1").cancelAfter(3)
            assert wire.lines() == [b"RS+ A foo"]
            wire.send(b"RMSG A foo 1\r\na\r\n" * 9)
            assert wire.lines() == [b"RS- A foo"]
            assert ear.heard == b"MSG foo 1 1\r\na\r\n" * 3
