"""
A stream: a log of messages with the rules of its configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, ensureDeferred, inlineCallbacks

from natsbroker.errors import BrokerError
from natsbroker.interfaces import ISubscription
from natsbroker.jetstream.accountcore import JetStreamAccountCore
from natsbroker.jetstream.consumers.consumer import Consumer
from natsbroker.jetstream.consumers.core import filtersOf
from natsbroker.jetstream.consumers.retention import ConsumerRetention
from natsbroker.jetstream.consumers.state import stateKey
from natsbroker.jetstream.consumers.table import ConsumerTable
from natsbroker.jetstream.model.consumerconfig import ConsumerConfig
from natsbroker.jetstream.model.documents import encodable
from natsbroker.jetstream.model.gojson import encode
from natsbroker.jetstream.model.streamconfig import RetentionPolicy, StreamConfig
from natsbroker.jetstream.schedules.scheduler import NOTE, MessageScheduler
from natsbroker.jetstream.sources.intake import StreamIntake
from natsbroker.jetstream.sources.sourcepositions import SourcePositions
from natsbroker.jetstream.streams.directget import DirectGetResponder
from natsbroker.jetstream.streams.expiry import MessageExpiry
from natsbroker.jetstream.streams.publish import StreamPublisher
from natsbroker.jetstream.streams.storageuse import retentionOf
from natsbroker.jetstream.streams.streamcore import StreamCore
from natsbroker.jetstream.streams.streamrecords import RECORD, SLICE
from natsbroker.jetstream.streams.upkeep import StreamUpkeep
from natsbroker.steps import Steps, pieces
from natsbroker.subjects.shapes import TooManyShapes

if TYPE_CHECKING:
    from collections.abc import Generator

NOTED = 32
"""The messages whose times are noted in one slice."""


def keyOf(kind: bytes, *names: str) -> bytes:
    """The key of a value in the account's state: names may be longer than a key."""
    # Requests may contain impossible names.
    path = "/".join(names).encode("utf-8", "surrogateescape")
    return kind + b"/" + sha256(path).hexdigest().encode()


def positionsKey(name: str) -> bytes:
    """The key of the positions of a stream's sources."""
    return keyOf(b"sources", name)


def consumerKeys(stream: str, consumer: str) -> tuple[bytes, bytes]:
    """The keys of a consumer's configuration and of its state."""
    return keyOf(b"consumer", stream, consumer), stateKey(stream, consumer)


def _passed(result: Any, then: Callable[[], object]) -> Any:
    then()
    return result


