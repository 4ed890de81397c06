"""
A stream: a log of messages with the rules of its configuration.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from twisted.internet.defer import Deferred, ensureDeferred, inlineCallbacks

from natsbroker.interfaces import IStateStore, ISubscription
from natsbroker.interfaces.records import Record
from natsbroker.jetstream.batches.rollups import rollUp
from natsbroker.jetstream.consumers.retention import ConsumerRetention
from natsbroker.jetstream.consumers.state import stateKey
from natsbroker.jetstream.consumers.table import ConsumerTable
from natsbroker.jetstream.contracts import StreamAccount
from natsbroker.jetstream.model.documents import toJSON
from natsbroker.jetstream.model.streamconfig import RetentionPolicy, StreamConfig
from natsbroker.jetstream.schedules.scheduler import NOTE, MessageScheduler
from natsbroker.jetstream.sources.intake import StreamIntake
from natsbroker.jetstream.sources.sourcepositions import SourcePositions
from natsbroker.jetstream.statecopies import CopiedStates
from natsbroker.jetstream.streams.directget import DirectGetResponder
from natsbroker.jetstream.streams.expiry import MessageExpiry
from natsbroker.jetstream.streams.publish import StreamPublisher
from natsbroker.jetstream.streams.reading import RECORD, SLICE, StreamRecords
from natsbroker.jetstream.streams.storageuse import retentionOf
from natsbroker.jetstream.streams.upkeep import StreamUpkeep
from natsbroker.subjects.grammar import isSubset
from natsbroker.wire.text import encoded

if TYPE_CHECKING:
    from collections.abc import Generator

    from natsbroker.jetstream.consumers.consumer import Consumer

NOTED = 32
"""The messages whose times are noted in one slice."""


def keyOf(kind: bytes, *names: str) -> bytes:
    """The key of a value in the account's state: names may be longer than a key."""
    # Requests may name what cannot be.
    path = "/".join(names).encode("utf-8", "surrogateescape")
    return kind + b"/" + sha256(path).hexdigest().encode()


def logName(account: str, stream: str) -> str:
    """
    The name of a stream's log in its store. An empty stream gives what the names of all logs of the
    account begin with.
    """
    owner = quote(account, safe="")
    if len(owner) > 120:
        owner = sha256(account.encode()).hexdigest()
    name = encoded(stream)
    if len(name) > 255:
        return f"jetstream/{owner}/{sha256(name).hexdigest()}"
    return f"jetstream/{owner}/{name.decode()}"


def spaceName(log: str) -> str:
    """
    The space of state of one stream, in a store that brokers share: it is leased with its log.

    @param log: the name of the log, or what the names of all logs of an account begin with.
    """
    _, owner, stream = log.split("/", 2)
    if len(owner) > 30:
        owner = sha256(owner.encode()).hexdigest()[:30]
    if len(stream.encode()) > 55:
        stream = sha256(stream.encode()).hexdigest()[:55]
    return f"jetstream/{owner}/{stream}"


def positionsKey(name: str) -> bytes:
    """The key of how far the sources of a stream were read."""
    return keyOf(b"sources", name)


def consumerKeys(stream: str, consumer: str) -> tuple[bytes, bytes]:
    """The keys of a consumer's configuration and of its state."""
    return keyOf(b"consumer", stream, consumer), stateKey(stream, consumer)


def _passed(result: Any, then: Callable[[], object]) -> Any:
    then()
    return result


