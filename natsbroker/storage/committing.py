"""
The writing thread of a store. Requests that arrive during a commit form the next commit. After a
failure all of them fail at once, without an attempt.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Sequence
from enum import Enum
from time import perf_counter
from typing import Any, Generic, Protocol, TypeVar

from twisted.internet.interfaces import IReactorFromThreads

from natsbroker.interfaces.records import Histogram, StoreClosed, StoreError, StoreFailed
from natsbroker.storage.jobs import AppendJob, Job

LARGEST_GROUP = 32 << 20
"""The bytes of requests that one commit takes, unless a single one is larger."""


SECONDS = (
    *(0.000025, 0.00005, 0.0001, 0.00025, 0.0005),
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
RECORDS = tuple(2.0**power for power in range(15))
BYTES = tuple(4.0**power for power in range(3, 14))


class _Values:
    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def histogram(self) -> Histogram:
        return Histogram(self.bounds, tuple(self.counts), self.total)


class CommitFigures:
    def __init__(self) -> None:
        self._commits = _Values(SECONDS)
        self._syncs = _Values(SECONDS)
        self._records = _Values(RECORDS)
        self._bytes = _Values(BYTES)

    def synced(self, seconds: float) -> None:
        """Count a write that has waited for the disk, or the database."""
        self._syncs.add(seconds)

    def committed(self, jobs: Sequence[Job], seconds: float) -> None:
        """Count a durable group. C{seconds} have passed since it was closed."""
        appends = [job.encoded for job in jobs if isinstance(job, AppendJob)]
        records = sum([len(append.blobs) for append in appends])
        self.appended(records, sum([append.size for append in appends]), seconds)

    def appended(self, records: int, size: int, seconds: float) -> None:
        """Count the records, and their bytes, of a durable group."""
        self._commits.add(seconds)
        self._records.add(records)
        self._bytes.add(size)

    def written(self, records: int, size: int, seconds: float) -> None:
        """Count the records, and their bytes, of a group that became durable with one write."""
        # Without a call for each number, because many groups are a single publish.
        for values, value in (
            (self._syncs, seconds),
            (self._commits, seconds),
            (self._records, records),
            (self._bytes, size),
        ):
            values.counts[bisect_left(values.bounds, value)] += 1
            values.total += value

    def histograms(self) -> tuple[Histogram, Histogram, Histogram, Histogram]:
        """
        Histograms of the seconds of commits and of syncs, and of the records and bytes of commits.
        """
        return (
            self._commits.histogram(),
            self._syncs.histogram(),
            self._records.histogram(),
            self._bytes.histogram(),
        )


class IRefusing(Protocol):
    def refused(self, jobs: Sequence[Job], error: StoreError) -> None:
        """Note that jobs failed, and all that were requested after them."""

    def stopped(self) -> None:
        """Note that the thread has ended, and has released everything."""


Owner = TypeVar("Owner", bound=IRefusing)


class Holder(Enum):
    """
    The holder of the commit. The thread takes the commit when it is woken, and gives it up before
    it waits. Meanwhile the reactor may lend it to a L{CommitThread.handOver}, and passes it on
    afterwards.
    """

    NOBODY = "nobody"
    THREAD = "the thread"
    WRITER = "what was handed over"
    REACTOR = "the reactor"


class CommitThread(Generic[Owner]):
    """
    @ivar leftover: logs that need more work than one commit should do.
    @ivar unfinished: jobs that the last commit did in part.
    @ivar figures: counts commits.
    """

    def __init__(self, reactor: IReactorFromThreads, owner: Owner) -> None:
        self.reactor = reactor
        self.owner = owner
        self.leftover: set[int] = set()
        self.unfinished: list[Job] = []
        self.figures = CommitFigures()
        # Taken by itself, the lock costs a third of what it does by way of the condition.
        self._lock = threading.RLock()
        self._condition = threading.Condition(self._lock)
        self._holder = Holder.NOBODY
        self._isRelaxing = False
        self._queue: list[Job] = []
        self._failed: tuple[list[Job], Exception] | None = None
        self._refusal: StoreError | None = None
        self._reopening = False
        self._closing = False
        self._told = self._toTell = 0
        self._thread = threading.Thread(target=self._run, name="natsbroker-store", daemon=True)

    def start(self) -> None:
        self._thread.start()

    # In the reactor's thread

    def submit(self, job: Job) -> StoreError | None:
        with self._lock:
            if self._refusal is not None:
                return self._refusal
            if self._isRelaxing:
                job.isRelaxed = True
            self._queue.append(job)
            if self._holder is Holder.NOBODY:
                if self._isPlain() and self.gathers(self._queue, False):
                    self._holder = Holder.REACTOR
                else:
                    self._pass()
            elif self._holder is Holder.REACTOR and self.isGathered(self._queue):
                self._offered()
        return None

    def _pass(self) -> None:
        """Have the waiting jobs done. Called with the condition, while nobody has the commit."""
        mustWait = self._failed is not None or self._reopening or self._closing
        if not mustWait and self._told == self._toTell and self.handOver(self._queue):
            self._holder = Holder.WRITER
            self._queue = []
        else:
            self._holder = Holder.THREAD
            self._condition.notify()

    def together(self, call: Callable[[], object]) -> None:
        """
        Call something, and have what it submits done as one group if nothing is underway. It is
        relaxed (L{Job.isRelaxed}).
        """
        with self._lock:
            isLent = self._holder is Holder.NOBODY
            if isLent:
                self._holder = Holder.REACTOR
        wasRelaxing, self._isRelaxing = self._isRelaxing, True
        try:
            call()
        finally:
            self._isRelaxing = wasRelaxing
            if isLent:
                self._offered()

    def _offered(self) -> None:
        with self._lock:
            if self._holder is Holder.REACTOR:
                self._holder = Holder.NOBODY
                if self._hasWork():
                    self._pass()

    def handedBack(self, jobs: Sequence[Job] = (), failure: Exception | None = None) -> None:
        """
        @param jobs: the jobs that were not done. The thread does them before all that wait.
        @param failure: an error after which the thread refuses these jobs and all that wait.
        """
        with self._lock:
            self._holder = Holder.NOBODY
            if failure is not None:
                self._failed = list(jobs), failure
            else:
                self._queue[:0] = jobs
            if jobs and failure is None:
                self._holder = Holder.THREAD
                self._condition.notify()
            elif self._hasWork():
                if self._isPlain() and self.gathers(self._queue, True):
                    self._holder = Holder.REACTOR
                else:
                    self._pass()

    def gathers(self, jobs: list[Job], wereWaiting: bool) -> bool:
        """
        Whether to wait for more jobs, until L{isGathered} is true or L{_offered} is called. May be
        overridden with L{handOver}. Called with the condition.

        @param wereWaiting: whether the jobs were requested before the last commit was answered.
        """
        return False

    def isGathered(self, jobs: list[Job]) -> bool:
        """Whether the waiting jobs have waited long enough. Called with the condition."""
        return False

    def accept(self) -> None:
        """Accept requests again, after those that failed were reported."""
        with self._condition:
            if not isinstance(self._refusal, (StoreClosed, StoreFailed)):
                self._refusal = None

    def takeAgain(self) -> None:
        """
        Accept requests again, once the reactor knows the content of the store that was opened
        again. An append that is requested before that would have an outdated sequence.
        """
        with self._condition:
            if not isinstance(self._refusal, StoreClosed):
                self._refusal = None
            self._condition.notify()

    def tryAgain(self) -> None:
        with self._condition:
            self._reopening = True
            self._condition.notify()

    def close(self) -> None:
        with self._condition:
            self._closing = True
            self._refusal = StoreClosed("the store is closed")
            self._condition.notify()

    def ended(self) -> None:
        self.owner.stopped()

    def tell(self, call: Callable[..., None], *arguments: Any) -> None:
        self._toTell += 1
        self.reactor.callFromThread(self._telling, call, *arguments)

    def _telling(self, call: Callable[..., None], *arguments: Any) -> None:
        self._told += 1
        call(*arguments)

    def handOver(self, jobs: list[Job]) -> bool:
        """
        Whether all of these jobs are committed without the thread. L{handedBack} then ends that.
        May be overridden. Called with the condition, while nobody has the commit.
        """
        return False

    # In the thread that writes, to be overridden

    def maySuit(self, jobs: list[Job]) -> bool:
        """
        Whether L{handOver} may take these jobs. May be overridden with it. Called with the
        condition.
        """
        return False

    def commitGroup(self, jobs: list[Job]) -> bool:
        """Commit the waiting jobs. Return whether there were any, and they are durable."""
        raise NotImplementedError

    def commitFailed(self, jobs: list[Job], failure: Exception) -> None:
        """Refuse the jobs that were handed over and failed, and all that wait."""

    def openAgain(self) -> None:
        """
        Open the store again after a failure, and inform the owner, which calls L{takeAgain}; or
        call L{refuse}.
        """
        raise NotImplementedError

    def leave(self) -> None:
        raise NotImplementedError

    # In the thread that writes

    def _run(self) -> None:
        while (jobs := self._next()) is not None:
            if self._failed is not None:
                failed, self._failed = self._failed, None
                self.commitFailed(*failed)
            elif self._reopening:
                self._reopening = False
                self.openAgain()
            else:
                began = perf_counter()
                if self.commitGroup(jobs):
                    self.figures.committed(jobs, perf_counter() - began)
        self.leave()
        self.tell(self.ended)

    def _next(self) -> list[Job] | None:
        with self._condition:
            if self._holder is Holder.THREAD and self._isPlain() and self.maySuit(self._queue):
                self._holder = Holder.REACTOR
                self.reactor.callFromThread(self._offered)
            while not self._hasWork() or self._holder in (Holder.WRITER, Holder.REACTOR):
                if self._holder is Holder.THREAD:
                    self._holder = Holder.NOBODY
                self._condition.wait()
            self._holder = Holder.THREAD
            if self._failed is not None or (self._reopening and not self._closing):
                return []
            self._reopening = False
            if self._closing and not self._queue and not self.unfinished:
                return None
            weight = 0
            taken = 0
            for job in self._queue:
                weight += job.weight
                if taken and weight > LARGEST_GROUP:
                    break
                taken += 1
            jobs, self._queue = self._queue[:taken], self._queue[taken:]
            unfinished, self.unfinished = self.unfinished, []
            return unfinished + jobs

    def _isPlain(self) -> bool:
        """Whether there is no other work than the waiting jobs. Called with the condition."""
        isElse = self._reopening or self._closing or self._failed
        return bool(self._queue) and not (isElse or self.unfinished or self.leftover)

    def _hasWork(self) -> bool:
        return bool(
            self._queue
            or self._reopening
            or self._closing
            or self._failed
            or (self._refusal is None and (self.unfinished or self.leftover))
        )

    def refuse(self, jobs: list[Job], error: StoreError) -> None:
        """Refuse the requested jobs, and further ones until the reactor knows."""
        with self._condition:
            jobs = jobs + self.unfinished + self._queue
            self._queue = []
            self.unfinished = []
            if not isinstance(self._refusal, StoreClosed):
                self._refusal = error
        self.tell(self.owner.refused, jobs, error)

    def freeing(self, jobs: list[Job]) -> list[Job]:
        """The jobs to do now. Jobs that need space wait for the deletions before them."""
        count = next((n for n, job in enumerate(jobs) if not job.frees), len(jobs))
        if not count and not self.leftover:
            return jobs
        with self._lock:
            self._queue[:0] = jobs[count:]
        return jobs[:count]
