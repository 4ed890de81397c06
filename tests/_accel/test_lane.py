"""
Whole conversations with and without the lane, in the pure and in the compiled version. The bytes
are always the same.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsbroker import hot
from natsbroker.config.model import Settings
from natsbroker.subjects.permissions import (
    PermissionSet,
    ResponsePermission,
    SubscribePermissions,
)
from natsbroker.testing.strategies import Chunk, anyBytes, connects, operations, scripts
from natsbroker.wire.grants import Grant
from tests.conftest import FlushLoggedErrors
from tests.support import (
    COMPILED,
    HEADERS,
    PURE,
    QUIET,
    Doorkeeper,
    Names,
    Router,
    World,
    using,
)

CLIENTS = 3

#: What the clients may do, by their numbers.
GRANTS = {
    "everything": lambda number: Grant(),
    "permissions": lambda number: Grant(
        publish=PermissionSet(None, [b"a.secret", b"b.>"]),
        subscribe=SubscribePermissions(None, [b"a.b", b"c.*.c"]),
    ),
    "allowed": lambda number: Grant(
        publish=PermissionSet([b"a.>", b"b", b"*.c"]), subscribe=SubscribePermissions([b">"])
    ),
    "responses": lambda number: Grant(
        publish=PermissionSet([b"a", b"a.>"]) if number else None,
        responses=ResponsePermission(2, 100.0),
    ),
    "accounts": lambda number: Grant("A" if number else "B", maxPayload=10, maxSubscriptions=3),
}


@dataclass(frozen=True)
class Way:
    """One of the ways to run a broker: pure or compiled, with the lane or without."""

    label: str
    names: Names
    fastLane: bool


REFERENCE = Way("pure, readable path only", PURE, False)
OTHERS = [Way("pure lane", PURE, True)]
if COMPILED is not None:
    OTHERS += [Way("compiled, readable path only", COMPILED, False)]
    OTHERS += [Way("compiled lane", COMPILED, True)]

eachWay = pytest.mark.parametrize("way", OTHERS, ids=lambda way: way.label)


def play(way: Way, steps: list[Any], grant: str, limits: Settings | None = None) -> list[object]:
    """
    Let clients send data in turn.

    @param steps: L{Chunk}s; a number makes that client stop reading or begin again, a float lets
        time pass, a text names new permissions, L{Settings} are new limits.
    @return: everything that could be seen from outside.
    """
    with using(way.names):
        hosts = iter(range(CLIENTS))
        grants = [GRANTS[grant](number) for number in range(CLIENTS)]
        keeper = Doorkeeper(lambda hello: grants[int(hello.host[-1])])
        world = World(limits, keeper, fastLane=way.fastLane)
        wires = [world.dial(f"10.0.0.{number}") for number in hosts]
        seen: list[object] = []
        for step in steps:
            if isinstance(step, Chunk):
                wires[step.client].send(step.data)
            elif isinstance(step, str):
                grants[:] = [GRANTS[step](number) for number in range(CLIENTS)]
                for wire in wires:
                    wire.session.reauthorize()
            elif isinstance(step, Settings):
                world.context.settings = step
                for wire in wires:
                    wire.session.limitsChanged()
            elif isinstance(step, float):
                world.advance(step)
            else:
                transport = wires[step].transport
                transport.taking = not transport.taking
            seen.append([wire.receive() for wire in wires])
        for wire in wires:
            wire.transport.taking = True
        seen.append([wire.receive() for wire in wires])
        for wire in wires:
            session = wire.session
            seen.append((wire.closed, session.reason, session.traffic, session.decoder.pending))
            seen.append(session.outbox.pending)
            if session.subscriptions is not None:
                delivered = [
                    (sid, subscription.delivered) for sid, subscription in session.subscriptions
                ]
                seen.append(sorted(delivered))
        return seen


def alone(step: Chunk, place: int) -> Chunk:
    """
    @return: the step with one member in each queue group, so that no member is chosen by chance.
    """
    lines = step.data.split(b"\r\n")
    for number, line in enumerate(lines):
        words = line.split(b" ")
        if len(words) == 4 and words[0] == b"SUB":
            words[2] += b"%d-%d-%d" % (step.client, place, number)
            lines[number] = b" ".join(words)
    return Chunk(step.client, b"\r\n".join(lines))


def singles(steps: list[Any]) -> list[Any]:
    """All steps, with one member in each queue group."""
    return [
        alone(step, place) if isinstance(step, Chunk) else step for place, step in enumerate(steps)
    ]


SCRIPTS = scripts(CLIENTS).map(singles)

CLIENT = st.integers(0, CLIENTS - 1)

TALK = st.builds(Chunk, CLIENT, st.lists(operations(), max_size=6).map(b"".join))

NOISE = st.builds(Chunk, CLIENT, anyBytes() | connects())

LIMITS = st.sampled_from(
    [
        Settings(),
        Settings(max_payload=8, max_control_line=30, max_subscriptions=4, max_sub_tokens=3),
        Settings(max_pending=400, write_deadline=2.0),
        Settings(ping_interval=1.0),
    ]
)

CHANGES = st.one_of(
    CLIENT, st.sampled_from([0.01, 0.2, 3.0]), LIMITS, st.sampled_from(sorted(GRANTS))
)

WILD_STEPS = st.lists(st.one_of(NOISE, TALK, TALK, TALK, CHANGES), max_size=14).map(singles)

HELLOS = st.lists(
    st.sampled_from([QUIET, HEADERS, HEADERS.replace(b"}", b',"echo":false}'), b"CONNECT {}\r\n"]),
    min_size=CLIENTS,
    max_size=CLIENTS,
).map(lambda hellos: [Chunk(number, hello) for number, hello in enumerate(hellos)])


@pytest.mark.slow
class TestSameConversation:
    """The same scripts have the same output with every way to run a broker."""

    @pytest.mark.parametrize("grant", GRANTS)
    @given(steps=SCRIPTS)
    def test_scripts(self, grant: str, steps: list[Chunk]) -> None:
        """Valid conversations of three clients have the same output with and without the lane."""
        expected = play(REFERENCE, steps, grant)
        for way in OTHERS:
            assert play(way, steps, grant) == expected, way.label

    @given(
        hellos=HELLOS,
        steps=WILD_STEPS,
        grant=st.sampled_from(sorted(GRANTS)),
        limits=LIMITS,
    )
    @settings(max_examples=100)
    def test_anyInput(
        self, hellos: list[Chunk], steps: list[Any], grant: str, limits: Settings
    ) -> None:
        """
        Any input has the same output with and without the lane, also if receivers stop reading,
        time passes and settings change.
        """
        steps = [*hellos, *steps]
        expected = play(REFERENCE, steps, grant, limits)
        for way in OTHERS:
            assert play(way, steps, grant, limits) == expected, way.label


@eachWay
class TestOverflow:
    """A run of messages that exceeds the limit of a receiver's pending bytes."""

    @pytest.mark.parametrize("receiver", [0, 1], ids=["the publisher", "another"])
    def test_counted(self, way: Way, receiver: int) -> None:
        """A message counts as delivered if it entered an outbox before the outbox was cut."""
        steps: list[Any] = [Chunk(number, QUIET) for number in range(CLIENTS)]
        steps.append(Chunk(receiver, b"SUB > 1\r\n"))
        steps.append(receiver)
        steps.append(Chunk(0, (b"PUB a 300\r\n" + b"x" * 300 + b"\r\n") * 3))
        limits = Settings(max_pending=400)
        seen = play(way, steps, "everything", limits)
        assert seen == play(REFERENCE, steps, "everything", limits)
        traffic = [call[2][2:] for call in seen if isinstance(call, tuple)]
        assert traffic[receiver] == (2, 600)


