"""
Fuzzing of the compiled lane, in memory and over sockets.

Every input is a script of operations for several clients of one account, mutated and cut at random.
It goes through the compiled decoder, matcher, lane and outbox: over transports in memory, over the
sockets of the compiled poller, or over TLS. Nothing may be raised or logged, and the sanitizers
detect invalid uses of memory (L{tests._accel.sanitized}). One seed makes one run, and a failing one
is repeated with::

    python -m tests._accel.fuzzing --inputs 1000 --seed SEED
"""

from __future__ import annotations

import argparse
import socket
from array import array
from itertools import accumulate
from random import Random
from types import SimpleNamespace
from typing import Any

from twisted.logger import ILogObserver, LogEvent, LogLevel, globalLogPublisher
from zope.interface import implementer

from natsbroker import errors, hot
from natsbroker.config.model import Settings
from natsbroker.interfaces import IBatchSubscriber, IMessageBus, IRunSubscriber
from natsbroker.interfaces.records import Record
from natsbroker.storage.blocks import Contents, build
from natsbroker.storage.envelopes import wrap
from natsbroker.storage.lmdb.layout import Tally, blockKey, tallyKey
from natsbroker.subjects.permissions import (
    PermissionSet,
    ResponsePermission,
    SubscribePermissions,
)
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import Kind, Message, Run
from tests._accel.sealing import SealedPeer
from tests._accel.sockets import SocketPeer
from tests.links.s2frames import literal, varint
from tests.support import COMPILED, PURE, Doorkeeper, World, using

HELLOS = (
    b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n',
    b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"echo":false}\r\n',
    b'CONNECT {"verbose":false,"pedantic":false}\r\n',
    b"CONNECT {}\r\n",
)

SUBJECTS = (b"a", b"a.b", b"a.b.c", b"b", b"_INBOX.1", b"x" * 119, b"x" * 120, b"y" * 600)
PATTERNS = (*SUBJECTS, b"a.*", b"a.>", b">", b"*", b"*.b.>", b"_INBOX.*")
ODD = (b"a..b", b".a", b"a.*", b">", b"$GR.x", b"_GR_.a.b.c", b"$NRG.a", b"a\x00b", b"\xc3\xb6.b")

GRANTS = (
    Grant(),
    Grant(publish=PermissionSet([b"a.>", b"b"], [b"a.b.c"])),
    Grant(subscribe=SubscribePermissions([b">"], [b"a.b"])),
    Grant(responses=ResponsePermission(2, 5.0)),
    Grant(maxPayload=64),
    Grant(maxSubscriptions=3),
)


PUBLISHED = b"\x0a\x02me\x12\x01g\x1a\x03foo\x2a\x04data\x32\x01c"
EXPECTING = (
    b"NATS/1.0\r\nNats-Msg-Id: a\r\nNats-Expected-Last-Sequence: 0\r\n"
    b"Nats-Expected-Last-Subject-Sequence: 1\r\nNats-Expected-Last-Msg-Id: a\r\n\r\n"
)
ACKED = b"\x0a\x03foo\x10\x85\x01"


@implementer(ILogObserver)
class RateLimitedLog:
    """A log that records critical events, of which there must be none."""

    def __init__(self) -> None:
        self.events: list[LogEvent] = []
        globalLogPublisher.addObserver(self)

    def __call__(self, event: LogEvent) -> None:
        if event.get("log_level") is LogLevel.critical:
            self.events.append(event)

    def check(self) -> None:
        """
        @raise RuntimeError: if a critical event was logged.
        """
        if self.events:
            raise RuntimeError(f"logged: {self.events[0]!r}") from (
                self.events[0]["log_failure"].value if "log_failure" in self.events[0] else None
            )


def operation(random: Random) -> bytes:
    """
    @return: an operation, valid in most cases, or several publishes with the same line.
    """
    subject = random.choice(ODD if random.random() < 0.1 else SUBJECTS)
    reply = random.choice((b"", b"", b"_INBOX.1 ", b"_R_.x ", b"$JS.ACK.a ", b"r\x01 "))
    size = random.choice((0, 1, 5, 64, 65, 2000, 3))
    if random.random() < 0.1:
        size = random.choice((4090, 5000, 9000, 70_000))
    count = random.choice((1, 1, 1, 2, 9, 300)) if size < 100 else random.choice((1, 1, 2))
    payloads = [random.randbytes(min(size, 64)).ljust(size, b"z") for _ in range(count)]
    sid = b"%d" % random.randrange(6)
    kind = random.randrange(10)
    if kind < 5:
        line = b"PUB %b %b%d" % (subject, reply, size)
        return b"".join(b"%b\r\n%b\r\n" % (line, payload) for payload in payloads)
    if kind == 5:
        block = b"NATS/1.0\r\nA: b\r\n\r\n"
        line = b"HPUB %b %b%d %d" % (subject, reply, len(block), len(block) + size)
        return b"".join(b"%b\r\n%b%b\r\n" % (line, block, payload) for payload in payloads)
    if kind == 6:
        queue = random.choice((b"", b"q ", b"p "))
        return b"SUB %b %b%b\r\n" % (random.choice(PATTERNS), queue, sid)
    if kind == 7:
        return b"UNSUB %b%b\r\n" % (sid, random.choice((b"", b" 1", b" 3", b" 0")))
    return random.choice((b"PING\r\n", b"PONG\r\n", b"+OK\r\n", b"\tPUB a 1\r\n", HELLOS[0]))


