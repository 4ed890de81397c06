"""
One write transaction. It uses copies of rows, which the commit thread keeps if the transaction
succeeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import lmdb

from natsbroker.storage.blocks import Block
from natsbroker.storage.envelopes import unwrap
from natsbroker.storage.jobs import AppendJob, ChangeJob, Job, LogJob
from natsbroker.storage.lmdb.blocklog import ValueTransaction
from natsbroker.storage.lmdb.encryption.codec import PlainCodec
from natsbroker.storage.lmdb.encryption.subjectnames import SubjectNames
from natsbroker.storage.lmdb.environment import Environment
from natsbroker.storage.lmdb.layout import (
    FORMAT_KEY,
    LogRow,
    blockKey,
    deadKey,
    holdsKey,
    lostKey,
    packFormat,
    rowKey,
    tallyPrefix,
)
from natsbroker.storage.lmdb.writing import BLOCKS_A_SLICE, LMDBLogWriter
from natsbroker.storage.policy import Policy
from natsbroker.storage.records import (
    HEAD_SIZE,
    Damaged,
    Encoded,
    sequenceOf,
    subjectOf,
    timestampOf,
)

KEYS_A_SLICE = 1000
"""The values of a dropped log that are deleted in one commit."""

_NONE: frozenset[int] = frozenset()

LONGEST_SOLE = 1000
"""A log of one subject has no tallies unless that subject is longer than this."""


class LMDBTransaction(ValueTransaction):
    def __init__(
        self,
        txn: lmdb.Transaction[bytes],
        mark: bytes,
        generation: int,
        rows: dict[int, LogRow],
        policies: dict[int, Policy],
        heads: dict[int, Block],
        now: int,
        codec: PlainCodec,
    ) -> None:
        super().__init__(txn, mark, generation, heads, now, codec)
        self._rows = rows
        self._policies = policies
        self.writers: dict[int, LMDBLogWriter] = {}

    def log(self, identity: int) -> LMDBLogWriter:
        writer = self.writers.get(identity)
        if writer is None:
            policy = self._policies.get(identity) or Policy()
            writer = LMDBLogWriter(self, self._rows[identity].copy(), policy)
            self.writers[identity] = writer
        return writer

    def create(self, row: LogRow) -> None:
        policy = self._policies.get(row.identity) or Policy()
        self.writers[row.identity] = LMDBLogWriter(self, row.copy(), policy)

    def change(self, space: str, changes: Mapping[bytes, bytes | None]) -> None:
        for key, value in changes.items():
            if value is None:
                self.txn.delete(self.codec.stateKey(space, key))
            else:
                self.putRaw(*self.codec.foldState(self.mark, self.generation, space, key, value))

    def putFormat(self, base: int) -> None:
        self.put(FORMAT_KEY, packFormat(base, self.codec.formatVersion))

    def finish(self) -> None:
        for writer in self.writers.values():
            writer.finish()

    def announce(self, names: SubjectNames) -> None:
        """Tell which subjects are new, before they are committed."""
        if self.codec.isSealed:
            named = {identity: writer.named for identity, writer in self.writers.items()}
            counts = {identity: writer.row.tallies for identity, writer in self.writers.items()}
            names.adding(named, counts)

    def dropSlice(self, row: LogRow, isFull: bool) -> bool:
        """Delete some more of a dropped log. C{isFull} means that there may be little room."""
        left = BLOCKS_A_SLICE if isFull else KEYS_A_SLICE
        for prefix in (blockKey(row.identity, 0)[:9], deadKey(row.identity, 0)[:9]):
            left -= self.deleteSome(prefix, left)
        left -= self.deleteSome(tallyPrefix(row.identity), left)
        if left <= 0:
            return False
        for key in (holdsKey, lostKey, rowKey):
            self.txn.delete(key(row.identity))
        return True


def isTallied(indexed: bool, sole: bytes, uniform: bool) -> bool:
    """
    Whether a log has tallies after records are appended. C{uniform} means that all have C{sole}.
    """
    return indexed or not uniform or not 0 < len(sole) <= LONGEST_SOLE


def jobFor(row: LogRow, blobs: list[bytes]) -> LMDBAppendJob:
    """A request to append encoded records with consecutive sequences."""
    subjects = [subjectOf(blob, 0) for blob in blobs]
    sole = row.sole or subjects[0]
    size = sum(map(len, blobs)) - HEAD_SIZE * len(blobs)
    isUniform = all(subject == sole for subject in subjects)
    encoded = Encoded(blobs, size, timestampOf(blobs[-1], 0), isUniform)
    indexed = isTallied(row.indexed, sole, isUniform)
    first = sequenceOf(blobs[0], 0)
    return LMDBAppendJob(row.identity, first, encoded, sole, subjects if indexed else None)


class LMDBAppendJob(AppendJob):
    def __init__(
        self,
        identity: int,
        first: int,
        encoded: Encoded,
        sole: bytes,
        subjects: Sequence[bytes] | None,
    ) -> None:
        super().__init__(identity, first, encoded)
        self._sole = sole
        self._gone: Set[int] = _NONE
        self.subjects = subjects
        self.writes = bool(encoded.blobs)

    @classmethod
    def joined(cls, jobs: Sequence[LMDBAppendJob], gone: Set[int]) -> LMDBAppendJob:
        """
        Consecutive jobs as one.

        @param gone: sequences that are deleted in the same transaction, which no tally counts.
        """
        first, last = jobs[0], jobs[-1]
        blobs = [blob for job in jobs for blob in job.blobs]
        size = sum(job.encoded.size for job in jobs)
        subjects = None
        if first.subjects is not None:
            subjects = [subject for job in jobs for subject in job.subjects or ()]
        isUniform = all(job.encoded.uniform for job in jobs)
        encoded = Encoded(blobs, size, last.encoded.lastTime, isUniform)
        whole = cls(first.identity, first.first, encoded, first._sole, subjects)
        whole._gone = gone
        return whole

    def isFollowedBy(self, other: LMDBAppendJob) -> bool:
        isSameKind = (self.subjects is None) == (other.subjects is None)
        return isSameKind and other.first == self.first + len(self.blobs)

    def applyTo(self, writer: LMDBLogWriter) -> None:
        if self.blobs:
            writer.append(self.first, self.encoded, self._sole, self.subjects, self._gone)

    def extend(self, row: LogRow) -> bool:
        """
        Change a row as the job will. C{False} if the result is not known, as for the first tallies.
        """
        if self.subjects is not None and not row.indexed:
            return False
        if not row.indexed:
            row.sole = self._sole
        row.grow(self.first, self.encoded)
        return True


class LMDBDeleteJob(LogJob):
    """Deletes single records. C{deleted} is the number of them that existed."""

    frees = True

    def __init__(self, identity: int, sequences: Sequence[int]) -> None:
        super().__init__(identity)
        self.sequences = sequences
        self.deleted = 0

    def applyTo(self, writer: LMDBLogWriter) -> None:
        self.deleted = writer.delete(self.sequences)

    def result(self) -> int:
        return self.deleted


def recordsIn(jobs: Sequence[Job]) -> int:
    return sum([len(job.blobs) for job in jobs if isinstance(job, LMDBAppendJob)])


def free(environment: Environment, jobs: Sequence[Job]) -> bool:
    """
    Whether jobs do not enlarge the database, apart from the marks of deletions. A change of state
    may count: it can replace values by others of the same length.
    """
    with environment.reading() as txn:
        for job in jobs:
            if isinstance(job, ChangeJob) and not job.frees:
                job.frees = all(
                    value is None or _lengthOf(txn, environment.codec, job.space, key) >= len(value)
                    for key, value in job.changes.items()
                )
    return all(job.frees for job in jobs)


def _lengthOf(txn: lmdb.Transaction[bytes], codec: PlainCodec, space: str, name: bytes) -> int:
    """The length of a value of state; -1 if it is not there."""
    key = codec.stateKey(space, name)
    raw = txn.get(key)
    try:
        return -1 if raw is None else len(codec.state(unwrap(raw, key))[1])
    except Damaged:
        return -1


class CreateJob(Job):
    def __init__(self, row: LogRow) -> None:
        super().__init__()
        self._row = row

    def apply(self, transaction: LMDBTransaction) -> None:
        transaction.create(self._row)


class DropJob(LogJob):
    frees = True

    def applyTo(self, writer: LMDBLogWriter) -> None:
        writer.row.dropped = True
