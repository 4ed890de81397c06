"""
Runs of publishes with the same line, which the compiled lane forwards together. The receivers get
the same bytes as without it.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsbroker.config.model import Settings
from natsbroker.subjects.permissions import SubscribePermissions
from natsbroker.wire.grants import Grant
from tests.support import COMPILED, HEADERS, PURE, QUIET, Doorkeeper, World, needsCompiled, using

pytestmark = needsCompiled

DEAF = QUIET.replace(b"}", b',"echo":false}')
BLOCK = b"NATS/1.0\r\nA: b\r\n\r\n"

PUB = b"PUB a.b 1\r\nx\r\n"
COUNT = 5000

#: What the receivers say: several subscriptions on one connection, maxima, groups, no headers.
RECEIVERS = st.lists(
    st.tuples(
        st.sampled_from([QUIET, HEADERS, DEAF]),
        st.lists(
            st.sampled_from(
                [
                    b"SUB a.b 1\r\n",
                    b"SUB a.* 2\r\n",
                    b"SUB > 3\r\n",
                    b"SUB a.b 4\r\nUNSUB 4 7\r\n",
                    b"SUB a.b q%d 5\r\n",
                    b"SUB c 6\r\n",
                ]
            ),
            max_size=3,
        ),
    ),
    max_size=4,
)

#: Lines, and how many publishes have each in a row; the sizes are those at which copies differ.
RUNS = st.lists(
    st.tuples(
        st.sampled_from([b"PUB a.b %d", b"PUB a.b r.1 %d", b"pub c %d", b"HPUB a.b 18 %d"]),
        st.sampled_from([0, 1, 2, 5, 6, 13, 14, 15, 30, 31, 62, 63, 128, 1024, 4090, 5000]),
        st.integers(1, 40),
    ),
    max_size=6,
)


def frames(runs: list[tuple[bytes, int, int]]) -> bytes:
    """The publishes of a client, with bodies that differ."""
    data = []
    for line, size, count in runs:
        block = BLOCK if line.startswith(b"HPUB") else b""
        for number in range(count):
            body = block + (b"%d." % number * size)[:size]
            data.append(b"%b\r\n%b\r\n" % (line % len(body), body))
    return b"".join(data)


def played(
    receivers: list[Any], data: bytes, cut: int, isCompiled: bool, **limits: Any
) -> list[Any]:
    """The output of each client, the publisher included, and the counts."""
    names = COMPILED if isCompiled else PURE
    assert names is not None
    with using(names):
        world = World(Settings(**limits), fastLane=isCompiled)
        publisher = world.client(DEAF.replace(b"}", b',"headers":true,"no_responders":true}'))
        wires = [publisher]
        publisher.send(b"SUB a.b 9\r\n")
        for number, (hello, lines) in enumerate(receivers):
            wires.append(world.client(hello))
            for place, line in enumerate(dict.fromkeys(lines)):
                wires[-1].send(line.replace(b"%d", b"%d-%d" % (number, place)))
        publisher.send(data[:cut], data[cut:], b"PING\r\n")
        return [
            (wire.receive(), wire.closed, wire.session.traffic, wire.session.decoder.pending)
            for wire in wires
        ]


@settings(max_examples=200, deadline=None)
@given(receivers=RECEIVERS, runs=RUNS, cut=st.integers(0, 1 << 15))
def test_sameAsReadablePath(receivers: list[Any], runs: list[Any], cut: int) -> None:
    """Each receiver gets the same messages as on the readable path, in the same order."""
    data = frames(runs)
    assert inOrder(played(receivers, data, cut, True)) == inOrder(
        played(receivers, data, cut, False)
    )


def inOrder(seen: list[Any]) -> list[Any]:
    """The output of a client, sorted by sid: the order of several subscriptions is free."""
    return [(bySid(frame[0]), *frame[1:]) for frame in seen]


def bySid(data: bytes) -> dict[bytes, list[bytes]]:
    """The messages of each sid in order. Lines that are not messages have an empty sid."""
    results: dict[bytes, list[bytes]] = {}
    while data:
        line, _, rest = data.partition(b"\r\n")
        words = line.split(b" ")
        isMessage = words[0] in (b"MSG", b"HMSG")
        size = int(words[-1]) + 2 if isMessage else 0
        results.setdefault(words[2] if isMessage else b"", []).append(line + rest[:size])
        data = rest[size:]
    return results


def test_overflow() -> None:
    """A run that overflows a receiver counts only the messages that the outbox could hold."""
    data = frames([(b"PUB a.b %d", 100, 200)])
    receivers = [(QUIET, [b"SUB a.b 1\r\n"])] * 2
    seen = [played(receivers, data, 0, isFast, max_pending=9000) for isFast in (True, False)]
    assert seen[0] == seen[1]
    _, closed, traffic, _ = seen[0][1]
    assert closed == "aborted" and 0 < traffic[2] < 200


def test_permissions() -> None:
    """A receiver whose permissions depend on each message is checked for each message."""
    assert COMPILED is not None
    asked = []

    class Asking(SubscribePermissions):
        """Permissions that let every other message pass."""

        def mayDeliver(self, subject: bytes, queue: bytes = b"") -> bool:
            if subject == b"a.b":
                asked.append(subject)
            return len(asked) % 2 == 0

    with using(COMPILED):
        grants = [Grant(), Grant(subscribe=Asking(None, [b"a.c"]))]
        world = World(authorizer=Doorkeeper(lambda hello: grants.pop(0)))
        publisher, receiver = world.client(), world.client()
        receiver.send(b"SUB a.* 1\r\n")
        publisher.send(b"PUB a.b 1\r\nx\r\n" * 20)
        assert receiver.receive() == b"MSG a.b 1 1\r\nx\r\n" * 10
        assert asked == [b"a.b"] * 20


@pytest.mark.parametrize(
    "subscription, least, most",
    [(b"SUB a.b 1\r\n", 0.2, 0.6), (b"SUB a.b 1\r\nUNSUB 1 900000\r\n", 2.9, 3.2)],
)
def test_workOfARun(subscription: bytes, least: float, most: float) -> None:
    """
    A message in a run costs less work than a single one, also if the receiver's subscription has a
    maximum.

    @param least: units of work for each message.
    """
    assert COMPILED is not None
    with using(COMPILED):
        world = World()
        publisher, receiver = world.client(), world.client()
        receiver.send(subscription)
        batch, session = world.context.batch, publisher.session
        session.decoder.append(PUB * COUNT)
        before = batch.work
        assert session._lane.forward() == COUNT
        assert least < (batch.work - before) / COUNT < most
        assert receiver.receive() == b"MSG a.b 1 1\r\nx\r\n" * COUNT


@pytest.mark.parametrize("end", [b"x\n\r\n", b"xx\r\n", b"\r\n\r\n"])
def test_badEnd(end: bytes) -> None:
    """A frame without a valid end ends the run and the connection, though its line is the same."""
    data = b"PUB a.b 1\r\nx\r\n" * 5 + b"PUB a.b 1\r\n" + end + b"PUB a.b 1\r\nx\r\n"
    receivers = [(QUIET, [b"SUB a.b 1\r\n"])]
    fast, slow = (played(receivers, data, 0, isCompiled) for isCompiled in (True, False))
    assert fast == slow
    assert fast[1][0] == b"MSG a.b 1 1\r\nx\r\n" * 5
    assert "Unknown Protocol" in fast[0][0].decode()