def mutate(random: Random, data: bytes) -> bytes:
    """
    @return: the data with a few bytes changed, doubled, lost or moved.
    """
    changed = bytearray(data)
    for _ in range(random.randrange(1, 4)):
        if not changed:
            break
        place = random.randrange(len(changed))
        how = random.randrange(5)
        if how == 0:
            changed[place] = random.choice((0, 9, 10, 13, 32, 46, 48, 57, 127, 255))
        elif how == 1:
            del changed[place : place + random.randrange(1, 5)]
        elif how == 2:
            changed[place:place] = changed[place : place + random.randrange(1, 9)]
        elif how == 3:
            changed[place:place] = bytes([random.getrandbits(8)])
        else:
            del changed[place:]
    return bytes(changed)


def script(random: Random) -> bytes:
    """
    @return: what one client sends.
    """
    hello = random.choice((*HELLOS, HELLOS[0], HELLOS[0], b""))
    data = hello + b"".join(operation(random) for _ in range(random.randrange(1, 30)))
    return mutate(random, data) if random.random() < 0.4 else data


def cut(random: Random, data: bytes) -> list[bytes]:
    """
    @return: the data in pieces.
    """
    places = sorted(random.randrange(len(data) + 1) for _ in range(random.choice((0, 0, 1, 3, 9))))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True) if b > a]


def makeWorld(random: Random) -> World:
    """
    @return: a world with limits that are easily met.
    """
    grant = random.choice(GRANTS)
    limits = Settings(
        max_payload=random.choice((1 << 20, 64, 2000)),
        max_pending=random.choice((64 << 20, 4096, 300_000)),
        max_control_line=random.choice((4096, 130)),
    )
    world = World(limits, Doorkeeper(lambda hello: grant), random.randrange(1 << 30))
    if random.random() < 0.5:
        serve(random, world)
    return world


@implementer(IBatchSubscriber)
class Service:
    """A service that publishes to C{_INBOX.1} each message that it receives."""

    def __init__(self, bus: IMessageBus) -> None:
        self._bus = bus

    def deliver(self, message: Message, tag: Any) -> None:
        self._bus.publishInternal(b"_INBOX.1", message.body)

    def deliverMany(self, messages: list[tuple[Message, Any]]) -> None:
        for message, tag in messages:
            self.deliver(message, tag)

    def subscriptionEnded(self, tag: Any) -> None:
        """Not needed."""


@implementer(IRunSubscriber)
class RunService(Service):
    """A service that receives runs, and calls what services may call with many messages at once."""

    def __init__(self, bus: IMessageBus, random: Random) -> None:
        super().__init__(bus)
        self._random = random

    def deliverRuns(self, runs: list[tuple[Run, Any]]) -> None:
        for run, _ in runs:
            payloads = run.payloads
            streaming(self._random, payloads)
            self._bus.publishBatch(b"_INBOX.1", payloads)


class OddDatabase:
    """A transaction and its cursor, whose keys and values are mutated half of the time."""

    def __init__(self, random: Random, value: bytes) -> None:
        self._random = random
        self._value = value

    def _maybe(self, data: bytes) -> bytes:
        return data if self._random.random() < 0.5 else mutate(self._random, data)

    def get(self, key: bytes) -> bytes | None:
        """The value of a key. Blocks from which messages were deleted are rare."""
        isAbsent = key.startswith(b"G") and self._random.random() < 0.9
        return None if isAbsent else self.value()

    def cursor(self) -> OddDatabase:
        return self

    def set_range(self, _: bytes) -> bool:
        return self._random.random() < 0.8

    def prev(self) -> bool:
        return self.set_range(b"")

    last = prev

    def key(self) -> bytes:
        return self._maybe(blockKey(1, self._random.randrange(3)))

    def value(self) -> bytes:
        return self._maybe(self._value)


