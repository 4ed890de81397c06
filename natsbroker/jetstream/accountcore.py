"""The common part of an account, which knows neither streams nor consumers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, TypeVar
from weakref import WeakSet

from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from natsbroker.connections.turns import AccountTurns, turnsOn
from natsbroker.interfaces import ILeasedStore, IMessageBus, IStreamStore
from natsbroker.interfaces.records import StoreError
from natsbroker.jetstream.batches.budget import BatchBudget
from natsbroker.jetstream.interest import SubjectInterest
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.gojson import encode
from natsbroker.jetstream.model.limits import (
    NO_ACCOUNT_LIMITS,
    NO_SERVER_LIMITS,
    AccountAllowance,
    ConfiguredLimits,
    JetStreamLimits,
    StorageBounds,
)
from natsbroker.jetstream.model.members import SharedAccount
from natsbroker.jetstream.model.streamconfig import StorageType
from natsbroker.jetstream.recordsender import RecordSender
from natsbroker.jetstream.storenames import logName, spaceName
from natsbroker.jetstream.streamtable import StreamTable
from natsbroker.runtime.deadlines import Deadlines
from natsbroker.steps import Steps
from natsbroker.subjects.shapes import TooManyShapes
from natsbroker.wire.clientinfo import eventId
from natsbroker.wire.timestamps import formatTime
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker.jetstream")

T = TypeVar("T")

SLICE = 0.001
"""Seconds of work in steps that are done in one slice."""

MOST_REQUESTS = 10_000
"""The requests of an account that may wait, as in nats-server."""

NEAR = 32 << 20
"""
The free bytes of an account below which each message is checked. One turn of the reactor stores
less than that.
"""

FRESH = 50_000_000
"""The least time, in nanoseconds, for which a count of all streams is used."""

APART = 500_000_000
"""Nanoseconds between two counts of what other workers store, at least."""

LONGEST = 10_000_000_000
"""
The longest time, in nanoseconds, for which a count of all streams is used. Within these bounds, it
is used for one nanosecond per free byte: no broker fills a gigabyte in a second.
"""

UNLIMITED = AccountAllowance(NO_ACCOUNT_LIMITS)


@dataclass(frozen=True, eq=False)
class JetStreamServer:
    """
    The common part of the accounts of one server.

    @ivar files: the store of streams in files, and of all configurations and consumer states.
    @ivar memory: the store of streams in memory.
    @ivar deadlines: timers, by a clock that is never set.
    @ivar now: the wall clock, in nanoseconds since 1970.
    @ivar domain: the JetStream domain; empty for none.
    @ivar strict: whether requests with unknown keys are refused.
    @ivar limits: of all accounts together, at first.
    @ivar accounts: all of them, by name.
    @ivar batches: what the atomic batches of all accounts use.
    """

    files: IStreamStore
    memory: IStreamStore
    deadlines: Deadlines
    now: Callable[[], int]
    name: str
    domain: str = ""
    strict: bool = True
    limits: ConfiguredLimits = NO_SERVER_LIMITS
    accounts: Mapping[str, Any] = field(default_factory=dict)
    batches: BatchBudget = field(default_factory=BatchBudget)


class JetStreamAccountCore:
    """
    The account of streams and consumers.

    @ivar bus: the account's bus for services of this broker.
    @ivar records: sends stored messages.
    @ivar turns: the order of long work.
    @ivar configuredLimits: the limits of all accounts together.
    @ivar cluster: the account's part in other brokers, if they share its store.
    @ivar isShared: whether other brokers serve streams of the same store.
    @ivar reserving: the streams that may have a C{max_bytes}.
    """

    def __init__(
        self,
        name: str,
        bus: IMessageBus,
        server: JetStreamServer,
        allowance: AccountAllowance,
        turns: AccountTurns | None,
    ) -> None:
        self.name = name
        self.bus = bus
        self.records = RecordSender(bus)
        self.files = server.files
        self.memory = server.memory
        self.deadlines = server.deadlines
        self.turns = turns or turnsOn(server.deadlines.reactor).of(name)
        self.now = server.now
        self.server = server.name
        self.domain = server.domain
        self.strict = server.strict
        self.batches = server.batches
        self.allowance = allowance
        self.configuredLimits = server.limits
        self._others = server.accounts
        self.cluster: SharedAccount | None = None
        self.isShared = ILeasedStore.providedBy(server.files)
        self.streams: StreamTable[Any] = StreamTable()
        self.reserving: WeakSet[Any] = WeakSet()
        self._looks: dict[StorageType, tuple[int, int, bool]] = {}
        self._elsewhere: Mapping[StorageType, int] = {}
        self._everythingElsewhere: Mapping[StorageType, int] = {}
        self._nextCount = 0
        self._dropped = 0
        self._random = Random()
        self._interest = SubjectInterest(bus, lambda steps: self.run(self.inSteps(steps)))
        self._running: set[Deferred[Any]] = set()

    def spaceOf(self, name: str) -> str:
        """
        The space of state of a stream and its consumers. In a store of one broker, the streams of
        an account share one.
        """
        if self.isShared:
            return spaceName(logName(self.name, name))
        return f"jetstream/{self.name}"

    @property
    def limits(self) -> JetStreamLimits:
        """The limits of the account in this broker."""
        return self.allowance.effective()

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
        @param origin: the part of this broker that asks a service; C{None} if the message is not a
            request.
        @return: the number of receivers.
        """
        message = Message(
            subject, headers + payload, reply, len(headers), origin, streamSubject=streamSubject
        )
        return self.bus.publish(message)

    def advise(self, subject: str, kind: str, fields: Callable[[], Mapping[str, Any]]) -> None:
        """
        Publish an advisory, or a metric, if somebody listens.

        @param subject: after C{$JS.EVENT.}.
        @param kind: its type, after C{io.nats.jetstream.}.
        @param fields: gives the other fields; called only if somebody listens.
        """
        target = f"$JS.EVENT.{subject}".encode()
        if not self.bus.hasInterest(target):
            return
        event = {
            "type": f"io.nats.jetstream.{kind}",
            "id": eventId(self._random),
            "timestamp": formatTime(self.now()),
            **fields(),
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
        # A coroutine is a separate task, which does not end with the present one.
        running = coroutine if isinstance(coroutine, Deferred) else self.turns.begin(coroutine)
        self._running.add(running)
        running.addBoth(self._done, running)
        return running

    def _mayAsk(self) -> bool:
        """
        Whether a request is accepted. If too many wait, the request is dropped, and one advisory
        reports all dropped requests.
        """
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
        self.advise("ADVISORY.API.LIMIT_REACHED", "advisory.v1.api_limit_reached", lambda: fields)
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
        Handle a request in the turns of its origin. If too many wait, it is dropped.

        @param isRead: whether it changes nothing. Such a request ends when its answer has no
            receiver any more.
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
    def ownStreams(self) -> list[Any]:
        """The streams that the account's limits count: all but the channels of NATS Streaming."""
        return [stream for stream in self.streams.values() if not stream.isChannel]

    def usage(self, storage: StorageType) -> int:
        """The bytes of all streams of one kind of storage."""
        return sum(stream.size for stream in self.ownStreams if stream.config.storage is storage)

    def useElsewhere(
        self, sizes: Mapping[StorageType, int], everything: Mapping[StorageType, int]
    ) -> None:
        """
        Count the bytes of other brokers' streams toward the limits too. Changes of these bytes are
        not announced, so they are counted again whenever the free space is computed.

        @param sizes: of the account's streams.
        @param everything: of the streams of all accounts.
        """
        self._elsewhere, self._everythingElsewhere = sizes, everything
        self._looks.clear()

    def isBounded(self, storage: StorageType) -> bool:
        """Whether the account or the server has a limit for a kind of storage."""
        return max(self.limits.total(storage), self.configuredLimits.total(storage)) >= 0

    def isNear(self, storage: StorageType) -> bool:
        """
        Whether so little room is left in a kind of storage that every message must be checked. All
        streams share one count of their bytes. The more room there is, the longer a count is used.
        """
        now = self.now()
        looked, until, isNear = self._looks.get(storage, (0, 0, False))
        if not looked <= now < until:
            if self.cluster is not None and now >= self._nextCount:
                self._nextCount = now + APART
                self.cluster.countElsewhere()
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
        here = self.usage(storage)
        used = here + self._elsewhere.get(storage, 0)
        total = self.configuredLimits.total(storage)
        everything = 0
        if total >= 0:
            others = (other for other in self._others.values() if other is not self)
            everything = here + sum(other.usage(storage) for other in others)
            everything += self._everythingElsewhere.get(storage, 0)
        return StorageBounds(total, everything - own, self.limits.total(storage), used - own)

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
        for running in list(self._running):
            running.cancel()
