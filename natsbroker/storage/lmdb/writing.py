"""
One log in a write transaction: appends, deletions and limits, and the tallies of each subject if
the log has several. Deletions by limits are bounded by the amount that one commit wrote, so they
never stop writers. The next commits do the rest.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence, Set
from itertools import islice

from natsbroker.storage.blocks import NONE, Block, packDead
from natsbroker.storage.lmdb.blocklog import LogBlocks, ValueTransaction
from natsbroker.storage.lmdb.layout import (
    LISTED,
    LogRow,
    Tally,
    deadKey,
    holdsKey,
    lostKey,
    packHolds,
    packRanges,
    rowKey,
    tallyPrefix,
    unpackRanges,
)
from natsbroker.storage.policy import Policy
from natsbroker.storage.records import Encoded

MOST_LISTED = 1024
"""The most sequences that a tally lists."""

BLOCKS_A_SLICE = 64
SUBJECTS_A_SLICE = 200
KEYS_A_SLICE = 1000
"""The amount that is deleted in one commit, beyond what was written in it."""


class LMDBLogWriter(LogBlocks):
    """Writes a log. C{named} are the subjects that got a tally."""

    def __init__(self, transaction: ValueTransaction, row: LogRow, policy: Policy) -> None:
        super().__init__(transaction, row)
        self._policy = policy
        self._tallies: dict[bytes, Tally] = {}
        self._added: set[bytes] = set()
        self.named: set[bytes] = set()
        self._counted: list[bytes] = []
        self._uncounted: set[int] = set()
        self.discardTo = 0
        self.trimmed = True
        self.oldest: int | None = None

    def append(
        self,
        first: int,
        encoded: Encoded,
        sole: bytes,
        subjects: Sequence[bytes] | None,
        gone: Set[int] = NONE,
    ) -> None:
        """
        Append records. C{sole} is the subject of all of them, if C{subjects} is C{None}. C{gone}
        are records that L{delete} is called with later; they are not counted.
        """
        row, blobs = self.row, encoded.blobs
        sequences = range(first, first + len(blobs))
        if subjects is not None:
            self._beginIndex()
            self._count(subjects, sequences, gone)
        elif not row.indexed:
            row.sole = sole
        else:
            self._count([sole] * len(blobs), sequences)
        row.grow(first, encoded)
        self._runs.append(sequences)
        self._blobs.extend(blobs)

    def _beginIndex(self) -> None:
        """
        Begin an index, because there is now more than one subject: make the tally of the first one.
        """
        row = self.row
        if row.indexed:
            return
        row.indexed = True
        if row.count:
            self.flush()
            tally = Tally(row.sole, row.count, row.first)
            tally.listed.extend(self._newest(LISTED))
            tally.last = tally.listed[-1] if tally.listed else row.last
            self._tallies[row.sole] = tally
            self._added.add(row.sole)
        row.sole = b""

    def _tally(self, subject: bytes) -> Tally | None:
        tally = self._tallies.get(subject)
        if tally is None:
            codec = self._transaction.codec
            key = codec.tallyKey(self.row.identity, subject)
            raw = self._transaction.txn.get(key)
            if raw is None:
                return None
            tally = codec.tally(key, raw) or self._recount(subject)
            self._tallies[subject] = tally
        return tally

    def _newTally(self, subject: bytes) -> Tally:
        self._added.add(subject)
        tally = self._tallies[subject] = Tally(subject)
        return tally

    def _count(
        self, subjects: Sequence[bytes], sequences: Sequence[int], gone: Set[int] = NONE
    ) -> None:
        keep = max(LISTED, min(self._policy.retention.perSubject, MOST_LISTED))
        sequencesBySubject: dict[bytes, list[int]] = {}
        for subject, sequence in zip(subjects, sequences, strict=True):
            if sequence in gone:
                self._uncounted.add(sequence)
            else:
                sequencesBySubject.setdefault(subject, []).append(sequence)
        for subject, new in sequencesBySubject.items():
            tally = self._tally(subject)
            if tally is None:
                tally = self._newTally(subject)
            tally.add(new, keep)
        self._counted += sequencesBySubject

    def _uncount(self, block: Block, indexes: Sequence[int]) -> None:
        if not self.row.indexed:
            return
        emptied = set()
        sequences, uncounted = block.sequences, self._uncounted
        for index in indexes:
            sequence = sequences[index]
            if sequence in uncounted:
                continue
            subject = block.subject(index)
            tally = self._tally(subject)
            if tally is not None and tally.count:
                tally.remove(sequence)
                if tally.count and not tally.listed:
                    emptied.add(subject)
        for subject in emptied:
            tally = self._tallies[subject]
            gone = {sequences[index] for index in indexes}
            self._tallies[subject] = self._recount(subject, tally.first, gone)

    def _recount(self, subject: bytes, start: int = 0, without: Collection[int] = ()) -> Tally:
        self.flush()
        tally = Tally(subject)
        sequences = [
            sequence
            for sequence in self._sequencesOf(subject, start)
            if not (sequence in without or sequence in self._uncounted)
        ]
        if sequences:
            tally.add(sequences, MOST_LISTED)
        return tally

    def recountAll(self) -> None:
        transaction, row = self._transaction, self.row
        while transaction.deleteSome(tallyPrefix(row.identity), KEYS_A_SLICE):
            pass
        self._tallies, row.tallies = {}, 0
        for block in self.blocksFrom(row.first):
            for index in block.living(row.first):
                subject = block.subject(index)
                tally = self._tallies.get(subject)
                if tally is None:
                    tally = self._newTally(subject)
                tally.add((block.sequences[index],), MOST_LISTED)

    def _writeTallies(self) -> None:
        transaction = self._transaction
        for subject, tally in self._tallies.items():
            key = transaction.codec.tallyKey(self.row.identity, subject)
            if tally.count:
                transaction.put(key, tally.pack())
                self.row.tallies += subject in self._added
            else:
                self.row.tallies -= transaction.txn.delete(key)
        self._tallies = {}
        self.named |= self._added
        self._added.clear()

    def skipTo(self, sequence: int) -> None:
        if sequence > self.row.last + 1:
            self.row.last = sequence - 1
            if not self.row.count:
                self.row.first = sequence

    def delete(self, sequences: Collection[int]) -> int:
        self.flush()
        wanted = sorted(set(sequences))
        position, end = bisect_left(wanted, self.row.first), bisect_right(wanted, self.row.last)
        deleted = 0
        while position < end:
            block = next(self.blocksFrom(wanted[position]), None)
            if block is None:
                break
            stop = bisect_right(wanted, block.last, position, end)
            indexes = block.livingOf(wanted[position:stop])
            # The block before a gap in the log ends below the sequence that lies in the gap.
            position = max(stop, position + 1)
            if indexes:
                deleted += len(indexes)
                self._kill(block, indexes)
        if deleted:
            self._findFirst()
        return deleted

    def _kill(self, block: Block, indexes: Sequence[int]) -> None:
        row, transaction = self.row, self._transaction
        row.count -= len(indexes)
        row.size -= block.lengths(indexes)
        self._uncount(block, indexes)
        block.dead = block.dead.union(map(block.sequences.__getitem__, indexes))
        first = self._keyOf(block)
        self._touch(first)
        living = list(block.living())
        if not living:
            self._forget(block)
        elif len(living) * 2 < len(block.sequences) and not block.missing:
            self._rewrite(block, living)
        else:
            transaction.put(deadKey(row.identity, first), packDead(first, block.dead))

    def lose(self, sequence: int) -> None:
        """
        Stop counting a damaged record. Its bytes stay, and the tally still names it, so that the
        last record of a subject is known to be lost.
        """
        self.flush()
        row, transaction = self.row, self._transaction
        first = self._floor(sequence)
        block = None if first is None else self._blockAt(first)
        if first is None or block is None or sequence in block.dead or sequence < row.first:
            return
        index = block.indexOf(sequence)
        isThere = index < len(block.sequences) and block.sequences[index] == sequence
        if not isThere or not block.fault(index):
            return
        row.count -= 1
        row.size -= block.length(index)
        self._touch(first)
        dead = block.dead.union((sequence,))
        transaction.put(deadKey(row.identity, first), packDead(first, dead))
        key = lostKey(row.identity)
        ranges = unpackRanges(transaction.get(key) or b"")
        transaction.put(key, packRanges([*ranges, (sequence, sequence + 1)]))
        self._findFirst()

    def trim(self) -> bool:
        """Remove records by the limits. Return whether this commit has done all of it."""
        row, policy = self.row, self._policy
        budget = max(BLOCKS_A_SLICE, 4 * self._written)
        while row.count and (
            row.first < self.discardTo
            or policy.isExceeded(row.count, row.size)
            or policy.retention.age
        ):
            if budget <= 0:
                return False
            budget -= 1
            head = self._head()
            if head is None:
                self._findFirst()
                return True
            if not self._trimBlock(*head):
                return True
        return True

    def _trimBlock(self, block: Block, index: int) -> bool:
        """Remove records from the first block, whose oldest record has C{index}."""
        row, policy, floor = self.row, self._policy, self._policy.floor
        age = policy.retention.age
        cutoff = self._transaction.now - age if age else 0
        gone = []
        kept = -1
        for place in block.living(block.sequences[index]):
            sequence = block.sequences[place]
            must = sequence < self.discardTo or policy.isExceeded(row.count, row.size)
            must = must or block.timestamp(place) < cutoff
            if not must or (floor is not None and sequence >= floor):
                kept = place
                break
            row.count -= 1
            row.size -= block.length(place)
            gone.append(place)
        self._uncount(block, gone)
        if kept >= 0:
            row.first = block.sequences[kept]
            return False
        self._transaction.heads.pop(row.identity, None)
        self._forget(block)
        row.first = block.last + 1
        self._findFirst()
        return True

    @property
    def isLimited(self) -> bool:
        return bool(self._policy.retention.perSubject)

    def trimSubjects(self) -> bool:
        """Remove records by the limit per subject. Return whether all is done."""
        limit = self._policy.retention.perSubject
        if not limit:
            return True
        if not self.row.indexed:
            if self.row.sole and self.row.count > limit:
                self.discardTo = max(self.discardTo, self._sequenceFromEnd(limit))
            return True
        counted, self._counted = self._counted, []
        if self._policy.sweep is not None:
            counted += self._sweepOn(self._policy.sweep, limit)
        self.delete(self._excess(counted, limit))
        return self._policy.sweep is None

    def _sweepOn(self, after: bytes, limit: int) -> list[bytes]:
        """
        Find some of the subjects that have too many records, and note how far the search went.
        """
        prefix = tallyPrefix(self.row.identity)
        subjects: list[bytes] = []
        seen = 0
        self._writeTallies()
        with self._transaction.txn.cursor() as cursor:
            more = cursor.set_range(max(prefix, after + b"\0"))
            while more and cursor.key().startswith(prefix):
                tally = self._transaction.codec.tally(cursor.key(), cursor.value())
                if tally is not None and tally.count > limit:
                    subjects.append(tally.subject)
                seen += 1
                if len(subjects) >= SUBJECTS_A_SLICE or seen >= KEYS_A_SLICE:
                    self._policy.sweep = cursor.key()
                    return subjects
                more = cursor.next()
        self._policy.sweep = None
        return subjects

    def lookAt(self, subjects: Collection[bytes]) -> None:
        self._counted += subjects

    def _excess(self, subjects: Iterable[bytes], limit: int) -> list[int]:
        floor = self._policy.floor
        beyond: list[int] = []
        for subject in set(subjects):
            tally = self._tally(subject)
            excess = tally.count - limit if tally is not None else 0
            if tally is None or excess <= 0:
                continue
            if tally.complete:
                beyond += tally.listed[:excess]
            else:
                self.flush()
                beyond += islice(self._sequencesOf(subject, tally.first), excess)
        return [candidate for candidate in beyond if floor is None or candidate < floor]

    def sweep(self) -> None:
        if self._policy.retention.perSubject:
            self._policy.sweep = b""

    def putHolds(self) -> None:
        self._transaction.put(holdsKey(self.row.identity), packHolds(self._policy.holds))
        self.sweep()

    def finish(self) -> None:
        self.flush()
        transaction, row = self._transaction, self.row
        if not (row.dropped or row.quarantined):
            swept = self.trimSubjects()
            self.trimmed = self.trim()
            if not (swept and self.trimmed):
                transaction.unfinished.add(row.identity)
            self._noteOldest()
        self._writeTallies()
        transaction.put(rowKey(row.identity), row.pack())

    def _noteOldest(self) -> None:
        if self._policy.retention.age and self.row.count:
            head = self._head()
            if head is not None:
                block, index = head
                self.oldest = block.timestamp(index)
