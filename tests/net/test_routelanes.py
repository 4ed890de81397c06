"""
The lanes where routes are concerned: what the compiled lane does, and what the readable path does,
is the same, byte by byte.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zope.interface import implementer

from natsbroker.interfaces import IOutboxSubscriber
from natsbroker.testing.strategies import literalSubjects, patterns, payloads
from natsbroker.wire import ops
from natsbroker.wire.dialects.route import messageFrame
from natsbroker.wire.values import Message
from tests.net.clusters import Node
from tests.support import COMPILED, PURE, Names, needsCompiled, pieces, using

HEADERS = b"NATS/1.0\r\nA: 1\r\n\r\n"


@implementer(IOutboxSubscriber)
class Ear:
    """
    A client with an outbox.

    @ivar heard: the bytes that it got.
    """

    def __init__(self, names: Names, node: Node) -> None:
        self.heard = b""
        self.outbox = names.Outbox(node.turn, self, self._write, 1 << 24)
        self.outbox.headers = True

    def _write(self, data: bytes) -> None:
        self.heard += data

    def deliver(self, message: Message, tag: Any) -> None:
        """See L{natsbroker.interfaces.ISubscriber.deliver}."""
        self.outbox.deliver(message, tag)

    def subscriptionEnded(self, tag: Any) -> None:
        """See L{natsbroker.interfaces.ISubscriber.subscriptionEnded}."""

    def outboxOverflowed(self) -> None:
        """See L{natsbroker.wire.outbox.OutboxOwner.outboxOverflowed}."""


class Mouth(Ear):
    """
    A client that publishes, as a session would have it.
    """

    def __init__(self, names: Names, node: Node) -> None:
        super().__init__(names, node)
        self._node = node
        self._decoder = names.Decoder()
        self._decoder.headers = True
        self._lane = names.Lane(self._decoder, self.outbox, node.bus().matcher, None, False)

    def say(self, data: bytes) -> int:
        """
        Publish.

        @return: how many messages the lane took.
        """
        self._decoder.append(data)
        taken: int = 0
        self._node.turn.enter()
        while True:
            taken += int(self._lane.forward())
            frame = self._decoder.next()
            if frame is None:
                break
            assert frame[0] in (ops.PUB, ops.HPUB)
            _, subject, reply, header, body, size, head = frame
            self._node.bus().publish(Message(subject, body, reply, header, self, size, head))
        self._node.turn.leave()
        return taken


Published = tuple[bytes, bytes, bytes, bool]

PUBLISHED = st.lists(
    st.tuples(literalSubjects(), st.just(b"") | literalSubjects(), payloads(), st.booleans()),
    max_size=8,
)


def published(messages: list[Published]) -> bytes:
    """What a client sends."""
    data = b""
    for subject, reply, body, hasHeaders in messages:
        names = b"%b %b" % (subject, reply) if reply else subject
        if hasHeaders:
            size = len(HEADERS) + len(body)
            data += b"HPUB %b %d %d\r\n%b%b\r\n" % (names, len(HEADERS), size, HEADERS, body)
        else:
            data += b"PUB %b %d\r\n%b\r\n" % (names, len(body), body)
    return data


def outbound(
    names: Names, interest: list[bytes], data: bytes, headers: bool
) -> tuple[bytes, bytes, int]:
    """
    What a peer and a client here get of what a client publishes.
    """
    with using(names):
        node = Node()
        wire = node.joined(headers=headers)
        ear = Ear(names, node)
        node.bus().subscribe(b"a.>", ear, b"7")
        wire.send(b"".join(interest))
        wire.take()
        taken = Mouth(names, node).say(data)
        return wire.take(), ear.heard, taken


@needsCompiled
class TestOutbound:
    """What clients publish."""

    @given(
        interest=st.lists(patterns().map(b"RS+ A %b\r\n".__mod__), max_size=4),
        messages=PUBLISHED,
        headers=st.booleans(),
    )
    @settings(max_examples=40, deadline=None)
    def test_same(self, interest: list[bytes], messages: list[Published], headers: bool) -> None:
        """It goes to the peer once, as the readable path would have it go."""
        assert COMPILED is not None
        data = published(messages)
        fast = outbound(COMPILED, interest, data, headers)
        assert fast[:2] == outbound(PURE, interest, data, headers)[:2]

    def test_taken(self) -> None:
        """The lane really takes it, also where several patterns of one peer match."""
        assert COMPILED is not None
        interest = [b"RS+ A a.b\r\n", b"RS+ A a.*\r\n", b"LS+ LC A a.b\r\n"]
        data = published([(b"a.b", b"r", b"x", False), (b"a.b", b"", b"y", True)])
        peer, ear, taken = outbound(COMPILED, interest, data, True)
        assert taken == 2
        assert peer == b"RMSG A a.b r 1\r\nx\r\nHMSG A a.b 18 19\r\n" + HEADERS + b"y\r\n"
        assert ear == b"MSG a.b 7 r 1\r\nx\r\nHMSG a.b 7 18 19\r\n" + HEADERS + b"y\r\n"

    @pytest.mark.parametrize("line", [b"RS+ A a.b q 1\r\n", b"RS+ A a.* q 2\r\n"])
    def test_queues(self, line: bytes) -> None:
        """A queue group elsewhere is chosen by the readable path."""
        assert COMPILED is not None
        data = published([(b"a.b", b"", b"x", False)])
        peer, _, taken = outbound(COMPILED, [line], data, True)
        assert (peer, taken) == (b"RMSG A a.b | q 1\r\nx\r\n", 0)


Arriving = tuple[bytes, bytes, bytes, list[bytes], bool]

ARRIVING = st.lists(
    st.tuples(
        literalSubjects(),
        st.just(b"") | literalSubjects(),
        payloads(),
        st.lists(st.sampled_from([b"q", b"r"]), max_size=2),
        st.booleans(),
    ),
    max_size=8,
)


def inbound(
    names: Names, mine: list[bytes], data: bytes, cuts: list[int], dedicated: bool
) -> tuple[bytes, int]:
    """
    What a client here gets of what a peer sends, and what the peer hears itself.
    """
    with using(names):
        node = Node(poolSize=3, dedicated=("A",) if dedicated else ())
        more = {"route_account": "A"} if dedicated else {}
        wire = node.joined(route_pool_size=3, **more)
        ear = Ear(names, node)
        for number, pattern in enumerate(mine):
            node.bus().subscribe(pattern, ear, b"%d" % number)
        node.settle()
        for piece in pieces(data, cuts):
            wire.send(piece)
        node.settle()
        assert not wire.closed
        return ear.heard, wire.route.decoder.messages


@needsCompiled
class TestInbound:
    """What peers send."""

    @given(
        mine=st.lists(patterns(), max_size=4),
        messages=ARRIVING,
        cuts=st.lists(st.integers(0, 300), max_size=3),
        dedicated=st.booleans(),
    )
    @settings(max_examples=40, deadline=None)
    def test_same(
        self, mine: list[bytes], messages: list[Arriving], cuts: list[int], dedicated: bool
    ) -> None:
        """Clients get it as the readable path would give it, wherever it is cut."""
        assert COMPILED is not None
        data = b""
        for subject, reply, body, queues, hasHeaders in messages:
            block = HEADERS if hasHeaders else b""
            made = Message(subject, block + body, reply, len(block))
            data += messageFrame(b"" if dedicated else b"A", made, queues, True)
        fast = inbound(COMPILED, mine, data, cuts, dedicated)
        slow = inbound(PURE, mine, data, cuts, dedicated)
        assert fast[1] == slow[1] == len(messages)
        assert sorted(fast[0].split(b"MSG")) == sorted(slow[0].split(b"MSG"))

    def test_taken(self) -> None:
        """The lane really takes it, once it knows the account; others' accounts stay others'."""
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

    def test_accountReplaced(self) -> None:
        """After a reload it delivers in the accounts that there are then."""
        assert COMPILED is not None
        with using(COMPILED):
            node = Node()
            wire = node.joined()
            wire.send(b"RMSG A foo 1\r\na\r\n")
            node.doors.add("A")
            node.cluster.accountsChanged()
            ear = Ear(COMPILED, node)
            node.bus().subscribe(b"foo", ear, b"1")
            wire.send(b"RMSG A foo 1\r\nb\r\n" * 2)
            node.settle()
            assert ear.heard == b"MSG foo 1 1\r\nb\r\n" * 2

    def test_ends(self) -> None:
        """A subscription that has had its last message is taken back in the middle of a run."""
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