@eachWay
class TestQueueGroups:
    """Queue groups of several members, one of which is chosen by chance."""

    @given(
        members=st.lists(
            st.tuples(st.integers(0, 2), st.sampled_from([b"a", b"*", b">"])), max_size=6
        ),
        bodies=st.lists(st.binary(min_size=1, max_size=5), max_size=8),
        repeats=st.integers(1, 5),
    )
    def test_oneMember(
        self, way: Way, members: list[tuple[int, bytes]], bodies: list[bytes], repeats: int
    ) -> None:
        """Every message reaches one member of each group, with and without the lane."""
        steps: list[Any] = [Chunk(number, QUIET) for number in range(CLIENTS)]
        for place, (number, pattern) in enumerate(members):
            steps.append(
                Chunk(number, b"SUB %b %b 1%d\r\n" % (pattern, b"qr"[place % 2 :][:1], place))
            )
        start = len(steps)
        for body in bodies:
            steps.append(Chunk(0, b"PUB a %d\r\n%b\r\n" % (len(body), body) * repeats))
        seen = play(way, steps, "everything")
        groups = {place % 2 for place in range(len(members))}
        for round_, body in zip(seen[start:], bodies, strict=False):
            assert isinstance(round_, list)
            output = b"".join(round_)
            assert output.count(b"MSG a 1") >= repeats * len(groups)
            frame = len(b"MSG a 10 %d\r\n%b\r\n" % (len(body), body))
            assert len(output) == repeats * len(groups) * frame


