"""
A log in the reactor's thread: gives sequences, encodes what is appended.

See the interfaces. What is damaged is reported and left out.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from twisted.internet.defer import Deferred, fail, inlineCallbacks, succeed
from zope.interface import implementer

from natsbroker.interfaces import IExportableLog, IHeldLog, ISubjectIndexedLog
from natsbroker.interfaces.records import Entry, Matching, Record, RecordDamaged, SubjectTally
from natsbroker.storage.exports import Page, beginning
from natsbroker.storage.jobs import AppendJob, BarrierJob
from natsbroker.storage.policy import Policy
from natsbroker.storage.postgres.reading import (
    INDEXED_WHOLE,
    Span,
    fetchLast,
    fetchMatching,
    fetchRecords,
    fetchTallies,
    findTime,
)
from natsbroker.storage.postgres.schema import PostgresLogRow
from natsbroker.storage.records import encodeBatch
from natsbroker.storage.threaded import OwnedLog, ThreadedStore
from natsbroker.subjects.searching import PatternSearch
from natsbroker.subjects.verdicts import SubjectVerdicts

LARGEST = 512 << 20
"""How large a record may be: PostgreSQL takes no row of 1 GiB."""


@implementer(IHeldLog, ISubjectIndexedLog, IExportableLog)
class PostgresLog(OwnedLog):
    def __init__(self, owner: ThreadedStore[Any], row: PostgresLogRow, policy: Policy) -> None:
        super().__init__(owner, row, policy)
        self._oldest = row.oldest

    def committed(self, row: PostgresLogRow) -> None:
        self._bounds = row.bounds()
        self._oldest = row.oldest

    def append(self, batch: Sequence[Entry]) -> Deferred[range]:
        first = self.nextSequence
        if not batch:
            return self._ask(BarrierJob()).addCallback(lambda _: range(first, first))
        encoded = encodeBatch(self.identity, first, batch, self._owner.now(), self._lastTime, b"")
        if encoded.size > LARGEST and max(map(len, encoded.blobs)) > LARGEST:
            raise ValueError(f"a record of over {LARGEST} bytes is too large for the database")
        job = AppendJob(self.identity, first, encoded)
        deferred = self._ask(job)
        if not deferred.called:
            self.nextSequence = first + len(encoded.blobs)
            self._lastTime = encoded.lastTime
        return deferred

    def _span(self, sequence: int = 0) -> Span:
        return Span(self.identity, max(sequence, self._bounds.first), self._bounds.last)

    def _told(self, found: Page) -> Page:
        for sequence in found.damaged:
            if sequence >= self._bounds.first:
                self._owner.troubles.recordsDamaged(
                    self.name, sequence, sequence + 1, "a record does not match its checksum"
                )
        return found

    def _read(self, sequence: int, limit: int, maxBytes: int, stop: int) -> Deferred[Page]:
        if self.closed is not None:
            return fail(self.closed)
        span = self._span(sequence)._replace(last=min(stop - 1, self._bounds.last))
        if span.first > span.last or limit <= 0 or maxBytes <= 0:
            return succeed(Page([], stop, []))
        reading = self._owner.fetch(fetchRecords, span, limit, maxBytes)
        return reading.addCallback(self._told)

    def read(
        self, sequence: int, limit: int = 256, maxBytes: int = 1048576
    ) -> Deferred[list[Record]]:
        reading = self._read(sequence, limit, maxBytes, self._bounds.last + 1)
        return reading.addCallback(lambda found: found.records)

    def sequenceAt(self, timestamp: int) -> Deferred[int]:
        if self.closed is not None:
            return fail(self.closed)
        span = self._span()
        if not self._bounds.count or timestamp > self._bounds.lastTime:
            return succeed(span.last + 1)
        return self._owner.fetch(findTime, span, timestamp)

    @inlineCallbacks
    def lastFor(self, subject: bytes) -> Generator[Deferred[Any], Any, Record | None]:
        if self.closed is not None:
            raise self.closed
        found: Page = yield self._owner.fetch(fetchLast, self._span(), subject)
        self._told(found)
        if found.damaged:
            raise RecordDamaged(self.name, found.damaged[0])
        return found.records[0] if found.records else None

    @inlineCallbacks
    def subjects(
        self, pattern: bytes, after: bytes = b"", limit: int = 0
    ) -> Generator[Deferred[Any], Any, dict[bytes, SubjectTally]]:
        if self.closed is not None:
            raise self.closed
        found: dict[bytes, SubjectTally] = {}
        search, prefix = PatternSearch(pattern), beginning(pattern)[:INDEXED_WHOLE]
        while True:
            most = limit - len(found) if limit else 0
            tallies, after = yield self._owner.fetch(
                fetchTallies, self._span(), search, prefix, after, most
            )
            found |= {subject: SubjectTally(*tally) for subject, tally in tallies}
            if not after or (limit and len(found) >= limit):
                return found

    @inlineCallbacks
    def readMatching(
        self, patterns: Sequence[bytes], sequence: int, limit: int = 256, maxBytes: int = 1048576
    ) -> Generator[Deferred[Any], Any, Matching]:
        if self.closed is not None:
            raise self.closed
        wanted = SubjectVerdicts(patterns)
        span = self._span(sequence)
        if span.first > span.last:
            return Matching([], span.last + 1)
        found: Page = yield self._owner.fetch(
            fetchMatching,
            span,
            wanted.__getitem__,
            limit,
            maxBytes,
        )
        self._told(found)
        return Matching(found.records, found.next)

    def _page(self, start: int, stop: int, maxBytes: int) -> Deferred[Page]:
        return self._read(start, 4096, maxBytes, stop)
