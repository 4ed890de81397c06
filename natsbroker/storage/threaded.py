"""
The base of a store with a writing thread and some reading threads: its logs and its state in the
reactor's thread, independent of the medium. After a failure it is opened again, after growing
pauses. Closing finishes earlier requests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred, fail
from twisted.internet.threads import deferToThreadPool
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool

from natsbroker.interfaces import IStoreWatcher
from natsbroker.interfaces.records import (
    LogBounds,
    Retention,
    ScrubFigures,
    StoreClosed,
    StoreError,
    StoreFigures,
)
from natsbroker.storage.arrivals import Arrivals
from natsbroker.storage.checks import checkChanges, checkHold, skipError
from natsbroker.storage.committing import CommitThread
from natsbroker.storage.exports import StoredLog
from natsbroker.storage.jobs import (
    BarrierJob,
    ChangeJob,
    DiscardJob,
    ILogWriter,
    Job,
    StoredRow,
    WriterJob,
)
from natsbroker.storage.policy import Aging, Policy
from natsbroker.storage.watching import StoreHealth

Log = TypeVar("Log", bound="OwnedLog")
T = TypeVar("T")


class ThreadedStore(Generic[Log]):
    """
    @cvar retryFirst: seconds between a failure and the first attempt to open the store again.
    """

    retryFirst: float
    retryMost: float

    _committer: CommitThread[Any]

    def __init__(self, reactor: Any, pool: ThreadPool, now: Callable[[], int]) -> None:
        self.now = now
        self.troubles = StoreHealth()
        self._reactor = reactor
        self._arrivals = Arrivals(reactor)
        self._pool = pool
        self._aging = Aging(reactor)
        self._logs: MutableMapping[str, Log] = {}
        self._byIdentity: MutableMapping[int, Log] = {}
        self._policies: dict[int, Policy] = {}
        self._unenforced: dict[Log, None] = {}
        self._closed: StoreError | None = None
        self._closing: list[Deferred[None]] = []
        self._retry = self.retryFirst
        self._retryCall: Any = None

    def figures(self) -> StoreFigures:
        health = self.troubles
        counts = self._committer.figures.histograms()
        return StoreFigures(*counts, health.damagedRecords, health.damagedValues, self._scrubbed())

    def _scrubbed(self) -> ScrubFigures | None:
        """The progress of the search for damage. A store that searches overrides this."""
        return None

    def watch(self, watcher: IStoreWatcher) -> Callable[[], None]:
        return self.troubles.watch(watcher)

    def close(self) -> Deferred[None]:
        result: Deferred[None] = Deferred()
        if self._pool.joined:
            result.callback(None)
            return result
        self._closing.append(result)
        if self._closed is None:
            self._closed = StoreClosed("the store is closed")
            self._aging.stop()
            if self._retryCall is not None and self._retryCall.active():
                self._retryCall.cancel()
            for log in self._logs.values():
                log.closed = self._closed
            self._leave(self._closed)
            self._committer.close()
        return result

    def _leave(self, closed: StoreError) -> None:
        """Called when the store is being closed. A store that has more to end overrides this."""

    def ask(self, job: Job) -> Deferred[Any]:
        refused = self._closed or self._committer.submit(job)
        return job.deferred if refused is None else fail(refused)

    def together(self, call: Callable[[], object]) -> None:
        self._committer.together(call)

    def fetch(self, call: Callable[..., T], *args: Any) -> Deferred[T]:
        if self._closed is not None:
            return fail(self._closed)
        fetching: Deferred[T] = deferToThreadPool(
            self._arrivals, self._pool, self._read, call, *args
        )
        return fetching

    def _read(self, call: Callable[..., T], *args: Any) -> T:
        """Read in a thread. L{StoreError} if nothing can be read."""
        raise NotImplementedError

    def ageWanted(self, log: Log, wanted: bool) -> None:
        if wanted:
            self._aging.want(log, log.enforceAge)
        else:
            self._aging.forget(log)

    def notEnforced(self, log: Log) -> None:
        """
        Note that the limits of a log could not be enforced. They are enforced when writing works
        again.
        """
        self._unenforced[log] = None

    def _enforceAgain(self) -> None:
        logs, self._unenforced = self._unenforced, {}
        for log in logs:
            log.enforce()

    # For the thread that writes, called in the reactor's

    def _done(self, jobs: Sequence[Job], hasWritten: bool) -> None:
        if hasWritten:
            self.troubles.writesResumed()
            if self._unenforced:
                self._enforceAgain()
        for job in jobs:
            job.fire()

    def _fail(self, jobs: Sequence[Job], error: StoreError) -> None:
        self._committer.accept()
        for job in jobs:
            job.deferred.errback(error)

    def _tryLater(self) -> None:
        if self._closed is None:
            self._retryCall = self._reactor.callLater(self._retry, self._committer.tryAgain)
            self._retry = min(self._retry * 2, self.retryMost)

    def _resumed(self) -> None:
        self._retry = self.retryFirst
        self._committer.takeAgain()
        self.troubles.writesResumed()
        self._enforceAgain()

    def stopped(self) -> None:
        self._pool.stop()
        closing, self._closing = self._closing, []
        for waiter in closing:
            waiter.callback(None)


class OwnedLog(StoredLog):
    def __init__(self, owner: ThreadedStore[Any], row: StoredRow, policy: Policy) -> None:
        super().__init__(row.name, row.identity, policy)
        self._owner = owner
        self._bounds = row.bounds()
        self._oldest: int | None = None
        self.rollBack()

    def rollBack(self) -> None:
        """Fail all requests that are not durable."""
        self.nextSequence = self._bounds.last + 1
        self._lastTime = self._bounds.lastTime

    def _ask(self, job: Job) -> Deferred[Any]:
        return self._owner.ask(job) if self.closed is None else fail(self.closed)

    def together(self, call: Callable[[], object]) -> None:
        self._owner.together(call)

    def _askWriter(self, do: Callable[[ILogWriter], Any]) -> Deferred[Any]:
        return self._ask(WriterJob(self.identity, do))

    def bounds(self) -> LogBounds:
        return self._bounds

    def skipTo(self, sequence: int) -> Deferred[None]:
        if (error := skipError(sequence, self.nextSequence)) is not None:
            return fail(error)
        deferred = self._askWriter(lambda writer: writer.skipTo(sequence))
        if not deferred.called:
            self.nextSequence = sequence
        return deferred

    def delete(self, sequences: Collection[int]) -> Deferred[int]:
        wanted = list(sequences)
        return self._askWriter(lambda writer: writer.delete(wanted))

    def discardBefore(self, sequence: int) -> Deferred[int]:
        return self._ask(DiscardJob(self.identity, sequence))

    def retain(self, retention: Retention) -> None:
        before = self.policy.retention
        sweep = bool(retention.perSubject) and retention.perSubject != before.perSubject
        if sweep:
            self.policy.sweep = b""
        self.policy.retention = retention
        self._owner.ageWanted(self, bool(retention.age) and self.closed is None)
        if retention != before:
            self.enforce(sweep)

    def enforce(self, sweep: bool = False) -> None:
        """Enforce the limits. C{sweep} looks at all subjects, as after a failure."""
        enforcing = self._askWriter(lambda writer: writer.sweep() if sweep else None)
        enforcing.addErrback(self._notEnforced)

    def _notEnforced(self, failure: Failure) -> None:
        if not isinstance(failure.value, StoreError):
            failure.raiseException()
        if self.closed is None:
            self._owner.notEnforced(self)

    def enforceAge(self) -> None:
        cutoff = self._owner.now() - self.policy.retention.age
        if self._bounds.count and (self._oldest is None or self._oldest < cutoff):
            floor = self.policy.floor
            if floor is None or self._bounds.first < floor:
                self.enforce()

    def hold(self, name: str, floor: int) -> Deferred[None]:
        checkHold(self.policy.holds, name)
        return self._setHolds({**self.policy.holds, name: floor})

    def release(self, name: str) -> Deferred[None]:
        if name not in self.policy.holds:
            return self._ask(BarrierJob())
        return self._setHolds({k: v for k, v in self.policy.holds.items() if k != name})

    def _setHolds(self, holds: dict[str, int]) -> Deferred[None]:
        before = self.policy.holds
        self.policy.holds = holds
        # They are stored with their content at the time when the job is applied.
        return self._askWriter(lambda writer: writer.putHolds()).addErrback(
            self._notHeld, holds, before
        )

    def _notHeld(self, failure: Failure, holds: dict[str, int], before: dict[str, int]) -> Failure:
        if self.policy.holds is holds:
            self.policy.holds = before
        return failure


class OwnedSpace:
    def __init__(self, owner: ThreadedStore[Any], space: str) -> None:
        self._owner = owner
        self._space = space

    def put(self, key: bytes, value: bytes) -> Deferred[None]:
        return self.change({key: value})

    def delete(self, key: bytes) -> Deferred[None]:
        return self.change({key: None})

    def change(self, changes: Mapping[bytes, bytes | None]) -> Deferred[None]:
        checkChanges(changes)
        return self._owner.ask(ChangeJob(self._space, changes) if changes else BarrierJob())