class Stream(StreamRecords):
    """
    @ivar account: whose stream it is.
    @ivar created: nanoseconds since 1970.
    @ivar consumers: by name.
    @ivar publisher: stores what is published to the stream's subjects.
    @ivar sources: how far its sources were read.
    @ivar intake: reads the stream's mirror or its sources.
    @ivar ledSince: when this broker began to serve it.
    @ivar watchers: called with the messages that became durable, before consumers have them.
    """

    def __init__(
        self, account: StreamAccount, config: StreamConfig, created: int, log: Any
    ) -> None:
        self.account = account
        self.name = config.name
        super().__init__(config, log)
        self._reserve()
        self.created = created
        self.consumers = ConsumerTable()
        self.sources = SourcePositions(self, positionsKey(self.name))
        self.publisher = StreamPublisher(self)
        self.intake = StreamIntake(self)
        self.watchers: list[Callable[[Sequence[Record]], None]] = []
        self._direct = DirectGetResponder(self)
        self._expiry: MessageExpiry | None = None
        self._scheduler: MessageScheduler | None = None
        self.isDeleted = False
        self.ledSince = account.now()
        self._subscriptions: list[ISubscription] = []
        self._changing = 0
        self._quiet: list[Deferred[None]] = []
        self.upkeep = StreamUpkeep(self)
        self._retaining = ConsumerRetention(self)

    @property
    def states(self) -> IStateStore:
        """Where its configuration and the states of its consumers are."""
        store = self.account.files if self.isInFile else self.account.memory
        return CopiedStates(store.states(self.account.spaceOf(self.name)))

    @property
    def isShared(self) -> bool:
        """Whether another broker may lead it later."""
        return self.account.isShared

    # Life.

    def _reserve(self) -> None:
        if self.config.max_bytes > 0:
            self.account.reserving.add(self)

    def configured(self, config: StreamConfig) -> Deferred[None]:
        """
        Apply a configuration: subscribe to its subjects, and enforce its limits.

        @return: fires when what is beyond the limits is removed.
        """
        previous, self.config = self.config, config
        self._reserve()
        self.publisher.applyConfig()
        self.sources.configured()
        self.log.retain(retentionOf(config))
        if not self._subscriptions or previous.subjects != config.subjects:
            self.unsubscribe()
            self._subscribe()
        self._direct.configured()
        if previous.mirror != config.mirror:
            self.publisher.forget()
        self.intake.configured(config)
        enforced = self._watch(config).addCallback(lambda _: self.upkeep.configured())
        isInterest = config.retention is RetentionPolicy.INTEREST
        if isInterest and previous.retention is not config.retention:
            begin = self._retaining.begin
            enforced.addCallback(lambda _: ensureDeferred(self.upkeep.orLater(begin)))
        return enforced

    @inlineCallbacks
    def _watch(self, config: StreamConfig) -> Generator[Deferred[Any], Any, None]:
        """
        Begin to heed the times of messages, if the configuration has begun to allow them. The
        messages that are there are read once.
        """
        added: list[MessageExpiry | MessageScheduler] = []
        if config.allow_msg_ttl and self._expiry is None:
            self._expiry = MessageExpiry(self)
            added.append(self._expiry)
        if config.allow_msg_schedules and self._scheduler is None:
            self._scheduler = MessageScheduler(self)
            added.append(self._scheduler)
        self.watchers += [each.stored for each in added]
        cost = NOTE if self._scheduler in added else RECORD
        sequence = max(self.first, 1)
        while added and sequence <= self.last:
            found = yield self.read((), sequence, SLICE, 1 << 24)
            for place in range(0, len(found.records), NOTED):
                yield self.account.turns.take(NOTED * cost)
                for each in added:
                    each.stored(found.records[place : place + NOTED])
            sequence = found.next

    def _subscribe(self) -> None:
        if self.config.mirror is None:
            for each in self.config.subjects:
                made = self.account.bus.subscribe(each.encode(), self.publisher)
                self._subscriptions.append(made)

    def caughtUp(self) -> None:
        """The mirror has what its origin has."""
        self._direct.caughtUp()

    def unsubscribe(self) -> None:
        """Take no more messages."""
        subscriptions, self._subscriptions = self._subscriptions, []
        for each in subscriptions:
            each.cancel()

    def stateKey(self) -> bytes:
        return keyOf(b"stream", self.name)

    def stateValue(self, config: StreamConfig | None = None) -> bytes:
        """The stream in the account's state."""
        shown = toJSON(config or self.config)
        return json.dumps({"created": self.created, "config": shown}).encode()

    def retire(self) -> None:
        """Take no more messages, and answer no requests for stored ones."""
        self.unsubscribe()
        self._direct.close()
        self.intake.close()

    def close(self) -> None:
        """Take no more messages, set no more timers, and have nothing at hand."""
        self.retire()
        self._tail.clear()
        for each in (self._expiry, self._scheduler):
            if each is not None:
                each.close()
        self.publisher.close()
        self.sources.close()
        self.upkeep.close()

    # Changes.

    def stored(self, records: Sequence[Record], isWatched: bool) -> None:
        """
        Messages are durable.

        @param records: without the length of their headers.
        @param isWatched: whether C{records} is filled: nobody but consumers needs them.
        """
        if not self.upkeep.outcome.isOpen:
            records = self.upkeep.outcome.unannounced(records)
            self.announce(records, isWatched and bool(records))

    def announce(self, records: Sequence[Record], isWatched: bool) -> None:
        """Hand durable messages to those who follow the stream, all of them and in order."""
        if isWatched and self.config.max_msgs_per_subject <= 0:
            self._tail.add(records)
        else:
            self._tail.clear()  # A limit per subject has removed some, and does not tell which.
        if isWatched:
            for watcher in self.watchers:
                watcher(records)
            self.consumers.stored(records)
        self.upkeep.stored()
        self.evicted()

    def evicted(self, isPurge: bool = False) -> None:
        """
        Look whether the oldest messages are gone.

        @param isPurge: whether they were purged, and not removed by a limit.
        """
        bounds = self.log.bounds()
        first = bounds.first if bounds.count else bounds.last + 1
        if first > self._first:
            self._first = first
            self._tail.discardBefore(first)
            self.consumers.removed((), first, isPurge)

    def damaged(self, sequences: range) -> None:
        """Messages cannot be read, and the log may count them no more."""
        self.publisher.forget()
        self.consumers.removed(sequences, 0, True)
        self.evicted()

    def change(self, change: Deferred[Any]) -> Deferred[Any]:
        """Note that messages are being deleted: until that is durable, look-ups and infos wait."""
        self._changing += 1
        self._tail.clear()
        self.publisher.forget()
        return change.addBoth(self._changed)

    def _changed(self, result: Any) -> Any:
        self._changing -= 1
        self._tail.clear()
        self.publisher.forget()
        if not self._changing:
            waiting, self._quiet = self._quiet, []
            for each in waiting:
                each.callback(None)
        return result

    def rollUp(self, first: int, rollups: Sequence[tuple[bytes, int]]) -> Deferred[None]:
        """
        Remove what messages replace. They are acknowledged after that: after a kill, nobody would
        know that something is still to be removed.

        @param rollups: subjects, empty for all, and the places of the messages behind C{first}.
        """
        return rollUp(self, first, rollups)

    def settle(self) -> Deferred[None]:
        """Wait until what was published, mirrored and removed before is durable."""
        waiting = self.written() if self.intake.isStoring else self.publisher.barrier()
        return waiting.addCallback(lambda _: self.quiet())

    @property
    def isSettled(self) -> bool:
        return not (self._changing or self.publisher.isBusy or self.intake.isStoring)

    def verify(self) -> Deferred[None] | None:
        cluster = self.account.cluster
        return None if cluster is None else cluster.verify(self.name)

    def quiet(self) -> Deferred[None]:
        """Wait for deletions that are under way."""
        waiting: Deferred[None] = Deferred()
        if self._changing:
            self._quiet.append(waiting)
        else:
            waiting.callback(None)
        return waiting

    @inlineCallbacks
    def discardBefore(
        self, sequence: int, isPurge: bool = False
    ) -> Generator[Deferred[Any], Any, None]:
        """Remove the messages below a sequence."""
        if self.sources.isUnread:
            yield ensureDeferred(self.sources.readOn())
        self.sources.save()
        yield self.change(self._discard(sequence))
        self.evicted(isPurge)

    @inlineCallbacks
    def _discard(self, sequence: int) -> Generator[Deferred[Any], Any, None]:
        """Have the log discard messages: one in memory some at a time, as it does so at once."""
        while not self.isInFile:
            found = yield self.read((), self.log.bounds().first, SLICE, 1 << 30)
            if found.next >= sequence or not found.records:
                break
            yield self.log.discardBefore(found.next)
        yield self.log.discardBefore(sequence)

    @inlineCallbacks
    def remove(
        self, sequences: Collection[int], isPurge: bool = False
    ) -> Generator[Deferred[Any], Any, int]:
        """
        Remove single messages.

        @param isPurge: whether consumers publish no advisories about them.
        @return: the number of removed messages, once that is durable.
        """
        if not sequences:
            return 0
        if self.sources.isUnread:
            yield ensureDeferred(self.sources.readOn())
        self.sources.save()
        removed = yield self.change(self.log.delete(sequences))
        self.consumers.removed(sequences, 0, isPurge)
        self.evicted()
        return cast(int, removed)

    def drop(self, sequences: Collection[int]) -> None:
        """Remove single messages, again and again until the store has done it."""
        self.upkeep.keepTrying(self.remove, sequences)

    @inlineCallbacks
    def purge(
        self, pattern: bytes = b"", before: int = 0, keep: int = 0
    ) -> Generator[Deferred[Any], Any, int]:
        """
        Remove messages.

        @param pattern: only messages with matching subjects; empty for all.
        @param before: only messages below this sequence; 0 for all.
        @param keep: the number of newest messages that stay.
        @return: the number of removed messages, once that is durable.
        """
        yield self.publisher.barrier()
        count = self.messages
        if pattern in (b"", b">"):
            stop = before or self.last + 1
            if keep and not count:
                return 0
            if keep:
                stop = yield self.keeping(keep)
            if stop > self.log.nextSequence:
                yield self.change(self.log.skipTo(stop))
            yield self.discardBefore(stop, True)
            return count - self.messages
        stop = min(before, self.last + 1) if before else self.last + 1
        sequences = yield self.sequencesOf(pattern, stop)
        if keep:
            sequences = sequences[:-keep]
        removed, isPurge = 0, len(sequences) > 1  # In nats-server, too, one is as if deleted.
        for place in range(0, len(sequences), SLICE):
            removed += yield self.remove(sequences[place : place + SLICE], isPurge)
        if removed and not self.messages:
            self._passedOver(pattern)
        return removed

    def _passedOver(self, pattern: bytes) -> None:
        """
        A purge of one pattern has left nothing: consumers that it concerns go on behind the end.
        """
        for consumer in list(self.consumers.values()):
            wanted = consumer.filters or (b">",)
            if any(isSubset(each, pattern) or isSubset(pattern, each) for each in wanted):
                consumer.removed((), self.first, True)

    # Retention by consumers.

    def settled(self, consumer: Consumer, sequences: Collection[int]) -> None:
        """
        A consumer needs messages no more: with interest or work-queue retention they go when no
        other consumer needs them.
        """
        if self.config.retention is not RetentionPolicy.LIMITS:
            self.account.run(self._retaining.release(sequences, consumer))

    def settledLate(self, sequences: Collection[int]) -> None:
        """
        Messages behind the floor of a consumer are acknowledged: with interest or work-queue
        retention they go when no consumer needs them.
        """
        if self.config.retention is not RetentionPolicy.LIMITS:
            self.account.run(self._retaining.release(sequences))

    def consumerEnded(self, consumer: Consumer) -> None:
        """A consumer was inactive for too long, and has stopped."""
        deleting = ensureDeferred(self.deleteConsumer(consumer))
        advise = consumer.core.advise
        deleting.addBoth(_passed, lambda: advise("DELETED", "consumer_action", action="delete"))
        self.account.run(deleting)

    async def deleteConsumer(self, consumer: Consumer) -> None:
        """Delete a consumer that has stopped."""
        self.consumers.remove(consumer)
        await self.upkeep.orLater(self._forget, consumer.name)

    async def _forget(self, consumer: str) -> None:
        """Delete what is kept of a consumer, unless there is another one of its name."""
        if not (self.isDeleted or consumer in self.consumers):
            await self.states.change(dict.fromkeys(consumerKeys(self.name, consumer)))
            await self.interestLost()

    async def interestLost(self) -> None:
        """
        A consumer is deleted, is reset or has other filters. With interest retention, messages that
        only it needed go.
        """
        if self.config.retention is RetentionPolicy.INTEREST:
            await self.upkeep.orLater(self._retaining.releaseUnneeded)

    def compare(self) -> None:
        """Remove, after a start, what consumers have settled or messages replaced."""
        self.upkeep.keepTrying(self.upkeep.outcome.compare)
        if self.config.retention is not RetentionPolicy.LIMITS:
            self.upkeep.keepTrying(self._retaining.compare)
