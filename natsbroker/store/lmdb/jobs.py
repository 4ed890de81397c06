"""
What only this store is asked to do.

Promises: as L{natsbroker.store.jobs}.
Must never know: threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from natsbroker.store.jobs import Job, LogJob, RunJob
from natsbroker.store.lmdb.layout import LogRow, stateKey
from natsbroker.store.lmdb.transaction import Transaction
from natsbroker.store.lmdb.writing import LogWriter

__all__ = ["AppendJob", "ChangeJob", "CreateJob", "DropJob"]


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
        """
        See L{LogWriter.append}.
        """
        super().__init__(identity, first, blobs, size, lastTime)
        self._sole = sole
        self._subjects = subjects
        self.writes = bool(blobs)

    def applyTo(self, writer: LogWriter) -> None:
        """
        See L{LogJob}.
        """
        if self.blobs:
            writer.append(
                self.first, self.blobs, self.size, self.lastTime, self._sole, self._subjects
            )


class CreateJob(Job):
    """
    A log to make.
    """

    def __init__(self, row: LogRow) -> None:
        super().__init__()
        self._row = row

    def apply(self, transaction: Transaction) -> None:
        """
        See L{Job}.
        """
        transaction.create(self._row)


class DropJob(LogJob):
    """
    A log to delete.
    """

    def applyTo(self, writer: LogWriter) -> None:
        """
        See L{LogJob}.
        """
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
        """
        See L{Job}.
        """
        for key, value in self._changes.items():
            if value is None:
                transaction.delete(key)
            else:
                transaction.put(key, value)
