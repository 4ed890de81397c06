"""
A log in the reactor's thread: gives sequences, encodes what is appended, finds subjects.

See the interfaces.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, fail, inlineCallbacks
from zope.interface import implementer

from natsbroker.interfaces import IExportableLog, IHeldLog, ISubjectIndexedLog
from natsbroker.interfaces.records import (
    Entry,
    LogReadOnly,
    Matching,
    Record,
    RecordDamaged,
    SubjectTally,
)
from natsbroker.storage.blocks import Block
from natsbroker.storage.exports import Page
from natsbroker.storage.jobs import BarrierJob, Job
from natsbroker.storage.lmdb.jobs import LMDBAppendJob, isTallied
from natsbroker.storage.lmdb.layout import LogRow, Tally
from natsbroker.storage.lmdb.reading import fetchTallies
from natsbroker.storage.lmdb.readlog import ILMDBOwner, ReadableLog
from natsbroker.storage.policy import Policy
from natsbroker.storage.records import Damaged, encodeBatch, subjectOf
from natsbroker.subjects.grammar import hasWildcard, matches

T = TypeVar("T")

AHEAD = 1 << 18
"""How many bytes of blocks are fetched at a time."""

SCANNED = 16384
"""How many records one call looks at in search of subjects."""

TALLIES = 2000
"""How many tallies are looked at in one go."""


@implementer(IHeldLog, ISubjectIndexedLog, IExportableLog)
class LMDBLog(ReadableLog):
    def __init__(self, owner: ILMDBOwner, row: LogRow, policy: Policy) -> None:
        super().__init__(owner, row, policy)
        self._row = row
        self._sole = row.sole
        self._indexed = row.indexed

    # What the store tells it

    def committed(self, row: LogRow, oldest: int | None) -> None:
        """
        @param oldest: the timestamp of the oldest record, if that is known.
        """
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
        self.nextSequence = max(self.nextSequence, following)
        self._lastTime = max(self._lastTime, lastTime)

    # Writing

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
        job = LMDBAppendJob(
            self.identity, first, encoded.blobs, encoded.size, encoded.lastTime, sole, subjects
        )
        deferred = self._ask(job)
        if not deferred.called:
            self.nextSequence = first + len(encoded.blobs)
            self._lastTime = encoded.lastTime
            self._indexed = indexed
            self._sole = b"" if indexed else sole
        return deferred

    def _ask(self, job: Job) -> Deferred[Any]:
        if self.closed is None and self._row.quarantined:
            return fail(LogReadOnly(f"log {self.name} is in quarantine"))
        return super()._ask(job)

    # Subjects

    @inlineCallbacks
    def lastFor(self, subject: bytes) -> Generator[Deferred[Any], Any, Record | None]:
        if self.closed is not None:
            raise self.closed
        if not self._row.indexed and subject != self._row.sole:
            return None
        if self._row.indexed:
            tallies, _ = yield self._owner.fetch(fetchTallies, self.identity, subject, b"", 1, 1)
            if not tallies and not hasWildcard(subject):
                return None
            sequence = tallies[0].last if tallies else 0
        else:
            sequence = yield self._newest()
        if not self._bounds.first <= sequence <= self._bounds.last:
            return None
        records: list[Record] = yield self.read(sequence, 1)
        if not records or records[0].sequence != sequence:
            raise RecordDamaged(self.name, sequence)
        return records[0]

    @inlineCallbacks
    def subjects(
        self, pattern: bytes, after: bytes = b"", limit: int = 0
    ) -> Generator[Deferred[Any], Any, dict[bytes, SubjectTally]]:
        if self.closed is not None:
            raise self.closed
        if not self._row.indexed:
            sole: dict[bytes, SubjectTally] = yield self._soleTally(pattern, after)
            return sole
        found: list[Tally] = []
        more = True
        while more and (not limit or len(found) < limit):
            most = limit - len(found) if limit else TALLIES
            tallies, after = yield self._owner.fetch(
                fetchTallies, self.identity, pattern, after, most, TALLIES
            )
            found += tallies
            more = bool(after)
        yield self._tighten([each for each in found if each.loose])
        return {each.subject: SubjectTally(each.count, each.first, each.last) for each in found}

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
    def _tighten(self, tallies: list[Tally]) -> Generator[Deferred[Any], Any, None]:
        """
        Find the first records of subjects of which only a lower bound is known.
        """
        wanted = {each.subject: each for each in tallies}
        sequence = min((each.first for each in tallies), default=0)
        sequence = max(sequence, self._bounds.first)
        while wanted and sequence <= self._bounds.last:
            blocks = yield self._fetchBlocks(sequence, AHEAD)
            if not blocks:
                break
            for block in blocks:
                for index in block.living():
                    number = block.sequences[index]
                    subject = subjectOf(block.raw, block.starts[index])
                    tally = wanted.get(subject)
                    if tally is not None and number >= max(tally.first, self._bounds.first):
                        tally.first = number
                        del wanted[subject]
            sequence = blocks[-1].last + 1

    @inlineCallbacks
    def readMatching(
        self, patterns: Sequence[bytes], sequence: int, limit: int = 256, maxBytes: int = 1048576
    ) -> Generator[Deferred[Any], Any, Matching]:
        if self.closed is not None:
            raise self.closed
        found: list[Record] = []
        verdicts: dict[bytes, bool] = {}
        scanned = 0
        sequence = max(sequence, self._bounds.first)
        while scanned < SCANNED and sequence <= self._bounds.last:
            block = self._owner.cache.find(self.identity, sequence)
            blocks = [block] if block is not None else (yield self._fetchBlocks(sequence, AHEAD))
            if not blocks:
                return Matching(found, self._bounds.last + 1)
            for each in blocks:
                scanned += len(each.sequences)
                sequence, maxBytes = self._select(
                    found, each, sequence, patterns, verdicts, limit, maxBytes
                )
                if len(found) >= limit or maxBytes <= 0:
                    return Matching(found, sequence)
        return Matching(found, sequence)

    def _select(
        self,
        found: list[Record],
        block: Block,
        sequence: int,
        patterns: Sequence[bytes],
        verdicts: dict[bytes, bool],
        limit: int,
        maxBytes: int,
    ) -> tuple[int, int]:
        """
        Take those records from a block whose subject matches.

        @param verdicts: what is known of subjects already.
        @return: where to go on, and how many bytes are still wanted.
        """
        bounds = self._bounds
        for index in range(block.indexOf(sequence), len(block.sequences)):
            number = block.sequences[index]
            if number > bounds.last:
                return bounds.last + 1, maxBytes
            if number < bounds.first or number in block.dead:
                continue
            subject = subjectOf(block.raw, block.starts[index])
            verdict = verdicts.get(subject)
            if verdict is None:
                verdict = any(matches(each, subject) for each in patterns)
                verdicts[subject] = verdict
            try:
                record = block.record(index) if verdict else None
            except Damaged as failure:
                self._damaged(number, number + 1, str(failure))
                record = None
            if record is not None:
                found.append(record)
                maxBytes -= block.length(index)
                if len(found) >= limit or maxBytes <= 0:
                    return number + 1, maxBytes
        return max(block.last + 1, sequence), maxBytes

    # Exports

    @inlineCallbacks
    def _page(self, start: int, stop: int, maxBytes: int) -> Generator[Deferred[Any], Any, Page]:
        records = yield self.read(start, 4096, maxBytes)
        kept = [each for each in records if each.sequence < stop]
        full = len(kept) == len(records) and records
        following = records[-1].sequence + 1 if full else stop
        damaged = self._owner.troubles.damagedIn(self.name, start, following)
        return Page(kept, following, damaged)
