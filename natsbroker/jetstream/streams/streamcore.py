"""
The messages of a stream and their changes, for all parts of the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import (
    Deferred,
    ensureDeferred,
    inlineCallbacks,
    succeed,
)

from natsbroker.interfaces import IGroupingLog, IStateStore
from natsbroker.interfaces.records import Record, SubjectTallies
from natsbroker.jetstream.accountcore import JetStreamAccountCore
from natsbroker.jetstream.batches.rollups import Rollups
from natsbroker.jetstream.model.streamconfig import StreamConfig
from natsbroker.jetstream.statecopies import CopiedStates
from natsbroker.jetstream.streams.streamrecords import SLICE, StreamRecords
from natsbroker.subjects.grammar import isSubset

if TYPE_CHECKING:
    from collections.abc import Generator

TOGETHER = 16
"""The subjects that a log is asked about in one slice."""

ASKED = 2000
"""The cost of each of these questions: a thread answers it."""


class StreamCore(StreamRecords):
    """
    A stream without its parts, which L{natsbroker.jetstream.streams.stream.Stream} puts together.

    @ivar consumers: the L{natsbroker.jetstream.consumers.table.ConsumerTable}.
    @ivar publisher: stores what is published to the stream's subjects.
    @ivar sources: the positions up to which its sources were read.
    @ivar intake: reads the stream's mirror or its sources.
    @ivar upkeep: the work that is done again if it fails.
    @ivar watchers: called with the messages that became durable, before consumers have them.
    """

    consumers: Any
    publisher: Any
    sources: Any
    intake: Any
    upkeep: Any

    def __init__(self, account: JetStreamAccountCore, config: StreamConfig, log: Any) -> None:
        self.account = account
        self.name = config.name
        super().__init__(config, log)
        self.watchers: list[Callable[[Sequence[Record]], None]] = []
        self._changing = 0
        self._quiet: list[Deferred[None]] = []

    @property
    def states(self) -> IStateStore:
        """The state with the stream's configuration and the states of its consumers."""
        store = self.account.files if self.isInFile else self.account.memory
        return CopiedStates(store.states(self.account.spaceOf(self.name)))

    @property
    def isShared(self) -> bool:
        """Whether another broker may lead it later."""
        return self.account.isShared

    def advise(self, event: str, kind: str, **fields: Any) -> None:
        """Publish an advisory; C{event} follows C{$JS.EVENT.ADVISORY.STREAM.}, without the name."""
        subject = f"ADVISORY.STREAM.{event}.{self.name}"
        self.account.advise(subject, f"advisory.v1.{kind}", lambda: {"stream": self.name, **fields})

    def together(self, call: Callable[[], object]) -> None:
        if IGroupingLog.providedBy(self.log):
            self.log.together(call)
        else:
            call()

    def caughtUp(self) -> None:
        """Answer for the origin too, because the mirror has caught up with it."""

    def stored(self, records: Sequence[Record], isWatched: bool) -> None:
        """
        Announce durable messages.

        @param records: without the length of their headers.
        @param isWatched: whether C{records} is filled. Only consumers need the records.
        """
        outcome = self.upkeep.outcome
        if not outcome.isOpen:
            if records:
                records = outcome.unannounced(records)
            self.announce(records, isWatched and bool(records))

    def announce(self, records: Sequence[Record], isWatched: bool) -> None:
        """Hand durable messages to all followers of the stream, in order."""
        if isWatched and self.config.max_msgs_per_subject <= 0:
            self._tail.add(records)
        else:
            self._tail.clear()  # A limit per subject does not report which messages it removed.
        if isWatched:
            for watcher in self.watchers:
                watcher(records)
            self.consumers.stored(records)
        self.upkeep.stored()
        self.evicted()

    def evicted(self, isPurge: bool = False) -> None:
        """
        Take note that the oldest messages may be gone.

        @param isPurge: whether they were purged, and not removed by a limit.
        """
        bounds = self.log.bounds()
        first = bounds.first if bounds.count else bounds.last + 1
        if first > self._first:
            self._first = first
            self._tail.discardBefore(first)
            self.consumers.removed((), first, isPurge)

    def damaged(self, sequences: range) -> None:
        """Take note of messages that cannot be read: the log may no longer count them."""
        self.publisher.forget()
        self.consumers.removed(sequences, 0, True)
        self.evicted()

    def change(self, change: Deferred[Any]) -> Deferred[Any]:
        """Note that messages are being deleted. Look-ups and infos wait until that is durable."""
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
            for waiter in waiting:
                waiter.callback(None)
        return result

    @inlineCallbacks
    def rollUp(self, first: int, rollups: Rollups) -> Generator[Deferred[Any], Any, None]:
        """
        Remove the messages that rollups replace. The rollups are acknowledged after that, because
        after a kill nothing would show that messages must still be removed. Most rollups replace
        one message or none: these are removed together.

        @param first: the sequence to which the places of the messages are added.
        """
        # The last message of a subject also replaces what the messages before it replace.
        stops = {subject: first + place for subject, place in rollups}
        if b"" in stops:
            yield self.purge(b"", stops.pop(b""))
        subjects = list(stops)
        single: list[int] = []
        for place in range(0, len(subjects), TOGETHER):
            asked = subjects[place : place + TOGETHER]
            yield self.account.turns.take(ASKED * len(asked))
            tallies: SubjectTallies = yield self.tallies(asked)
            for subject in asked:
                tally = tallies.get(subject)
                if tally is None or tally.first >= stops[subject]:
                    continue
                if tally.count == 1 or (tally.count == 2 and tally.last >= stops[subject]):
                    single.append(tally.first)
                else:
                    yield self.purge(subject, stops[subject])
        yield self.remove(single)

    def settle(self) -> Deferred[None]:
        """Wait until all earlier publishes, mirrored messages and removals are durable."""
        waiting = self.written() if self.intake.isStoring else self.publisher.barrier()
        return waiting.addCallback(lambda _: self.quiet())

    @property
    def isSettled(self) -> bool:
        return not (self._changing or self.publisher.isBusy or self.intake.isStoring)

    def verify(self) -> Deferred[None] | None:
        """Ask whether this broker still leads the stream, unless no other broker can lead it."""
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
        """
        Have the log discard messages. A log in memory discards some at a time, because it does so
        at once.
        """
        while not self.isInFile:
            page = yield self.read((), self.log.bounds().first, SLICE, 1 << 30)
            if page.next >= sequence or not page.records:
                break
            yield self.log.discardBefore(page.next)
        yield self.log.discardBefore(sequence)

    def remove(
        self,
        sequences: Collection[int],
        isPurge: bool = False,
        filters: tuple[bytes, ...] = (),
    ) -> Deferred[int]:
        """
        Remove single messages.

        @param isPurge: whether consumers publish no advisories about them.
        @param filters: the filters of the only consumers that want the messages; empty if others
            may want them.
        @return: the number of removed messages, once that is durable.
        """
        if not sequences:
            return succeed(0)
        if not self.sources.isUnread:
            return self._remove(None, sequences, isPurge, filters)
        reading = ensureDeferred(self.sources.readOn())
        return reading.addCallback(self._remove, sequences, isPurge, filters)

    def _remove(
        self,
        _: object,
        sequences: Collection[int],
        isPurge: bool,
        filters: tuple[bytes, ...],
    ) -> Deferred[int]:
        self.sources.save()
        removing = self.change(self.log.delete(sequences))
        return removing.addCallback(self._removed, sequences, isPurge, filters)

    def _removed(
        self, count: int, sequences: Collection[int], isPurge: bool, filters: tuple[bytes, ...]
    ) -> int:
        self.consumers.removed(sequences, 0, isPurge, filters)
        self.evicted()
        return count

    def drop(self, sequences: Collection[int]) -> None:
        """Remove single messages. This is repeated until the store has done it."""
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
        # As in nats-server, a single one counts as deleted.
        removed, isPurge = 0, len(sequences) > 1
        for place in range(0, len(sequences), SLICE):
            removed += yield self.remove(sequences[place : place + SLICE], isPurge)
        if removed and not self.messages:
            self._passedOver(pattern)
        return removed

    def _passedOver(self, pattern: bytes) -> None:
        """
        Move consumers behind the end, because a purge has left no message that matches the pattern.
        """
        for consumer in list(self.consumers.values()):
            wanted = consumer.filters or (b">",)
            if any(isSubset(subject, pattern) or isSubset(pattern, subject) for subject in wanted):
                consumer.removed((), self.first, True)
