"""
A stage for JetStream: an account on a bus, a clock, and stores in memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock
from zope.interface import implementer

from natsbroker import hot
from natsbroker.accounts.account import Account
from natsbroker.accounts.core import AccountDependencies
from natsbroker.config.model import Settings
from natsbroker.connections.turns import turnsOn
from natsbroker.interfaces import ISubscriber
from natsbroker.jetstream.account import JetStreamAccount
from natsbroker.jetstream.accountcore import JetStreamServer
from natsbroker.jetstream.model.streamconfig import StreamConfig
from natsbroker.jetstream.storenames import logName
from natsbroker.jetstream.streams.stream import Stream
from natsbroker.runtime.deadlines import Deadlines
from natsbroker.storage.memory import MemoryStore
from natsbroker.wire.headers import Headers
from natsbroker.wire.values import Kind, Message
from tests.support import Router

T = TypeVar("T")

SECOND = 1_000_000_000
BEGINNING = 1_700_000_000 * SECOND
"""The wall clock's time when a stage is set."""


@implementer(ISubscriber)
class Inbox:
    """
    A subscription that keeps what it receives.
    """

    def __init__(self) -> None:
        self.got: list[Message] = []

    def deliver(self, message: Message, tag: Any) -> None:
        self.got.append(message)

    def subscriptionEnded(self, tag: Any) -> None:
        """Not called: the subscription has no maximum."""

    @property
    def payloads(self) -> list[bytes]:
        """The payloads since the last call."""
        got, self.got = self.got, []
        return [message.payload for message in got]


def hostOf(account: Account, clock: Clock, name: str = "S1") -> Any:
    """The broker of a service that serves C{account} alone."""
    return SimpleNamespace(
        describe=lambda: {"name": name},
        reactor=clock,
        settings=Settings(),
        turns=turnsOn(clock),
        bus=lambda name: account.busFor(Kind.INTERNAL),
    )


