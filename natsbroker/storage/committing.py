"""
The thread of a store that writes, and what it is asked to.

What is asked while a commit runs waits in a queue, and all of it is the next commit.

Requests are handed to the thread in the order in which they came, and what it tells of
them is told in the reactor's thread. After a failure everything in the queue fails with it, at once
and without being tried.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from twisted.internet.interfaces import IReactorFromThreads

from natsbroker.interfaces.records import StoreClosed, StoreError, StoreFailed
from natsbroker.storage.jobs import Job

__all__ = ["CommitThread", "IRefusing"]

LARGEST_GROUP = 32 << 20
"""How many bytes of requests one commit takes, unless a single one is larger."""


class IRefusing(Protocol):
    """
    Who is told, in the reactor's thread.
    """

    def refused(self, jobs: Sequence[Job], error: StoreError) -> None:
        """
        Jobs failed, and everything that was asked after them.
        """

    def stopped(self) -> None:
        """
        The thread has ended, and has let go of everything.
        """


Owner = TypeVar("Owner", bound=IRefusing)


class CommitThread(Generic[Owner]):
    """
    A thread that writes, to be derived from.

    @ivar leftover: logs of which there is more to do than one commit should.
    @ivar unfinished: jobs that the last commit did in part.
    """

    def __init__(self, reactor: IReactorFromThreads, owner: Owner) -> None:
        self.reactor = reactor
        self.owner = owner
        self.leftover: set[int] = set()
        self.unfinished: list[Job] = []
        self._condition = threading.Condition()
        self._queue: list[Job] = []
        self._refusal: StoreError | None = None
        self._reopening = False
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="natsbroker-store", daemon=True)

    def start(self) -> None:
        """
        Begin.
        """
        self._thread.start()

    # In the reactor's thread

    def submit(self, job: Job) -> StoreError | None:
        """
        Ask for something.

        @return: why it is refused, if it is: then nothing happens with the job.
        """
        with self._condition:
            if self._refusal is not None:
                return self._refusal
            self._queue.append(job)
            self._condition.notify()
        return None

    def accept(self) -> None:
        """
        Take requests again, after those that failed were told.
        """
        with self._condition:
            if not isinstance(self._refusal, (StoreClosed, StoreFailed)):
                self._refusal = None

    def tryAgain(self) -> None:
        """
        Open the store again, after a failure.
        """
        with self._condition:
            self._reopening = True
            self._condition.notify()

    def close(self) -> None:
        """
        Finish what was asked, then end.
        """
        with self._condition:
            self._closing = True
            self._refusal = StoreClosed("the store is closed")
            self._condition.notify()

    # In the thread that writes, to be overridden

    def commitGroup(self, jobs: list[Job]) -> None:
        """
        Commit, and tell the reactor.
        """
        raise NotImplementedError

    def openAgain(self) -> None:
        """
        Open the store again, after a failure; then call L{takeAgain}, or L{refuse}.
        """
        raise NotImplementedError

    def leave(self) -> None:
        """
        Let go of everything.
        """
        raise NotImplementedError

    # In the thread that writes

    def _run(self) -> None:
        """
        Commit until closed.
        """
        while (jobs := self._next()) is not None:
            if self._reopening:
                self._reopening = False
                self.openAgain()
            else:
                self.commitGroup(jobs)
        self.leave()
        self.reactor.callFromThread(self.owner.stopped)

    def _next(self) -> list[Job] | None:
        """
        Wait for something to do.

        @return: the jobs of the next commit; L{None} to end.
        """
        with self._condition:
            while not (self._queue or self._reopening or self._closing):
                if self._refusal is None and (self.unfinished or self.leftover):
                    break
                self._condition.wait()
            if self._reopening and not self._closing:
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

    def refuse(self, jobs: list[Job], error: StoreError) -> None:
        """
        Refuse what was asked, now and until the reactor knows.
        """
        with self._condition:
            jobs = jobs + self.unfinished + self._queue
            self._queue = []
            self.unfinished = []
            if not isinstance(self._refusal, StoreClosed):
                self._refusal = error
        self.reactor.callFromThread(self.owner.refused, jobs, error)

    def takeAgain(self) -> None:
        """
        Take requests again: the store was opened again.
        """
        with self._condition:
            if not isinstance(self._refusal, StoreClosed):
                self._refusal = None
