"""
The requests to a store with a thread that writes. C{apply} may be called again with another
transaction if the first one failed; only the last call counts. A refused request does not affect
others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from natsbroker.interfaces.records import LogBounds, StoreError
from natsbroker.storage.records import Encoded


@dataclass(slots=True)
class StoredRow:
    """
    @ivar identity: the random number in the keys of everything that belongs to the log.
    @ivar first: the oldest sequence; C{last + 1} if there is none.
    @ivar last: the highest that was ever used.
    @ivar size: bytes of subjects, headers and payloads.
    @ivar lastTime: the last timestamp that was given.
    @ivar dropped: whether it is being deleted.
    """

    identity: int
    name: str
    first: int = 1
    last: int = 0
    count: int = 0
    size: int = 0
    lastTime: int = 0
    dropped: bool = False

    def grow(self, first: int, encoded: Encoded) -> None:
        if not self.count:
            self.first = first
        self.count += len(encoded.blobs)
        self.size += encoded.size
        self.last = first + len(encoded.blobs) - 1
        self.lastTime = encoded.lastTime

    @property
    def extent(self) -> tuple[int, int, int, int]:
        """The first and the last sequence, the number of records and their size."""
        return self.first, self.last, self.count, self.size

    def bounds(self) -> LogBounds:
        return LogBounds(self.first, self.last, self.count, self.size, self.lastTime)


class ILogWriter(Protocol):
    discardTo: int
    trimmed: bool

    @property
    def row(self) -> StoredRow: ...

    def delete(self, sequences: Collection[int]) -> int: ...

    def skipTo(self, sequence: int) -> None: ...

    def putHolds(self) -> None:
        """Store the holds, and have all subjects looked at again."""

    def sweep(self) -> None: ...


class Job:
    """
    @ivar weight: the approximate number of bytes that it adds.
    @ivar deferred: fires when the job is durable.
    @ivar identity: of the log that it is about, or 0.
    @ivar space: the name of the space of state that it is about, or empty.
    @ivar writes: whether there is anything to commit for it.
    @ivar frees: whether it makes the store no larger, but for what a deletion leaves behind.
    @ivar isRelaxed: whether a power cut may undo it where writes are not synced, as it may appends.
    """

    weight = 100
    identity = 0
    space = ""
    writes = True
    frees = False
    isRelaxed = False

    error: StoreError | None = None

    def __init__(self) -> None:
        self.deferred: Deferred[Any] = Deferred()

    def tryIn(self, transaction: Any) -> None:
        self.error = None
        try:
            self.apply(transaction)
        except StoreError as error:
            self.error = error

    def apply(self, transaction: Any) -> None:
        """
        Do the job in a transaction. L{StoreError} if it cannot be done; then nothing has changed.
        """

    def isDone(self) -> bool:
        """
        Whether the last transaction did all of it. If not, the next transaction applies it again.
        """
        return True

    def result(self) -> Any:
        return None

    def fire(self) -> None:
        if self.error is not None:
            self.deferred.errback(self.error)
        else:
            self.deferred.callback(self.result())


class BarrierJob(Job):
    writes = False
    frees = True


class LogJob(Job):
    def __init__(self, identity: int) -> None:
        super().__init__()
        self.identity = identity

    def apply(self, transaction: Any) -> None:
        self.applyTo(transaction.log(self.identity))

    def applyTo(self, writer: Any) -> None: ...


class AppendJob(LogJob):
    def __init__(self, identity: int, first: int, encoded: Encoded) -> None:
        # There is one for each append: the constructors of its bases cost as much as all of it.
        self.deferred = Deferred()
        self.identity = identity
        self.first = first
        self.encoded = encoded
        self.blobs = encoded.blobs
        self.weight = encoded.size + 100 * len(self.blobs)

    def applyTo(self, writer: Any) -> None:
        writer.append(self.first, self.encoded)

    def result(self) -> range:
        return range(self.first, self.first + len(self.blobs))


class WriterJob(LogJob):
    frees = True

    def __init__(self, identity: int, do: Callable[[ILogWriter], Any]) -> None:
        super().__init__(identity)
        self._do = do
        self._result: Any = None

    def applyTo(self, writer: ILogWriter) -> None:
        self._result = self._do(writer)

    def result(self) -> Any:
        return self._result


class DiscardJob(LogJob):
    frees = True

    def __init__(self, identity: int, sequence: int) -> None:
        super().__init__(identity)
        self._sequence = sequence
        self._writer: ILogWriter | None = None

    def applyTo(self, writer: ILogWriter) -> None:
        writer.discardTo = max(writer.discardTo, self._sequence)
        self._writer = writer

    def isDone(self) -> bool:
        return self.error is not None or self._writer is None or self._writer.trimmed

    def result(self) -> int:
        """The first sequence that may still exist."""
        return 0 if self._writer is None else self._writer.row.first


class ChangeJob(Job):
    def __init__(self, space: str, changes: Mapping[bytes, bytes | None]) -> None:
        super().__init__()
        self.space = space
        self.changes = dict(changes)
        self.frees = all(value is None for value in changes.values())
        self.weight = 100 + sum(len(key) + len(value or b"") for key, value in changes.items())

    def apply(self, transaction: Any) -> None:
        transaction.change(self.space, self.changes)