def streaming(random: Random, payloads: list[bytes]) -> None:
    """
    The compiled steps of the streaming service and its store, with random messages and records. The
    pure version has no such steps.
    """
    if hot.encodeRecords is None:
        return
    entries = [(b"foo", random.choice((b"", b"x")), payload, 0) for payload in payloads]
    blobs, *_ = hot.encodeRecords(1, 1, entries, 1, 1, b"foo")
    starts = array("I", accumulate(map(len, blobs), initial=0))
    raw = b"".join(blobs)
    for text in (raw, mutate(random, raw)):
        first = random.randrange(len(payloads) + 1)
        patterns = random.choice((None, (), (b"f*", b"*"), (b">",)))
        records: list[Record] = []
        hot.selectRecords(
            records,
            Record,
            text,
            0,
            starts,
            range(1, len(starts)),
            {2},
            first,
            len(payloads),
            1,
            patterns,
            9,
            99,
        )
        hot.writeMessages(tuple, records, random.randrange(3), b"foo")
    gets = [mutate(random, body) for body in (b'{"seq":1}', b'{"seq": 2}', b"")]
    log = SimpleNamespace(
        identity=1,
        recall=lambda sequence: (mutate(random, raw), 0, starts[1]) if payloads else None,
        recallLast=lambda subject: random.randrange(3),
    )
    publisher = hot.InternalPublisher(World().accounts["$G"].matcher)
    getting = hot.DirectGetStep(publisher, b"S", random.random() < 0.5, log)
    getting.take([(Message(b"a.b", body, b"r"), random.randrange(5)) for body in gets])
    known: dict[bytes, tuple[int, int]] = {b"foo": (1, random.randrange(9))}
    step = hot.PublishStep(b"S", random.random() < 0.5, random.choice((-1, 60)), True, 2, {}, known)
    blocks = [mutate(random, EXPECTING) + payload for payload in payloads]
    skip = min(len(EXPECTING) + random.randrange(-2, 3), *map(len, blocks)) if blocks else 0
    runs = [(Run(b"foo", b"r", blocks, skip), None), (Run(b"foo", b"", payloads), None)]
    step.take(runs, 0, 0, [], [], [], [], b"a", 1, SimpleNamespace(first=1), 1, None)
    hot.packFrame(b"12345678", random.randrange(1 << 64), 1, blobs, random.choice((1, 512)))
    hot.storedRecords(Record, entries, random.randrange(9), random.randrange(5))
    answers = [(reply, None, random.randrange(-2, 9), b"", 2) for reply in payloads]
    publisher.publishAcks(answers, 0, b'{"seq":', random.randrange(1 << 60))
    contents = Contents(range(1, len(blobs) + 1), list(map(len, blobs)), blobs)
    block = build(b"12345678", 1, 1, contents) if blobs else b""
    for other in (block, mutate(random, block)):
        hot.gatherBlocks([block, other], 1, random.randrange(9), random.randrange(99), 99)
    key, tally = tallyKey(1, b"foo"), Tally(b"foo")
    tally.add(range(1, 3), 1)
    hot.findLast(OddDatabase(random, wrap(b"12345678", b"T", 1, key, tally.pack())), key)
    hot.findRecord(OddDatabase(random, block), 1, random.randrange(9))
    odd = [mutate(random, line) for line in (PUBLISHED, PUBLISHED, ACKED)]
    for some in (payloads, odd):
        hot.readPublishes(some, random.randrange(len(some) + 1))
        hot.readAcks(some, random.randrange(len(some) + 1), b"foo")
        hot.writePubAcks(some)


def serve(random: Random, world: World) -> None:
    """Subscribe a service to a few subjects. Its own messages go to other subjects."""
    bus = world.accounts["$G"].busFor(Kind.INTERNAL)
    service = random.choice((Service(bus), RunService(bus, random)))
    for pattern in random.sample((b"a", b"a.b", b"a.*", b"a.>", b"*", b"y" * 600), 2):
        subscription = bus.subscribe(pattern, service, None, random.choice((b"", b"q")))
        if random.random() < 0.2:
            subscription.cancelAfter(random.randrange(1, 5))


def overMemory(random: Random) -> None:
    """
    One input over transports in memory.
    """
    world = makeWorld(random)
    wires = [world.dial() for _ in range(3)]
    turns = [(wire, piece) for wire in wires for piece in cut(random, script(random))]
    if random.random() < 0.5:
        random.shuffle(turns)
    for wire, piece in turns:
        if not wire.closed:
            wire.send(piece)
            wire.receive()
    for wire in wires:
        if not wire.closed:
            wire.transport.hangUp()
    world.settle()


