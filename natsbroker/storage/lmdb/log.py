"""
A log in the reactor's thread. Blocks at hand are decoded at once, the rest when a thread has
fetched them. What is read is verified, record by record; a damaged one is reported and left out.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from twisted.internet.defer import Deferred, fail, inlineCallbacks, succeed
from zope.interface import implementer

from natsbroker.interfaces import ICountedLog, IExportableLog, IHeldLog, IShortcutLog
from natsbroker.interfaces.records import (
    Columns,
    EncodedRecord,
    Entry,
    LogReadOnly,
    Matching,
    Record,
    RecordDamaged,
    StoreError,
    SubjectTally,
)
from natsbroker.storage.blocks import Block, readBlock
from natsbroker.storage.exports import Page, canGather
from natsbroker.storage.jobs import BarrierJob, Job
from natsbroker.storage.lmdb.ahead import (
    AHEAD,
    LastSequences,
    RecordsAhead,
    TallyReader,
    newestIn,
    tighten,
)
from natsbroker.storage.lmdb.cache import BlockCache, QuickRecords
from natsbroker.storage.lmdb.jobs import LMDBAppendJob, isTallied
from natsbroker.storage.lmdb.layout import LogRow
from natsbroker.storage.lmdb.reading import (
    RawBlock,
    fetchBlocks,
    fetchColumns,
    fetchLast,
    findTime,
)
from natsbroker.storage.policy import Policy
from natsbroker.storage.records import Damaged, decode, encodeBatch, sequenceOf, timestampOf
from natsbroker.storage.threaded import OwnedLog, ThreadedStore
from natsbroker.subjects.grammar import hasWildcard, matches
from natsbroker.subjects.verdicts import SubjectVerdicts

SCANNED = 16384
"""How many records one call looks at in search of subjects."""


@implementer(IHeldLog, ICountedLog, IExportableLog, IShortcutLog)
class LMDBLog(OwnedLog):
    """
    @ivar version: how often blocks of it were replaced.
    """

    def __init__(
        self, owner: ThreadedStore[Any], cache: BlockCache, row: LogRow, policy: Policy
    ) -> None:
        self._row = row
        super().__init__(owner, row, policy)
        self._cache = cache
        self._quick = QuickRecords(owner, cache, row.identity)
        self._tallies = TallyReader(owner, row.identity)
        self.version = 0
        self._ahead = RecordsAhead()
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
        """
        The store was opened again; what had failed may be there all the same.
        """
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
        subjects = [each[0] for each in batch] if indexed else None
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
        return super().delete(sequences).addBoth(self._deleted)

    def _deleted(self, result: int) -> int:
        self._lasts.clear()
        return result

    def _ask(self, job: Job) -> Deferred[Any]:
        if self.closed is None and self._row.quarantined:
            return fail(LogReadOnly(f"log {self.name} is in quarantine"))
        return super()._ask(job)

    def journalled(self, blobs: Sequence[bytes], gone: Mapping[int, bytes]) -> None:
        """
        Records are durable in the journal.

        @param gone: subjects by sequence, of records that limits let go for them.
        """
        self._ahead.add(blobs, gone)
        for sequence in gone:
            block = self._cache.find(self.identity, sequence)
            if block is not None:
                block.dead = block.dead.union((sequence,))

    def databaseCaughtUp(self) -> None:
        self._ahead = RecordsAhead()

    @property
    def _lastInDatabase(self) -> int:
        return self._ahead.first - 1 if self._ahead.blobs else self._bounds.last

    def read(
        self, sequence: int, limit: int = 256, maxBytes: int = 1048576
    ) -> Deferred[list[Record]]:
        found: list[Record] = []
        if self.closed is not None:
            return fail(self.closed)
        sequence, maxBytes = self._readCached(found, sequence, limit, maxBytes)
        if len(found) >= limit or maxBytes <= 0 or sequence > self._bounds.last:
            return succeed(found)
        return self._readOn(found, sequence, limit, maxBytes)

    def _readCached(
        self, found: list[Record], sequence: int, limit: int, maxBytes: int
    ) -> tuple[int, int]:
        last = self._bounds.last
        sequence = max(sequence, self._bounds.first)
        while len(found) < limit and maxBytes > 0 and sequence <= last:
            block = self._cache.find(self.identity, sequence)
            if block is None:
                break
            sequence, maxBytes = self._select(found, block, sequence, None, limit, maxBytes)
        return sequence, maxBytes

    @inlineCallbacks
    def _readOn(
        self, found: list[Record], sequence: int, limit: int, maxBytes: int
    ) -> Generator[Deferred[Any], Any, list[Record]]:
        while len(found) < limit and maxBytes > 0 and sequence <= self._bounds.last:
            enough = 1 if limit == 1 else min(maxBytes * 2, AHEAD)
            blocks = yield self._fetchBlocks(sequence, enough)
            if not blocks:
                break
            for block in blocks:
                if len(found) < limit and maxBytes > 0:
                    after, maxBytes = self._select(found, block, sequence, None, limit, maxBytes)
                    sequence = max(sequence, after)
            if blocks[-1].last < sequence and len(found) < limit and maxBytes > 0:
                sequence = max(sequence, blocks[-1].last + 1)
        return found

    @inlineCallbacks
    def exportRange(
        self, start: int, stop: int, maxBytes: int = 16777216
    ) -> Generator[Deferred[Any], Any, Columns]:
        """
        What is whole is put into columns by a thread that reads, where that is compiled.
        """
        first = max(start, self._bounds.first)
        last = min(stop, self._lastInDatabase + 1)
        if canGather() and first < last and maxBytes > 0 and not self._ahead.gone:
            if self.closed is not None:
                raise self.closed
            found: Columns | None = yield self._owner.fetch(
                fetchColumns, self.identity, first, last, maxBytes
            )
            if self.closed is not None:
                raise self.closed
            if found is not None and found.next > start:
                lost = self._owner.troubles.damagedIn(self.name, start, found.next)
                return replace(found, damaged=tuple(lost))
        columns: Columns = yield super().exportRange(start, stop, maxBytes)
        return columns

    @inlineCallbacks
    def _fetchBlocks(
        self, sequence: int, enough: int
    ) -> Generator[Deferred[Any], Any, list[Block]]:
        """
        Fetch the blocks from the one on that holds a sequence. If none of those fetched reaches
        it, further ones are.
        """
        while True:
            if self.closed is not None:
                raise self.closed
            ahead = self._ahead
            if sequence > self._lastInDatabase:
                return ahead.block(self.identity, sequence, enough)
            version = self.version
            raws = yield self._owner.fetch(fetchBlocks, self.identity, sequence, enough)
            blocks = [self._keep(raw, version, ahead) for raw in raws]
            useful = [each for each in blocks if each is not None and each.last >= sequence]
            if useful:
                return useful
            if not raws or not raws[-1].following:
                return ahead.block(self.identity, sequence, enough)
            sequence = raws[-1].following

    def _keep(self, raw: RawBlock, version: int, ahead: RecordsAhead) -> Block | None:
        """
        @param version: the log's when it was fetched; if that is not the log's now, the block
            may have been replaced and is not kept.
        @param ahead: what the database did not have before it was fetched.
        """
        stop = raw.following or self._lastInDatabase + 1
        gone = ahead.goneIn(range(raw.first, stop))
        block = readBlock(raw.raw, self.identity, raw.first, raw.dead.union(gone))
        if block is None:
            self._damaged(raw.first, stop, "a block has no whole record in it")
            return None
        for sequence in block.missing:
            self._damaged(sequence, sequence + 1, "a record does not match its checksum")
        if version == self.version:
            self._cache.add(self.identity, raw.first, block)
        return block

    def _damaged(self, start: int, stop: int, reason: str) -> None:
        start, stop = max(start, self._bounds.first), min(stop, self._bounds.last + 1)
        if start < stop:
            self._owner.troubles.recordsDamaged(self.name, start, stop, reason)

    @inlineCallbacks
    def sequenceAt(self, timestamp: int) -> Generator[Deferred[Any], Any, int]:
        if self.closed is not None:
            raise self.closed
        first, last = self._bounds.first, self._lastInDatabase
        version, ahead = self.version, self._ahead
        raws = yield self._owner.fetch(findTime, self.identity, first, last, timestamp)
        for raw in raws:
            block = self._keep(raw, version, ahead)
            if block is None:
                continue
            for index in block.living(first):
                isOlder = timestampOf(block.raw, block.starts[index]) < timestamp
                if block.sequences[index] <= last and not isOlder:
                    return block.sequences[index]
        for blob in ahead.blobs:
            sequence = sequenceOf(blob, 0)
            if timestampOf(blob, 0) >= timestamp and sequence not in ahead.gone:
                return sequence
        return self._bounds.last + 1

    def _newest(self) -> Deferred[int]:
        """
        The newest sequence that is there, damaged or not; 0 if there is none.
        """
        if self._ahead.blobs:
            return succeed(self._bounds.last)
        return newestIn(self._owner, self.identity, self._bounds)

    def recall(self, sequence: int) -> EncodedRecord | None:
        bounds, ahead = self._bounds, self._ahead
        if self.closed is not None or not bounds.first <= sequence <= bounds.last:
            return None
        known = ahead.recall(sequence) or self._cache.recall(self.identity, sequence)
        if known is None and sequence <= self._lastInDatabase and sequence not in ahead.gone:
            return self._quick.find(sequence, ahead, self.version)
        return known

    def recallLast(self, subject: bytes) -> int:
        known = self._lasts.find(subject)
        if known >= self._bounds.first or self.closed is not None or not self._row.indexed:
            return known
        ahead = self._ahead
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
        """
        A record that can be had at once.
        """
        found = self.recall(sequence)
        if found is not None:
            with suppress(Damaged):  # The one who reads it next tells the watchers.
                record = decode(*found, self.identity)
                if record.sequence == sequence:
                    return record
        return None

    @inlineCallbacks
    def _lookUpLast(self, subject: bytes) -> Generator[Deferred[Any], Any, Record | None]:
        before = 0
        while sequence := (yield self._lastOf(subject)):
            if sequence > self._bounds.last:
                # The database has it, and the reactor's thread will know soon.
                yield self._ask(BarrierJob()).addErrback(lambda failure: failure.trap(StoreError))
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
        """
        The last sequence of a subject; 0 without.
        """
        if self.closed is not None:
            raise self.closed
        if not self._row.indexed:
            return (yield self._newest()) if subject == self._row.sole else 0
        known = self._lasts.find(subject)
        if known >= self._bounds.first:
            return known
        ahead, epoch = self._ahead.lastOf(subject), self._lasts.epoch
        if ahead:
            return ahead
        version, records = self.version, self._ahead
        last, raws = yield self._owner.fetch(fetchLast, self.identity, subject)
        for each in raws:
            self._keep(each, version, records)
        if last:
            self._lasts.found(subject, last, epoch)
        return int(last)

    @inlineCallbacks
    def subjects(
        self, pattern: bytes, after: bytes = b"", limit: int = 0
    ) -> Generator[Deferred[Any], Any, dict[bytes, SubjectTally]]:
        if self.closed is not None:
            raise self.closed
        if not self._row.indexed:
            sole: dict[bytes, SubjectTally] = yield self._soleTally(pattern, after)
            return sole
        found = yield self._tallies.listed(lambda: self._ahead, pattern, after, limit)
        yield tighten([each for each in found if each.loose], self._bounds, self._fetchBlocks)
        return {each.subject: SubjectTally(each.count, each.first, each.last) for each in found}

    @inlineCallbacks
    def countSubjects(self) -> Generator[Deferred[Any], Any, int]:
        while self.closed is None:
            row = self._row
            if not row.indexed:
                return int(row.count > 0)
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

    @inlineCallbacks
    def readMatching(
        self, patterns: Sequence[bytes], sequence: int, limit: int = 256, maxBytes: int = 1048576
    ) -> Generator[Deferred[Any], Any, Matching]:
        if self.closed is not None:
            raise self.closed
        found: list[Record] = []
        if len(patterns) == 1 and self._row.indexed and not hasWildcard(patterns[0]):
            last = self._bounds.last
            sequences = yield self._tallies.all(self._ahead, patterns[0])
            if sequences is not None:
                wanted = [each for each in sequences if sequence <= each <= last]
                few: Matching = yield self._readFew(wanted, last, limit, maxBytes)
                return few
        verdicts = SubjectVerdicts(patterns)
        scanned = 0
        sequence = max(sequence, self._bounds.first)
        while scanned < SCANNED and sequence <= self._bounds.last:
            block = self._cache.find(self.identity, sequence)
            blocks = [block] if block is not None else (yield self._fetchBlocks(sequence, AHEAD))
            if not blocks:
                return Matching(found, self._bounds.last + 1)
            for each in blocks:
                scanned += len(each.sequences)
                sequence, maxBytes = self._select(found, each, sequence, verdicts, limit, maxBytes)
                if len(found) >= limit or maxBytes <= 0:
                    return Matching(found, sequence)
        return Matching(found, sequence)

    @inlineCallbacks
    def _readFew(
        self, sequences: Sequence[int], last: int, limit: int, maxBytes: int
    ) -> Generator[Deferred[Any], Any, Matching]:
        """
        Read single records; up to C{last} no others are wanted.
        """
        found: list[Record] = []
        for sequence in sequences:
            if len(found) >= limit or maxBytes <= 0:
                return Matching(found, sequence)
            record = self._recalled(sequence)
            records = [record] if record is not None else (yield self.read(sequence, 1))
            if records and records[0].sequence == sequence:
                found += records
                maxBytes -= sum(map(len, records[0][2:]))
        return Matching(found, last + 1)

    def _select(
        self,
        found: list[Record],
        block: Block,
        sequence: int,
        wanted: SubjectVerdicts | None,
        limit: int,
        maxBytes: int,
    ) -> tuple[int, int]:
        """
        @param wanted: C{None} for all subjects.
        @return: where to go on, and how many bytes are still wanted.
        """
        bounds = self._bounds
        index = block.indexOf(max(sequence, bounds.first))
        stop = block.indexOf(bounds.last + 1)
        while index < stop:
            records, index, maxBytes = block.select(
                index, stop, wanted, limit - len(found), maxBytes
            )
            found += records
            if index == stop:
                break
            if len(found) >= limit or maxBytes <= 0:
                return block.sequences[index], maxBytes
            number = block.sequences[index]
            self._damaged(number, number + 1, block.fault(index))
            index += 1
        isAll = stop == len(block.sequences)
        return max(block.last + 1 if isAll else bounds.last + 1, sequence), maxBytes

    @inlineCallbacks
    def _page(self, start: int, stop: int, maxBytes: int) -> Generator[Deferred[Any], Any, Page]:
        records = yield self.read(start, 4096, maxBytes)
        kept = [each for each in records if each.sequence < stop]
        full = len(kept) == len(records) and records
        following = records[-1].sequence + 1 if full else stop
        damaged = self._owner.troubles.damagedIn(self.name, start, following)
        return Page(kept, following, damaged)