class TestMisuse:
    """Misuse of objects that the compiled lane reads in place, by Python code."""

    @pytest.mark.parametrize(
        ("name", "value"), [("outbox", object()), ("outbox", "text"), ("tag", 7), ("tag", "1")]
    )
    def test_attributes(
        self, name: str, value: object, flushLoggedErrors: FlushLoggedErrors
    ) -> None:
        """An attribute of another type is a TypeError, which ends the publisher alone."""
        if COMPILED is None:
            pytest.skip("the compiled names are not there")
        with using(COMPILED):
            world = World()
            publisher, receiver, other = (world.client() for _ in range(3))
            receiver.ask(b"SUB abc 1\r\n")
            assert publisher.ask(b"PUB abc 0\r\n\r\n" * 3) == b""
            [(_, subscription)] = receiver.session.subscriptions
            before = getattr(subscription, name)
            setattr(subscription, name, value)
            publisher.ask(b"PUB abc 0\r\n\r\n")
            setattr(subscription, name, before)
            assert len(flushLoggedErrors(TypeError)) == 1
            assert publisher.session.reason == "Internal Client"
            assert other.ask(b"PING\r\n") == b"PONG\r\n"

    @pytest.mark.parametrize("limit", [-(1 << 63), -1, (1 << 63) - 1])
    def test_limit(self, limit: int) -> None:
        """A limit of any size keeps the lane within its buffer."""
        if COMPILED is None:
            pytest.skip("the compiled names are not there")
        with using(COMPILED):
            decoder = hot.Decoder(limit)
            outbox = World().client().session.outbox
            lane = hot.Lane(decoder, outbox, hot.Matcher(Router()), None, False)
            decoder.append(b"PUB a 100000" * 1000)
            assert lane.forward() == 0

    def test_collected(self) -> None:
        """
        An outbox can be written to while the garbage collector clears the cycle that contains it.
        """
        if COMPILED is None:
            pytest.skip("the compiled names are not there")
        done = subprocess.run(
            [sys.executable, "-c", _COLLECTED], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "b'written'\n", "")


#: Calls what the garbage collector calls to take an object of a cycle apart (C{tp_clear}), where
#: its type has one, and then writes.
_COLLECTED = """
import ctypes
from natsbroker._accel.lane import Outbox, FlushBatch

TP_CLEAR = 24 * ctypes.sizeof(ctypes.c_void_p)
batch = FlushBatch(lambda call: None)
outbox = Outbox(batch, None, print, 1 << 20)
clear = ctypes.c_void_p.from_address(id(Outbox) + TP_CLEAR).value
if clear:
    ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object)(clear)(outbox)
outbox.write(b"written")
batch.flush()
"""
