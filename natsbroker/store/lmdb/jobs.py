"""
What the store is asked to do: one object for each request, applied in a transaction.

Promises: C{apply} may be called again with another transaction, if the first one failed; only the
last call counts.
Must never know: threads. The Deferred of a job belongs to the reactor's thread.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred

from natsbroker.store.lmdb.layout import LogRow, stateKey
from natsbroker.store.lmdb.writing import LogWriter, Transaction

__all__ = [
    "AppendJob",
    "BarrierJob",
    "ChangeJob",
    "CreateJob",
    "DeleteJob",
    "DiscardJob",
    "DropJob",
    "EnforceJob",
    "HoldJob",
    "Job",
    "SkipJob",
]


class Job:
    """
    A request.

    @ivar weight: about how many bytes it brings.
    @ivar deferred: fires when what was asked is durable.
    @ivar identity: of the log that it is about, or 0.
    @ivar writes: whether there is anything to commit for it.
    """

    weight = 100
    identity = 0
    writes = True

    def __init__(self) -> None:
        self.deferred: Deferred[Any] = Deferred()

    def apply(self, transaction: Transaction) -> None:
        """
        Do it.
        """

    def isDone(self) -> bool:
        """
        Whether the last transaction did all of it. If not, it is applied in the next one again.
        """
        return True

    def result(self) -> Any:
        """
        What the Deferred fires with.
        """
        return None


class BarrierJob(Job):
    """
    Nothing, but after all before it.
    """

    writes = False


class LogJob(Job):
    """
    A request about one log.
    """

    def __init__(self, identity: int) -> None:
        super().__init__()
        self.identity = identity

    def apply(self, transaction: Transaction) -> None:
        """
        See L{Job}.
        """
        self.applyTo(transaction.log(self.identity))

    def applyTo(self, writer: LogWriter) -> None:
        """
        Do it, to its log.
        """


class AppendJob(LogJob):
    """
    Records to append.
    """

    def __init__(
        self,
        identity: int,
        first: int,
        blobs: Sequence[bytes],
        size: int,
        lastTime: int,
        sole: bytes,
        subjects: Sequence[bytes] | None,
    ) -> None:
        """
        See L{LogWriter.append}.
        """
        super().__init__(identity)
        self._first = first
        self._blobs = blobs
        self._size = size
        self._lastTime = lastTime
        self._sole = sole
        self._subjects = subjects
        self.weight = size + 100 * len(blobs)
        self.writes = bool(blobs)

    def applyTo(self, writer: LogWriter) -> None:
        """
        See L{LogJob}.
        """
        if self._blobs:
            writer.append(
                self._first, self._blobs, self._size, self._lastTime, self._sole, self._subjects
            )

    def result(self) -> range:
        """
        The sequences.
        """
        return range(self._first, self._first + len(self._blobs))


class DeleteJob(LogJob):
    """
    Records to delete.
    """

    def __init__(self, identity: int, sequences: Collection[int]) -> None:
        super().__init__(identity)
        self._sequences = list(sequences)
        self._deleted = 0

    def applyTo(self, writer: LogWriter) -> None:
        """
        See L{LogJob}.
        """
        self._deleted = writer.delete(self._sequences)

    def result(self) -> int:
        """
        How many were there.
        """
        return self._deleted


class DiscardJob(LogJob):
    """
    Records below a sequence, to delete.
    """

    def __init__(self, identity: int, sequence: int) -> None:
        super().__init__(identity)
        self._sequence = sequence
        self._writer: LogWriter | None = None

    def applyTo(self, writer: LogWriter) -> None:
        """
        See L{LogJob}.
        """
        writer.discardTo = max(writer.discardTo, self._sequence)
        self._writer = writer

    def isDone(self) -> bool:
        """
        See L{Job}.
        """
        return self._writer is None or self._writer.trimmed

    def result(self) -> int:
        """
        The first sequence that may still be there.
        """
        return 0 if self._writer is None else self._writer.row.first


class SkipJob(LogJob):
    """
    Sequences to leave out.
    """

    def __init__(self, identity: int, sequence: int) -> None:
        super().__init__(identity)
        self._sequence = sequence

    def applyTo(self, writer: LogWriter) -> None:
        """
        See L{LogJob}.
        """
        writer.skipTo(self._sequence)


class HoldJob(LogJob):
    """
    Holds of a log to store, as they are when it is applied.
    """

    def applyTo(self, writer: LogWriter) -> None:
        """
        See L{LogJob}.
        """
        writer.putHolds()
        writer.sweep()


class EnforceJob(LogJob):
    """
    Limits of a log that changed, or whose time has come.
    """

    def __init__(self, identity: int, sweep: bool) -> None:
        super().__init__(identity)
        self._sweep = sweep

    def applyTo(self, writer: LogWriter) -> None:
        """
        See L{LogJob}.
        """
        if self._sweep:
            writer.sweep()


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
