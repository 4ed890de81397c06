"""
What only this store is asked to do.

As L{natsbroker.storage.jobs}.
"""

from __future__ import annotations

from collections.abc import Sequence

from natsbroker.storage.jobs import AppendJob, Job, LogJob
from natsbroker.storage.lmdb.layout import LogRow
from natsbroker.storage.lmdb.transaction import LMDBTransaction
from natsbroker.storage.lmdb.writing import LMDBLogWriter
from natsbroker.storage.records import HEAD_SIZE, Encoded, sequenceOf, subjectOf, timestampOf

LONGEST_SOLE = 1000
"""A log of one subject has no tallies unless that subject is longer than this."""


def isTallied(indexed: bool, sole: bytes, uniform: bool) -> bool:
    """
    Whether a log has tallies after records are appended; C{uniform} if all have C{sole}.
    """
    return indexed or not uniform or not 0 < len(sole) <= LONGEST_SOLE


def jobFor(row: LogRow, blobs: list[bytes]) -> LMDBAppendJob:
    """
    The request to append records, whose sequences follow each other, that are encoded already.
    """
    subjects = [subjectOf(each, 0) for each in blobs]
    sole = row.sole or subjects[0]
    size = sum(map(len, blobs)) - HEAD_SIZE * len(blobs)
    isUniform = all(each == sole for each in subjects)
    encoded = Encoded(blobs, size, timestampOf(blobs[-1], 0), isUniform)
    indexed = isTallied(row.indexed, sole, isUniform)
    first = sequenceOf(blobs[0], 0)
    return LMDBAppendJob(row.identity, first, encoded, sole, subjects if indexed else None)


class LMDBAppendJob(AppendJob):
    """
    @ivar subjects: of all records, for a log that has tallies; or C{None}.
    """

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
        self.subjects = subjects
        self.writes = bool(encoded.blobs)

    def applyTo(self, writer: LMDBLogWriter) -> None:
        if self.blobs:
            writer.append(self.first, self.encoded, self._sole, self.subjects)

    def extend(self, row: LogRow) -> bool:
        """
        Have a row say what it will once this is applied.

        @return: whether that can be known beforehand: not if the log gets its first tallies.
        """
        if self.subjects is not None and not row.indexed:
            return False
        if not row.indexed:
            row.sole = self._sole
        row.grow(self.first, self.encoded)
        return True


def recordsIn(jobs: Sequence[Job]) -> int:
    """
    The number of records that jobs append.
    """
    return sum(len(job.blobs) for job in jobs if isinstance(job, LMDBAppendJob))


class CreateJob(Job):
    def __init__(self, row: LogRow) -> None:
        super().__init__()
        self._row = row

    def apply(self, transaction: LMDBTransaction) -> None:
        transaction.create(self._row)


class DropJob(LogJob):
    def applyTo(self, writer: LMDBLogWriter) -> None:
        writer.row.dropped = True