class Stream(StreamCore):
    """
    @ivar created: nanoseconds since 1970.
    @ivar ledSince: when this broker began to serve it.
    """

    consumers: ConsumerTable
    publisher: StreamPublisher
    sources: SourcePositions
    intake: StreamIntake
    upkeep: StreamUpkeep

    def __init__(
        self, account: JetStreamAccountCore, config: StreamConfig, created: int, log: Any
    ) -> None:
        super().__init__(account, config, log)
        self._reserve()
        self.created = created
        self.consumers = ConsumerTable(lambda steps: account.run(account.inSteps(steps)))
        self.sources = SourcePositions(self, positionsKey(self.name))
        self.publisher = StreamPublisher(self)
        self.intake = StreamIntake(self)
        self._direct = DirectGetResponder(self)
        self._expiry: MessageExpiry | None = None
        self._scheduler: MessageScheduler | None = None
        self.ledSince = account.now()
        self._subscriptions: dict[str, ISubscription] = {}
        self._subjects: tuple[str, ...] | None = None  # Those that are subscribed to.
        self._isRetired = False
        self.upkeep = StreamUpkeep(self)
        self._retaining = ConsumerRetention(self)

    # Life.

    def _reserve(self) -> None:
        if self.config.max_bytes > 0:
            self.account.reserving.add(self)

    def applyConfig(self, config: StreamConfig) -> Deferred[None]:
        """
        Apply a configuration: subscribe to its subjects, and enforce its limits.

        @return: fires when the messages beyond the limits are removed.
        """
        return ensureDeferred(self._applyConfig(config))

    async def _applyConfig(self, config: StreamConfig) -> None:
        subjects = config.subjects if config.mirror is None else ()
        isMoved, self._subjects = self._subjects != subjects, None
        if isMoved and self._subscriptions:
            await self.account.inSteps(self._unsubscribing(subjects))
        if self._hasRetired():
            return
        # The subscriptions of removed subjects are cancelled, so all later messages have configured
        # subjects.
        previous, self.config = self.config, config
        self.account.streams.changed.add(self.name)
        self._reserve()
        self.publisher.applyConfig()
        self.sources.applyConfig()
        self.log.retain(retentionOf(config))
        if isMoved:
            refusal = await self.account.inSteps(self._subscribing(subjects))
            if refusal is not None:
                raise refusal
        if self._hasRetired():
            return
        self._subjects = subjects
        self._direct.applyConfig()
        if previous.mirror != config.mirror:
            self.publisher.forget()
        await self.account.inSteps(self._reading(config))
        if self._hasRetired():
            return
        await self._watch(config)
        await self.upkeep.applyConfig()
        isInterest = config.retention is RetentionPolicy.INTEREST
        if isInterest and previous.retention is not config.retention:
            await self.upkeep.orLater(self._retaining.begin)

    @inlineCallbacks
    def _watch(self, config: StreamConfig) -> Generator[Deferred[Any], Any, None]:
        """
        Begin to note the times of messages, if the configuration now has limits that depend on
        them. Stored messages are read once.
        """
        added: list[MessageExpiry | MessageScheduler] = []
        if config.allow_msg_ttl and self._expiry is None:
            self._expiry = MessageExpiry(self)
            added.append(self._expiry)
        if config.allow_msg_schedules and self._scheduler is None:
            self._scheduler = MessageScheduler(self)
            added.append(self._scheduler)
        self.watchers += [watcher.stored for watcher in added]
        cost = NOTE if self._scheduler in added else RECORD
        sequence = max(self.first, 1)
        while added and sequence <= self.last:
            page = yield self.read((), sequence, SLICE, 1 << 24)
            for place in range(0, len(page.records), NOTED):
                yield self.account.turns.take(NOTED * cost)
                for watcher in added:
                    watcher.stored(page.records[place : place + NOTED])
            sequence = page.next

    def _hasRetired(self) -> bool:
        """
        Whether the stream takes no more messages, perhaps because of an earlier step of the same
        work.
        """
        return self._isRetired

    def _reading(self, config: StreamConfig) -> Steps[None]:
        """Read the origins of a configuration, and no others."""
        yield from self.intake.applying(config)
        yield from self.sources.forgetting()

    def _unsubscribing(self, subjects: Sequence[str]) -> Steps[None]:
        """Stop taking messages of all other subjects."""
        kept = dict.fromkeys(subjects)
        for some in pieces([subject for subject in self._subscriptions if subject not in kept]):
            if self._hasRetired():
                return
            for subject in some:
                self._subscriptions.pop(subject).cancel()
            yield

    def _subscribing(self, subjects: Sequence[str]) -> Steps[Exception | None]:
        """
        Take the messages of some subjects.

        @return: the error of an account that takes no more subscriptions of these shapes.
        """
        for some in pieces([subject for subject in subjects if subject not in self._subscriptions]):
            if self._hasRetired():
                return None
            for subject in some:
                try:
                    made = self.account.bus.subscribe(subject.encode(), self.publisher)
                except (TooManyShapes, BrokerError) as error:
                    return error
                self._subscriptions[subject] = made
            yield
        return None

    def caughtUp(self) -> None:
        """Answer for the origin too, because the mirror has caught up with it."""
        self._direct.caughtUp()

    def stateKey(self) -> bytes:
        return keyOf(b"stream", self.name)

    def stateValue(self, config: StreamConfig | None = None) -> bytes:
        """The stream in the account's state."""
        shown = encodable(config or self.config)
        return encode({"created": self.created, "config": shown})

    def retire(self) -> None:
        """Take no more messages, and answer no requests for stored ones."""
        self._isRetired = True
        subscriptions, self._subscriptions = self._subscriptions, {}
        self.account.bus.cancelAll(subscriptions.values())
        self._direct.close()
        self.intake.close()

    def close(self) -> None:
        """Take no more messages, set no more timers, and drop what is in memory."""
        self.retire()
        self._tail.clear()
        for upkeep in (self._expiry, self._scheduler):
            if upkeep is not None:
                upkeep.close()
        self.publisher.close()
        self.sources.close()
        self.upkeep.close()

    # Retention by consumers.

    def settled(self, consumer: Consumer, sequences: Collection[int]) -> None:
        """
        Take note that a consumer has settled messages: with interest or work-queue retention they
        are removed once no other consumer needs them.
        """
        if self.config.retention is not RetentionPolicy.LIMITS:
            self.account.run(self._retaining.release(sequences, consumer))

    def settledLate(self, sequences: Collection[int]) -> None:
        """
        Take note that messages behind the floor of a consumer are settled: with interest or
        work-queue retention they are removed once no consumer needs them.
        """
        if self.config.retention is not RetentionPolicy.LIMITS:
            self.account.run(self._retaining.release(sequences))

    def consumerEnded(self, consumer: Consumer) -> None:
        """Delete a consumer that was inactive for too long, and has stopped."""
        deleting = ensureDeferred(self.deleteConsumer(consumer))
        advise = consumer.core.advise
        deleting.addBoth(_passed, lambda: advise("DELETED", "consumer_action", action="delete"))
        self.account.run(deleting)

    async def addConsumer(
        self, name: str, config: ConsumerConfig, created: int, state: bytes | None
    ) -> Consumer:
        """Add a consumer that is kept or restored. It must still be started."""
        filters = filtersOf(config)
        try:
            await self.account.inSteps(self.consumers.prepare(filters))
            consumer = Consumer(self, name, config, created, state)
            self.consumers.add(consumer)
        finally:
            self.consumers.release(filters)
        return consumer

    async def deleteConsumer(self, consumer: Consumer) -> None:
        """Delete a consumer that has stopped."""
        self.consumers.remove(consumer)
        await self.upkeep.orLater(self.forget, consumer)

    async def forget(self, consumer: Consumer) -> None:
        """
        Delete the stored values of a consumer, unless they are those of another one of its name.
        """
        other = self.consumers.get(consumer.name)
        if self.isDeleted or (other is not None and other.isKept):
            return
        if consumer.isKept:
            await self.states.change(dict.fromkeys(consumerKeys(self.name, consumer.name)))
        await self.interestLost()

    async def interestLost(self) -> None:
        """
        With interest retention, remove the messages that only one consumer needed, which is
        deleted, reset, or has other filters.
        """
        if self.config.retention is RetentionPolicy.INTEREST:
            await self.upkeep.orLater(self._retaining.releaseUnneeded)

    def compare(self) -> None:
        """
        After a start, remove the messages that consumers have settled or rollups have replaced.
        """
        self.upkeep.keepTrying(self.upkeep.outcome.compare)
        if self.config.retention is not RetentionPolicy.LIMITS:
            self.upkeep.keepTrying(self._retaining.compare)
