"""
Acknowledgements that the lane reads by itself: a consumer gets the same as on the readable path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zope.interface import implementer

from natsbroker.interfaces import IAckSubscriber
from natsbroker.jetstream.consumers.acks import AckKind, DeliveredAs, parseAck, parseAckSubject
from natsbroker.subjects.permissions import PermissionSet
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import AckRun, Kind, Message
from tests.support import COMPILED, HEADERS, Doorkeeper, Recorder, World, needsCompiled, using

pytestmark = needsCompiled

PATTERN = b"$JS.ACK.S.C.*.*.*.*.*"


@implementer(IAckSubscriber)
class Acks:
    """
    A consumer that records what it receives.

    @ivar got: subject or delivery, payload and reply.
    @ivar inRuns: acknowledgements that came in runs.
    @ivar ended: how often its subscription has ended.
    """

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.inRuns = self.ended = 0

    def deliver(self, message: Message, tag: Any) -> None:
        self.deliverMany([(message, tag)])

    def deliverMany(self, messages: Sequence[tuple[Message | AckRun, Any]]) -> None:
        for message, tag in messages:
            if isinstance(message, AckRun):
                columns = (message.deliveries, message.sequences, message.numbers)
                deliveries = map(DeliveredAs, *columns)
                self.inRuns += len(message.replies)
                self.got += [
                    (delivered, reply, tag)
                    for delivered, reply in zip(deliveries, message.replies, strict=True)
                ]
                continue
            delivery = parseAckSubject(message.subject)
            isPlain = message.headerLength == 0 and parseAck(message.payload).kind is AckKind.ACK
            if delivery is not None and isPlain:
                self.got.append((delivery, message.reply, tag))
            else:
                self.got.append((message.subject, message.body, message.reply, tag))

    def subscriptionEnded(self, tag: Any) -> None:
        self.ended += 1


def publish(subject: bytes, payload: bytes = b"", reply: bytes = b"") -> bytes:
    """The frame of a publish."""
    words = [b"PUB", subject, *([reply] if reply else []), b"%d" % len(payload)]
    return b" ".join(words) + b"\r\n" + payload + b"\r\n"


def outcome(
    isFast: bool, data: Sequence[bytes], others: Sequence[bytes] = (), grant: Grant | None = None
) -> tuple[Acks, list[Any]]:
    """
    The messages that two consumers, other subscribers and the client get for a client's input.
    """
    assert COMPILED is not None
    with using(COMPILED):
        world = World(
            fastLane=isFast, authorizer=Doorkeeper(lambda hello: grant) if grant else None
        )
        bus = world.accounts["$G"].busFor(Kind.INTERNAL)
        acks, second, other = Acks(), Acks(), Recorder()
        for pattern in others:
            bus.subscribe(pattern, other, pattern)
        bus.subscribe(PATTERN, acks, "C")
        bus.subscribe(b"$JS.API.NEXT", acks, "next")
        bus.subscribe(PATTERN.replace(b"S.C", b"S.D"), second, "D")
        client = world.client(HEADERS)
        answer = client.ask(*data)
        seen = [(message.subject, message.body, tag) for message, tag in other.got]
        return acks, [acks.got, second.got, seen, answer, client.session.traffic]


NUMBERS = st.one_of(st.integers(0, 3), st.just(1 << 62), st.just((1 << 64) + 1))
TOKENS = st.one_of(
    NUMBERS.map(lambda number: b"%d" % number), st.sampled_from([b"007", b"-1", b"x"])
)
FRAMES = st.one_of(
    st.builds(
        lambda consumer, tokens, payload, reply: publish(
            b"$JS.ACK.S.%b.%b" % (consumer, b".".join(tokens)), payload, reply
        ),
        st.sampled_from([b"C", b"D", b"E"]),
        st.one_of(
            st.integers(1, 9).map(
                lambda number: [b"1", b"%d" % number, b"7", b"1700000000000000000", b"0"]
            ),
            st.lists(TOKENS, min_size=4, max_size=6),
        ),
        st.sampled_from([b"", b"", b"+ACK", b"+ACK", b"-NAK", b"+WPI", b"+NXT 1", b"+OK"]),
        st.sampled_from([b"", b"", b"_INBOX.a", b"$JS.ACK.x", b"_R_.x"]),
    ),
    st.sampled_from(
        [
            publish(b"$JS.API.NEXT", b"1", b"r"),
            publish(b"other", b"x"),
            b"HPUB $JS.ACK.S.C.1.2.3.4.5 12 12\r\nNATS/1.0\r\n\r\n\r\n",
            b"PUB $JS.ACK.S.C.1.2.3.4.5  0\r\n\r\n",
            b"PUB $JS.ACK.S.C.1.2.3.4.5 00\r\n\r\n",
            b"pub $JS.ACK.S.C.1.2.3.4.5 0\r\n\r\n",
            b"PUB $JS.ACK.S.C 0\r\n\r\n",
        ]
    ),
)


@given(st.lists(FRAMES, max_size=12), st.integers(0, 400))
def test_lanes(frames: list[bytes], cut: int) -> None:
    """The lane delivers the same messages to a consumer as the readable path, in the same order."""
    data = b"".join(frames)
    parts = [part for part in (data[:cut], data[cut:]) if part] or [b""]
    _, byLane = outcome(True, parts)
    _, readable = outcome(False, parts)
    assert byLane == readable


def test_inRuns() -> None:
    """Acknowledgements come as runs, in order with other messages."""
    frames = [
        publish(b"$JS.ACK.S.C.1.%d.%d.1700000000000000000.0" % (number, number), b"+ACK")
        for number in range(1, 5)
    ]
    frames.insert(2, publish(b"$JS.API.NEXT", b"1", b"r"))
    acks, _ = outcome(True, frames)
    assert acks.inRuns == 4
    assert [message[-1] for message in acks.got] == ["C", "C", "next", "C", "C"]


ACK = publish(b"$JS.ACK.S.C.1.7.7.4.5", b"+ACK", b"r")


@pytest.mark.parametrize("pattern", [b"$JS.ACK.S.C.1.7.7.4.5", b"*.*.*.*.*.7.>", b"$JS.*.S.C.1.>"])
def test_uneven(pattern: bytes) -> None:
    """
    Acknowledgements take the readable path where a subscription matches only some of their numbers.
    """
    acks, byLane = outcome(True, [ACK], [pattern])
    assert (acks.inRuns, byLane) == (0, outcome(False, [ACK], [pattern])[1])
    assert len(byLane[2]) == 1


@pytest.mark.parametrize("pattern", [b">", b"$JS.ACK.>", b"$JS.ACK.S.C.*.*.*.*.*", b"*.*.>"])
def test_shared(pattern: bytes) -> None:
    """
    A client's acknowledgements take the readable path if others subscribe to all acknowledgements.
    """
    acks, byLane = outcome(True, [ACK], [pattern])
    assert (acks.inRuns, byLane) == (0, outcome(False, [ACK], [pattern])[1])
    assert len(byLane[2]) == 1


@pytest.mark.parametrize("pattern", [b"$JS.ACK.S.C.1", b"$JS.ACK.S.C.*.*.*.*.*.1", b"$JS.ACK.T.>"])
def test_subscriptionsWithoutAcknowledgements(pattern: bytes) -> None:
    """Subscriptions that match no acknowledgement change nothing."""
    acks, byLane = outcome(True, [ACK], [pattern])
    assert (acks.inRuns, len(byLane[2])) == (1, 0)


@pytest.mark.parametrize(
    ("allow", "deny", "inRuns"),
    [
        ((b"$JS.ACK.>",), (), 1),
        ((b">",), (b"$JS.ACK.S.D.>",), 1),
        ((b"$JS.ACK.S.C.1.7.>",), (), 0),
        ((b">",), (b"$JS.ACK.*.*.1.8.>",), 0),
        ((b">",), (b"$JS.ACK.*.*.1.7.>",), 0),
        ((b"other",), (), 0),
    ],
)
def test_permissions(allow: tuple[bytes, ...], deny: tuple[bytes, ...], inRuns: int) -> None:
    """A subject that the client may not publish to is no acknowledgement."""
    grant = Grant(publish=PermissionSet(allow, deny))
    acks, byLane = outcome(True, [ACK], grant=grant)
    _, readable = outcome(False, [ACK], grant=grant)
    assert (acks.inRuns, byLane) == (inRuns, readable)


def test_deletedConsumer() -> None:
    """A deleted consumer gets no acknowledgements, and a new one of its name does."""
    assert COMPILED is not None
    with using(COMPILED):
        world = World()
        bus = world.accounts["$G"].busFor(Kind.INTERNAL)
        first, second = Acks(), Acks()
        subscription = bus.subscribe(PATTERN, first)
        client = world.client(HEADERS)
        client.send(ACK, ACK)
        subscription.cancel()
        assert b" 503\r\n" in client.ask(b"SUB r 1\r\n", ACK)
        bus.subscribe(PATTERN, second).cancelAfter(1)
        client.send(ACK, ACK)
        world.settle()
        assert (len(first.got), len(second.got), second.ended) == (2, 1, 1)
