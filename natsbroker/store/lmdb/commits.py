"""
The thread that writes, and group commit.

Each commit is one transaction that LMDB syncs before it returns; only then is the reactor told.

When a commit fails because there is no space, everything in the queue fails with it and the next
request is tried anew. When it fails for any other reason, or there was no space for the page where
LMDB notes it, nothing is written with this handle any more: the database is opened again and
verified, and only if that succeeds it goes on.

Promises: Deferreds fire in the reactor's thread, in the order of the requests, and never
successfully before what they stand for is on disk.
Must never know: what the requests are about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import lmdb
from twisted.internet.interfaces import IReactorFromThreads

from natsbroker._istore import StoreFull
from natsbroker.store.blocks import Block
from natsbroker.store.committing import CommitThread, IRefusing
from natsbroker.store.jobs import Job
from natsbroker.store.lmdb.environment import Environment, asStoreError, asStoreFailed
from natsbroker.store.lmdb.files import Commits, Mark, Marks
from natsbroker.store.lmdb.layout import LogRow
from natsbroker.store.lmdb.transaction import Transaction
from natsbroker.store.policy import Policy, sweepAgain

__all__ = ["Committer", "ICommitOwner", "Opened", "Outcome"]

LOG_WEIGHT = 16384
"""How many bytes of pages a commit may write for each log in it, beside its records."""

RESERVED = 16384
"""How many sequences are reserved at a time."""

GENERATIONS = 16
"""By how much generations jump when the database is opened, or a commit failed."""


@dataclass
class Opened:
    """
    A store that was opened and verified.

    @ivar environment: its database.
    @ivar mark: the random number that all its values begin with.
    @ivar base: what is added to a transaction's number to get its generation.
    @ivar rows: the logs, by identity.
    @ivar holds: their holds.
    @ivar marks: what is reserved.
    @ivar commits: the count of commits.
    @ivar damage: records that are lost: a log's name, a range and a reason.
    @ivar states: values of state that are lost: the space, the key and a reason.
    @ivar repaired: what was done about it, for the log of the broker; empty if nothing was.
    """

    environment: Environment
    mark: bytes
    base: int
    rows: dict[int, LogRow]
    holds: dict[int, dict[str, int]]
    marks: Marks
    commits: Commits
    damage: list[tuple[str, int, int, str]] = field(default_factory=list)
    states: list[tuple[str, bytes, str]] = field(default_factory=list)
    repaired: str = ""

    def close(self) -> None:
        """
        Let go of the files.
        """
        self.environment.close()
        self.commits.close()


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    What a commit did.

    @ivar jobs: which are done.
    @ivar rows: the logs in it, by identity; they are not changed afterwards.
    @ivar oldest: timestamps of the oldest records, of those among them that limit the age.
    @ivar touched: blocks that are not what they were.
    """

    jobs: Sequence[Job]
    rows: dict[int, LogRow] = field(default_factory=dict)
    oldest: dict[int, int] = field(default_factory=dict)
    touched: set[tuple[int, int]] = field(default_factory=set)


class ICommitOwner(IRefusing, Protocol):
    """
    Who is told, in the reactor's thread.
    """

    def committed(self, outcome: Outcome) -> None:
        """
        A commit is on disk.
        """

    def reopened(self, opened: Opened) -> None:
        """
        The store was opened again after a failure.
        """


