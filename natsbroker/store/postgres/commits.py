"""
The thread that writes, and group commit.

What is asked while a commit runs waits in a queue, and all of it is the next transaction; the
reactor is told when the server has said that it is durable.

A connection can be lost at any moment. Before C{COMMIT} was sent, nothing of the transaction will
ever be there, and it is made again over a new connection. After it was sent, either may be the
case: the count of commits, which changes in each transaction, is read over a new connection,
behind the lock of the lost one, and says what happened. If there is no new connection within a
second, what was asked fails, and the store is opened again later.

Promises: Deferreds fire in the reactor's thread, in the order of the requests, and never
successfully before what they stand for is durable. A transaction is not made twice.
Must never know: what the requests are about.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import psycopg
from psycopg import errors
from twisted.internet.interfaces import IReactorFromThreads
from twisted.logger import Logger

from natsbroker._istore import StoreClosed, StoreError, StoreFailed
from natsbroker.store.postgres.connecting import asStoreError
from natsbroker.store.postgres.jobs import Job
from natsbroker.store.postgres.leasing import Space
from natsbroker.store.postgres.rows import LogRow, Policy
from natsbroker.store.postgres.session import Session
from natsbroker.store.postgres.writing import Transaction

__all__ = ["Committer", "ICommitOwner", "Outcome"]

LARGEST_GROUP = 32 << 20
"""How many bytes of requests one commit takes, unless a single one is larger."""

PATIENCE = 1.0
"""Seconds in which a lost connection is replaced before what was asked fails."""

PAUSE = 0.05
"""Seconds between two attempts at that."""

ATTEMPTS = 5
"""How often a transaction is made that fails again and again for reasons that may pass."""

_AGAIN = (errors.SerializationFailure, errors.DeadlockDetected)

_log = Logger(namespace="natsbroker.store.postgres")


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    What a commit did.

    @ivar jobs: which are done.
    @ivar rows: the logs in it, by identity; they are not changed afterwards.
    @ivar lost: logs that turned out to be another broker's.
    """

    jobs: Sequence[Job]
    rows: dict[int, LogRow] = field(default_factory=dict)
    lost: Sequence[LogRow] = ()


class ICommitOwner(Protocol):
    """
    Who is told, in the reactor's thread.
    """

    def committed(self, outcome: Outcome) -> None:
        """
        A commit is durable.
        """

    def refused(self, jobs: Sequence[Job], error: StoreError) -> None:
        """
        Jobs failed, and everything that was asked after them.
        """

    def reopened(self, rows: Mapping[int, LogRow]) -> None:
        """
        The store was opened again after a failure.

        @param rows: the logs that are held still.
        """

    def stopped(self) -> None:
        """
        The thread has ended, and its connection is closed.
        """


