"""
The messages of a stream, as its log has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from twisted.internet.defer import Deferred, FirstError, gatherResults, inlineCallbacks, succeed

from natsbroker import hot
from natsbroker.interfaces import ICountedLog, IShortcutLog
from natsbroker.interfaces.records import (
    Matching,
    Record,
    StoreError,
    SubjectTallies,
    SubjectTally,
)
from natsbroker.jetstream.accountcore import JetStreamAccountCore
from natsbroker.jetstream.model.documents import encodable
from natsbroker.jetstream.model.gojson import EncodedDocument
from natsbroker.jetstream.model.metadata import withServer
from natsbroker.jetstream.model.streamconfig import StorageType, StreamConfig
from natsbroker.jetstream.streams.tail import StreamTail
from natsbroker.steps import SortedRuns
from natsbroker.subjects.grammar import hasWildcard
from natsbroker.subjects.searching import searchesFor

if TYPE_CHECKING:
    from collections.abc import Generator

SLICE = 1024
"""
Records of one read when a whole stream is read. Each read has a slice of its own, so that other
work is not delayed.
"""

RECORD = 8
"""The cost of looking at a record, in the units of L{natsbroker.pure.backlog}."""

SEARCH = 300
"""The cost of asking a log once."""

MOST_LOOKED = 4096
"""The largest number of records that a read is charged for: an index skips further ones."""

GAP = 8192
"""The sequences without a message that are looked at in one turn."""

_HEADERS = attrgetter("headers")

#: The bytes of the length in front of a header block of a stream in files.
_LENGTH = 4

MOST_COUNTS = 100
"""The most counts of messages from a sequence on that are remembered until the stream changes."""

SUBJECTS = 500
"""The subjects whose tallies are read in one slice."""

TALLY = 16
"""The cost of the tally of a subject."""


class StreamRecords:
    """
    Reads the log of a stream.

    @ivar config: with all defaults filled in.
    @ivar shownConfig: the configuration as answers show it.
    @ivar listedConfig: the same as lists of streams show it.
    @ivar log: the records. Header blocks of streams in files follow their length in four bytes, so
        that the size of the log and the size that nats-server reports differ by 30 bytes a message.
    @cvar isChannel: whether NATS Streaming writes and limits the log: then the limits of accounts
        do not count the stream, and requests cannot change it.
    """

    isChannel = False
    isDeleted = False
    account: JetStreamAccountCore
    name: str

    def __init__(self, config: StreamConfig, log: Any) -> None:
        self.config = config
        self.log = log
        self._tail = StreamTail()
        self._first = min(config.first_seq, 1)
        self.skippedAt = 0
        self._subjectCount: tuple[Any, int] | None = None
        self._counts: tuple[Any, dict[tuple[tuple[bytes, ...], int], int]] = None, {}
        self._firstTime: tuple[Any, int] | None = None
        self.shownConfig = EncodedDocument(lambda config: encodable(withServer(config)))
        self.listedConfig = EncodedDocument(encodable)

    @property
    def isSettled(self) -> bool:
        """Whether all earlier writes are known to be in the log, so that it can be read at once."""
        return False

    def verify(self) -> Deferred[None] | None:
        return None

    @property
    def isInFile(self) -> bool:
        return self.config.storage is StorageType.FILE

    @property
    def first(self) -> int:
        """
        The first sequence. An empty stream has the one after the last. A new stream has 0 if it was
        never purged and was created without a first sequence, even if its configuration has changed
        since.
        """
        bounds = self.log.bounds()
        if not bounds.count:
            return bounds.last + 1 if bounds.last or self._first else 0
        return max(cast(int, bounds.first), self._first)

    @property
    def last(self) -> int:
        """The last sequence that is durable."""
        return cast(int, self.log.bounds().last)

    @property
    def lastTime(self) -> int:
        """
        The time at which the last message was stored, or passed over because no consumer wanted it,
        in nanoseconds since 1970; 0 for never.
        """
        return max(cast(int, self.log.bounds().lastTime), self.skippedAt)

    @property
    def messages(self) -> int:
        return cast(int, self.log.bounds().count)

    @property
    def size(self) -> int:
        """The size as nats-server counts it for this kind of storage."""
        bounds = self.log.bounds()
        return cast(int, bounds.size + (30 if self.isInFile else 16) * bounds.count)

    def sizeOf(self, subject: bytes, headers: bytes, payload: bytes) -> int:
        """The size of one message as nats-server counts it for this kind of storage."""
        size = len(subject) + len(headers) + len(payload)
        if not self.isInFile:
            return size + 16
        return size + (34 if headers else 30)

    def decoded(self, record: Record) -> Record:
        """A record of the log as a message of the stream."""
        if record.headers and self.isInFile:
            return record._replace(headers=record.headers[_LENGTH:])
        return record

    def _decodedAll(self, records: Sequence[Record]) -> Sequence[Record]:
        if not self.isInFile or not any(map(_HEADERS, records)):
            return records
        return [self.decoded(record) if record.headers else record for record in records]

    @inlineCallbacks
    def read(
        self, filters: tuple[bytes, ...], sequence: int, limit: int = 256, maxBytes: int = 1 << 20
    ) -> Generator[Deferred[Any], Any, Matching]:
        """
        Read messages that match one of the filters, at or after a sequence.

        @param filters: patterns; empty for every message.
        """
        if filters:
            yield self.account.turns.take(SEARCH)
        recent = self._tail.read(filters, sequence, limit)
        if recent is not None:
            if filters:
                self._looked(recent.next - sequence)
            return recent
        yield self.account.turns.take(SEARCH)
        if filters:
            page = yield self.log.readMatching(filters, sequence, limit, maxBytes)
        else:
            last = self.last
            records = yield self.log.read(sequence, limit, maxBytes)
            page = Matching(records, records[-1].sequence + 1 if records else last + 1)
        self._looked(page.next - sequence)
        return Matching(self._decodedAll(page.records), page.next)

    @inlineCallbacks
    def readEncoded(
        self, filters: tuple[bytes, ...], sequence: int, limit: int, maxBytes: int
    ) -> Generator[Deferred[Any], Any, Matching]:
        """
        As L{read}. Where the lane and the log support it, messages are decoded only when they are
        accessed.
        """
        if hot.EncodedRecords is None or not IShortcutLog.providedBy(self.log):
            page: Matching = yield self.read(filters, sequence, limit, maxBytes)
            return page
        if filters:
            yield self.account.turns.take(SEARCH)
        recent = self._tail.read(filters, sequence, limit)
        if recent is not None:
            if filters:
                self._looked(recent.next - sequence)
            return recent
        yield self.account.turns.take(SEARCH)
        records = hot.EncodedRecords(Record, _LENGTH if self.isInFile else 0)
        following = yield self.log.collect(records, filters, sequence, limit, maxBytes)
        self._looked(following - sequence)
        return Matching(records, following)

    def _looked(self, records: int) -> None:
        """Count the records that a read has looked at."""
        self.account.turns.spend(min(records, MOST_LOOKED) * RECORD)

    def get(self, sequence: int) -> Deferred[Record | None]:
        """The message of a sequence; C{None} if there is none."""
        if sequence <= 0:
            return succeed(None)
        reading: Deferred[Any] = self.log.read(sequence, 1)
        return reading.addCallback(self._only, sequence)

    def _only(self, records: list[Record], sequence: int) -> Record | None:
        isThere = bool(records) and records[0].sequence == sequence
        return self.decoded(records[0]) if isThere else None

    def written(self) -> Deferred[Any]:
        """Wait until all writes given to the log are durable, or have failed."""
        earlier: Deferred[Any] = self.log.append([])
        return earlier.addErrback(lambda failure: failure.trap(StoreError))

    @inlineCallbacks
    def firstRecord(self) -> Generator[Deferred[Any], Any, Record | None]:
        """The oldest message; C{None} in an empty stream."""
        records = yield self.log.read(max(self.first, 1), 1)
        if not records:
            return None
        self._first = records[0].sequence
        return self.decoded(records[0])

    async def firstTime(self) -> int:
        """The time of the oldest message, in nanoseconds since 1970; 0 in an empty stream."""
        bounds = self.log.bounds()
        # Each removal, wherever it is, increases the number of missing messages.
        missing = bounds.count > 0, bounds.first, bounds.last - bounds.count
        if self._firstTime is None or self._firstTime[0] != missing:
            first = await self.firstRecord()
            self._firstTime = missing, 0 if first is None else first.timestamp
        return self._firstTime[1]

    def lastMatching(self, pattern: bytes) -> Deferred[Record | None]:
        """The newest message whose subject matches a pattern."""
        if hasWildcard(pattern):
            return self._lastOfMany(pattern)
        looking: Deferred[Any] = self.log.lastFor(pattern)
        return looking.addCallback(self._decodedIfAny)

    def _decodedIfAny(self, record: Record | None) -> Record | None:
        return None if record is None else self.decoded(record)

    @inlineCallbacks
    def _lastOfMany(self, pattern: bytes) -> Generator[Deferred[Any], Any, Record | None]:
        before = -1
        while (last := (yield self._lastTallied(pattern))) > 0:
            record: Record | None = yield self.get(last)
            sequence = last + 1
            # Messages that have replaced it meanwhile are behind it.
            while record is None or record.sequence > last:
                page = yield self.read((pattern,), sequence, SLICE, 1 << 24)
                record = page.records[-1] if page.records else record
                if page.next > self.last:
                    break
                sequence = page.next
            if record is not None or last == before:
                return record
            before = last
        return None

    @inlineCallbacks
    def _lastTallied(self, pattern: bytes) -> Generator[Deferred[Any], Any, int]:
        last = 0

        def note(tallies: SubjectTallies) -> None:
            nonlocal last
            last = max(last, *(tally.last for tally in tallies.values()))

        yield self.eachTally((pattern,), note)
        return last

    @inlineCallbacks
    def nextMatching(
        self, pattern: bytes, sequence: int
    ) -> Generator[Deferred[Any], Any, Record | None]:
        """The first message at or after a sequence whose subject matches a pattern."""
        sequence = max(sequence, 1)
        page: Matching = yield self.read((pattern,), sequence, 1)
        while not page.records and page.next <= self.last:
            # There may be few matches among very many messages. New ones come later.
            extent = yield self._extent((pattern,), page.next)
            if not extent:
                break
            sequence = extent.start
            while not page.records and sequence < extent.stop:
                page = yield self.read((pattern,), sequence, 1)
                sequence = page.next
        return page.records[0] if page.records else None

    @inlineCallbacks
    def _extent(
        self, filters: Sequence[bytes], sequence: int
    ) -> Generator[Deferred[Any], Any, range]:
        """
        The first and the last sequence, at or after a given one, that may have a message matching
        one of the filters, according to the tallies of subjects.
        """
        first, last = self.last + 1, 0

        def note(tallies: SubjectTallies) -> None:
            nonlocal first, last
            for tally in tallies.values():
                if tally.last >= sequence:
                    first = min(first, max(tally.first, sequence))
                    last = max(last, tally.last)

        yield self.eachTally(filters, note)
        return range(first, last + 1)

    @inlineCallbacks
    def count(
        self, filters: tuple[bytes, ...], sequence: int
    ) -> Generator[Deferred[Any], Any, int]:
        """The number of messages at or after a sequence that match one of the filters."""
        bounds = self.log.bounds()
        if not bounds.count or sequence > bounds.last:
            return 0
        # With every message that is stored or removed, the bounds change.
        if self._counts[0] != bounds or len(self._counts[1]) > MOST_COUNTS:
            self._counts = bounds, {}
        counts, wanted = self._counts[1], (filters, sequence)
        if wanted in counts:
            return counts[wanted]
        counted: int = yield from self._count(bounds, *wanted)
        if self.log.bounds() == bounds:
            counts[wanted] = counted
        return counted

    def _count(
        self, bounds: Any, filters: tuple[bytes, ...], sequence: int
    ) -> Generator[Deferred[Any], Any, int]:
        if len(filters) == 1 and IShortcutLog.providedBy(self.log):
            isAll = yield self.log.hasOnly(filters[0])
            filters, bounds = () if isAll else filters, self.log.bounds()
        if not filters and (sequence <= self.first):
            return cast(int, bounds.count)
        if not filters and bounds.count == bounds.last - self.first + 1:
            return cast(int, bounds.last - sequence + 1)
        total, last, isUncertain = 0, bounds.last, False

        def note(tallies: SubjectTallies) -> None:
            nonlocal total, last, isUncertain
            for tally in tallies.values():
                last = max(last, tally.last)
                if tally.first >= sequence:
                    total += tally.count
                elif tally.last == sequence or (tally.count == 1 and tally.last >= sequence):
                    total += 1
                elif tally.last > sequence:
                    isUncertain = True

        yield self.eachTally(filters or (b">",), note)
        if isUncertain:
            total, last = 0, sequence - 1
        # Messages that came meanwhile are counted too, because consumers learn only of later ones.
        while last < self.last:
            page = yield self.read(filters, last + 1, SLICE, 1 << 24)
            total += len(page.records)
            last = page.next - 1
        return total

    @inlineCallbacks
    def eachTally(
        self, filters: Sequence[bytes], note: Callable[[SubjectTallies], object]
    ) -> Generator[Deferred[Any], Any, None]:
        """
        Read the tallies of the subjects that match one of the filters.

        @param note: called with some tallies at a time, and again with those that another filter
            matches too. It ends the search by returning true.
        """
        turns = self.account.turns
        for search in searchesFor(filters):
            if search is None:
                yield turns.take(SEARCH)
                continue
            pattern, isWanted = search
            after = b""
            while True:
                yield turns.take(SEARCH)
                page: SubjectTallies = yield self.log.subjects(pattern, after, SUBJECTS)
                turns.spend(len(page) * TALLY)
                isLast, after = len(page) < SUBJECTS, next(reversed(page), b"")
                if isWanted is not None:
                    page = {subject: tally for subject, tally in page.items() if isWanted(subject)}
                if page and note(page):
                    return
                if isLast:
                    break

    @inlineCallbacks
    def tallies(
        self, subjects: Sequence[bytes]
    ) -> Generator[Deferred[Any], Any, dict[bytes, SubjectTally]]:
        """The tallies of some literal subjects that have messages; all are asked for at once."""
        asking = [self.log.subjects(subject) for subject in subjects]
        try:
            pages: list[SubjectTallies] = yield gatherResults(asking, consumeErrors=True)
        except FirstError as error:
            error.subFailure.raiseException()
        return {subject: tally for page in pages for subject, tally in page.items()}

    @inlineCallbacks
    def countSubjects(self) -> Generator[Deferred[Any], Any, int]:
        """The number of subjects that have messages."""
        bounds = self.log.bounds()
        if self._subjectCount is None or self._subjectCount[0] != bounds:
            if ICountedLog.providedBy(self.log):
                count = yield self.log.countSubjects()
            else:
                count = 0

                def note(tallies: SubjectTallies) -> None:
                    nonlocal count
                    count += len(tallies)

                yield self.eachTally((b">",), note)
            self._subjectCount = bounds, count
        return self._subjectCount[1]

    @inlineCallbacks
    def lastPerSubject(
        self, filters: tuple[bytes, ...]
    ) -> Generator[Deferred[Any], Any, list[int]]:
        """The last sequence of each subject that matches one of the filters, sorted."""
        sequences = SortedRuns()
        yield self.eachTally(
            filters or (b">",), lambda page: sequences.add(tally.last for tally in page.values())
        )
        return sequences.merged()

    def sequenceAt(self, timestamp: int) -> Deferred[int]:
        """The first sequence not older than a time in nanoseconds since 1970."""
        return cast("Deferred[int]", self.log.sequenceAt(timestamp))

    @inlineCallbacks
    def eachGap(self, take: Callable[[range], bool]) -> Generator[Deferred[Any], Any, None]:
        """
        Find the sequences between the first and the last that have no message.

        @param take: called with some that follow each other; returns whether more are wanted.
        """
        sequence, last = self.first, self.last
        while sequence <= last:
            page = yield self.read((), sequence, SLICE, 1 << 24)
            for stop in (*(record.sequence for record in page.records), min(page.next, last + 1)):
                while sequence < stop:
                    gap = range(sequence, min(stop, sequence + GAP))
                    if not take(gap):
                        return
                    sequence = gap.stop
                    if sequence < stop:
                        yield self.account.turns.turn()
                sequence = max(sequence, stop + 1)
            sequence = page.next

    @inlineCallbacks
    def keeping(self, keep: int) -> Generator[Deferred[Any], Any, int]:
        """The first one of the C{keep} newest messages."""
        bounds = self.log.bounds()
        if keep >= bounds.count:
            return self.first
        if bounds.count == bounds.last - self.first + 1:
            return cast(int, bounds.last - keep + 1)
        sequences = yield self.sequencesOf(b">", bounds.last + 1)
        return cast(int, sequences[-keep])

    @inlineCallbacks
    def sequencesOf(self, pattern: bytes, stop: int) -> Generator[Deferred[Any], Any, list[int]]:
        """The sequences below C{stop} of messages whose subject matches a pattern."""
        sequences: list[int] = []
        sequence = max(self.first, 1)
        if pattern != b">":
            extent = yield self._extent((pattern,), sequence)
            sequence, stop = extent.start, min(stop, extent.stop)
        while sequence < stop:
            page = yield self.read((pattern,), sequence, SLICE, 1 << 24)
            sequences += [record.sequence for record in page.records if record.sequence < stop]
            sequence = page.next
        return sequences
