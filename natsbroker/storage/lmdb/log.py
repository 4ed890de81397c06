"""A log in the reactor's thread: the requests to its writer, and the search by subject."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from twisted.internet.defer import Deferred, fail, inlineCallbacks, succeed
from zope.interface import implementer

from natsbroker.interfaces import (
    ICountedLog,
    IExportableLog,
    IGroupingLog,
    IHeldLog,
    IShortcutLog,
)
from natsbroker.interfaces.records import (
    Entry,
    LogReadOnly,
    Record,
    RecordDamaged,
    SubjectTally,
)
from natsbroker.storage.blocks import Block
from natsbroker.storage.jobs import BarrierJob, Job
from natsbroker.storage.lmdb.ahead import (
    LastSequences,
    RecordsAhead,
    newestIn,
    tighten,
)
from natsbroker.storage.lmdb.cache import BlockCache
from natsbroker.storage.lmdb.fetching import (
    fetchLast,
)
from natsbroker.storage.lmdb.layout import LogRow
from natsbroker.storage.lmdb.logreader import LogReader
from natsbroker.storage.lmdb.transaction import LMDBAppendJob, LMDBDeleteJob, isTallied
from natsbroker.storage.policy import Policy
from natsbroker.storage.records import HEAD_SIZE, Damaged, decode, encodeBatch, subjectOf
from natsbroker.storage.threaded import ThreadedStore
from natsbroker.subjects.grammar import matches


@implementer(IHeldLog, ICountedLog, IExportableLog, IGroupingLog, IShortcutLog)
class LMDBLog(LogReader):
    def __init__(
        self, owner: ThreadedStore[Any], cache: BlockCache, row: LogRow, policy: Policy
    ) -> None:
        super().__init__(owner, cache, row, policy)
        self._lasts = LastSequences()

    def committed(self, row: LogRow, oldest: int | None) -> None:
        self._row = row
        self._bounds = row.bounds()
        self._oldest = oldest

    def rollBack(self) -> None:
        super().rollBack()
        self._sole = self._row.sole
        self._indexed = self._row.indexed

    def reopened(self, row: LogRow) -> None:
        """Note that the store was opened again. Failed records may exist nevertheless."""
        following, lastTime = self.nextSequence, self._lastTime
        self.committed(row, None)
        self.rollBack()
        self._lasts.clear()
        self.nextSequence = max(self.nextSequence, following)
        self._lastTime = max(self._lastTime, lastTime)

    def append(self, batch: Sequence[Entry]) -> Deferred[range]:
        first = self.nextSequence
        if not batch:
            return self._ask(BarrierJob()).addCallback(lambda _: range(first, first))
        sole = self._sole
        if not (self._indexed or sole):
            sole = batch[0][0]
        encoded = encodeBatch(self.identity, first, batch, self._owner.now(), self._lastTime, sole)
        indexed = isTallied(self._indexed, sole, encoded.uniform)
        subjects = [row[0] for row in batch] if indexed else None
        job = LMDBAppendJob(self.identity, first, encoded, sole, subjects)
        deferred = self._ask(job)
        if not deferred.called:
            self.nextSequence = first + len(encoded.blobs)
            self._lastTime = encoded.lastTime
            self._indexed = indexed
            self._sole = b"" if indexed else sole
            if subjects is not None:
                deferred.addCallback(self._appended, subjects)
        return deferred

    def _appended(self, sequences: range, subjects: Sequence[bytes]) -> range:
        self._lasts.appended(subjects, sequences)
        return sequences

    def delete(self, sequences: Collection[int]) -> Deferred[int]:
        self._lasts.clear()
        return self._ask(LMDBDeleteJob(self.identity, list(sequences))).addBoth(self._deleted)

    def _deleted(self, result: int) -> int:
        self._lasts.clear()
        return result

    def _ask(self, job: Job) -> Deferred[Any]:
        if self.closed is not None:
            return fail(self.closed)
        if self._row.quarantined:
            return fail(LogReadOnly(f"log {self.name} is in quarantine"))
        return self._owner.ask(job)

    def journalled(
        self, blobs: Sequence[bytes], gone: Mapping[int, bytes], deleted: Collection[int]
    ) -> None:
        """
        Note durable records, the subjects of records that limits removed because of them, by
        sequence, and deleted ones.
        """
        self._ahead.add(blobs, gone, deleted)
        dead: dict[int, tuple[Block, list[int]]] = {}
        for sequence in (*gone, *deleted):
            block = self._cache.find(self.identity, sequence)
            if block is not None:
                dead.setdefault(id(block), (block, []))[1].append(sequence)
        for block, sequences in dead.values():
            block.dead = block.dead.union(sequences)

    def sizeOf(self, sequence: int) -> tuple[bytes, int] | None:
        """The subject and the size of a record; C{None} if that is not known without waiting."""
        known = self.recall(sequence)
        if known is None:
            return None
        blob, start, end = known
        return subjectOf(blob, start), end - start - HEAD_SIZE

    @inlineCallbacks
    def _withoutDeleted(self) -> Generator[Deferred[Any], Any, None]:
        """
        Have the database apply the journal's deletions, because its tallies still count those
        records.
        """
        if self._ahead.deleted:
            yield self._ask(Job())

    def databaseCaughtUp(self) -> None:
        self._ahead = RecordsAhead()

    def _newest(self) -> Deferred[int]:
        """The newest existing sequence, damaged or not; 0 if there is none."""
        if self._ahead.blobs:
            return succeed(self._bounds.last)
        return newestIn(self._owner, self.identity, self._bounds)

    def recallLast(self, subject: bytes) -> int:
        known = self._lasts.find(subject)
        if known >= self._bounds.first or self.closed is not None or not self._row.indexed:
            return known
        ahead = self._ahead
        if ahead.deleted:
            return 0
        last = ahead.lastOf(subject) or self._quick.lastOf(subject, ahead, self.version)
        if last:
            self._lasts.found(subject, last, self._lasts.epoch)
        return last

    @inlineCallbacks
    def hasOnly(self, pattern: bytes) -> Generator[Deferred[Any], Any, bool]:
        if self.closed is not None:
            raise self.closed
        if not self._row.indexed:
            return matches(pattern, self._row.sole)
        isOnly: bool = yield self._tallies.haveOnly(self._ahead, pattern)
        return isOnly

    def lastFor(self, subject: bytes) -> Deferred[Record | None]:
        record = self._recalled(self.recallLast(subject))
        return self._lookUpLast(subject) if record is None else succeed(record)

    def _recalled(self, sequence: int) -> Record | None:
        quick = self.recall(sequence)
        if quick is not None:
            with suppress(Damaged):  # The next reader notifies the watchers.
                record = decode(*quick, self.identity)
                if record.sequence == sequence:
                    return record
        return None

    @inlineCallbacks
    def _lookUpLast(self, subject: bytes) -> Generator[Deferred[Any], Any, Record | None]:
        before = 0
        while sequence := (yield self._lastOf(subject)):
            yield self._known(sequence)
            records: list[Record] = yield self.read(sequence, 1)
            if records and records[0].sequence == sequence:
                return records[0]
            if sequence == before:
                if self._bounds.first <= sequence <= self._bounds.last:
                    raise RecordDamaged(self.name, sequence)
                break
            # A newer record may have replaced it meanwhile.
            self._lasts.forget(subject)
            before = sequence
        return None

    @inlineCallbacks
    def _lastOf(self, subject: bytes) -> Generator[Deferred[Any], Any, int]:
        if self.closed is not None:
            raise self.closed
        yield self._withoutDeleted()
        if not self._row.indexed:
            if subject != self._row.sole:
                return 0
            newest: int = yield self._newest()
            lost = self._owner.troubles.damagedIn(self.name, newest + 1, self._bounds.last + 1)
            return max([newest, *lost])
        known = self._lasts.find(subject)
        if known >= self._bounds.first:
            return known
        ahead, epoch = self._ahead.lastOf(subject), self._lasts.epoch
        if ahead:
            return ahead
        version, records = self.version, self._ahead
        last, raws = yield self._owner.fetch(fetchLast, self.identity, subject)
        for raw in raws:
            self._keep(raw, version, records)
        if last:
            self._lasts.found(subject, last, epoch)
        return int(last)

    @inlineCallbacks
    def subjects(
        self, pattern: bytes, after: bytes = b"", limit: int = 0
    ) -> Generator[Deferred[Any], Any, dict[bytes, SubjectTally]]:
        if self.closed is not None:
            raise self.closed
        yield self._withoutDeleted()
        if not self._row.indexed:
            sole: dict[bytes, SubjectTally] = yield self._soleTally(pattern, after)
            return sole
        tallies = yield self._tallies.listed(lambda: self._ahead, pattern, after, limit)
        yield tighten([tally for tally in tallies if tally.loose], self._bounds, self._fetchBlocks)
        return {
            tally.subject: SubjectTally(tally.count, tally.first, tally.last) for tally in tallies
        }

    @inlineCallbacks
    def countSubjects(self) -> Generator[Deferred[Any], Any, int]:
        while self.closed is None:
            if not self._row.indexed:
                return int(self._row.count > 0)
            yield self._withoutDeleted()
            row = self._row
            known: int | None = yield self._tallies.count(self._ahead, row.tallies)
            if known is not None:
                return known
            yield self._ask(BarrierJob())
        raise self.closed

    @inlineCallbacks
    def _soleTally(
        self, pattern: bytes, after: bytes
    ) -> Generator[Deferred[Any], Any, dict[bytes, SubjectTally]]:
        sole, bounds = self._row.sole, self._bounds
        if not bounds.count or sole <= after or not matches(pattern, sole):
            return {}
        newest = yield self._newest()
        return {sole: SubjectTally(bounds.count, bounds.first, newest)}
