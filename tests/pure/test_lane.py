"""
Tests for L{natsbroker.pure.lane}, which its compiled twin passes too.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsbroker.accounts.shadows import ImportedStream
from natsbroker.config.model import Settings
from natsbroker.pure.backlog import UNLIMITED
from natsbroker.subjects.mapping import Destination, Mapping, MappingTable
from natsbroker.subjects.permissions import (
    PermissionSet,
    ResponsePermission,
    SubscribePermissions,
)
from natsbroker.subjects.renaming import Renaming
from natsbroker.wire.grants import ConnectRequest, Grant
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
        """The number of messages that the publisher's lane takes."""
        session = self.publisher.session
        session.decoder.append(data)
        batch = self.world.context.batch
        batch.enter()
        try:
            return int(session._lane.forward())
        finally:
            batch.leave()


@onEach
def test_takesARun(names: Names) -> None:
    """
    The lane takes a run of publishes with one subject, and delivers it in order to each receiver.
    """
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
    """The lane stops before an operation that it does not support, without effect."""
    with using(names):
        pair = Pair()
        pair.subscriber.send(b"SUB a.b 7\r\n")
        assert pair.lanes(PUB + stop) == 1
        assert pair.subscriber.receive() == b"MSG a.b 7 3\r\nabc\r\n"


@onEach
def test_permissions(names: Names) -> None:
    """
    The lane stops before a publish to a denied subject. It takes a publish whose delivery is
    denied.
    """
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
def test_permissionsByTurns(names: Names) -> None:
    """The lane takes permitted subjects even if they alternate."""
    with using(names):
        pair = Pair(grant=Grant(publish=PermissionSet([b"a.>"])))
        assert pair.lanes((PUB + b"PUB a.c 1\r\nx\r\n") * 3) == 6


@onEach
def test_changedSubscriptions(names: Names) -> None:
    """The receivers of a line are computed again when subscriptions change."""
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
    """After max_payload is lowered, a publish that the lane has cached is refused."""
    with using(names):
        pair = Pair()
        assert pair.lanes(PUB) == 1
        pair.world.context.settings = Settings(max_payload=2)
        pair.publisher.session.limitsChanged()
        assert pair.publisher.ask(PUB) == b"-ERR 'Maximum Payload Violation'\r\n"


@onEach
def test_wrongEnd(names: Names) -> None:
    """A payload without a CRLF behind it is an error at the first wrong byte."""
    with using(names):
        pair = Pair()
        answer = pair.publisher.ask(b"PUB foo 2\r\nhi\n")
        assert answer == b"-ERR 'Unknown Protocol Operation'\r\n"


@pytest.mark.slow
@onEach
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 1 << 40))
def test_agreesWithTheReadablePath(names: Names, seed: int) -> None:
    """With any input of several clients, they get the same bytes with the lane and without."""
    assert _answers(names, seed, True) == _answers(names, seed, False)


def _answers(names: Names, seed: int, isFast: bool) -> list[tuple[list[bytes], str, object]]:
    random = Random(seed)
    with using(names):
        world = fuzzing.makeWorld(random)
        world.context.fastLane = isFast
        # A lane gets further in a turn, before one is cut for what waits for it.
        world.context.batch.round = UNLIMITED
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
    """
    The lines of a client's output, sorted, because the order of overlapping receivers is free.
    """
    return sorted(data.split(b"\r\n"))


class ImportingPair(Pair):
    """A publisher in account A, and a subscriber in B, which imports from A."""

    def __init__(self, theirs: bytes = b"a.>", ours: bytes = b"x.a.>") -> None:
        def grant(hello: ConnectRequest) -> Grant:
            return Grant(account=hello.text("user") or "A")

        self.world = World(authorizer=Doorkeeper(grant))
        self.publisher = self.world.client(HEADERS)
        self.subscriber = self.world.client(QUIET.replace(b"{", b'{"user":"B",'))
        one, other = self.world.accounts["A"], self.world.accounts["B"]
        other.importStreams([ImportedStream(one, Renaming(theirs, ours))])

    def regrant(self, **changes: Any) -> None:
        """Have the authorizer give the subscriber another grant."""
        session: Any = self.subscriber.session
        authorizer: Any = self.world.context.authorizer
        authorizer.answer = lambda request: replace(session.grant, **changes)
        session.reauthorize()


