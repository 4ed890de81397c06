"""
Two servers with JetStream that receive the same requests and are compared after each: C{python -m
tests.interop.jetstream.lockstep --histories N} plays any number of histories. Several run at the
same time, each in its own account, because a history mostly waits.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from tests.interop.jetstream.asking import storageOf, wordless
from tests.interop.jetstream.histories import (
    PIN,
    STREAMS,
    Ack,
    Ask,
    Operation,
    Publish,
    Pull,
    nextOperation,
    setUp,
)
from tests.interop.plainclients import Client
from tests.interop.servers import OURS_FAST, PATIENCE, REAL, Server

__all__ = ["Lockstep", "Side", "normalAnswer", "together"]

T = TypeVar("T")

_Delivery = tuple[bytes, bytes, bytes, bytes]

#: Seconds for an answer that may not come.
_SILENCE = 1.0

_DELIVER = (b"d.1", b"d.2")

_EMPTY = [0]
"""The list of deleted sequences that nats-server sometimes shows for an empty stream."""

_ZERO = "0001-01-01T00:00:00Z"
_TIMES = ("ts", "created", "first_ts", "last_ts", "last_active", "time", "pinned_ts")
_MALFORMED = re.compile(rb"(400 Bad Request) - (?:json: |Expected ).*")
_ACKED = re.compile(rb"(\$JS\.ACK\S*)\.\d+\.(\d+)\r\n")
_VARYING = ("pause_remaining", "pinned_client_id", "leader", "storage_bytes")


class _Recorder(Client):
    """A client that keeps the subjects of the messages that it receives."""

    def __init__(self, server: Server, user: str) -> None:
        self.subjects: dict[bytes, list[bytes]] = {}
        super().__init__(server, user)

    def _frame(self, frame: bytes) -> None:
        words = frame.partition(b"\r\n")[0].split()
        if words[0] in (b"MSG", b"HMSG"):
            self.subjects.setdefault(words[2], []).append(words[1])
        super()._frame(frame)

    def wait(self, sid: bytes, count: int, patience: float) -> None:
        """Wait until there are that many messages, or until a timeout."""
        try:
            self._until(lambda: len(self.got[sid]) >= count, patience)
        except TimeoutError:
            return

    def taken(self, sid: bytes) -> list[_Delivery]:
        """
        @return: all messages since the last call.
        """
        subjects = self.subjects.pop(sid, [])
        bodies, self.got[sid] = self.got[sid], []
        return [(subject, *rest) for subject, rest in zip(subjects, bodies, strict=True)]


class Side:
    """
    One of the servers.

    @ivar delivered: the acknowledgement subjects of delivered messages, oldest first.
    """

    def __init__(self, server: Server, user: str) -> None:
        self.client = _Recorder(server, user)
        self.delivered: list[bytes] = []
        self._numbers = itertools.count()
        self._pin = ""
        self._pushed = [self.client.subscribe(subject) for subject in _DELIVER]
        self._pushed += [self.client.subscribe(subject, b"g") for subject in _DELIVER]

    def begin(self) -> None:
        """Forget the previous history."""
        for name in STREAMS:
            self.ask(Ask(f"STREAM.DELETE.{name}"))
        self.client.flush()
        for sid in self._pushed:
            self.client.taken(sid)
        self.delivered = []
        self._pin = ""

    def perform(self, operation: Operation) -> Any:
        """
        @return: the server's answer, without random parts.
        """
        match operation:
            case Ask():
                return self.ask(operation)
            case Publish():
                return self._publish(operation)
            case Pull():
                return self._pull(operation)
            case Ack():
                return self._ack(operation)

    def _inbox(self) -> tuple[bytes, bytes]:
        reply = b"_INBOX.%d" % next(self._numbers)
        return reply, self.client.subscribe(reply)

    def _finished(self, sid: bytes) -> list[_Delivery]:
        self.client.unsubscribe(sid)
        return self.client.taken(sid)

    def ask(self, request: Ask) -> Any:
        reply, sid = self._inbox()
        self.client.publish(b"$JS.API." + request.subject.encode(), request.body, reply)
        self.client.wait(sid, 1, _SILENCE if request.isSilent else PATIENCE)
        deliveries = self._finished(sid)
        return [normalAnswer(*delivery[2:]) for delivery in deliveries]

    def _publish(self, message: Publish) -> Any:
        reply, sid = self._inbox()
        self.client.publish(message.subject.encode(), message.payload, reply, message.headers)
        self.client.wait(sid, 1, PATIENCE)
        return [normalAnswer(*delivery[2:]) for delivery in self._finished(sid)]

    def _pull(self, pull: Pull) -> Any:
        reply, sid = self._inbox()
        body = pull.body.replace(PIN.encode(), self._pin.encode())
        self.client.publish(b"$JS.API." + pull.subject.encode(), body, reply)
        self.client.flush()
        if pull.meanwhile:
            time.sleep(0.03)
        answers = [self._publish(publish) for publish in pull.meanwhile]
        deadline = time.monotonic() + 1.5
        while time.monotonic() < deadline:
            got = self.client.got[sid]
            statuses = [message for message in got if _status(message) not in (b"", b"100")]
            if statuses or len(got) - _heartbeats(got) >= pull.batch:
                break
            self.client.wait(sid, len(got) + 1, max(deadline - time.monotonic(), 0.01))
        # A second status would be a fault.
        self.client.flush()
        return [answers, self._received(self._finished(sid))]

    def _ack(self, ack: Ack) -> Any:
        if ack.place > len(self.delivered):
            return None
        reply, sid = self._inbox()
        self.client.publish(self.delivered[-ack.place], ack.payload, reply)
        self.client.wait(sid, 1, _SILENCE)
        if b"batch" in ack.payload or b"3" in ack.payload:
            self.client.wait(sid, 3, 0.1)
        return self._received(self._finished(sid))

    def pushed(self) -> int:
        """
        @return: the number of messages on deliver subjects.
        """
        self.client.flush()
        return sum(len(self.client.got[sid]) for sid in self._pushed)

    def takePushed(self) -> Any:
        """
        @return: the messages on deliver subjects, by subscription and consumer.
        """
        return [
            sorted(
                self._received(self.client.taken(sid)),
                key=lambda delivery: delivery[1].split(b".")[:4],
            )
            for sid in self._pushed
        ]

    def _received(self, deliveries: list[_Delivery]) -> list[_Delivery]:
        received = []
        for subject, reply, headers, body in deliveries:
            if reply.startswith(b"$JS.ACK."):
                self.delivered.append(reply)
                words = reply.split(b".")
                words[-2] = b"T"
                reply = b".".join(words)
            elif reply.startswith(b"$JS.FC."):
                reply = b"$JS.FC"
            pin = re.search(rb"Nats-Pin-Id: (\w+)", headers)
            if pin:
                self._pin = pin[1].decode()
                headers = headers.replace(pin[1], b"PIN")
            headers = re.sub(rb"(\$JS\.ACK\.\S+)\.\d{19}\.", rb"\1.T.", headers)
            if _status((b"", headers, b"")) == b"100":
                continue
            if subject.startswith(b"_INBOX."):
                subject = b"_INBOX"
            headers = _ACKED.sub(rb"\1.T.\2", headers)
            headers = _MALFORMED.sub(rb"\1", headers)
            received.append((subject, reply, headers, body))
        return received


def _status(message: tuple[bytes, bytes, bytes]) -> bytes:
    match = re.match(rb"NATS/1.0 (\d+)", message[1])
    return match[1] if match else b""


def _heartbeats(messages: list[tuple[bytes, bytes, bytes]]) -> int:
    return sum(_status(message) == b"100" for message in messages)


def normalAnswer(headers: bytes, body: bytes) -> Any:
    """
    @return: an answer without its random parts.
    """
    if headers or not body:
        return [headers, body]
    return json.dumps(_normal(json.loads(body)))


def _normal(value: Any) -> Any:
    if isinstance(value, list):
        return [_normal(element) for element in value]
    if not isinstance(value, dict):
        return value
    shown = {}
    if value.get("deleted") == _EMPTY:
        value = {key: item for key, item in value.items() if key not in ("deleted", "num_deleted")}
    for key, item in value.items():
        if key in _TIMES:
            shown[key] = _ZERO if item == _ZERO else "T"
        elif key in _VARYING:
            shown[key] = "V"
        else:
            shown[key] = _normal(wordless(item) if key == "error" else item)
    return shown


class Lockstep:
    """
    @ivar requests: the number of operations that were compared.
    @ivar histories: the number of histories.
    """

    def __init__(self, ours: Server, real: Server, *, user: str = "a") -> None:
        """
        @param user: the user of the account, if servers have several.
        """
        self.requests = 0
        self.histories = 0
        self._sides = (Side(ours, user), Side(real, user))
        self._workers = ThreadPoolExecutor(2)

    def both(self, work: Callable[[Side], T]) -> tuple[T, T]:
        """Run a step on both servers at the same time, because it mostly waits."""
        ours, real = self._workers.map(work, self._sides)
        return ours, real

    def history(self, seed: int, length: int) -> str:
        """
        Play the same history on both servers.

        @return: the first difference, with the operations before it; empty if there is none.
        """
        self.histories += 1
        random, done = Random(seed), list[Operation]()
        self.begin()
        following = setUp(random)
        for _ in range(length):
            delivered = min(len(side.delivered) for side in self._sides)
            operation = following.pop(0) if following else nextOperation(random, delivered)
            done.append(operation)
            difference = self.step(operation)
            if difference:
                before = "\n".join(f"  {step}" for step in done)
                return f"history {seed}:\n{before}\n{difference}"
        return ""

    def begin(self) -> None:
        """Forget the previous history."""
        self.both(Side.begin)

    def step(self, operation: Operation) -> str:
        """
        @return: the difference of the answers, if there is one.
        """
        self.requests += 1
        ours, real = self.both(lambda side: side.perform(operation))
        if isinstance(operation, Ask) and operation.isReading:
            ours, real = self._agreed(operation, ours, real)
        if ours == real:
            ours, real = self._pushes()
        return "" if ours == real else f" ours {ours}\n real {real}"

    def _agreed(self, request: Ask, ours: Any, real: Any) -> tuple[Any, Any]:
        # Acknowledgements take effect a moment after their answers.
        for _ in range(8):
            if ours == real:
                break
            time.sleep(0.05)
            ours, real = (side.ask(request) for side in self._sides)
        return ours, real

    def _pushes(self) -> tuple[Any, Any]:
        for _ in range(20):
            ours, real = (side.pushed() for side in self._sides)
            if ours == real:
                break
            time.sleep(0.02)
        ours, real = (side.takePushed() for side in self._sides)
        return ours, real


def together(work: Callable[[Lockstep, int], str], chosen: range, accounts: int) -> int:
    """
    Let both servers work, in several accounts at the same time. Work that shows a difference is
    repeated, because a random difference does not repeat.

    @param work: takes the arguments in C{chosen} and returns a difference, if there is one.
    @return: the number of differences that repeated.
    """
    users = [f"u{number}" for number in range(accounts)]
    seeds, twice, once = iter(chosen), list[int](), list[int]()

    def workAll(lockstep: Lockstep) -> None:
        for seed in seeds:
            problems = work(lockstep, seed)
            if problems:
                again = work(lockstep, seed)
                (twice if again else once).append(seed)
                print(f"{seed}, {'twice' if again else 'once'}: {problems}", flush=True)

    with ExitStack() as stack:
        servers = []
        for flavour in (OURS_FAST, REAL):
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            server = Server(flavour, Path(directory), storageOf(users)).start()
            stack.callback(server.stop)
            servers.append(server)
        locksteps = [Lockstep(*servers, user=user) for user in users]
        with ThreadPoolExecutor(accounts) as workers:
            list(workers.map(workAll, locksteps))
    requests = sum(lockstep.requests for lockstep in locksteps)
    print(
        f"{len(chosen)} from {chosen.start}, {requests} requests: "
        f"{len(twice)} differ {sorted(twice)}, {len(once)} differed once {sorted(once)}"
    )
    return len(twice)


def main() -> None:
    """
    The command.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the first one's number")
    parser.add_argument("--length", type=int, default=20, help="operations of each")
    parser.add_argument("--accounts", type=int, default=8, help="how many go on at a time")
    options = parser.parse_args()
    chosen = range(options.first, options.first + options.histories)
    different = together(
        lambda lockstep, seed: lockstep.history(seed, options.length), chosen, options.accounts
    )
    raise SystemExit(bool(different))


if __name__ == "__main__":
    main()