class Stage:
    """
    An account with JetStream.

    @ivar bus: for clients.
    @ivar host: the broker, as the service sees it.
    @ivar jetstream: the account's JetStream.
    """

    def __init__(self) -> None:
        self.clock = Clock()
        self.clock.advance(BEGINNING // SECOND)
        self._turn = hot.FlushBatch(lambda call: self.clock.callLater(0, call))
        self.account = Account("A", Router(), AccountDependencies(self._turn, Random(1)))
        self.bus = self.account.busFor(Kind.CLIENT)
        self.files: Any = MemoryStore(self.clock, now=self.now)
        self.memory: Any = MemoryStore(self.clock, now=self.now)
        deadlines = Deadlines(self.clock, self.clock.seconds)
        self.host = hostOf(self.account, self.clock)
        self.server = JetStreamServer(self.files, self.memory, deadlines, self.now, "S1")
        self.jetstream = JetStreamAccount("A", self.account.busFor(Kind.INTERNAL), self.server)

    def now(self) -> int:
        """The wall clock, in nanoseconds."""
        return round(self.clock.seconds() * SECOND)

    def settle(self) -> None:
        """Let what is due happen."""
        for _ in range(20):
            self.clock.advance(0)

    def wait(self, awaitable: Deferred[T] | Coroutine[Any, Any, T]) -> T:
        """The result of an operation that ends without further input."""
        deferred = awaitable if isinstance(awaitable, Deferred) else ensureDeferred(awaitable)
        outcome: list[Any] = []
        deferred.addBoth(outcome.append)
        self.settle()
        assert outcome, "still waiting"
        if hasattr(outcome[0], "raiseException"):
            outcome[0].raiseException()
        result: T = outcome[0]
        return result

    def stream(self, **config: Any) -> Stream:
        """A new stream, by default C{S} with the subjects C{s.>}."""
        made = StreamConfig(
            **{
                "name": "S",
                "subjects": ("s.>",),
                "duplicate_window": 120 * SECOND,
                "max_msg_size": -1,
                **config,
            }
        )
        store = self.memory if made.storage.value == "memory" else self.files
        log = self.wait(store.open(logName("A", made.name)))
        stream = Stream(self.jetstream, made, self.now(), log)
        self.jetstream.streams[made.name] = stream
        self.wait(stream.applyConfig(made))
        return stream

    def inbox(self, subject: bytes) -> Inbox:
        """A subscription of a client."""
        inbox = Inbox()
        self.bus.subscribe(subject, inbox)
        return inbox

    def send(
        self, subject: bytes, payload: bytes = b"", reply: bytes = b"", **headers: str
    ) -> None:
        """Publish as a client; the underscores of header names become dashes."""
        block = Headers({name.replace("_", "-"): value for name, value in headers.items()}).block()
        block = block if headers else b""
        self.bus.publish(Message(subject, block + payload, reply, len(block), self))

    def publish(self, subject: bytes, payload: bytes = b"", **headers: str) -> bytes:
        """Publish with a reply subject, and give the answer."""
        inbox = Inbox()
        subscription = self.bus.subscribe(b"_INBOX.ack", inbox)
        self.send(subject, payload, b"_INBOX.ack", **headers)
        self.settle()
        subscription.cancel()
        (answer,) = inbox.payloads
        return answer

    def errorOf(self, answer: bytes) -> tuple[int, str]:
        """The number and the text of a refusal."""
        error = json.loads(answer)["error"]
        return error["err_code"], error["description"]

    def busiest(self, stream: Stream, look: Callable[[], Deferred[T]]) -> tuple[T, int]:
        """
        The result of an operation that reads a stream, and the most work that it does in one turn.
        """
        stream.log = counter = WorkCounter(stream.log)
        turns: Any = self.jetstream.turns
        take: Callable[..., Deferred[None]] = turns.take
        turn: Callable[..., Deferred[None]] = turns.turn
        works = []

        def taken(*cost: int) -> Deferred[None]:
            works.append(counter.work)
            counter.work = 0
            return take(*cost)

        def turned(*cost: int) -> Deferred[None]:
            works.append(counter.work)
            counter.work = 0
            return turn(*cost)

        turns.take, turns.turn = taken, turned
        outcome = self.wait(look())
        del turns.take, turns.turn
        stream.log = counter.log
        return outcome, max([*works, counter.work])

    def stored(self, stream: Stream) -> list[tuple[int, bytes, bytes]]:
        """Sequence, subject and payload of all messages."""
        matching = self.wait(stream.read((), 1))
        return [(record.sequence, record.subject, record.payload) for record in matching.records]


def filled(stage: Stage) -> list[bytes]:
    """Five messages of two subjects."""
    subjects = [b"s.a", b"s.b", b"s.a", b"s.b", b"s.a"]
    for subject in subjects:
        stage.publish(subject, subject[-1:])
    return subjects


class WorkCounter:
    """A log that counts the records and subjects that are read."""

    def __init__(self, log: Any) -> None:
        self.log = log
        self.work = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)

    def read(self, sequence: int, limit: int = 256, maxBytes: int = 1 << 20) -> Deferred[Any]:
        return self._counted(self.log.read(sequence, limit, maxBytes))

    def readMatching(
        self, patterns: Any, sequence: int, limit: int = 256, maxBytes: int = 1 << 20
    ) -> Deferred[Any]:
        reading: Deferred[Any] = self.log.readMatching(patterns, sequence, limit, maxBytes)
        return reading.addCallback(self._noteMatching, sequence)

    def subjects(self, pattern: bytes, after: bytes = b"", limit: int = 0) -> Deferred[Any]:
        return self._counted(self.log.subjects(pattern, after, limit))

    def _counted(self, reading: Deferred[Any]) -> Deferred[Any]:
        return reading.addCallback(self._note)

    def _note(self, result: Any) -> Any:
        self.work += len(result)
        return result

    def _noteMatching(self, matching: Any, sequence: int) -> Any:
        self.work += matching.next - sequence
        return matching


class ReplacingLog:
    """A log in which messages are replaced during each read, for a limited number of times."""

    def __init__(self, log: Any, subjects: Sequence[bytes], times: int) -> None:
        """
        @param times: how often all subjects are replaced.
        """
        self._log = log
        self._subjects = subjects
        self._times = times

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._log, name)
        if name not in ("read", "readMatching", "lastFor", "subjects"):
            return method

        def call(*arguments: Any) -> Any:
            answer = method(*arguments)
            if self._times > 0:
                self._times -= 1
                self._log.append([(subject, b"", b"new", 0) for subject in self._subjects])
            return answer

        return call