@onEach
@pytest.mark.parametrize(
    ("theirs", "ours", "name"),
    [
        (b"a.>", b"a.>", b"a.b"),
        (b"a.>", b"x.a.>", b"x.a.b"),
        (b"a.*", b"$1.z", b"b.z"),
        (b"a.b", b"c", b"c"),
    ],
)
def test_importedStream(names: Names, theirs: bytes, ours: bytes, name: bytes) -> None:
    """The lane takes messages that another account imports, under the subject of the import."""
    with using(names):
        pair = ImportingPair(theirs, ours)
        pair.subscriber.send(b"SUB > 7\r\n")
        pair.publisher.send(b"SUB a.b 1\r\n")
        assert pair.lanes(PUB * 3) == 3
        assert pair.subscriber.receive() == b"MSG %b 7 3\r\nabc\r\n" % name * 3
        assert pair.publisher.receive() == b"MSG a.b 1 3\r\nabc\r\n" * 3


@onEach
def test_importedSubjects(names: Names) -> None:
    """Each imported subject is mapped separately."""
    with using(names):
        pair = ImportingPair()
        pair.subscriber.send(b"SUB > 7\r\n")
        data = b"".join(b"PUB a.%d 1\r\nx\r\n" % (n % 3) for n in range(9))
        assert pair.lanes(data) == 9
        assert pair.subscriber.receive() == b"".join(
            b"MSG x.a.%d 7 1\r\nx\r\n" % (n % 3) for n in range(9)
        )


@onEach
def test_importedLimit(names: Names) -> None:
    """A subscription with a maximum gets exactly that number of imported messages."""
    with using(names):
        pair = ImportingPair()
        pair.subscriber.send(b"SUB x.a.> 7\r\nUNSUB 7 3\r\n")
        pair.publisher.send(PUB * 5)
        assert pair.subscriber.receive().count(b"MSG x.a.b 7 3\r\n") == 3
        assert len(pair.world.accounts["A"]) == len(pair.world.accounts["B"]) == 0


@onEach
def test_importedQueue(names: Names) -> None:
    """A queue group in the importing account gets each message once."""
    with using(names):
        pair = ImportingPair()
        pair.subscriber.send(b"SUB x.a.> q 1\r\nSUB x.a.b q 2\r\n")
        assert pair.lanes(PUB * 20) == 20
        assert pair.subscriber.receive().count(b"MSG x.a.b ") == 20


@onEach
def test_importedDenied(names: Names) -> None:
    """
    A subscriber in the importing account does not get messages whose imported subject is denied to
    it.
    """
    with using(names):
        pair = ImportingPair()
        pair.subscriber.send(b"SUB x.> 1\r\n")
        denied = SubscribePermissions([b">"], [b"x.a.secret"])
        pair.regrant(subscribe=denied)
        assert pair.lanes(b"PUB a.secret 1\r\nx\r\n" + PUB) == 2
        assert pair.subscriber.receive() == b"MSG x.a.b 1 3\r\nabc\r\n"


@onEach
def test_importedAnswers(names: Names) -> None:
    """
    The lane stops before a request whose importing subscriber needs a permission for its answer.
    """
    with using(names):
        pair = ImportingPair()
        pair.subscriber.send(b"SUB x.> 1\r\n")
        assert pair.lanes(PUB) == 1
        pair.regrant(responses=ResponsePermission())
        assert pair.lanes(b"PUB a.b r 3\r\nabc\r\n") == 0
        pair.publisher.session.proceed()
        pair.subscriber.receive()
        answer = b"PUB r 1\r\nx\r\n"
        assert pair.subscriber.ask(answer) == b""
        assert b"Permissions Violation" in pair.subscriber.ask(answer)


class Mapped(Pair):
    """A publisher and a subscriber in an account with mappings."""

    def __init__(self, grant: Grant | None = None, **destinations: str) -> None:
        super().__init__(grant=grant)
        self.map(**destinations)

    def map(self, **destinations: str) -> None:
        """Use other mappings."""
        made = [Mapping(a.encode(), [Destination(b.encode())]) for a, b in destinations.items()]
        table = MappingTable(made, Random(1).randrange)
        self.world.accounts["$G"].mapSubjects(table)


@onEach
def test_mappedSubjects(names: Names) -> None:
    """The lane maps a subject that has one destination."""
    with using(names):
        pair = Mapped(None, **{"a.*": "b.$1", "p.*": "q.{{partition(3,1)}}"})
        pair.subscriber.send(b"SUB > 1\r\n")
        assert pair.lanes(PUB * 2 + b"PUB c r 1\r\nx\r\nPUB p.abc 1\r\nx\r\n" + PUB) == 5
        twice, once = b"MSG b.b 1 3\r\nabc\r\n" * 2, b"MSG b.b 1 3\r\nabc\r\n"
        assert pair.subscriber.receive() == (
            twice + b"MSG c 1 r 1\r\nx\r\nMSG q.2 1 1\r\nx\r\n" + once
        )


