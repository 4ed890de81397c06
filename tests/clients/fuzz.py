"""
Client sessions under arbitrary input.

A short run is part of the tests. A long one is this command, from the top of the checkout::

    python -m tests.clients.fuzz --inputs 1000000 --seed 1

It takes some minutes, prints a line now and then, and ends with exit code 1 and the input that
violated a rule. C{NATSBROKER_PURE=1} in the environment fuzzes the pure implementation.

The rules for every input, in every state of a connection: no exception leaves C{dataReceived}; no
failure is logged; the answer does not depend on how the bytes were cut; the kept input and the
waiting output are bounded; nothing is left of a connection that has ended.
"""

from __future__ import annotations

import argparse
import gc
import re
import resource
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import LogEvent, globalLogBeginner, globalLogPublisher

from natsbroker import hot
from natsbroker.clients.context import Connections
from natsbroker.config.model import Settings
from natsbroker.subjects.permissions import (
    PermissionSet,
    ResponsePermission,
    SubscribePermissions,
)
from natsbroker.wire.grants import Grant
from tests.support import HEADERS, QUIET, Doorkeeper, World, pieces

LIMITS = Settings(max_payload=1000, max_control_line=200, max_subscriptions=50, max_pending=1 << 20)

#: So much of the input may be kept at most: a payload, or a line.
MOST_KEPT = 1300

#: By so much the process may grow, in bytes.
GROWTH = 50 << 20

#: After that many inputs it has grown to what it needs.
_WARM = 20_000

#: What inputs are made of.
SEEDS = [
    b"CONNECT {}\r\n",
    QUIET,
    HEADERS,
    b'CONNECT {"verbose":true,"protocol":1,"user":"u","pass":"p","echo":false}\r\n',
    b'CONNECT {"USER":null,"auth_token":"t","sig":"","nkey":"U","jwt":"e.y.J"}\r\n',
    b"PUB foo 5\r\nhello\r\n",
    b"PUB foo bar 0\r\n\r\n",
    b"HPUB foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
    b"HPUB foo _INBOX.x 12 12\r\nNATS/1.0\r\n\r\n\r\n",
    b"SUB foo 1\r\n",
    b"SUB foo.> q 2\r\n",
    b"SUB * 3\r\n",
    b"SUB _INBOX.* 4\r\n",
    b"UNSUB 1\r\n",
    b"UNSUB 1 2\r\n",
    b"PING\r\n",
    b"PONG\r\n",
    b"+OK\r\n",
    b"-ERR 'x'\r\n",
    b"INFO {}\r\n",
    b"MSG foo 1 2\r\nhi\r\n",
    b"RS+ A foo\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00",
]

#: What is put into inputs at random places.
TOKENS = [
    *(
        b" ",
        b"\t",
        b"\r",
        b"\n",
        b"\r\n",
        b"\x00",
        b"\xff",
        b".",
        b"*",
        b">",
        b"..",
        b"$",
        b"_GR_.",
    ),
    *(b"0", b"-1", b"1001", b"999999999", b"0000000000", b"{", b"}", b'"', b"[" * 300, b"a" * 250),
]


@dataclass(frozen=True)
class State:
    """
    A state of a connection before the input.

    @ivar before: the input that leads to this state.
    @ivar answer: the answer of the authorizer; see L{Doorkeeper}.
    @ivar required: whether a login is required.
    """

    name: str
    before: bytes = b""
    answer: Callable[[Any], Any] | None = None
    required: bool = False


def _mayLittle(hello: object) -> Grant:
    return Grant(
        publish=PermissionSet([b"foo", b"*.x"], [b"foo.no"]),
        subscribe=SubscribePermissions([b"foo.>", b"foo", b"> q"], [b"foo.no"]),
        responses=ResponsePermission(2, 60.0),
        maxPayload=20,
    )


def _never(hello: object) -> Any:
    return Deferred()


STATES = (
    State("before CONNECT"),
    State("connected", QUIET),
    State("connected with headers", HEADERS + b"SUB _INBOX.* 1\r\n"),
    State("verbose and pedantic", b"CONNECT {}\r\n"),
    State("in a line", QUIET + b"SUB fo"),
    State("in a payload", QUIET + b"SUB > 9\r\nPUB foo 10\r\n123"),
    State("at the end of a payload", QUIET + b"PUB foo 2\r\nhi\r"),
    State("login required", b"", None, True),
    State("logged in", QUIET, None, True),
    State("waiting for the authorizer", QUIET, _never, True),
    State("with permissions", HEADERS, _mayLittle),
    State("closed", QUIET + b"FOO\r\n"),
)


class Broken(Exception):
    """A rule of the protocol was violated. The text has the state, the input and the output."""


def inputs(random: Random) -> Iterator[bytes]:
    """An endless series of inputs."""
    while True:
        data = bytearray().join(random.choices(SEEDS, k=random.randint(1, 4)))
        for _ in range(random.choice((0, 1, 1, 2, 3, 8))):
            _mutate(data, random)
        yield bytes(data[:3000])


