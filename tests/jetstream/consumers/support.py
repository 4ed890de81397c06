"""
A stage for consumers: a bus, a clock that the test moves, and a stream over a log in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from random import Random
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, ensureDeferred, succeed
from twisted.internet.task import Clock
from zope.interface import implementer

from natsbroker import hot
from natsbroker.accounts.account import Account
from natsbroker.accounts.core import AccountDependencies
from natsbroker.interfaces import IStateStore, ISubscriber
from natsbroker.interfaces.records import Matching, Record
from natsbroker.jetstream.accountcore import UNLIMITED, JetStreamAccountCore, JetStreamServer
from natsbroker.jetstream.consumers.consumer import Consumer
from natsbroker.jetstream.consumers.state import stateKey
from natsbroker.jetstream.model.consumerconfig import AckPolicy, ConsumerConfig
from natsbroker.jetstream.model.streamconfig import RetentionPolicy, StreamConfig
from natsbroker.runtime.deadlines import Deadlines
from natsbroker.steps import Steps, finish
from natsbroker.storage.memory import MemoryLog, MemoryStore
from natsbroker.subjects.grammar import matches
from natsbroker.wire.timestamps import Timestamp
from natsbroker.wire.values import Kind, Message
from tests.support import Router

T = TypeVar("T")

SECOND = 1_000_000_000
BEGINNING = 1_700_000_000 * SECOND


@implementer(ISubscriber)
class Inbox:
    """
    A subscription of a client.

    @ivar got: what was delivered, in order.
    """

    def __init__(self, stage: ConsumerStage, subject: bytes, queue: bytes = b"") -> None:
        self.subject = subject
        self.got: list[Message] = []
        self._stage = stage
        self._subscription = stage.clients.subscribe(subject, self, queue=queue)

    def deliver(self, message: Message, tag: Any) -> None:
        self.got.append(message)

    def subscriptionEnded(self, tag: Any) -> None:
        """Not called: the subscription has no maximum."""

    def close(self) -> None:
        """Unsubscribe."""
        self._subscription.cancel()
        self._stage.settle()

    def take(self) -> list[Message]:
        """The deliveries since the last call."""
        got, self.got = self.got, []
        return got

    def texts(self) -> list[str]:
        """Take the deliveries as text: payloads of messages, and first lines of statuses."""
        return [textOf(message) for message in self.take()]


def textOf(message: Message) -> str:
    """
    The payload of a message, or the first line of a status.
    """
    if not message.payload and message.headers.startswith(b"NATS/1.0 "):
        return message.headers.partition(b"\r\n")[0][9:].decode()
    return message.payload.decode()


class FakeAccount(JetStreamAccountCore):
    """
    The account of a stage.

    @ivar advisories: what was published as advisories and metrics: kind and fields.
    """

    def __init__(self, stage: ConsumerStage) -> None:
        deadlines = Deadlines(stage.clock, stage.clock.seconds)
        server = JetStreamServer(stage.store, stage.store, deadlines, stage.now, "S1")
        super().__init__("A", stage.account.busFor(Kind.INTERNAL), server, UNLIMITED, None)
        self.advisories: list[tuple[str, dict[str, Any]]] = []
        self.failures: list[Any] = []
        self._watches: list[tuple[bytes, bytes, Callable[[bool], None]]] = []

    async def inSteps(self, steps: Steps[T]) -> T:
        return finish(steps)

    def advise(self, subject: str, kind: str, fields: Callable[[], Any]) -> None:
        self.advisories.append((kind.rpartition(".")[2], fields()))

    def watchInterest(
        self, subject: bytes, queue: bytes, changed: Callable[[bool], None]
    ) -> Callable[[], None]:
        watch = (subject, queue, changed)
        self._watches.append(watch)
        changed(self.bus.hasInterest(subject) and not queue)
        return lambda: self._watches.remove(watch)

    def interest(self, subject: bytes, isThere: bool) -> None:
        """Report a change of interest."""
        for watched, _, changed in list(self._watches):
            if watched == subject:
                changed(isThere)

    def serve(
        self,
        serve: Callable[..., Coroutine[Any, Any, Any]],
        message: Message,
        tag: Any,
        isRead: bool,
        cost: int,
    ) -> None:
        self.run(serve(message, tag))

    def run(self, coroutine: Coroutine[Any, Any, Any] | Deferred[Any]) -> Deferred[Any]:
        return ensureDeferred(coroutine).addErrback(self.failures.append)


@implementer(IStateStore)
class DelayedStates:
    """
    A state store whose writes take some time, and are lost in a crash before that.
    """

    def __init__(self, states: IStateStore, clock: Clock, seconds: float) -> None:
        self._states = states
        self._clock = clock
        self._seconds = seconds
        self._calls: list[Any] = []

    def load(self, prefix: bytes = b"") -> Deferred[dict[bytes, bytes]]:
        return self._states.load(prefix)

    def put(self, key: bytes, value: bytes) -> Deferred[None]:
        done: Deferred[None] = Deferred()

        def write() -> None:
            self._states.put(key, value)
            done.callback(None)

        self._calls.append(self._clock.callLater(self._seconds, write))
        return done

    def delete(self, key: bytes) -> Deferred[None]:
        return self._states.delete(key)

    def change(self, changes: Mapping[bytes, bytes | None]) -> Deferred[None]:
        return self._states.change(changes)

    def crash(self) -> None:
        """Lose the writes that are under way."""
        calls, self._calls = self._calls, []
        for call in calls:
            if call.active():
                call.cancel()


class FakeTable(list[Consumer]):
    """
    Consumers that are all asked for each message, and notified of each removal.
    """

    announced = removals = 0

    def removalsOf(self, filters: tuple[bytes, ...]) -> tuple[int, int]:
        return self.removals, 1 << 60

    def mayHold(self, consumer: Any) -> None:
        pass

    def refiltered(self, consumer: Any, previous: tuple[bytes, ...]) -> None:
        pass


class FakeStream:
    """
    A stream without rules.

    @ivar settledSequences: what consumers have settled.
    @ivar lateSequences: what was acknowledged behind the floor.
    @ivar ended: consumers that ended by themselves.
    @ivar lag: seconds that a read takes.
    @ivar groups: for each call that is one group, how much was settled in it.
    """

    isShared = False

    def __init__(self, stage: ConsumerStage, log: MemoryLog, config: StreamConfig) -> None:
        self.account = stage.fakeAccount
        self.name = config.name
        self.config = config
        self.log = log
        self.states: IStateStore = stage.store.states("jetstream/A")
        self.settledSequences: list[int] = []
        self.lateSequences: list[int] = []
        self.ended: list[Any] = []
        self.consumers = FakeTable()
        self.lag = 0.0
        self.groups: list[int] = []
        self._clock = stage.clock

    def together(self, call: Callable[[], object]) -> None:
        before = len(self.settledSequences)
        call()
        self.groups.append(len(self.settledSequences) - before)

    @property
    def first(self) -> int:
        return self.log.bounds().first

    @property
    def last(self) -> int:
        return self.log.bounds().last

    def _later(self, value: Any) -> Deferred[Any]:
        if not self.lag:
            return succeed(value)
        later: Deferred[Any] = Deferred()
        self._clock.callLater(self.lag, later.callback, value)
        return later

    def records(self, filters: tuple[bytes, ...] = ()) -> list[Record]:
        """All records with a subject that matches a filter."""
        results: list[list[Record]] = []
        self.log.read(0, 1 << 30, 1 << 40).addCallback(results.append)
        return [
            record
            for record in results[0]
            if not filters or any(matches(one, record.subject) for one in filters)
        ]

    def read(
        self, filters: tuple[bytes, ...], sequence: int, limit: int = 256, maxBytes: int = 1 << 20
    ) -> Deferred[Matching]:
        records = [record for record in self.records(filters) if record.sequence >= sequence][
            :limit
        ]
        isAll = len(records) < limit
        return self._later(Matching(records, self.last + 1 if isAll else records[-1].sequence + 1))

    readEncoded = read

    def get(self, sequence: int) -> Deferred[Record | None]:
        records = [record for record in self.records() if record.sequence == sequence]
        return self._later(records[0] if records else None)

    def count(self, filters: tuple[bytes, ...], sequence: int) -> Deferred[int]:
        return self._later(
            sum(1 for record in self.records(filters) if record.sequence >= sequence)
        )

    def lastPerSubject(self, filters: tuple[bytes, ...]) -> Deferred[list[int]]:
        return self._later(sorted({e.subject: e.sequence for e in self.records(filters)}.values()))

    def sequenceAt(self, timestamp: int) -> Deferred[int]:
        return self.log.sequenceAt(timestamp)

    def settled(self, consumer: Any, sequences: Collection[int]) -> None:
        self.settledSequences += sequences

    def settledLate(self, sequences: Collection[int]) -> None:
        self.lateSequences += sequences

    def consumerEnded(self, consumer: Any) -> None:
        self.ended.append(consumer)

    # What the tests do.

    def publish(self, subject: str, payload: str = "", headers: bytes = b"") -> int:
        """Store a message and hand it to the consumers."""
        sequence = self.log.nextSequence
        text = payload or str(sequence)
        self.log.append([(subject.encode(), headers, text.encode(), self.account.now())])
        record = Record(sequence, self.account.now(), subject.encode(), headers, text.encode())
        for consumer in self.consumers:
            if consumer.wants(record.subject):
                consumer.stored([record], sequence)
        return sequence

    def delete(self, *sequences: int) -> None:
        """Delete single messages."""
        self.log.delete(sequences)
        for consumer in self.consumers:
            consumer.removed(sequences, 0)

    def discard(self, before: int, isPurge: bool = False) -> None:
        """Delete the messages below a sequence."""
        self.log.discardBefore(before)
        for consumer in self.consumers:
            consumer.removed((), before, isPurge)


class ConsumerStage:
    """
    A stream and its consumers.
    """

    def __init__(self, retention: RetentionPolicy = RetentionPolicy.LIMITS, **stream: Any) -> None:
        self.clock = Clock()
        self.turn = hot.FlushBatch(lambda call: self.clock.callLater(0, call))
        self.account = Account("A", Router(), AccountDependencies(self.turn, Random(1)))
        self.clients = self.account.busFor(Kind.CLIENT)
        self.store = MemoryStore(self.clock, now=self.now)
        self.fakeAccount = FakeAccount(self)
        logs: list[Any] = []
        self.store.open("S").addCallback(logs.append)
        config = StreamConfig(name="S", subjects=("s.>",), retention=retention, **stream)
        self.stream = FakeStream(self, logs[0], config)
        self._inboxes = 0

    def now(self) -> int:
        """The wall clock."""
        return BEGINNING + round(self.clock.seconds() * SECOND)

    def settle(self) -> None:
        """Let happen what happens at once."""
        for _ in range(1000):
            due = [call.getTime() for call in self.clock.getDelayedCalls()]
            if not due or min(due) > self.clock.seconds():
                assert self.fakeAccount.failures == []
                return
            self.clock.advance(0)
        raise AssertionError("this never settles")

    def advance(self, seconds: float) -> None:
        """Let time pass, from event to event."""
        end = self.clock.seconds() + seconds
        self.settle()
        while True:
            due = min((call.getTime() for call in self.clock.getDelayedCalls()), default=end + 1)
            if due > end + 1e-9:
                break
            self.clock.advance(max(due - self.clock.seconds(), 0))
            self.settle()
        self.clock.advance(max(end - self.clock.seconds(), 0))
        self.settle()

    def inbox(self, queue: bytes = b"", subject: bytes = b"") -> Inbox:
        """A subscription of a client."""
        self._inboxes += 1
        return Inbox(self, subject or b"_INBOX.%d" % self._inboxes, queue)

    def send(
        self, subject: bytes, body: bytes = b"", reply: bytes = b"", headers: bytes = b""
    ) -> None:
        """Publish as a client."""
        self.clients.publish(Message(subject, headers + body, reply, len(headers), self))
        self.settle()

    def config(self, **fields: Any) -> ConsumerConfig:
        """A configuration as the API's defaults make it."""
        fields.setdefault("name", "C")
        fields.setdefault("ack_policy", AckPolicy.EXPLICIT)
        if fields["ack_policy"] is not AckPolicy.NONE:
            fields.setdefault("ack_wait", 30 * SECOND)
            fields.setdefault("max_ack_pending", 1000)
        fields.setdefault("max_deliver", -1)
        if not fields.get("deliver_subject"):
            fields.setdefault("max_waiting", 512)
        return ConsumerConfig(**fields)

    def consumer(self, **fields: Any) -> Consumer:
        """A consumer that serves."""
        return self.started(self.config(**fields))

    def started(self, config: ConsumerConfig, state: bytes | None = None) -> Consumer:
        """Start a consumer with a configuration, and with the state of an earlier run."""
        consumer = Consumer(self.stream, config.name, config, self.now(), state, Random(1))
        self.stream.consumers.append(consumer)
        started: list[object] = []
        consumer.start().addBoth(started.append)
        self.settle()
        assert started == [None], started
        return consumer

    def startLater(self, config: ConsumerConfig) -> list[object]:
        """Start a consumer without waiting; the returned list gets the result."""
        consumer = Consumer(self.stream, config.name, config, self.now(), None, Random(1))
        self.stream.consumers.append(consumer)
        started: list[object] = []
        consumer.start().addBoth(started.append)
        return started

    def timestamp(self, seconds: float) -> Timestamp:
        """The time a number of seconds from now."""
        return Timestamp(self.now() + round(seconds * SECOND))

    def stop(self, consumer: Consumer, reason: str = "shutdown") -> None:
        """Stop a consumer."""
        self.stream.consumers.remove(consumer)
        consumer.stop(reason)
        self.settle()

    def stateOf(self, name: str = "C") -> bytes | None:
        """The stored state of a consumer."""
        results: list[dict[bytes, bytes]] = []
        key = stateKey("S", name)
        self.stream.states.load(key).addCallback(results.append)
        return results[0].get(key)

    def restart(self, consumer: Consumer) -> Consumer:
        """
        End a consumer as a crash would, and start it again with the state in the store.
        """
        state = self.stateOf(consumer.name)
        self.crash(consumer)
        return self.started(consumer.config, state)

    def crash(self, consumer: Consumer) -> None:
        """Stop a consumer as a killed process would: without writing its state."""
        self.stream.consumers.remove(consumer)
        consumer.core.writer.stop()
        consumer.core.isServing = False
        consumer.core.timers.stop()
        consumer.stop("deleted")

    def publish(self, count: int, subject: str = "s.a") -> None:
        """Store some messages, whose payloads are their sequences."""
        for _ in range(count):
            self.stream.publish(subject)
        self.settle()

    def pull(self, inbox: Inbox, body: bytes = b"", name: str = "C") -> None:
        """Request messages."""
        self.send(b"$JS.API.CONSUMER.MSG.NEXT.S." + name.encode(), body, inbox.subject)

    def ack(self, message: Message, payload: bytes = b"", reply: bytes = b"") -> None:
        """Acknowledge a message."""
        self.send(message.reply, payload, reply)

    @property
    def advisories(self) -> list[str]:
        """The kinds of the advisories since the last look."""
        kinds = [kind for kind, _ in self.fakeAccount.advisories]
        self.fakeAccount.advisories.clear()
        return kinds


def numbers(message: Message) -> tuple[int, ...]:
    """
    The numbers in the reply subject of a delivery: deliveries, stream sequence, consumer sequence
    and pending messages.
    """
    parts = message.reply.split(b".")
    return int(parts[4]), int(parts[5]), int(parts[6]), int(parts[8])