class Committer:
    """
    The thread that writes.
    """

    def __init__(
        self,
        reactor: IReactorFromThreads,
        session: Session,
        owner: ICommitOwner,
        policies: Mapping[int, Policy],
        now: Callable[[], int],
    ) -> None:
        """
        @param session: the connection, open.
        @param policies: what the logs keep, by identity; changed by the reactor's thread.
        @param now: the wall clock, in nanoseconds.
        """
        self._reactor = reactor
        self._session = session
        self._owner = owner
        self._policies = policies
        self._now = now
        self._rows: dict[int, LogRow] = {row.identity: row for row in session.leftover}
        self._spaces: dict[str, Space] = {}
        self._lostSpaces: set[str] = set()
        self._leftover: set[int] = set(self._rows)
        self._unfinished: list[Job] = []
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

    # In the thread that writes

    def _run(self) -> None:
        """
        Commit until closed.
        """
        while True:
            jobs = self._next()
            if jobs is None:
                break
            if self._reopening:
                self._openAgain()
            else:
                self._commitGroup(jobs)
        try:
            self._session.leave()
        except psycopg.Error as failure:
            _log.warn("The leases were not given up, and end by themselves: {why}", why=failure)
        self._reactor.callFromThread(self._owner.stopped)

    def _next(self) -> list[Job] | None:
        """
        Wait for something to do.

        @return: the jobs of the next commit; L{None} to end.
        """
        with self._condition:
            while not (self._queue or self._reopening or self._closing):
                if self._refusal is None and (self._unfinished or self._leftover):
                    break
                self._condition.wait()
            if self._reopening and not self._closing:
                return []
            self._reopening = False
            if self._closing and not self._queue and not self._unfinished:
                return None
            weight = 0
            taken = 0
            for job in self._queue:
                weight += job.weight
                if taken and weight > LARGEST_GROUP:
                    break
                taken += 1
            jobs, self._queue = self._queue[:taken], self._queue[taken:]
            unfinished, self._unfinished = self._unfinished, []
            return unfinished + jobs

    def _commitGroup(self, jobs: list[Job]) -> None:
        """
        Commit, and tell the reactor.
        """
        if not self._leftover and not any(job.writes for job in jobs):
            self._reactor.callFromThread(self._owner.committed, Outcome(jobs))
            return
        try:
            transaction = self._commit(jobs)
        except Exception as failure:
            self._fail(jobs, failure)
        else:
            outcome = self._committed(transaction, jobs)
            self._reactor.callFromThread(self._owner.committed, outcome)

    def _commit(self, jobs: Sequence[Job]) -> Transaction:
        """
        Do what the jobs ask in one transaction, and have it made durable.

        @return: the transaction.
        """
        session = self._session
        deadline = time.monotonic() + PATIENCE
        attempts = 0
        while True:
            transaction: Transaction | None = None
            try:
                session.begin()
                transaction = self._transaction()
                self._apply(transaction, jobs)
                session.commit()
                return transaction
            except BaseException as failure:
                self._sweepAgain()
                attempts += 1
                if session.rollBack():
                    if not isinstance(failure, _AGAIN) or attempts >= ATTEMPTS:
                        raise
                elif isinstance(failure, psycopg.Error):
                    self._replace(failure, deadline)
                    if transaction is not None and session.hasCommitted():
                        return transaction
                    if attempts >= ATTEMPTS:
                        raise
                else:
                    raise

    def _transaction(self) -> Transaction:
        return Transaction(
            self._session.connection,
            self._session.holder,
            self._rows,
            self._spaces,
            self._lostSpaces,
            self._policies,
            self._now(),
        )

    def _apply(self, transaction: Transaction, jobs: Sequence[Job]) -> None:
        """
        Write everything.
        """
        identities = {job.identity for job in jobs} | self._leftover
        transaction.lock(identities, {job.space for job in jobs})
        for job in jobs:
            job.tryIn(transaction)
        transaction.finish()

    def _sweepAgain(self) -> None:
        """
        Look at all subjects again: what was done about them was not.
        """
        for policy in list(self._policies.values()):
            if policy.retention.perSubject:
                policy.sweep = b""

    def _replace(self, failure: psycopg.Error, deadline: float) -> None:
        """
        Replace a lost connection.

        @raise psycopg.Error: if there is no other for so long.
        """
        while True:
            try:
                self._session.connect()
                return
            except psycopg.OperationalError:
                if time.monotonic() >= deadline:
                    raise failure from None
                time.sleep(PAUSE)

    def _committed(self, transaction: Transaction, jobs: Sequence[Job]) -> Outcome:
        """
        Take over what is durable now.
        """
        self._unfinished = [job for job in jobs if not job.isDone()]
        self._rows = transaction.rows
        self._spaces, self._lostSpaces = transaction.spaces, transaction.lostSpaces
        rows = {identity: writer.row for identity, writer in transaction.writers.items()}
        dropped = {identity for identity, row in rows.items() if row.dropped}
        self._leftover = (self._leftover - rows.keys() - transaction.lost.keys()) | (
            transaction.unfinished | dropped
        )
        for identity in (*transaction.gone, *transaction.givenUp):
            del self._rows[identity]
            self._leftover.discard(identity)
        lost = [row for row in transaction.lost.values() if not row.dropped]
        return Outcome([job for job in jobs if job.isDone()], rows, lost)

    def _fail(self, jobs: list[Job], failure: Exception) -> None:
        """
        Refuse what was asked, now and until the reactor knows.
        """
        error = asStoreError(failure)
        with self._condition:
            jobs = jobs + self._queue
            self._queue = []
            self._unfinished = []
            if not isinstance(self._refusal, StoreClosed):
                self._refusal = error
        self._reactor.callFromThread(self._owner.refused, jobs, error)

    def _openAgain(self) -> None:
        """
        Open the store again, and read again what it holds.
        """
        self._reopening = False
        try:
            rows, spaces = self._session.openAgain(self._rows, self._spaces)
        except Exception as failure:
            self._fail([], failure)
            return
        self._lostSpaces |= self._spaces.keys() - spaces.keys()
        self._rows, self._spaces = rows, spaces
        self._leftover &= self._rows.keys()
        with self._condition:
            if not isinstance(self._refusal, StoreClosed):
                self._refusal = None
        self._reactor.callFromThread(self._owner.reopened, rows)