def _mutate(data: bytearray, random: Random) -> None:
    start = random.randint(0, len(data))
    end = min(len(data), start + random.choice((1, 1, 2, 5, 30)))
    way = random.randrange(6)
    if way == 0 and data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    elif way == 1:
        data[start:start] = random.choice(TOKENS)
    elif way == 2:
        del data[start:end]
    elif way == 3:
        data[start:start] = data[start:end] * random.choice((1, 2, 20))
    elif way == 4:
        data[start:end] = random.randbytes(random.randint(0, 8))
    else:
        data[start:end] = random.choice(SEEDS)


#: SUB with a queue group.
_GROUP = re.compile(rb"sub[ \t]+[^ \t\r\n]+[ \t]+[^ \t\r\n]+[ \t]+[^ \t\r\n]", re.I)

_INFO = re.compile(rb"INFO \{.*?\} \r\n")


def _forgetfulWorld(state: State, seed: int) -> World:
    """
    @return: a world that keeps no advisories and log lines.
    """
    world = World(LIMITS, Doorkeeper(state.answer, state.required), seed)
    world.context.connections = Connections(remember=100)
    world.context.notify = lambda advisory: None
    world.authorizer.asked = deque(maxlen=1)  # type: ignore[assignment]
    return world


class Fuzzer:
    """
    One world for each state, with connections that open and close.

    @ivar count: the number of inputs so far.
    """

    def __init__(self, seed: int) -> None:
        self.count = 0
        self._random = Random(seed)
        self._inputs = inputs(self._random)
        self._worlds = [_forgetfulWorld(state, seed) for state in STATES]
        self._failures: list[str] = []

    def run(self, count: int, report: Callable[[int], None] = lambda count: None) -> None:
        """
        Try that many inputs.

        @raise Broken: if a rule is violated.
        """
        observer: Any = self._observe
        globalLogPublisher.addObserver(observer)
        try:
            for _ in range(count):
                place = self.count % len(STATES)
                self.one(STATES[place], self._worlds[place], next(self._inputs))
                self.count += 1
                report(self.count)
        finally:
            globalLogPublisher.removeObserver(observer)

    def _observe(self, event: LogEvent) -> None:
        failure = event.get("log_failure")
        if failure is not None:
            self._failures.append(failure.getTraceback())

    def one(self, state: State, world: World, data: bytes) -> None:
        """
        Try one input, whole and in pieces.
        """
        cuts = [self._random.randint(0, len(data)) for _ in range(self._random.randint(1, 6))]
        whole = self._say(state, world, [data])
        cut = self._say(state, world, pieces(data, cuts))
        if whole != cut and len(_GROUP.findall(state.before + data)) < 2:
            raise Broken(
                f"{state.name}: {data!r} cut at {cuts}\n  whole {whole}\n  in pieces {cut}"
            )

    def _say(self, state: State, world: World, parts: list[bytes]) -> tuple[bytes, str, int]:
        wire = world.dial()
        try:
            wire.ask(state.before)
            for part in parts:
                wire.transport.send(part)
                kept = wire.session.decoder.pending
                # While the authorizer is asked the transport is not read from.
                if kept > MOST_KEPT + len(part) or (kept > MOST_KEPT and wire.reads()):
                    raise Broken(f"{kept} bytes of the input are kept")
                if wire.session.outbox.pending > LIMITS.max_pending:
                    raise Broken("more waits than is allowed")
            output = _INFO.sub(b"INFO", wire.receive())
            outcome = (output, wire.session.reason, wire.session.decoder.messages)
            wire.transport.hangUp()
            world.settle()
            world.advance(1.1, 1.1)
            self._checkNothingLeft(world)
        except Broken as broken:
            raise Broken(f"{state.name}: {parts!r}: {broken}") from None
        except Exception as error:
            raise Broken(f"{state.name}: {parts!r}: {error!r} escaped") from error
        return outcome

    def _checkNothingLeft(self, world: World) -> None:
        if self._failures:
            raise Broken(self._failures[0])
        if len(world.context.connections) or len(world.accounts["$G"]):
            raise Broken("something is left of the connection")
        if world.accounts.counts["$G"] or world.clock.getDelayedCalls():
            raise Broken("something is left of the connection")


def memory() -> int:
    """The peak memory of the process, in bytes."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size << 10


def main(arguments: list[str]) -> int:
    """
    The command line.

    @return: the exit code.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.clients.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    fuzzer = Fuzzer(given.seed)
    began = time.monotonic()
    try:
        fuzzer.run(min(given.inputs, _WARM))
        gc.collect()
        before = memory()
        fuzzer.run(given.inputs - fuzzer.count, lambda count: _progress(count, given.inputs, began))
    except Broken as broken:
        print(f"broken after {fuzzer.count} inputs, seed {given.seed}:\n{broken}")
        return 1
    grown = memory() - before
    kind = "compiled" if hot.COMPILED else "pure"
    print(f"{fuzzer.count} inputs, {kind}, seed {given.seed}: grown by {grown} bytes")
    return 0 if grown < GROWTH else 1


def _progress(count: int, total: int, began: float) -> None:
    if count % 50_000 == 0:
        print(f"{count} of {total} inputs, {count / (time.monotonic() - began):.0f} a second")


if __name__ == "__main__":
    # Otherwise Twisted keeps what is logged for the first observer.
    globalLogBeginner.beginLoggingTo([], discardBuffer=True, redirectStandardIO=False)
    sys.exit(main(sys.argv[1:]))
