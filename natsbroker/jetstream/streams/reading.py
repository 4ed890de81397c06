"""
The messages of a stream, as its log has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from twisted.internet.defer import Deferred, inlineCallbacks, succeed

from natsbroker.interfaces import IShortcutLog
from natsbroker.interfaces.records import Matching, Record, SubjectTallies
from natsbroker.jetstream.model.streamconfig import StorageType, StreamConfig
from natsbroker.jetstream.streams.tail import StreamTail
from natsbroker.subjects.grammar import hasWildcard

if TYPE_CHECKING:
    from collections.abc import Generator

SLICE = 1024
"""Records of one read when a stream is walked."""


class StreamRecords:
    """
    Reads the log of a stream.

    @ivar config: with all defaults filled in.
    @ivar log: the records. Header blocks of streams in files follow their length in four bytes, so
        that the size of the log and the size that nats-server reports differ by 30 bytes a message.
    @cvar isChannel: whether NATS Streaming writes and limits the log: then the limits of accounts
        do not count the stream, and requests cannot change it.
    """

    isChannel = False

    def __init__(self, config: StreamConfig, log: Any) -> None:
        self.config = config
        self.log = log
        self._tail = StreamTail()
        self._first = min(config.first_seq, 1)
        self.skippedAt = 0
        self._subjectCount: tuple[Any, int] | None = None

    @property
    def isSettled(self) -> bool:
        """
        Whether all that was asked before is known to be in the log, so that it can be read at once.
        """
        return False

    @property
    def isInFile(self) -> bool:
        return self.config.storage is StorageType.FILE

    @property
    def first(self) -> int:
        """
        The first sequence; one more than the last when the stream is empty; 0 in a new stream that
        was not purged and was created without one. A later change of the configuration counts not.
        """
        bounds = self.log.bounds()
        if not bounds.count:
            return bounds.last + 1 if bounds.last or self._first else 0
        return max(cast(int, bounds.first), self._first)

    @property
    def last(self) -> int:
        """
        The last sequence that is durable.
        """
        return cast(int, self.log.bounds().last)

    @property
    def lastTime(self) -> int:
        """
        When the last message was stored, or passed over because nobody wanted it, in nanoseconds
        since 1970; 0 for never.
        """
        return max(cast(int, self.log.bounds().lastTime), self.skippedAt)

    @property
    def messages(self) -> int:
        return cast(int, self.log.bounds().count)

    @property
    def size(self) -> int:
        """
        The size as nats-server counts it for this kind of storage.
        """
        bounds = self.log.bounds()
        return cast(int, bounds.size + (30 if self.isInFile else 16) * bounds.count)

    def sizeOf(self, subject: bytes, headers: bytes, payload: bytes) -> int:
        """
        The size of one message as nats-server counts it for this kind of storage.
        """
        size = len(subject) + len(headers) + len(payload)
        if not self.isInFile:
            return size + 16
        return size + (34 if headers else 30)

    def decoded(self, record: Record) -> Record:
        """
        A record of the log as a message of the stream.
        """
        if record.headers and self.isInFile:
            return record._replace(headers=record.headers[4:])
        return record

    def _decodedAll(self, records: list[Record]) -> list[Record]:
        if not self.isInFile:
            return records
        return [self.decoded(each) if each.headers else each for each in records]

    @inlineCallbacks
    def read(
        self, filters: tuple[bytes, ...], sequence: int, limit: int = 256, maxBytes: int = 1 << 20
    ) -> Generator[Deferred[Any], Any, Matching]:
        """
        Read messages that match one of the filters, at or after a sequence.

        @param filters: patterns; empty for every message.
        """
        recent = self._tail.read(filters, sequence, limit)
        if recent is not None:
            return recent
        if filters:
            found = yield self.log.readMatching(filters, sequence, limit, maxBytes)
            return Matching(self._decodedAll(found.records), found.next)
        last = self.last
        records = yield self.log.read(sequence, limit, maxBytes)
        following = records[-1].sequence + 1 if records else last + 1
        return Matching(self._decodedAll(records), following)

    def get(self, sequence: int) -> Deferred[Record | None]:
        """
        The message of a sequence; C{None} if there is none.
        """
        if not 0 < sequence <= self.last:
            return succeed(None)
        reading: Deferred[Any] = self.log.read(sequence, 1)
        return reading.addCallback(self._only, sequence)

    def _only(self, records: list[Record], sequence: int) -> Record | None:
        isThere = bool(records) and records[0].sequence == sequence
        return self.decoded(records[0]) if isThere else None

    @inlineCallbacks
    def firstRecord(self) -> Generator[Deferred[Any], Any, Record | None]:
        """
        The oldest message; C{None} in an empty stream.
        """
        records = yield self.log.read(max(self.first, 1), 1)
        if not records:
            return None
        self._first = records[0].sequence
        return self.decoded(records[0])

    def lastMatching(self, pattern: bytes) -> Deferred[Record | None]:
        """
        The newest message whose subject matches a pattern.
        """
        if hasWildcard(pattern):
            return self._lastOfMany(pattern)
        looking: Deferred[Any] = self.log.lastFor(pattern)
        return looking.addCallback(self._decodedIfAny)

    def _decodedIfAny(self, record: Record | None) -> Record | None:
        return None if record is None else self.decoded(record)

    @inlineCallbacks
    def _lastOfMany(self, pattern: bytes) -> Generator[Deferred[Any], Any, Record | None]:
        tallies = yield self.log.subjects(pattern)
        if not tallies:
            return None
        found = yield self.get(max(each.last for each in tallies.values()))
        return cast(Record, found)

    @inlineCallbacks
    def nextMatching(
        self, pattern: bytes, sequence: int
    ) -> Generator[Deferred[Any], Any, Record | None]:
        """
        The first message at or after a sequence whose subject matches a pattern.
        """
        while sequence <= self.last:
            found = yield self.read((pattern,), max(sequence, 1), 1)
            if found.records:
                return cast(Record, found.records[0])
            sequence = found.next
        return None

    @inlineCallbacks
    def count(
        self, filters: tuple[bytes, ...], sequence: int
    ) -> Generator[Deferred[Any], Any, int]:
        """
        The number of messages at or after a sequence that match one of the filters.
        """
        bounds = self.log.bounds()
        if not bounds.count or sequence > bounds.last:
            return 0
        if len(filters) == 1 and IShortcutLog.providedBy(self.log):
            isAll = yield self.log.hasOnly(filters[0])
            filters = () if isAll else filters
        if not filters and (sequence <= self.first):
            return cast(int, bounds.count)
        if not filters and bounds.count == bounds.last - self.first + 1:
            return cast(int, bounds.last - sequence + 1)
        total, uncertain = 0, False
        for tally in (yield self.tallies(filters or (b">",))).values():
            if tally.first >= sequence:
                total += tally.count
            elif tally.last == sequence or (tally.count == 1 and tally.last >= sequence):
                total += 1
            elif tally.last > sequence:
                uncertain = True
        if not uncertain:
            return total
        total = 0
        while sequence <= bounds.last:
            found = yield self.read(filters, sequence, SLICE, 1 << 24)
            total += len(found.records)
            sequence = found.next
        return total

    @inlineCallbacks
    def tallies(self, filters: Sequence[bytes]) -> Generator[Deferred[Any], Any, SubjectTallies]:
        """
        The tally of each subject that matches one of the filters.
        """
        found: SubjectTallies = {}
        for each in filters:
            found.update((yield self.log.subjects(each)))
        return found

    @inlineCallbacks
    def countSubjects(self) -> Generator[Deferred[Any], Any, int]:
        """
        The number of subjects that have messages.
        """
        bounds = self.log.bounds()
        if self._subjectCount is None or self._subjectCount[0] != bounds:
            tallies = yield self.log.subjects(b">")
            self._subjectCount = bounds, len(tallies)
        return self._subjectCount[1]

    @inlineCallbacks
    def lastPerSubject(
        self, filters: tuple[bytes, ...]
    ) -> Generator[Deferred[Any], Any, list[int]]:
        """
        The last sequence of each subject that matches one of the filters, sorted.
        """
        tallies = yield self.tallies(filters or (b">",))
        return sorted(each.last for each in tallies.values())

    def sequenceAt(self, timestamp: int) -> Deferred[int]:
        """
        The first sequence not older than a time.

        @param timestamp: nanoseconds since 1970.
        """
        return cast("Deferred[int]", self.log.sequenceAt(timestamp))

    @inlineCallbacks
    def deleted(self) -> Generator[Deferred[Any], Any, list[int]]:
        """
        The sequences between the first and the last that have no message.
        """
        missing: list[int] = []
        sequence, last = self.first, self.last
        while sequence <= last:
            records = yield self.log.read(sequence, SLICE, 1 << 24)
            for record in records:
                missing += range(sequence, record.sequence)
                sequence = record.sequence + 1
            if not records:
                missing += range(sequence, last + 1)
                break
        return missing