@onEach
def test_mappedByChance(names: Names) -> None:
    """The lane stops at a subject with several destinations."""
    with using(names):
        pair = Mapped(None, **{"a.b": "c.{{random(5)}}"})
        assert pair.lanes(b"PUB x 1\r\nx\r\n" + PUB) == 1


@onEach
def test_mappedPermissions(names: Names) -> None:
    """Permissions to publish are checked for the mapped subject."""
    with using(names):
        grant = Grant(publish=PermissionSet([b"b.>"], [b"b.secret"]))
        pair = Mapped(grant, **{"a.*": "b.$1", "b.c": "d"})
        pair.subscriber.send(b"SUB > 1\r\n")
        assert pair.lanes(PUB + b"PUB a.secret 1\r\nx\r\n") == 1
        assert Mapped(grant, **{"a.*": "b.$1", "b.c": "d"}).lanes(b"PUB b.c 1\r\nx\r\n") == 0
        assert pair.subscriber.receive() == b"MSG b.b 1 3\r\nabc\r\n"


@onEach
def test_mappedToReserved(names: Names) -> None:
    """The lane stops before a mapping to a reserved subject."""
    with using(names):
        assert Mapped(None, **{"a.b": "$NRG.x"}).lanes(PUB) == 0


@onEach
def test_mappedOtherwise(names: Names) -> None:
    """Changed mappings apply to the next message."""
    with using(names):
        pair = Mapped(None, **{"a.b": "c"})
        pair.subscriber.send(b"SUB > 1\r\n")
        assert pair.lanes(PUB) == 1
        pair.map(**{"a.b": "d"})
        assert pair.lanes(PUB) == 1
        pair.map()
        assert pair.lanes(PUB) == 1
        assert pair.subscriber.receive() == b"".join(
            b"MSG %b 1 3\r\nabc\r\n" % name for name in (b"c", b"d", b"a.b")
        )


@onEach
def test_mappedAndImported(names: Names) -> None:
    """A mapped message has the imported name of its new subject."""
    with using(names):
        pair = ImportingPair()
        made = [Mapping(b"m", [Destination(b"a.b")])]
        pair.world.accounts["A"].mapSubjects(MappingTable(made, Random(1).randrange))
        pair.subscriber.send(b"SUB > 1\r\n")
        assert pair.lanes(b"PUB m 3\r\nabc\r\n" * 2) == 2
        assert pair.subscriber.receive() == b"MSG x.a.b 1 3\r\nabc\r\n" * 2


#: Header blocks of one length: two may ask for a trace, and one names a subject.
SCHEDULE = b"NATS/1.0\r\nNats-Schedule-X: t\r\n\r\n"
TRACED = b"NATS/1.0\r\nNats-Trace-Dest: t\r\n\r\n"
PARENT = b"NATS/1.0\r\nTraceParent: 01234\r\n\r\n"
PLAIN = b"NATS/1.0\r\nNats-Trace-None: t\r\n\r\n"


@onEach
@pytest.mark.parametrize("traced", [TRACED, PARENT, SCHEDULE])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_traced(names: Names, traced: bytes, place: int) -> None:
    """The lane stops before a message that may be traced or a schedule, also within a run."""
    with using(names):
        pair = Pair(HEADERS)
        pair.world.accounts[Grant().account].matcher.tracesParents = True
        pair.subscriber.send(b"SUB a.b 7\r\n")
        blocks = [PLAIN] * 5
        blocks[place] = traced
        size = len(PLAIN)
        assert {len(block) for block in blocks} == {size}
        data = b"".join(b"HPUB a.b %d %d\r\n%bx\r\n" % (size, size + 1, block) for block in blocks)
        assert pair.lanes(data) == place


@onEach
def test_tracedParent(names: Names) -> None:
    """Where the account has no destination, a C{traceparent} header is one like others."""
    with using(names):
        pair = Pair(HEADERS)
        pair.subscriber.send(b"SUB a.b 7\r\n")
        size = len(PARENT)
        assert pair.lanes(b"HPUB a.b %d %d\r\n%bx\r\n" % (size, size + 1, PARENT) * 3) == 3


@onEach
def test_tooLargeMessageIsLeft(names: Names) -> None:
    """A message that is too large is left to the readable path, with its headers."""
    with using(names):
        wire = World().client(HEADERS)
        answer = wire.ask(b"HPUB foo 12 5000000\r\nNATS/1.0\r\n\r\nhi")
    assert answer == b"-ERR 'Maximum Payload Violation'\r\n"
