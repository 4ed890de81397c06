"""
What the store is asked to do: one object for each request, applied in a transaction.

Promises: C{apply} may be called again with another transaction, if the first one failed; only the
last call counts. A request that cannot be granted does not keep others from being.
Must never know: threads. The Deferred of a job belongs to the reactor's thread.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred

from natsbroker._istore import StoreError
from natsbroker.store.postgres.leasing import Space
from natsbroker.store.postgres.reading import readHolds
from natsbroker.store.postgres.rows import LogRow
from natsbroker.store.postgres.writing import LogWriter, Transaction

__all__ = [
    "AppendJob",
    "BarrierJob",
    "ChangeJob",
    "CheckJob",
    "DeleteJob",
    "DiscardJob",
    "DropJob",
    "EnforceJob",
    "GiveUpJob",
    "HoldJob",
    "Job",
    "ListJob",
    "OpenJob",
    "SkipJob",
    "SpaceJob",
]


class Job:
    """
    A request.

    @ivar weight: about how many bytes it brings.
    @ivar deferred: fires when what was asked is durable.
    @ivar identity: of the log that it is about, or 0.
    @ivar space: the name of the space that it is about, or nothing.
    @ivar writes: whether there is anything to ask the database for it.
    @ivar error: why it was not granted.
    """

    weight = 100
    identity = 0
    space = ""
    writes = True

    def __init__(self) -> None:
        self.deferred: Deferred[Any] = Deferred()
        self.error: StoreError | None = None

    def tryIn(self, transaction: Transaction) -> None:
        """
        Do it, or note why not.
        """
        self.error = None
        try:
            self.apply(transaction)
        except StoreError as error:
            self.error = error

    def apply(self, transaction: Transaction) -> None:
        """
        Do it.

        @raise StoreError: if it cannot be granted; then nothing was done.
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

    def fire(self) -> None:
        """
        Tell who asked, in the reactor's thread.
        """
        if self.error is not None:
            self.deferred.errback(self.error)
        else:
            self.deferred.callback(self.result())


class BarrierJob(Job):
    """
    Nothing, but after all before it.
    """

    writes = False


class ListJob(Job):
    """
    The names of all logs.
    """

    def apply(self, transaction: Transaction) -> None:
        """
        See L{Job}.
        """
        self._names = transaction.names()

    def result(self) -> list[str]:
        """
        They, sorted.
        """
        return self._names


class OpenJob(Job):
    """
    A log whose lease is wanted.
    """

    def __init__(self, name: str, create: bool) -> None:
        super().__init__()
        self._name = name
        self._create = create

    def apply(self, transaction: Transaction) -> None:
        """
        See L{Job}.
        """
        self._row = transaction.open(self._name, self._create)
        self._holds = readHolds(transaction.connection, self._row.identity)

    def result(self) -> tuple[LogRow, dict[str, int]]:
        """
        What is known of it, and its holds.
        """
        return self._row, self._holds


class DropJob(Job):
    """
    A log to delete.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def apply(self, transaction: Transaction) -> None:
        """
        See L{Job}.
        """
        self._identity = transaction.open(self._name, create=False).identity
        transaction.log(self._identity).drop()

    def result(self) -> int:
        """
        The identity that it had.
        """
        return self._identity


class LogJob(Job):
    """
    A request about one log that this broker holds.
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


class CheckJob(LogJob):
    """
    Find out whether the log is held still.
    """


class GiveUpJob(LogJob):
    """
    A log to give up.
    """

    def apply(self, transaction: Transaction) -> None:
        """
        See L{Job}.
        """
        transaction.giveUp(self.identity)


class AppendJob(LogJob):
    """
    Records to append.
    """

    def __init__(
        self, identity: int, first: int, blobs: Sequence[bytes], size: int, lastTime: int
    ) -> None:
        """
        See L{LogWriter.append}.
        """
        super().__init__(identity)
        self._first = first
        self._blobs = blobs
        self._size = size
        self._lastTime = lastTime
        self.weight = size + 100 * len(blobs)

    def applyTo(self, writer: LogWriter) -> None:
        """
        See L{LogJob}.
        """
        writer.append(self._first, self._blobs, self._size, self._lastTime)

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
        return self.error is not None or self._writer is None or self._writer.trimmed

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


class SpaceJob(Job):
    """
    A space of state whose lease is wanted, in order to load it.
    """

    def __init__(self, space: str) -> None:
        super().__init__()
        self.space = space

    def apply(self, transaction: Transaction) -> None:
        """
        See L{Job}.
        """
        self._space = transaction.space(self.space, anew=True)

    def result(self) -> Space:
        """
        It.
        """
        return self._space


class ChangeJob(Job):
    """
    State to change.
    """

    def __init__(self, space: str, changes: Mapping[bytes, bytes | None]) -> None:
        super().__init__()
        self.space = space
        self._changes = dict(changes)
        self.weight = 100 + sum(len(key) + len(value or b"") for key, value in changes.items())

    def apply(self, transaction: Transaction) -> None:
        """
        See L{Job}.
        """
        transaction.change(self.space, self._changes)
