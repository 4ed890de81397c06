"""
The JetStream of one account.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Any, TypeVar
from weakref import WeakSet

from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from natsbroker.connections.turns import AccountTurns, turnsOn
from natsbroker.interfaces import ILeasedStore, IMessageBus, IStateStore, IStreamStore
from natsbroker.interfaces.records import StoreError
from natsbroker.jetstream.batches.budget import BatchBudget
from natsbroker.jetstream.damage import DamagedStreams
from natsbroker.jetstream.interest import SubjectInterest
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.limits import (
    NO_ACCOUNT_LIMITS,
    NO_SERVER_LIMITS,
    AccountAllowance,
    ConfiguredLimits,
    JetStreamLimits,
    StorageBounds,
)
from natsbroker.jetstream.model.members import JetStreamPeers, SharedAccount
from natsbroker.jetstream.model.streamconfig import StorageType, StreamConfig
from natsbroker.jetstream.recordsender import RecordSender
from natsbroker.jetstream.statecopies import CopiedStates
from natsbroker.jetstream.streams.storageuse import FRESH, LONGEST, NEAR
from natsbroker.jetstream.streams.stream import Stream, logName, spaceName
from natsbroker.runtime.deadlines import Deadlines
from natsbroker.steps import Steps
from natsbroker.subjects.collisionindex import CollisionIndex
from natsbroker.subjects.shapes import TooManyShapes
from natsbroker.wire.clientinfo import eventId
from natsbroker.wire.gojson import encode
from natsbroker.wire.timestamps import formatTime
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker.jetstream")

T = TypeVar("T")

SLICE = 0.001
"""Seconds of work in steps that are done in one slice."""

MOST_REQUESTS = 10_000
"""The requests of an account that may wait, as in nats-server."""


class JetStreamAccount:
    """
    The streams of one account, and what they share.

    @ivar name: the account's name.
    @ivar bus: the account's bus for services of this broker.
    @ivar records: sends stored messages.
    @ivar files: the store of streams in files, and of all configurations and consumer states.
    @ivar memory: the store of streams in memory.
    @ivar turns: when long work goes on.
    @ivar now: the wall clock, in nanoseconds since 1970.
    @ivar allowance: what the account may use; it may change.
    @ivar configuredLimits: the limits of all accounts together.
    @ivar server: the name of this server.
    @ivar domain: the JetStream domain; empty for none.
    @ivar strict: requests with unknown keys are refused.
    @ivar isShared: whether other brokers serve streams of the same store.
    @ivar cluster: what the other brokers have of the account, if they share its store.
    @ivar batches: what the atomic batches of all accounts use.
    @ivar damaged: the streams that cannot be served.
    @ivar damagedConsumers: the keys of consumers whose configuration cannot be read.
    @ivar opening: the names of streams that are being created.
    @ivar changing: the configurations of streams that are being created or changed: what is checked
        meanwhile is checked against them.
    @ivar changes: how often a stream began to be created or changed.
    @ivar subjects: those of all streams, as far as they were needed for checks.
    @ivar requests: API requests so far.
    @ivar failures: API requests so far that were answered with an error.
    """

    def __init__(
        self,
        name: str,
        bus: IMessageBus,
        files: IStreamStore,
        memory: IStreamStore,
        deadlines: Deadlines,
        now: Callable[[], int],
        server: str,
        domain: str = "",
        limits: JetStreamLimits = NO_ACCOUNT_LIMITS,
        serverLimits: ConfiguredLimits = NO_SERVER_LIMITS,
        strict: bool = True,
        others: Mapping[str, JetStreamAccount] = MappingProxyType({}),
        batches: BatchBudget | None = None,
        turns: AccountTurns | None = None,
    ) -> None:
        self.name = name
        self.bus = bus
        self.records = RecordSender(bus)
        self.files = files
        self.memory = memory
        self.deadlines = deadlines
        self.turns = turns or turnsOn(deadlines.reactor).of(name)
        self.now = now
        self.reserving: WeakSet[Stream] = WeakSet()
        self._looks: dict[StorageType, tuple[int, int, bool]] = {}
        self.server = server
        self.domain = domain
        self.allowance = AccountAllowance(limits)
        self.configuredLimits = serverLimits
        self._others = others
        self.strict = strict
        self.isShared = ILeasedStore.providedBy(files)
        self.cluster: SharedAccount | None = None
        self.states: IStateStore = CopiedStates(files.states(f"jetstream/{name}"))
        self.streams: dict[str, Stream] = {}
        self.batches = batches or BatchBudget()
        self.damaged = DamagedStreams()
        self.damagedConsumers: set[bytes] = set()
        self.opening: set[str] = set()
        self.changing: dict[str, StreamConfig] = {}
        self.changes = 0
        self.subjects = CollisionIndex()
        self.requests = 0
        self.failures = 0
        self._dropped = 0
        self._random = Random()
        self._interest = SubjectInterest(bus)
        self._running: set[Deferred[Any]] = set()

    def spaceOf(self, name: str) -> str:
        """
        The space of state of a stream and its consumers. In a store of one broker the streams of an
        account have one together.
        """
        if self.isShared:
            return spaceName(logName(self.name, name))
        return f"jetstream/{self.name}"

    @property
    def limits(self) -> JetStreamLimits:
        """The limits of the account that hold here."""
        return self.allowance.effective()

    @property
    def members(self) -> JetStreamPeers | None:
        """The brokers of the cluster that serve the account; C{None} for one that is alone."""
        return None if self.cluster is None else self.cluster.members

    def send(
        self,
        subject: bytes,
        payload: bytes = b"",
        headers: bytes = b"",
        reply: bytes = b"",
        streamSubject: bytes = b"",
        origin: object = None,
    ) -> int:
        """
        Publish a message.

        @param headers: a header block.
        @param streamSubject: the subject that receivers see.
        @param origin: who of this broker asks a service; C{None} for what is no request.
        @return: the number of receivers.
        """
        message = Message(
            subject, headers + payload, reply, len(headers), origin, streamSubject=streamSubject
        )
        return self.bus.publish(message)

    def advise(self, subject: str, kind: str, /, **fields: Any) -> None:
        """
        Publish an advisory, or a metric, if somebody listens.

        @param subject: after C{$JS.EVENT.}.
        @param kind: its type, after C{io.nats.jetstream.}.
        """
        target = f"$JS.EVENT.{subject}".encode()
        if not self.bus.hasInterest(target):
            return
        event = {
            "type": f"io.nats.jetstream.{kind}",
            "id": eventId(self._random),
            "timestamp": formatTime(self.now()),
            **fields,
        }
        if self.domain:
            event["domain"] = self.domain
        self.bus.publishInternal(target, encode(event))

    def watchInterest(
        self, subject: bytes, queue: bytes, changed: Callable[[bool], None]
    ) -> Callable[[], None]:
        """Report whether a subject has interest; see L{SubjectInterest.watch}."""
        return self._interest.watch(subject, queue, changed)

    def run(self, coroutine: Coroutine[Any, Any, Any] | Deferred[Any]) -> Deferred[Any]:
        """Run something that nobody waits for; its failure is logged."""
        # A coroutine is a task of its own: it is not over when the one is that runs now.
        running = coroutine if isinstance(coroutine, Deferred) else self.turns.begin(coroutine)
        self._running.add(running)
        running.addBoth(self._done, running)
        return running

    def _mayAsk(self) -> bool:
        """Whether a request is taken. Too many wait already if not; an advisory says so once."""
        if self.turns.waiting < MOST_REQUESTS:
            self._dropped = 0
            return True
        self._dropped += 1
        if self._dropped == 1:
            self.deadlines.after(0.0, self._adviseDropped)
        return False

    def _adviseDropped(self) -> None:
        dropped, self._dropped = self._dropped, 0
        fields = {"server": self.server, "dropped": dropped}
        self.advise("ADVISORY.API.LIMIT_REACHED", "advisory.v1.api_limit_reached", **fields)
        text = "JetStream API queue limit of account {name} reached, dropping {count} requests"
        _log.warn(text, name=self.name, count=dropped)

    def serve(
        self,
        serve: Callable[..., Coroutine[Any, Any, Any]],
        message: Message,
        tag: Any,
        isRead: bool,
        cost: int,
    ) -> None:
        """
        Do what a request asks for, in the turns of its origin. If too many wait it is dropped.

        @param isRead: whether it changes nothing: then it ends when the answer has no receiver.
        @param cost: of its beginning, in the units of L{natsbroker.pure.backlog}.
        """
        if self._mayAsk():
            isHeard = partial(self.bus.hasInterest, message.reply, isRequest=False)
            isWanted = isHeard if isRead else None
            begin = partial(self._begin, serve, message, tag)
            # To read the body of a request takes about two tenths of a microsecond for each byte.
            cost += 2 * len(message.body)
            self.turns.queue(begin, message.origin, isWanted, cost)

    def _begin(
        self, serve: Callable[..., Coroutine[Any, Any, Any]], message: Message, tag: Any
    ) -> None:
        self.run(ensureDeferred(serve(message, tag)))

    def _done(self, result: object, running: Deferred[Any]) -> None:
        self._running.discard(running)
        if isinstance(result, Failure) and not result.check(CancelledError, StoreError):
            _log.failure("JetStream of account {name} failed", result, name=self.name)

    @property
    def ownStreams(self) -> list[Stream]:
        """The streams that the account's limits count: all but the channels of NATS Streaming."""
        return [each for each in self.streams.values() if not each.isChannel]

    def usage(self, storage: StorageType) -> int:
        """The bytes of all streams of one kind of storage."""
        return sum(each.size for each in self.ownStreams if each.config.storage is storage)

    def isBounded(self, storage: StorageType) -> bool:
        """Whether the account or the server has a limit for a kind of storage."""
        return max(self.limits.total(storage), self.configuredLimits.total(storage)) >= 0

    def isNear(self, storage: StorageType) -> bool:
        """
        Whether the limits of a kind of storage are so near that each message must be checked. All
        streams share one look at them all, which is good for longer the more room there is.
        """
        now = self.now()
        looked, until, isNear = self._looks.get(storage, (0, 0, False))
        if not looked <= now < until:
            room = self.bounds(storage, 0).room()
            isNear = room is not None and room < NEAR
            rest = LONGEST if room is None else min(max(FRESH, room - NEAR), LONGEST)
            self._looks[storage] = now, now + rest, isNear
        return isNear

    def bounds(self, storage: StorageType, own: int) -> StorageBounds:
        """
        The limits for a kind of storage, and what is in use.

        @param own: bytes of a stream that do not count.
        """
        used = self.usage(storage)
        total = self.configuredLimits.total(storage)
        others = (each for each in self._others.values() if each is not self)
        everything = used + sum(each.usage(storage) for each in others) if total >= 0 else 0
        return StorageBounds(total, everything - own, self.limits.total(storage), used - own)

    def allow(self, allowance: AccountAllowance) -> None:
        """Change what the account may use."""
        self.allowance = allowance
        self._reconfigure()

    def configure(self, limits: ConfiguredLimits) -> None:
        """Change what all accounts may use together."""
        self.configuredLimits = limits
        self._reconfigure()

    def _reconfigure(self) -> None:
        self._looks.clear()
        for stream in self.streams.values():
            stream.publisher.applyConfig()

    @property
    def serverLimits(self) -> ConfiguredLimits:
        """L{configuredLimits}, with what the streams of all accounts leave."""
        every = {**self._others, self.name: self}.values()
        return self.configuredLimits.after(
            lambda storage: sum(each.reserved(storage) for each in every)
        )

    @contextmanager
    def change(self, config: StreamConfig) -> Iterator[None]:
        """Have a configuration count while it is made durable."""
        self.changes += 1
        self.changing[config.name] = config
        try:
            yield
        finally:
            del self.changing[config.name]

    def configs(self) -> dict[str, StreamConfig]:
        """
        The configurations of the streams that this broker serves, also of those that it is creating
        or changing.
        """
        return {**{name: each.config for name, each in self.streams.items()}, **self.changing}

    def reserved(self, storage: StorageType) -> int:
        """The bytes that streams of one kind of storage reserve by their C{max_bytes}."""
        changing = self.changing
        configs = [
            each.config
            for each in self.reserving
            if each.config.max_bytes > 0
            and not each.isChannel
            and self.streams.get(each.name) is each
            and each.name not in changing
        ]
        configs += [each for each in changing.values() if each.max_bytes > 0]
        return sum(each.max_bytes for each in configs if each.storage is storage)

    async def inSteps(self, steps: Steps[T]) -> T:
        """
        Do some work, in several slices if it is long.

        @raise errors.JetStreamError: if it refuses something, or patterns have too many shapes.
        """
        worked = self.turns.worked
        begun = worked()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            except TooManyShapes as error:
                raise errors.STREAM_INVALID_CONFIG(err=error) from error
            if worked() - begun >= SLICE:
                await self.turns.turn()
                begun = worked()

    def close(self) -> None:
        """End what runs in the background."""
        self._interest.close()
        for each in list(self._running):
            each.cancel()
