"""
Advance knowledge of the records that a limit per subject removes. The journal takes appends to such
a log only if these are known. So the log at once shows the state that the database will have. The
writing thread looks up unknown ones in the database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TypeAlias

import lmdb

from natsbroker.interfaces.records import StoreError
from natsbroker.storage.blocks import Block, readBlock
from natsbroker.storage.jobs import LogJob
from natsbroker.storage.lmdb.environment import Environment
from natsbroker.storage.lmdb.fetching import fetchBlocks
from natsbroker.storage.lmdb.layout import LogRow
from natsbroker.storage.lmdb.transaction import LMDBAppendJob
from natsbroker.storage.lmdb.writing import LMDBLogWriter
from natsbroker.storage.records import HEAD_SIZE, Damaged

LARGEST_LIMIT = 64
"""With a higher limit per subject records are counted only: what goes is left to the database."""

MOST_HEADS = 50_000
"""The most of the oldest records that are known."""

HEADS = 4096
"""The oldest records that are looked up at a time."""

SCANNED = 16384
"""A log with up to this many records is looked up as a whole."""

AHEAD = 1 << 18
"""The bytes of blocks that are read at a time."""

UNREADABLE = (lmdb.Error, OSError, StoreError, Damaged)

MOST_KNOWN = 100_000
"""The subjects and records of logs with limits per subject that are known between commits."""


Living: TypeAlias = tuple[int, tuple[int, ...] | None]
"""
The number of stored records of a subject, and their sequences, rising; C{None} if these are not
known. There is one for each append, so it has no class of its own.
"""

NOTHING: Living = (0, ())
UNKNOWN: Living = (0, None)


class TrimmedLog:
    """
    The known records of a log. Only the holder of the commit may change this.

    @ivar last: the last sequence in the database.
    @ivar subjects: the known records of subjects, including those in the journal.
    @ivar isScanned: whether there are no other subjects.
    @ivar isSettled: whether the log was only appended to while the journal filled up.
    @ivar sizes: the bytes of records, by sequence.
    @ivar heads: the oldest sequences in the database, rising.
    @ivar isAll: whether C{heads} has all of them.
    @ivar at: the place of the log's first record: in C{heads}, or behind it in the journal.
    @ivar gone: stored records that the limits remove because of those in the journal.
    """

    def __init__(self, row: LogRow) -> None:
        self._first = row.first
        self.last = row.last
        self.subjects: dict[bytes, Living] = {}
        self.isScanned = not row.count
        self.isSettled = False
        self.sizes: dict[int, int] = {}
        self.heads: list[int] = []
        self.isAll = not row.count
        self.at = 0
        self.gone: set[int] = set()
        self._block: Block | None = None

    def learn(
        self, environment: Environment, row: LogRow, subjects: Sequence[bytes], limit: int
    ) -> bool:
        """
        Look up the records that appends to subjects need to know. Return whether all are known
        then.
        """
        counts = Counter(subjects)
        isShort = self.isSettled and limit == 1
        try:
            return (
                self._learnSubjects(environment, row, counts, limit)
                and self._learnSizes(environment, row, counts, limit)
                and self._learnHeads(environment, row, len(subjects), isShort)
            )
        except UNREADABLE:
            return False  # The next commit to the database reports the damage.

    def of(self, subject: bytes) -> Living | None:
        return self.subjects.get(subject) or (NOTHING if self.isScanned else None)

    def _learnSubjects(
        self, environment: Environment, row: LogRow, counts: Counter[bytes], limit: int
    ) -> bool:
        unknown = [subject for subject in counts if subject not in self.subjects]
        if self.isScanned or not unknown:
            return True
        with environment.reading() as txn:
            for subject in unknown:
                key = environment.codec.tallyKey(row.identity, subject)
                raw = txn.get(key)
                living: Living = (0, () if limit <= LARGEST_LIMIT else None)
                if raw is not None:
                    tally = environment.codec.tally(key, raw)
                    if tally is None:
                        return False
                    listed = tally.complete and limit <= LARGEST_LIMIT
                    living = tally.count, tuple(tally.listed) if listed else None
                self.subjects[subject] = living
        return True

    def _learnSizes(
        self, environment: Environment, row: LogRow, counts: Counter[bytes], limit: int
    ) -> bool:
        for subject, added in counts.items():
            count, sequences = self.of(subject) or UNKNOWN
            excess = count + added - limit
            if excess > 0 and sequences is None:
                return False
            for sequence in (sequences or ())[: max(excess, 0)]:
                if sequence in self.sizes:
                    continue
                block = self._blockOf(environment, row, sequence)
                if block is None:
                    return False
                self.sizes[sequence] = block.length(block.indexOf(sequence))
        return True

    def _blockOf(self, environment: Environment, row: LogRow, sequence: int) -> Block | None:
        block = self._block
        if block is None or not block.first <= sequence <= block.last:
            raw = fetchBlocks(environment, row.identity, sequence, 1)[:1]
            block = readBlock(raw[0].raw, row.identity, raw[0].first) if raw else None
        if block is None or block.missing or not block.first <= sequence <= block.last:
            return None
        self._block = block
        return block if block.sequences[block.indexOf(sequence)] == sequence else None

    def _learnHeads(
        self, environment: Environment, row: LogRow, count: int, withSubjects: bool
    ) -> bool:
        """
        Look up the oldest records. C{withSubjects} means that they include all records of unknown
        subjects.
        """
        wanted = self.at + count + 1
        known = frozenset(self.subjects) if withSubjects else frozenset()
        while not self.isAll and len(self.heads) < wanted:
            start = self.heads[-1] + 1 if self.heads else self._first
            most = len(self.heads) + HEADS
            while start and len(self.heads) < most:
                raws = fetchBlocks(environment, row.identity, start, AHEAD)
                for raw in raws:
                    block = readBlock(raw.raw, row.identity, raw.first, raw.dead)
                    if block is None or block.missing:
                        return False
                    indexes = list(block.living(start))
                    self.heads += [block.sequences[index] for index in indexes]
                    if withSubjects:
                        self._note(block, indexes, known)
                start = raws[-1].following if raws else 0
            self.isAll = not start
        return True

    def _note(self, block: Block, indexes: Sequence[int], known: frozenset[bytes]) -> None:
        for index in indexes:
            subject, sequence = block.subject(index), block.sequences[index]
            if subject not in known:
                count, sequences = self.subjects.get(subject) or NOTHING
                self.subjects[subject] = count + 1, (*(sequences or ()), sequence)
                self.sizes[sequence] = block.length(index)

    def caughtUp(self, environment: Environment, row: LogRow, limit: int) -> bool:
        """Note that the journal is applied. If there were only appends, look up more."""
        self._block = None
        self.isSettled = True
        if not self.isScanned and row.count <= SCANNED and 0 < limit <= LARGEST_LIMIT:
            try:
                self._scan(environment, row)
            except UNREADABLE:
                return False  # The next append reports the damage.
            return True
        gone, last = self.gone, row.last
        heads = [head for head in self.heads[self.at :] if head not in gone]
        if self.isAll:
            heads += [number for number in range(self.last + 1, last + 1) if number not in gone]
            self.isAll = len(heads) <= MOST_HEADS
            del heads[MOST_HEADS:]
        self.heads, self.at, self.gone, self.last = heads, 0, set(), last
        return True

    def _scan(self, environment: Environment, row: LogRow) -> None:
        self.subjects, self.sizes, self.gone = {}, {}, set()
        self._first, self.last = row.first, row.last
        self.heads, self.at, self.isAll = [], 0, not row.count
        self.isScanned = self._learnHeads(environment, row, SCANNED, True)
        if not self.isScanned:
            self.subjects, self.sizes = {}, {}


class Trimming:
    """The change of a log by appends, made when they are durable."""

    def __init__(self, log: TrimmedLog) -> None:
        self._log = log
        self._subjects: dict[bytes, Living] = {}
        self._sizes: dict[int, int] = {}
        self._at = log.at
        self.gone: dict[int, bytes] = {}

    def append(self, job: LMDBAppendJob, row: LogRow, limit: int) -> bool:
        """Append records to a row. Return whether it is known which records the limits remove."""
        if job.subjects is None:
            return False
        log, subjects, sizes = self._log, self._subjects, self._sizes
        other = NOTHING if log.isScanned else None
        # Without a function for each record: there are as many as puts to a bucket.
        for sequence, (subject, blob) in enumerate(
            zip(job.subjects, job.blobs, strict=True), job.first
        ):
            living = subjects.get(subject) or log.subjects.get(subject, other)
            if living is None:
                return False
            count, sequences = living
            sizes[sequence] = len(blob) - HEAD_SIZE
            if sequences is not None:
                sequences = (*sequences, sequence) if limit <= LARGEST_LIMIT else None
            excess = count + 1 - limit
            if excess > 0:
                if sequences is None:
                    return False
                for oldest in sequences[:excess]:
                    size = sizes[oldest] if oldest in sizes else log.sizes.get(oldest)
                    if size is None:
                        return False
                    self.gone[oldest] = subject
                    row.count -= 1
                    row.size -= size
                count, sequences = limit - 1, sequences[excess:]
            subjects[subject] = count + 1, sequences
        return self._findFirst(row)

    def _findFirst(self, row: LogRow) -> bool:
        """Move to the first record that stays."""
        log = self._log
        heads, gone = log.heads, log.gone
        while row.first in self.gone or row.first in gone:
            self._at += 1
            if self._at < len(heads):
                row.first = heads[self._at]
            elif log.isAll:
                row.first = log.last + 1 + self._at - len(heads)
            else:
                return False
        return True

    def apply(self) -> None:
        log = self._log
        log.subjects.update(self._subjects)
        log.sizes.update(self._sizes)
        for sequence in self.gone:
            log.sizes.pop(sequence, None)
        log.gone.update(self.gone)
        log.at = self._at


class TrimJob(LogJob):
    """Deletes records from the database that limits removed because of records in the journal."""

    def __init__(self, identity: int, gone: Collection[int]) -> None:
        super().__init__(identity)
        self._gone = gone

    def applyTo(self, writer: LMDBLogWriter) -> None:
        writer.delete(self._gone)
