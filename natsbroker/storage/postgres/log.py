"""A log in the reactor's thread. It assigns sequences, encodes appends, and reports damage."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, cast

from twisted.internet.defer import Deferred, fail, inlineCallbacks, succeed
from twisted.logger import Logger
from zope.interface import implementer

from natsbroker.interfaces import IExportableLog, IGroupingLog, IHeldLog, ISubjectIndexedLog
from natsbroker.interfaces.records import (
    Entry,
    LeaseLost,
    Matching,
    NoSuchLog,
    Record,
    RecordDamaged,
    StoreError,
    SubjectTally,
)
from natsbroker.storage.exports import Page, beginning
from natsbroker.storage.jobs import AppendJob, BarrierJob
from natsbroker.storage.policy import Policy
from natsbroker.storage.postgres.damage import isMiscounted
from natsbroker.storage.postgres.fetching import (
    INDEXED_WHOLE,
    Span,
    fetchLast,
    fetchMatching,
    fetchRecords,
    fetchTallies,
    findTime,
)
from natsbroker.storage.postgres.schema import LARGEST, Connection, PostgresLogRow
from natsbroker.storage.postgres.writing import PostgresLogWriter
from natsbroker.storage.records import encodeBatch
from natsbroker.storage.threaded import OwnedLog, ThreadedStore
from natsbroker.subjects.searching import PatternSearch
from natsbroker.subjects.verdicts import SubjectVerdicts

_log = Logger(namespace="natsbroker.storage.postgres")

LARGEST_ROW = 512 << 20
"""The largest size of a record: PostgreSQL takes no row of 1 GiB."""


if TYPE_CHECKING:
    from natsbroker.storage.threaded import ThreadedStore


def fetchRow(connection: Connection, name: str) -> PostgresLogRow:
    """
    The row of a log.

    @raise NoSuchLog: if the database has no log of this name.
    """
    row = connection.execute(
        "SELECT id, first, last, count, size, last_time FROM log WHERE name = %s", (name.encode(),)
    ).fetchone()
    if row is None:
        raise NoSuchLog(f"there is no log {name}")
    identity, *bounds = row
    return PostgresLogRow(identity, name, *bounds)


@implementer(ISubjectIndexedLog)
class PostgresView:
    def __init__(self, owner: ThreadedStore[Any], row: PostgresLogRow) -> None:
        log = PostgresLog(owner, row, Policy())
        self.name = log.name
        self.identity = log.identity
        self.nextSequence = log.nextSequence
        self.bounds = log.bounds
        self.read = log.read
        self.sequenceAt = log.sequenceAt
        self.lastFor = log.lastFor
        self.subjects = log.subjects
        self.readMatching = log.readMatching

    def append(self, batch: Sequence[Entry]) -> Deferred[range]:
        return fail(LeaseLost(f"log {self.name} is only read here"))


@implementer(IHeldLog, ISubjectIndexedLog, IExportableLog, IGroupingLog)
class PostgresLog(OwnedLog):
    def __init__(self, owner: ThreadedStore[Any], row: PostgresLogRow, policy: Policy) -> None:
        self._unnoticed: list[tuple[int, Deferred[None]]] = []
        self._lost: set[int] = set()
        super().__init__(owner, row, policy)
        self._oldest = row.oldest

    def committed(self, row: PostgresLogRow) -> None:
        self._bounds = row.bounds()
        self._oldest = row.oldest
        self._notice(row.last)

    def rollBack(self) -> None:
        super().rollBack()
        self._notice(LARGEST)

    def _notice(self, last: int) -> None:
        """Continue the reads whose records the reactor's thread knows now."""
        waiting, self._unnoticed = self._unnoticed, []
        self._unnoticed = [read for read in waiting if read[0] > last]
        for sequence, reading in waiting:
            if sequence <= last:
                reading.callback(None)

    def _noticed(self, last: int) -> Deferred[None]:
        """Wait for an append that a read has shown. The layers above must learn of it first."""
        # A record behind the appends under way is not from them: there is nothing to wait for.
        if not self._bounds.last < last < self.nextSequence or self.closed is not None:
            return succeed(None)
        reading: Deferred[None] = Deferred()
        self._unnoticed.append((last, reading))
        return reading

    def append(self, batch: Sequence[Entry]) -> Deferred[range]:
        first = self.nextSequence
        if not batch:
            return self._ask(BarrierJob()).addCallback(lambda _: range(first, first))
        encoded = encodeBatch(self.identity, first, batch, self._owner.now(), self._lastTime, b"")
        if encoded.size > LARGEST_ROW and max(map(len, encoded.blobs)) > LARGEST_ROW:
            raise ValueError(f"a record of over {LARGEST_ROW} bytes is too large for the database")
        job = AppendJob(self.identity, first, encoded)
        deferred = self._ask(job)
        if not deferred.called:
            self.nextSequence = first + len(encoded.blobs)
            self._lastTime = encoded.lastTime
        return deferred

    def _span(self, sequence: int = 0, last: int = LARGEST) -> Span:
        return Span(self.identity, max(sequence, self._bounds.first), last)

    def lost(self, sequences: Sequence[int]) -> None:
        """Stop counting damaged records."""
        self._lost.update(sequences)
        self._report(sequences)

    def _report(self, sequences: Sequence[int]) -> None:
        for sequence in sequences:
            self._owner.troubles.recordsDamaged(
                self.name, sequence, sequence + 1, "a record does not match its checksum"
            )

    @inlineCallbacks
    def _reported(self, page: Page, last: int = 0) -> Generator[Deferred[Any], Any, Page]:
        """
        Report damage in a page, and stop counting it. C{last} is given if it is not the page's own.
        """
        damaged = [sequence for sequence in page.damaged if sequence >= self._bounds.first]
        if not self._lost.issuperset(damaged):
            try:
                yield self._askWriter(lambda writer: cast(PostgresLogWriter, writer).lose(damaged))
                self._lost.update(damaged)
            except StoreError:
                pass  # Repeated when one of them is read again.
        self._report(damaged)
        yield self._noticed(last or (page.records[-1].sequence if page.records else 0))
        return page

    def _read(self, sequence: int, limit: int, maxBytes: int, stop: int) -> Deferred[Page]:
        if self.closed is not None:
            return fail(self.closed)
        span = self._span(sequence, stop - 1)
        if span.first > span.last or limit <= 0 or maxBytes <= 0:
            return succeed(Page([], stop, []))
        reading = self._owner.fetch(fetchRecords, span, limit, maxBytes)
        return reading.addCallback(self._reported)

    def read(
        self, sequence: int, limit: int = 256, maxBytes: int = 1048576
    ) -> Deferred[list[Record]]:
        reading = self._read(sequence, limit, maxBytes, LARGEST)
        return reading.addCallback(lambda page: page.records)

    def sequenceAt(self, timestamp: int) -> Deferred[int]:
        if self.closed is not None:
            return fail(self.closed)
        span = self._span(last=self._bounds.last)
        if not self._bounds.count or timestamp > self._bounds.lastTime:
            return succeed(span.last + 1)
        return self._owner.fetch(findTime, span, timestamp)

    @inlineCallbacks
    def lastFor(self, subject: bytes) -> Generator[Deferred[Any], Any, Record | None]:
        if self.closed is not None:
            raise self.closed
        page: Page = yield self._owner.fetch(fetchLast, self._span(), subject)
        yield self._reported(page)
        if page.damaged:
            raise RecordDamaged(self.name, page.damaged[0])
        return page.records[0] if page.records else None

    @inlineCallbacks
    def subjects(
        self, pattern: bytes, after: bytes = b"", limit: int = 0
    ) -> Generator[Deferred[Any], Any, dict[bytes, SubjectTally]]:
        if self.closed is not None:
            raise self.closed
        listed: dict[bytes, SubjectTally] = {}
        search, prefix = PatternSearch(pattern), beginning(pattern)[:INDEXED_WHOLE]
        while True:
            most = limit - len(listed) if limit else 0
            tallies, after = yield self._owner.fetch(
                fetchTallies, self._span(), search, prefix, after, most
            )
            listed |= {subject: SubjectTally(*tally) for subject, tally in tallies}
            if not after or (limit and len(listed) >= limit):
                break
        yield self._noticed(max((tally.last for tally in listed.values()), default=0))
        return listed

    @inlineCallbacks
    def readMatching(
        self, patterns: Sequence[bytes], sequence: int, limit: int = 256, maxBytes: int = 1048576
    ) -> Generator[Deferred[Any], Any, Matching]:
        if self.closed is not None:
            raise self.closed
        wanted = SubjectVerdicts(patterns)
        span = self._span(sequence)
        if span.first > LARGEST:
            return Matching([], sequence)
        page: Page = yield self._owner.fetch(
            fetchMatching,
            span,
            wanted.__getitem__,
            limit,
            maxBytes,
        )
        yield self._reported(page, page.next - 1)
        return Matching(page.records, page.next)

    def _page(self, start: int, stop: int, maxBytes: int) -> Deferred[Page]:
        return self._read(start, 4096, maxBytes, stop).addCallback(self._withLost, start)

    def _withLost(self, page: Page, start: int) -> Page:
        damaged = self._owner.troubles.damagedIn(self.name, start, page.next)
        return page._replace(damaged=damaged)

    @inlineCallbacks
    def verifyCount(self) -> Generator[Deferred[Any], Any, None]:
        try:
            if (yield self._owner.fetch(isMiscounted, self.identity)):
                before = self._bounds.count
                yield self._askWriter(lambda writer: cast(PostgresLogWriter, writer).recount())
                gone = before - self._bounds.count
                _log.error("{gone} records of {name} are gone", gone=gone, name=self.name)
        except StoreError:
            pass  # Repeated when the log is opened again.
