"""
The writing thread, and its group commit.

Each commit is one transaction. The reactor learns of it when the server confirms that it is
durable. A connection can be lost at any moment. If C{COMMIT} was not sent, nothing of the
transaction is stored, and it is repeated over a new connection. If it was sent, the outcome is read
over a new connection, behind the lock of the lost one: the count of commits, which changes in each
transaction, shows it. Without a new connection within a second the requests fail, and the store is
opened again later.

Deferreds fire in the reactor's thread, in the order of the requests, and never successfully before
their requests are durable. A transaction is never applied twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import psycopg
from psycopg import errors
from twisted.internet.interfaces import IReactorFromThreads
from twisted.logger import Logger

from natsbroker.interfaces.records import StoreFailed
from natsbroker.storage.committing import CommitThread, IRefusing
from natsbroker.storage.jobs import Job
from natsbroker.storage.policy import Policy, sweepAgain
from natsbroker.storage.postgres.connecting import asStoreError
from natsbroker.storage.postgres.leasing import Holdings
from natsbroker.storage.postgres.schema import PostgresLogRow
from natsbroker.storage.postgres.session import Session
from natsbroker.storage.postgres.writing import PostgresTransaction

PATIENCE = 1.0
"""Seconds in which a lost connection is replaced before what was asked fails."""

PAUSE = 0.05
"""Seconds between two attempts at that."""

ATTEMPTS = 5
"""The attempts at a transaction that fails again and again for reasons that may pass."""

_AGAIN = (errors.SerializationFailure, errors.DeadlockDetected)

_log = Logger(namespace="natsbroker.storage.postgres")


@dataclass(frozen=True, slots=True)
class PostgresCommit:
    """
    @ivar lost: logs that another broker has taken.
    """

    jobs: Sequence[Job]
    rows: dict[int, PostgresLogRow] = field(default_factory=dict)
    lost: Sequence[PostgresLogRow] = ()


class IPostgresCommitOwner(IRefusing, Protocol):
    def committed(self, outcome: PostgresCommit) -> None: ...

    def reopened(self, rows: Mapping[int, PostgresLogRow]) -> None:
        """Take the logs that are still held after the store was opened again."""


class PostgresCommitter(CommitThread[IPostgresCommitOwner]):
    def __init__(
        self,
        reactor: IReactorFromThreads,
        session: Session,
        owner: IPostgresCommitOwner,
        policies: Mapping[int, Policy],
        now: Callable[[], int],
    ) -> None:
        super().__init__(reactor, owner)
        self._session = session
        self._policies = policies
        self._now = now
        self._held = Holdings({row.identity: row for row in session.leftover})
        self.leftover = set(self._held.rows)

    def leave(self) -> None:
        try:
            self._session.leave()
        except (psycopg.Error, StoreFailed) as failure:
            _log.warn("The leases were not given up, and end by themselves: {why}", why=failure)

    def commitGroup(self, jobs: list[Job]) -> bool:
        if not self.leftover and not any(job.writes for job in jobs):
            self.tell(self.owner.committed, PostgresCommit(jobs))
            return False
        try:
            transaction = self._commit(jobs)
        except Exception as failure:
            self.refuse(jobs, asStoreError(failure))
            return False
        outcome = self._committed(transaction, jobs)
        self.tell(self.owner.committed, outcome)
        return True

    def _commit(self, jobs: Sequence[Job]) -> PostgresTransaction:
        session = self._session
        deadline = time.monotonic() + PATIENCE
        attempts = 0
        while True:
            transaction: PostgresTransaction | None = None
            try:
                session.begin()
                transaction = PostgresTransaction(session, self._held, self._policies, self._now())
                self._apply(transaction, jobs)
                began = time.perf_counter()
                session.commit()
                self.figures.synced(time.perf_counter() - began)
                return transaction
            except BaseException as failure:
                sweepAgain(self._policies)
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

    def _apply(self, transaction: PostgresTransaction, jobs: Sequence[Job]) -> None:
        identities = {job.identity for job in jobs} | self.leftover
        transaction.lock(identities, {job.space for job in jobs})
        for job in jobs:
            job.tryIn(transaction)
        transaction.finish()

    def _replace(self, failure: psycopg.Error, deadline: float) -> None:
        while True:
            try:
                self._session.connect()
                return
            except psycopg.OperationalError:
                if time.monotonic() >= deadline:
                    raise failure from None
                time.sleep(PAUSE)

    def _committed(self, transaction: PostgresTransaction, jobs: Sequence[Job]) -> PostgresCommit:
        self.unfinished = [job for job in jobs if not job.isDone()]
        self._held = transaction.held
        rows = {identity: writer.row for identity, writer in transaction.writers.items()}
        dropped = {identity for identity, row in rows.items() if row.dropped}
        self.leftover = (self.leftover - rows.keys() - transaction.lost.keys()) | (
            transaction.unfinished | dropped
        )
        for identity in (*transaction.gone, *transaction.givenUp):
            del self._held.rows[identity]
            self.leftover.discard(identity)
        lost = [row for row in transaction.lost.values() if not row.dropped]
        return PostgresCommit([job for job in jobs if job.isDone()], rows, lost)

    def openAgain(self) -> None:
        try:
            self._held = self._session.openAgain(self._held)
        except Exception as failure:
            self.refuse([], asStoreError(failure))
            return
        self.leftover &= self._held.rows.keys()
        self.tell(self.owner.reopened, self._held.rows)
