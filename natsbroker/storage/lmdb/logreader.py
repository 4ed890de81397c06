"""
The records of a log, read and verified in the reactor's thread. Blocks in memory are read at once,
others when a thread has fetched them. A damaged record is reported and left out.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any, cast

from twisted.internet.defer import Deferred, fail, inlineCallbacks, succeed
from twisted.python.failure import Failure

from natsbroker.interfaces.records import (
    Columns,
    EncodedRecord,
    Matching,
    Record,
    RecordList,
    StoreError,
)
from natsbroker.storage.blocks import Block, readBlock
from natsbroker.storage.exports import Page, canGather
from natsbroker.storage.jobs import BarrierJob
from natsbroker.storage.lmdb.ahead import AHEAD, RecordsAhead, TallyReader
from natsbroker.storage.lmdb.cache import BlockCache, QuickRecords
from natsbroker.storage.lmdb.fetching import RawBlock, fetchBlocks, fetchColumns, findTime
from natsbroker.storage.lmdb.layout import LogRow
from natsbroker.storage.lmdb.writing import LMDBLogWriter
from natsbroker.storage.policy import Policy
from natsbroker.storage.records import sequenceOf, timestampOf
from natsbroker.storage.threaded import OwnedLog, ThreadedStore
from natsbroker.subjects.grammar import hasWildcard
from natsbroker.subjects.verdicts import SubjectVerdicts

SCANNED = 16384
"""The records that one call looks at in search of subjects."""

MOST_AHEAD = 1 << 20
"""The bytes of blocks that are fetched at a time for a reader that wants as many."""

RECORD_SIZE = 512
"""The most bytes that a record of unknown size is taken to need."""


class LogReader(OwnedLog):
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
        self._lost: set[int] = set()

    @property
    def _lastInDatabase(self) -> int:
        return self._ahead.first - 1 if self._ahead.blobs else self._bounds.last

    def read(
        self, sequence: int, limit: int = 256, maxBytes: int = 1048576
    ) -> Deferred[list[Record]]:
        records: list[Record] = []
        return self.collect(records, (), sequence, limit, maxBytes).addCallback(lambda _: records)

    @inlineCallbacks
    def readMatching(
        self, patterns: Sequence[bytes], sequence: int, limit: int = 256, maxBytes: int = 1048576
    ) -> Generator[Deferred[Any], Any, Matching]:
        records: list[Record] = []
        following = yield self.collect(records, patterns, sequence, limit, maxBytes)
        return Matching(records, following)

    def collect(
        self,
        records: RecordList,
        patterns: Sequence[bytes],
        sequence: int,
        limit: int = 256,
        maxBytes: int = 1048576,
    ) -> Deferred[int]:
        if self.closed is not None:
            return fail(self.closed)
        if patterns:
            return self._collectMatching(records, patterns, sequence, limit, maxBytes)
        last = self._bounds.last
        sequence = max(sequence, self._bounds.first)
        while len(records) < limit and maxBytes > 0 and sequence <= last:
            block = self._cache.find(self.identity, sequence)
            if block is None:
                return self._collectOn(records, sequence, limit, maxBytes)
            sequence, maxBytes = self._select(records, block, sequence, None, limit, maxBytes)
        return succeed(sequence)

    @inlineCallbacks
    def _collectOn(
        self, records: RecordList, sequence: int, limit: int, maxBytes: int
    ) -> Generator[Deferred[Any], Any, int]:
        while len(records) < limit and maxBytes > 0 and sequence <= self._bounds.last:
            enough = min(maxBytes * 2, limit * RECORD_SIZE, MOST_AHEAD)
            last = self._bounds.last  # What becomes known during the fetch may not be in it.
            blocks = yield self._fetchBlocks(sequence, enough)
            if not blocks:
                return last + 1
            for block in blocks:
                if len(records) < limit and maxBytes > 0:
                    sequence, maxBytes = self._select(
                        records, block, sequence, None, limit, maxBytes
                    )
        return sequence

    @inlineCallbacks
    def _collectMatching(
        self,
        records: RecordList,
        patterns: Sequence[bytes],
        sequence: int,
        limit: int,
        maxBytes: int,
    ) -> Generator[Deferred[Any], Any, int]:
        if len(patterns) == 1 and self._row.indexed and not hasWildcard(patterns[0]):
            following: int = yield self._collectOne(records, patterns[0], sequence, limit, maxBytes)
            if following:
                return following
        verdicts = SubjectVerdicts(patterns)
        scanned = 0
        enough = min(max(limit * RECORD_SIZE, AHEAD), MOST_AHEAD)
        sequence = max(sequence, self._bounds.first)
        while scanned < SCANNED and sequence <= self._bounds.last:
            last = self._bounds.last  # What becomes known during the fetch may not be in it.
            block = self._cache.find(self.identity, sequence)
            blocks = [block] if block is not None else (yield self._fetchBlocks(sequence, enough))
            if not blocks:
                return last + 1
            for fetched in blocks:
                scanned += len(fetched.sequences)
                sequence, maxBytes = self._select(
                    records, fetched, sequence, verdicts, limit, maxBytes
                )
                if len(records) >= limit or maxBytes <= 0:
                    return sequence
        return sequence

    @inlineCallbacks
    def _collectOne(
        self, records: RecordList, subject: bytes, sequence: int, limit: int, maxBytes: int
    ) -> Generator[Deferred[Any], Any, int]:
        """
        Read records of one subject. Return where to continue; 0 if not all of them are listed.
        """
        before: Sequence[int] = ()
        while True:
            last = self._bounds.last
            sequences = yield self._tallies.all(self._ahead, subject)
            if sequences is None:
                return 0
            deleted = self._ahead.deleted
            wanted = [later for later in sequences if later >= sequence and later not in deleted]
            # The list has all up to its own last one, also where the reactor's thread has not.
            last = max(last, wanted[-1] if wanted else 0)
            yield self._known(last)
            length = len(records)
            following: int = yield self._collectFew(records, wanted, last, limit, maxBytes)
            if len(records) > length or not wanted or wanted == before:
                return following
            # Newer records may have replaced all of them meanwhile.
            before = wanted

    @inlineCallbacks
    def _known(self, last: int) -> Generator[Deferred[Any], Any, None]:
        """Wait until the reactor's thread knows a record that the database has."""
        if last > self._bounds.last:
            yield self._ask(BarrierJob()).addErrback(lambda failure: failure.trap(StoreError))

    @inlineCallbacks
    def _collectFew(
        self, records: RecordList, sequences: Sequence[int], last: int, limit: int, maxBytes: int
    ) -> Generator[Deferred[Any], Any, int]:
        """Read single records. No others are wanted up to C{last}."""
        for sequence in sequences:
            if len(records) >= limit or maxBytes <= 0:
                return sequence
            before = len(records)
            known = self.recall(sequence)
            if known is not None:
                starts = array("I", known[1:])
                block = Block(known[0], self.identity, range(sequence, sequence + 1), starts)
                _, maxBytes = block.select(records, 0, 1, None, limit, maxBytes)
            if len(records) == before:
                blocks = yield self._fetchBlocks(sequence, 1)
                for block in blocks[:1]:
                    _, maxBytes = self._select(
                        records, block, sequence, None, limit, maxBytes, sequence
                    )
        return last + 1

    @inlineCallbacks
    def exportRange(
        self, start: int, stop: int, maxBytes: int = 16777216
    ) -> Generator[Deferred[Any], Any, Columns]:
        """Export a range. A reading thread puts whole blocks into columns, if that is compiled."""
        first = max(start, self._bounds.first)
        last = min(stop, self._lastInDatabase + 1)
        if canGather() and first < last and maxBytes > 0 and not self._ahead.gone:
            if self.closed is not None:
                raise self.closed
            gathered: Columns | None = yield self._owner.fetch(
                fetchColumns, self.identity, first, last, maxBytes
            )
            if self.closed is not None:
                raise self.closed
            if gathered is not None and gathered.next > start:
                lost = self._owner.troubles.damagedIn(self.name, start, gathered.next)
                return replace(gathered, damaged=tuple(lost))
        columns: Columns = yield super().exportRange(start, stop, maxBytes)
        return columns

    @inlineCallbacks
    def _fetchBlocks(
        self, sequence: int, enough: int
    ) -> Generator[Deferred[Any], Any, list[Block]]:
        """Fetch the blocks from the one that holds a sequence, up to the one that reaches it."""
        while True:
            if self.closed is not None:
                raise self.closed
            ahead = self._ahead
            if sequence > self._lastInDatabase:
                return ahead.block(self.identity, sequence, enough)
            version = self.version
            raws = yield self._owner.fetch(fetchBlocks, self.identity, sequence, enough)
            blocks = [self._keep(raw, version, ahead) for raw in raws]
            useful = [block for block in blocks if block is not None and block.last >= sequence]
            yield self._known(useful[-1].last if useful else 0)
            if useful:
                return useful
            if not raws or not raws[-1].following:
                return ahead.block(self.identity, sequence, enough)
            sequence = raws[-1].following

    def _keep(self, raw: RawBlock, version: int, ahead: RecordsAhead) -> Block | None:
        """Keep a block, unless the log's version has changed since it was fetched."""
        stop = raw.following or self._lastInDatabase + 1
        gone = ahead.goneIn(range(raw.first, stop))
        block = readBlock(raw.raw, self.identity, raw.first, raw.dead.union(gone))
        if block is None:
            self.damaged(raw.first, stop, "a block has no whole record in it")
            return None
        for sequence in block.missing:
            self.damaged(sequence, sequence + 1, "a record does not match its checksum")
        if version == self.version:
            self._cache.add(self.identity, raw.first, block)
        return block

    def damaged(self, start: int, stop: int, reason: str) -> None:
        """Report damaged records. A single one is no longer counted."""
        start, stop = max(start, self._bounds.first), min(stop, self._bounds.last + 1)
        if start < stop:
            self._owner.troubles.recordsDamaged(self.name, start, stop, reason)
        if start + 1 == stop and start not in self._lost:
            self._lost.add(start)
            losing = self._askWriter(lambda writer: cast(LMDBLogWriter, writer).lose(start))
            losing.addErrback(self._notLost, start)

    def _notLost(self, failure: Failure, sequence: int) -> None:
        """Ignore the failure. The next read of the record tries again."""
        failure.trap(StoreError)
        self._lost.discard(sequence)

    @inlineCallbacks
    def sequenceAt(self, timestamp: int) -> Generator[Deferred[Any], Any, int]:
        if self.closed is not None:
            raise self.closed
        first, last = self._bounds.first, self._lastInDatabase
        end = self._bounds.last + 1
        version, ahead = self.version, self._ahead
        raws = yield self._owner.fetch(findTime, self.identity, first, last, timestamp)
        for raw in raws:
            block = self._keep(raw, version, ahead)
            if block is None:
                continue
            for index in block.living(first):
                isOlder = block.timestamp(index) < timestamp
                if block.sequences[index] <= last and not isOlder:
                    return block.sequences[index]
        for blob in ahead.blobs:
            sequence = sequenceOf(blob, 0)
            if timestampOf(blob, 0) >= timestamp and sequence not in ahead.gone:
                return sequence
        yield self._known(end)  # Newer records may have replaced those of the time.
        return end

    def _select(
        self,
        records: RecordList,
        block: Block,
        sequence: int,
        wanted: SubjectVerdicts | None,
        limit: int,
        maxBytes: int,
        most: int | None = None,
    ) -> tuple[int, int]:
        """
        Select records. Return where to continue, and the bytes still wanted; C{most} may be
        C{None}.
        """
        bounds = self._bounds
        last = bounds.last if most is None else most
        index = block.indexOf(max(sequence, bounds.first))
        stop = block.indexOf(last + 1)
        while index < stop:
            index, maxBytes = block.select(records, index, stop, wanted, limit, maxBytes)
            if index == stop:
                break
            if len(records) >= limit or maxBytes <= 0:
                return block.sequences[index], maxBytes
            number = block.sequences[index]
            self.damaged(number, number + 1, block.fault(index))
            index += 1
        isAll = stop == len(block.sequences)
        return max(block.last + 1 if isAll else last + 1, sequence), maxBytes

    @inlineCallbacks
    def _page(self, start: int, stop: int, maxBytes: int) -> Generator[Deferred[Any], Any, Page]:
        records = yield self.read(start, 4096, maxBytes)
        kept = [record for record in records if record.sequence < stop]
        full = len(kept) == len(records) and records
        following = records[-1].sequence + 1 if full else stop
        damaged = self._owner.troubles.damagedIn(self.name, start, following)
        return Page(kept, following, damaged)

    def recall(self, sequence: int) -> EncodedRecord | None:
        bounds, ahead = self._bounds, self._ahead
        if self.closed is not None or not bounds.first <= sequence <= bounds.last:
            return None
        known = ahead.recall(sequence) or self._cache.recall(self.identity, sequence)
        if known is None and sequence <= self._lastInDatabase and sequence not in ahead.gone:
            return self._quick.find(sequence, ahead, self.version)
        return known
