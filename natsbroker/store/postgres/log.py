"""
A log in the reactor's thread: gives sequences, encodes what is appended.

Promises: see the interfaces. What is damaged is told of and left out.
Must never know: transactions, connections, other logs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred, fail, inlineCallbacks, succeed
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker._istore import (
    Columns,
    Entry,
    LogBounds,
    Matching,
    RangeDigest,
    Record,
    RecordDamaged,
    Retention,
    StoreError,
    SubjectTally,
)
from natsbroker.interfaces import IExportableLog, IHeldLog, ISubjectIndexedLog
from natsbroker.store.checks import checkHold, checkSkip
from natsbroker.store.exports import Page, digestRange, exportRange
from natsbroker.store.postgres.jobs import (
    AppendJob,
    BarrierJob,
    DeleteJob,
    DiscardJob,
    EnforceJob,
    HoldJob,
    Job,
    SkipJob,
)
from natsbroker.store.postgres.reading import (
    Found,
    Span,
    beginning,
    fetchLast,
    fetchMatching,
    fetchRecords,
    fetchTallies,
    findTime,
)
from natsbroker.store.postgres.rows import LogRow, Policy
from natsbroker.store.records import encodeBatch
from natsbroker.store.watching import Troubles
from natsbroker.subjects.grammar import matches

__all__ = ["ILogOwner", "PostgresLog"]

T = TypeVar("T")

LARGEST = 512 << 20
"""How large a record may be: PostgreSQL takes no row of 1 GiB."""


class ILogOwner(Protocol):
    """
    What a log needs of its store.
    """

    troubles: Troubles
    now: Callable[[], int]

    def ask(self, job: Job) -> Deferred[Any]:
        """
        Have something done.
        """

    def fetch(self, call: Callable[..., T], *args: Any) -> Deferred[T]:
        """
        Call something with a connection in a thread that reads.
        """

    def ageWanted(self, log: PostgresLog, wanted: bool) -> None:
        """
        Have C{enforceAge} called once a second, or not any more.
        """


def _notEnforced(failure: Failure) -> None:
    """
    Limits were not enforced because nothing can be written; they are when something is again.
    """
    if not isinstance(failure.value, StoreError):
        failure.raiseException()


@implementer(IHeldLog, ISubjectIndexedLog, IExportableLog)
class PostgresLog:
    """
    A log. Made by L{natsbroker.store.postgres.store.PostgresStore} only.

    @ivar identity: the random number under which everything of it lies.
    @ivar name: in the store.
    @ivar nextSequence: see L{natsbroker.interfaces.IStreamLog}.
    @ivar policy: what is kept; the thread that writes reads it.
    @ivar closed: what everything fails with, once it is closed or another broker's.
    """

    def __init__(self, owner: ILogOwner, row: LogRow, policy: Policy) -> None:
        self._owner = owner
        self.identity = row.identity
        self.name = row.name
        self.policy = policy
        self.closed: StoreError | None = None
        self._oldest = row.oldest
        self._bounds = row.bounds()
        self._lastTime = row.lastTime
        self.nextSequence = row.last + 1

    # What the store tells it

    def committed(self, row: LogRow) -> None:
        """
        What is durable now.
        """
        self._bounds = row.bounds()
        self._oldest = row.oldest

    def rollBack(self) -> None:
        """
        Everything that was asked and is not durable has failed.
        """
        self.nextSequence = self._bounds.last + 1
        self._lastTime = self._bounds.lastTime

    # Writing

    def append(self, batch: Sequence[Entry]) -> Deferred[range]:
        """
        See L{natsbroker.interfaces.IStreamLog}.
        """
        first = self.nextSequence
        if not batch:
            return self._ask(BarrierJob()).addCallback(lambda _: range(first, first))
        encoded = encodeBatch(self.identity, first, batch, self._owner.now(), self._lastTime, b"")
        if encoded.size > LARGEST and max(map(len, encoded.blobs)) > LARGEST:
            raise ValueError(f"a record of over {LARGEST} bytes is too large for the database")
        job = AppendJob(self.identity, first, encoded.blobs, encoded.size, encoded.lastTime)
        deferred = self._ask(job)
        if not deferred.called:
            self.nextSequence = first + len(encoded.blobs)
            self._lastTime = encoded.lastTime
        return deferred

    def _ask(self, job: Job) -> Deferred[Any]:
        """
        Have something done.
        """
        return self._owner.ask(job) if self.closed is None else fail(self.closed)

    def skipTo(self, sequence: int) -> Deferred[None]:
        """
        See L{natsbroker.interfaces.IRetainedLog}.
        """
        checkSkip(sequence, self.nextSequence)
        deferred = self._ask(SkipJob(self.identity, sequence))
        if not deferred.called:
            self.nextSequence = sequence
        return deferred

    def delete(self, sequences: Collection[int]) -> Deferred[int]:
        """
        See L{natsbroker.interfaces.IRetainedLog}.
        """
        return self._ask(DeleteJob(self.identity, sequences))

    def discardBefore(self, sequence: int) -> Deferred[int]:
        """
        See L{natsbroker.interfaces.IRetainedLog}.
        """
        return self._ask(DiscardJob(self.identity, sequence))

    def retain(self, retention: Retention) -> None:
        """
        See L{natsbroker.interfaces.IRetainedLog}.
        """
        before = self.policy.retention
        sweep = bool(retention.perSubject) and retention.perSubject != before.perSubject
        self.policy.retention = retention
        self._owner.ageWanted(self, bool(retention.age) and self.closed is None)
        if retention != before:
            self._enforce(sweep)

    def _enforce(self, sweep: bool = False) -> None:
        """
        Have the limits enforced. If that fails, they are with the next append.
        """
        self._ask(EnforceJob(self.identity, sweep)).addErrback(_notEnforced)

    def enforceAge(self) -> None:
        """
        Let old records go, if there are any.
        """
        cutoff = self._owner.now() - self.policy.retention.age
        if self._bounds.count and self._oldest < cutoff:
            floor = self.policy.floor
            if floor is None or self._bounds.first < floor:
                self._enforce()

    def hold(self, name: str, floor: int) -> Deferred[None]:
        """
        See L{natsbroker.interfaces.IHeldLog}.
        """
        checkHold(self.policy.holds, name)
        return self._setHolds({**self.policy.holds, name: floor})

    def release(self, name: str) -> Deferred[None]:
        """
        See L{natsbroker.interfaces.IHeldLog}.
        """
        if name not in self.policy.holds:
            return self._ask(BarrierJob())
        return self._setHolds({k: v for k, v in self.policy.holds.items() if k != name})

    def _setHolds(self, holds: dict[str, int]) -> Deferred[None]:
        """
        Replace the holds.
        """
        before = self.policy.holds
        self.policy.holds = holds
        deferred = self._ask(HoldJob(self.identity))
        return deferred.addErrback(self._notHeld, holds, before)

    def _notHeld(self, failure: Failure, holds: dict[str, int], before: dict[str, int]) -> Failure:
        """
        Holds could not be stored.
        """
        if self.policy.holds is holds:
            self.policy.holds = before
        return failure

    def holds(self) -> Mapping[str, int]:
        """
        See L{natsbroker.interfaces.IHeldLog}.
        """
        return dict(self.policy.holds)

    # Reading

    def bounds(self) -> LogBounds:
        """
        See L{natsbroker.interfaces.IStreamLog}.
        """
        return self._bounds

    def _span(self, sequence: int = 0) -> Span:
        """
        What may be read, from a sequence on.
        """
        return Span(self.identity, max(sequence, self._bounds.first), self._bounds.last)

    def _told(self, found: Found) -> Found:
        """
        Tell of damaged records.
        """
        for sequence in found.damaged:
            if sequence >= self._bounds.first:
                self._owner.troubles.recordsDamaged(
                    self.name, sequence, sequence + 1, "a record does not match its checksum"
                )
        return found

    def _read(self, sequence: int, limit: int, maxBytes: int) -> Deferred[Found]:
        """
        Records in order.
        """
        if self.closed is not None:
            return fail(self.closed)
        span = self._span(sequence)
        if span.first > span.last or limit <= 0 or maxBytes <= 0:
            return succeed(Found([], sequence, []))
        reading = self._owner.fetch(fetchRecords, span, limit, maxBytes)
        return reading.addCallback(self._told)

    def read(
        self, sequence: int, limit: int = 256, maxBytes: int = 1048576
    ) -> Deferred[list[Record]]:
        """
        See L{natsbroker.interfaces.IStreamLog}.
        """
        return self._read(sequence, limit, maxBytes).addCallback(lambda found: found.records)

    def sequenceAt(self, timestamp: int) -> Deferred[int]:
        """
        See L{natsbroker.interfaces.IStreamLog}.
        """
        if self.closed is not None:
            return fail(self.closed)
        span = self._span()
        if not self._bounds.count or timestamp > self._bounds.lastTime:
            return succeed(span.last + 1)
        return self._owner.fetch(findTime, span, timestamp)

    @inlineCallbacks
    def lastFor(self, subject: bytes) -> Generator[Deferred[Any], Any, Record | None]:
        """
        See L{natsbroker.interfaces.ISubjectIndexedLog}.
        """
        if self.closed is not None:
            raise self.closed
        found: Found = yield self._owner.fetch(fetchLast, self._span(), subject)
        self._told(found)
        if found.damaged:
            raise RecordDamaged(self.name, found.damaged[0])
        return found.records[0] if found.records else None

    @inlineCallbacks
    def subjects(
        self, pattern: bytes, after: bytes = b"", limit: int = 0
    ) -> Generator[Deferred[Any], Any, dict[bytes, SubjectTally]]:
        """
        See L{natsbroker.interfaces.ISubjectIndexedLog}.
        """
        if self.closed is not None:
            raise self.closed
        found = yield self._owner.fetch(
            fetchTallies,
            self._span(),
            lambda subject: subject > after and matches(pattern, subject),
            beginning(pattern),
            after,
            limit,
        )
        return {subject: SubjectTally(*tally) for subject, tally in found}

    @inlineCallbacks
    def readMatching(
        self, patterns: Sequence[bytes], sequence: int, limit: int = 256, maxBytes: int = 1048576
    ) -> Generator[Deferred[Any], Any, Matching]:
        """
        See L{natsbroker.interfaces.ISubjectIndexedLog}.
        """
        if self.closed is not None:
            raise self.closed
        wanted = list(patterns)
        span = self._span(sequence)
        if span.first > span.last:
            return Matching([], span.last + 1)
        found: Found = yield self._owner.fetch(
            fetchMatching,
            span,
            lambda subject: any(matches(each, subject) for each in wanted),
            limit,
            maxBytes,
        )
        self._told(found)
        return Matching(found.records, found.next)

    # Exports

    def exportRange(self, start: int, stop: int, maxBytes: int = 16777216) -> Deferred[Columns]:
        """
        See L{natsbroker.interfaces.IExportableLog}.
        """
        return exportRange(self._page, start, min(stop, self._bounds.last + 1), maxBytes)

    def digest(self, start: int, stop: int) -> Deferred[RangeDigest]:
        """
        See L{natsbroker.interfaces.IExportableLog}.
        """
        return digestRange(self._page, start, min(stop, self._bounds.last + 1))

    @inlineCallbacks
    def _page(self, start: int, stop: int, maxBytes: int) -> Generator[Deferred[Any], Any, Page]:
        """
        Some records of a range, and what of it is damaged.
        """
        if self.closed is not None:
            raise self.closed
        span = self._span(start)._replace(last=min(stop - 1, self._bounds.last))
        if span.first > span.last:
            return Page([], stop)
        found: Found = yield self._owner.fetch(fetchRecords, span, 4096, maxBytes)
        self._told(found)
        return Page(found.records, found.next, found.damaged)
