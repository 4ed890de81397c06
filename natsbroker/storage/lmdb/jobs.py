"""
What only this store is asked to do.

As L{natsbroker.storage.jobs}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from natsbroker.storage.jobs import Job, LogJob, RunJob
from natsbroker.storage.lmdb.layout import LogRow, stateKey
from natsbroker.storage.lmdb.transaction import Transaction
from natsbroker.storage.lmdb.writing import LogWriter
from natsbroker.storage.records import HEAD_SIZE, sequenceOf, subjectOf, timestampOf

__all__ = [
    "AppendJob",
    "ChangeJob",
    "CreateJob",
    "DropJob",
    "isTallied",
    "jobFor",
]


LONGEST_SOLE = 1000
"""A log of one subject has no tallies unless that subject is longer than this."""


def isTallied(indexed: bool, sole: bytes, uniform: bool) -> bool:
    """
    Whether a log has tallies after records are appended.

    @param indexed: whether it has some already.
    @param sole: otherwise its only subject.
    @param uniform: whether all records have that one.
    """
    return indexed or not uniform or not 0 < len(sole) <= LONGEST_SOLE


def jobFor(row: LogRow, blobs: list[bytes]) -> AppendJob:
    """
    The request to append records that are encoded already.

    @param row: the log as it is.
    @param blobs: records whose sequences follow each other.
    """
    subjects = [subjectOf(each, 0) for each in blobs]
    sole = row.sole or subjects[0]
    indexed = isTallied(row.indexed, sole, all(each == sole for each in subjects))
    return AppendJob(
        row.identity,
        sequenceOf(blobs[0], 0),
        blobs,
        sum(map(len, blobs)) - HEAD_SIZE * len(blobs),
        timestampOf(blobs[-1], 0),
        sole,
        subjects if indexed else None,
    )


class AppendJob(RunJob):
    """
    Records to append.
    """

    def __init__(
        self,
        identity: int,
        first: int,
        blobs: list[bytes],
        size: int,
        lastTime: int,
        sole: bytes,
        subjects: Sequence[bytes] | None,
    ) -> None:
        super().__init__(identity, first, blobs, size, lastTime)
        self._sole = sole
        self._subjects = subjects
        self.writes = bool(blobs)

    def applyTo(self, writer: LogWriter) -> None:
        if self.blobs:
            writer.append(
                self.first, self.blobs, self.size, self.lastTime, self._sole, self._subjects
            )

    def extend(self, row: LogRow) -> bool:
        """
        Have a row say what it will once this is applied.

        @return: whether that can be known beforehand: not for a log that has tallies.
        """
        if self._subjects is not None:
            return False
        row.sole = self._sole
        row.grow(self.first, len(self.blobs), self.size, self.lastTime)
        return True


class CreateJob(Job):
    """
    A log to make.
    """

    def __init__(self, row: LogRow) -> None:
        super().__init__()
        self._row = row

    def apply(self, transaction: Transaction) -> None:
        transaction.create(self._row)


class DropJob(LogJob):
    """
    A log to delete.
    """

    def applyTo(self, writer: LogWriter) -> None:
        writer.row.dropped = True


class ChangeJob(Job):
    """
    State to change.
    """

    def __init__(self, space: str, changes: Mapping[bytes, bytes | None]) -> None:
        super().__init__()
        self._changes = {stateKey(space, key): value for key, value in changes.items()}
        self.weight = 100 + sum(
            len(key) + len(value or b"") for key, value in self._changes.items()
        )

    def apply(self, transaction: Transaction) -> None:
        for key, value in self._changes.items():
            if value is None:
                transaction.delete(key)
            else:
                transaction.put(key, value)