class Committer(CommitThread[ICommitOwner]):
    """
    The thread that writes.
    """

    def __init__(
        self,
        reactor: IReactorFromThreads,
        opened: Opened,
        reopen: Callable[[], Opened],
        owner: ICommitOwner,
        policies: dict[int, Policy],
        now: Callable[[], int],
        release: Callable[[], None],
    ) -> None:
        """
        @param reopen: opens and verifies the store again, in this thread.
        @param policies: what the logs keep, by identity; changed by the reactor's thread.
        @param now: the wall clock, in nanoseconds.
        @param release: lets go of the store's lock.
        """
        super().__init__(reactor, owner)
        self._opened = opened
        self._reopen = reopen
        self._policies = policies
        self._now = now
        self._release = release
        self._rows = dict(opened.rows)
        self._heads: dict[int, Block] = {}
        self._formatted = False
        self.leftover = {row.identity for row in self._rows.values() if row.dropped}
        self._unmarked: set[int] = set()

    def commitGroup(self, jobs: list[Job]) -> None:
        """
        Commit, and tell the reactor.
        """
        if not self.leftover and not any(job.writes for job in jobs):
            self.reactor.callFromThread(self.owner.committed, Outcome(jobs))
            return
        try:
            transaction, gone = self._commit(jobs)
        except lmdb.MapFullError as failure:
            if self._opened.environment.grow():
                self.commitGroup(jobs)
            else:
                self._fail(jobs, failure)
        except Exception as failure:
            self._fail(jobs, failure)
        else:
            outcome = self._committed(transaction, jobs, gone)
            self.reactor.callFromThread(self.owner.committed, outcome)
            self._note(transaction)

    def _commit(self, jobs: list[Job]) -> tuple[Transaction, list[int]]:
        """
        Do what the jobs ask in one transaction, and have it synced.

        @return: the transaction, and dropped logs of which nothing is left.
        """
        opened = self._opened
        identities = {job.identity for job in jobs} | self.leftover
        weight = sum(job.weight for job in jobs) + LOG_WEIGHT * len(identities)
        opened.environment.prepare(weight)
        txn = opened.environment.begin()
        try:
            transaction = Transaction(
                txn,
                opened.mark,
                opened.base + txn.id(),
                self._rows,
                self._policies,
                self._heads,
                self._now(),
            )
            gone = self._apply(transaction, jobs)
            self._reserve(transaction)
            txn.commit()
        except BaseException:
            txn.abort()
            raise
        return transaction, gone

    def _apply(self, transaction: Transaction, jobs: Sequence[Job]) -> list[int]:
        """
        Write everything.

        @return: dropped logs of which nothing is left.
        """
        if not self._formatted:
            transaction.putFormat(self._opened.base)
        for job in jobs:
            job.apply(transaction)
        gone = []
        for identity in self.leftover:
            row = self._rows[identity]
            if not row.dropped:
                transaction.log(identity)
            elif transaction.dropSlice(row):
                gone.append(identity)
        transaction.finish()
        return gone

    def _reserve(self, transaction: Transaction) -> None:
        """
        Have it on disk how far the logs may write, before they do.
        """
        marks = self._opened.marks
        logs = dict(marks.logs)
        for identity, writer in transaction.writers.items():
            row = writer.row
            known = logs.get(identity)
            if not row.dropped and (known is None or row.last > known.reserved):
                logs[identity] = Mark(row.name, row.last + RESERVED)
        if logs != marks.logs:
            marks.write(self._opened.mark, logs)

    def _committed(
        self, transaction: Transaction, jobs: Sequence[Job], gone: Sequence[int]
    ) -> Outcome:
        """
        Take over what is durable now.
        """
        self._formatted = True
        outcome = Outcome([job for job in jobs if job.isDone()], touched=transaction.touched)
        self.unfinished = [job for job in jobs if not job.isDone()]
        for identity, writer in transaction.writers.items():
            self._rows[identity] = writer.row
            outcome.rows[identity] = writer.row
            if writer.oldest is not None:
                outcome.oldest[identity] = writer.oldest
            if writer.row.dropped or identity in transaction.unfinished:
                self.leftover.add(identity)
            else:
                self.leftover.discard(identity)
            if writer.row.dropped:
                self._unmarked.add(identity)
                self._heads.pop(identity, None)
        for identity in gone:
            del self._rows[identity]
            self.leftover.discard(identity)
        return outcome

    def _note(self, transaction: Transaction) -> None:
        """
        Write down beside the database what was committed. If that fails, what was committed is
        there all the same, and no more is taken. A commit that changed nothing is none for LMDB:
        its generation is that of the next one, and may not be noted yet.
        """
        opened = self._opened
        try:
            if transaction.generation <= opened.base + opened.environment.lastTransaction():
                opened.commits.write(transaction.generation)
            marks = opened.marks
            if self._unmarked & marks.logs.keys():
                kept = {key: each for key, each in marks.logs.items() if key not in self._unmarked}
                marks.write(opened.mark, kept)
            self._unmarked.clear()
        except OSError as failure:
            self._fail([], failure)

    def _fail(self, jobs: list[Job], failure: Exception) -> None:
        """
        Refuse what was asked, now and until the reactor knows.
        """
        environment = self._opened.environment
        error = asStoreError(failure)
        if isinstance(error, StoreFull) and environment.isBroken():
            error = asStoreFailed(failure)
        self._heads.clear()
        self._opened.base += GENERATIONS
        self._formatted = False
        sweepAgain(self._policies)
        if not isinstance(error, StoreFull):
            error.__cause__ = failure
        self.refuse(jobs, error)
        if not isinstance(error, StoreFull):
            environment.stopWriting()

    def openAgain(self) -> None:
        """
        Open and verify the store again; if that fails, go on for reading.
        """
        environment = self._opened.environment
        environment.suspend()
        self._opened.commits.close()
        try:
            opened = self._reopen()
        except Exception as failure:
            environment.stopWriting()
            self.reactor.callFromThread(self.owner.refused, [], asStoreFailed(failure))
            return
        environment.succeed(opened.environment)
        self._opened = opened
        self._rows = dict(opened.rows)
        self.leftover = {row.identity for row in self._rows.values() if row.dropped}
        self._formatted = False
        self.takeAgain()
        self.reactor.callFromThread(self.owner.reopened, opened)

    def leave(self) -> None:
        """
        Let go of everything.
        """
        self._opened.close()
        self._release()