def overSockets(random: Random) -> None:
    """
    One input over socket pairs and the poller.
    """

    world = makeWorld(random)
    poller = hot.Poller(world.context.batch)
    pairs = [socket.socketpair() for _ in range(3)]
    peers = []
    for ours, theirs in pairs:
        ours.setblocking(False)
        theirs.setblocking(False)
        if random.random() < 0.3:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        peers.append(SocketPeer(world, poller, ours))
    scripts = [cut(random, script(random)) for _ in pairs]
    while any(scripts):
        for (_, theirs), waiting in zip(pairs, scripts, strict=True):
            if waiting:
                push(theirs, waiting)
        poller.run()
        world.clock.advance(0.01)
        if random.random() < 0.7:
            for _, theirs in pairs:
                drain(theirs)
    for _, theirs in pairs:
        drain(theirs)
        theirs.close()
    if any(peer.session.reason == errors.INTERNAL.reason for peer in peers):
        raise RuntimeError("a connection failed")
    while any(peer.isOpen for peer in peers):
        poller.run()
        world.clock.advance(0.2)
    poller.close()


def overTLS(random: Random) -> None:
    """
    One input over TLS, whose records are read and written in bulk.
    """
    world = makeWorld(random)
    peers = [SealedPeer(world) for _ in range(2)]
    turns = [(peer, piece) for peer in peers for piece in cut(random, script(random))]
    if random.random() < 0.5:
        random.shuffle(turns)
    for peer, piece in turns:
        if peer.isOpen:
            peer.say(piece, random)
    for peer in peers:
        peer.abort()
    world.settle()


def push(end: socket.socket, waiting: list[bytes]) -> None:
    """
    Send the next piece, or the part of it that the socket takes. The peer does not take everything.
    """
    try:
        sent = end.send(waiting[0])
    except BlockingIOError:
        drain(end)
    except (BrokenPipeError, ConnectionResetError):
        waiting.clear()
    else:
        waiting[0] = waiting[0][sent:]
        if not waiting[0]:
            del waiting[0]


def drain(end: socket.socket) -> None:
    """
    Read what there is.
    """
    try:
        while end.recv(1 << 16):
            pass
    except (BlockingIOError, ConnectionResetError):
        return


def unpacking(random: Random) -> None:
    """Decode a random block of S2 in pure Python and compiled, and compare the results."""
    elements = [
        literal(random.randbytes(random.choice((1, 5, 59, 60, 61, 300)))),
        bytes([random.randrange(256), random.randrange(8)]),
        bytes([random.randrange(64) << 2 | 2, random.randrange(99), random.choice((0, 0, 1, 255))]),
        bytes([random.randrange(64) << 2 | 3, random.randrange(99), 0, 0, random.choice((0, 255))]),
        bytes([random.randrange(8) << 2 | 1, 0, random.randrange(256), 0, 0]),
        random.randbytes(3),
    ]
    block = varint(random.choice((0, 60, 400, 5000))) + literal(random.randbytes(60))
    block += b"".join(random.choices(elements, k=random.randrange(20)))
    if random.random() < 0.3:
        block = mutate(random, block)
    begin, end = random.choice(((0, 0), (3, 0), (3, 5)))
    data = bytes(begin) + block + bytes(end)
    keys: list[object] = []
    for names in (PURE, COMPILED):
        try:
            keys.append(names and names.decodeBlock(data, begin, begin + len(block), 4096))
        except ValueError as error:
            keys.append(str(error))
    if keys[0] != keys[1]:
        raise RuntimeError(f"{block.hex()}: {keys[0]!r} in Python, {keys[1]!r} compiled")


def run(inputs: int, seed: int) -> None:
    """
    Fuzz.

    @param inputs: how many inputs.
    @param seed: the seed of the first; each further one is one more.
    @raise Exception: whatever escapes; the seed is printed before.
    """
    if COMPILED is None:
        raise SystemExit("the compiled names are not there")
    complaints = RateLimitedLog()
    with using(COMPILED):
        for number in range(seed, seed + inputs):
            random = Random(number)
            try:
                unpacking(random)
                (overTLS if number % 8 == 0 else overSockets if number % 2 else overMemory)(random)
                complaints.check()
            except BaseException:
                print(f"python -m tests._accel.fuzzing --inputs 1 --seed {number}", flush=True)
                raise
    print(f"{inputs} inputs from seed {seed} on: nothing found")


def main() -> None:
    """
    The command line.
    """
    parser = argparse.ArgumentParser(description="Fuzz the compiled lane.")
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    run(arguments.inputs, arguments.seed)


if __name__ == "__main__":
    main()
