"""
A store that has a thread for writing and some for reading, in the reactor's thread.

Watchers learn when writing stops and resumes; after a failure the store is
opened again, later and later; closing finishes what was asked.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred, fail
from twisted.python.threadpool import ThreadPool

from natsbroker.interfaces import IStoreWatcher
from natsbroker.interfaces.records import StoreClosed, StoreError
from natsbroker.storage.aging import Aging
from natsbroker.storage.committing import CommitThread
from natsbroker.storage.jobs import Job
from natsbroker.storage.ownedlogs import OwnedLog
from natsbroker.storage.policy import Policy
from natsbroker.storage.watching import StoreHealth

Log = TypeVar("Log", bound=OwnedLog)


class ThreadedStore(Generic[Log]):
    """
    @cvar retryFirst: seconds between a failure and opening the store again.
    @cvar retryMost: seconds between attempts at most, when that fails again and again.
    @ivar now: the wall clock, in nanoseconds.
    """

    retryFirst: float
    retryMost: float

    _committer: CommitThread[Any]

    def __init__(self, reactor: Any, pool: ThreadPool, now: Callable[[], int]) -> None:
        self.now = now
        self.troubles = StoreHealth()
        self._reactor = reactor
        self._pool = pool
        self._aging = Aging(reactor)
        self._logs: MutableMapping[str, Log] = {}
        self._byIdentity: MutableMapping[int, Log] = {}
        self._policies: dict[int, Policy] = {}
        self._closed: StoreError | None = None
        self._closing: list[Deferred[None]] = []
        self._retry = self.retryFirst
        self._retryCall: Any = None

    # The interface

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
        """
        The store is being closed; to be overridden by who has more to end.
        """

    # For logs and state

    def ask(self, job: Job) -> Deferred[Any]:
        refused = self._closed or self._committer.submit(job)
        return job.deferred if refused is None else fail(refused)

    def ageWanted(self, log: Log, wanted: bool) -> None:
        if wanted:
            self._aging.want(log, log.enforceAge)
        else:
            self._aging.forget(log)

    # For the thread that writes, called in the reactor's

    def _done(self, jobs: Sequence[Job], hasWritten: bool) -> None:
        if hasWritten:
            self.troubles.writesResumed()
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
        self.troubles.writesResumed()

    def stopped(self) -> None:
        self._pool.stop()
        closing, self._closing = self._closing, []
        for each in closing:
            each.callback(None)
