"""
Tests for L{natsbroker.wire.lane}, which its compiled twin passes too.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsbroker.net.limits import Limits
from natsbroker.subjects.permissions import PermissionSet, SubscribePermissions
from natsbroker.wire.grants import Grant
from tests._accel import fuzzing
from tests.support import HEADERS, QUIET, Doorkeeper, Names, World, onEach, using

PUB = b"PUB a.b 3\r\nabc\r\n"


class Pair:
    """A publisher and a subscriber with the lane in use, whose runs are counted."""

    def __init__(self, hello: bytes = QUIET, grant: Grant | None = None) -> None:
        self.world = World(authorizer=Doorkeeper(lambda hello: grant or Grant()))
        self.publisher = self.world.client(HEADERS)
        self.subscriber = self.world.client(hello)

    def lanes(self, data: bytes) -> int:
        """How many messages of the data the publisher's lane takes, in front of all else."""
        session = self.publisher.session
        session.decoder.append(data)
        turn = self.world.context.turn
        turn.enter()
        try:
            return int(session._lane.forward())
        finally:
            turn.leave()


@onEach
def test_takesARun(names: Names) -> None:
    """A run of publishes is taken whole, and each receiver gets it in order."""
    with using(names):
        pair = Pair()
        pair.subscriber.send(b"SUB a.* 7\r\nSUB a.b 8\r\n")
        data = b"".join(b"PUB a.b r.%d 1\r\n%d\r\n" % (n % 2, n % 2) for n in range(6))
        assert pair.lanes(data + PUB + PUB) == 8
        got = pair.subscriber.receive()
        assert got.count(b"MSG a.b 7 ") == got.count(b"MSG a.b 8 ") == 8
        mine = [line for line in got.split(b"\r\n") if line.startswith(b"MSG a.b 7 ")]
        assert mine == [b"MSG a.b 7 r.%d 1" % (n % 2) for n in range(6)] + [b"MSG a.b 7 3"] * 2
        assert pair.publisher.session.traffic[:2] == (8, 12)
        assert pair.subscriber.session.traffic[2:] == (16, 24)


@onEach
@pytest.mark.parametrize(
    "stop",
    [
        b"PING\r\n",
        b"SUB x 1\r\n",
        b"PUB _GR_.a.b 1\r\nx\r\n",
        b"PUB $NRG.a 1\r\nx\r\n",
        b"PUB a.b $JS.ACK.x 1\r\nx\r\n",
        b"PUB nobody _INBOX.1 1\r\nx\r\n",
        b"PUB a.b 4\r\nabc\r\n",
        b"PUB a.b 1\r\n",
        b"PUB a.b 1048577\r\n",
        b"PUB a.b -1\r\n",
        b"HPUB a.b 5 4\r\nabcd\r\n",
        b"PUB a.b",
    ],
)
def test_stopsInFront(names: Names, stop: bytes) -> None:
    """In front of what it is not sure of the lane stops, and has done none of it."""
    with using(names):
        pair = Pair()
        pair.subscriber.send(b"SUB a.b 7\r\n")
        assert pair.lanes(PUB + stop) == 1
        assert pair.subscriber.receive() == b"MSG a.b 7 3\r\nabc\r\n"


@onEach
def test_permissions(names: Names) -> None:
    """What may not be published is left to the readable path; what may not be delivered is not."""
    with using(names):
        grant = Grant(
            publish=PermissionSet([b"a.>"], [b"a.x"]),
            subscribe=SubscribePermissions([b">"], [b"a.secret"]),
        )
        pair = Pair(grant=grant)
        pair.subscriber.send(b"SUB > 1\r\n")
        assert pair.lanes(b"PUB a.secret 1\r\nx\r\n" + PUB + b"PUB a.x 1\r\nx\r\n") == 2
        assert pair.subscriber.receive() == b"MSG a.b 1 3\r\nabc\r\n"


@onEach
def test_changedSubscriptions(names: Names) -> None:
    """What was worked out for a line is worked out anew when subscriptions change."""
    with using(names):
        pair = Pair()
        assert pair.lanes(PUB) == 1
        pair.subscriber.send(b"SUB a.> 1\r\n")
        assert pair.lanes(PUB) == 1
        pair.subscriber.send(b"UNSUB 1\r\n")
        assert pair.lanes(PUB) == 1
        assert pair.subscriber.receive() == b"MSG a.b 1 3\r\nabc\r\n"


@onEach
def test_changedLimits(names: Names) -> None:
    """A limit that was lowered holds for a line that was taken before."""
    with using(names):
        pair = Pair()
        assert pair.lanes(PUB) == 1
        pair.world.context.limits = Limits(max_payload=2)
        pair.publisher.session.limitsChanged()
        assert pair.publisher.ask(PUB) == b"-ERR 'Maximum Payload Violation'\r\n"


@onEach
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 1 << 40))
def test_agreesWithTheReadablePath(names: Names, seed: int) -> None:
    """Whatever several clients send, they get the same bytes with the lane and without."""
    assert _answers(names, seed) == _answers(replace(names, Lane=None), seed)


def _answers(names: Names, seed: int) -> list[tuple[list[bytes], str, object]]:
    random = Random(seed)
    with using(names):
        world = fuzzing.makeWorld(random)
        wires = [world.dial() for _ in range(3)]
        scripts = [
            fuzzing.cut(random, fuzzing.script(random).replace(b" q ", b" ").replace(b" p ", b" "))
            for _ in wires
        ]
        for wire, pieces in zip(wires, scripts, strict=True):
            for piece in pieces:
                if not wire.closed:
                    wire.send(piece)
        return [(_parts(wire.receive()), wire.closed, wire.session.traffic) for wire in wires]


def _parts(data: bytes) -> list[bytes]:
    """The answer in its lines, in an order of its own: that of overlapping receivers is free."""
    return sorted(data.split(b"\r\n"))
