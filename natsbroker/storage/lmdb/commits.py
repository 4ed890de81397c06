"""
The writing thread, and its group commit.

A group of requests is one transaction, which LMDB syncs before it returns. If the group only
appends or deletes a few records and changes values of state, it is one frame of the journal
instead. A frame needs one sync, or none with an interval between syncs. Then the reactor is
notified. The next transaction applies the journal: when anything else is requested, or the journal
is full. Limits are applied in transactions. So appends to a log at its limit are committed to the
database at once, unless it is a limit per subject and it is known which records it removes.

When a commit fails for lack of space, the whole queue fails with it, and the next request is
attempted. After any other failure, or without space for LMDB's own page, nothing is written with
this handle any more. The database is then opened again and verified.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, Protocol

import lmdb
from twisted.internet.interfaces import IReactorFromThreads
from twisted.logger import Logger

from natsbroker.interfaces.records import StoreError, StoreFull
from natsbroker.storage.blocks import Block
from natsbroker.storage.committing import CommitThread, IRefusing
from natsbroker.storage.grouping import MOST, MOST_UNSYNCED, GroupPatience
from natsbroker.storage.jobs import ChangeJob, Job
from natsbroker.storage.lmdb.backlog import (
    LOG_WEIGHT,
    SPARE,
    STEP,
    Backlog,
    JournalGroup,
    LMDBCommit,
)
from natsbroker.storage.lmdb.environment import asStoreError, asStoreFailed
from natsbroker.storage.lmdb.journal import LARGEST_FRAME, JournalAlarm, journalWriter
from natsbroker.storage.lmdb.opening import GENERATIONS, Opened
from natsbroker.storage.lmdb.transaction import (
    LMDBAppendJob,
    LMDBDeleteJob,
    LMDBTransaction,
    free,
    recordsIn,
)
from natsbroker.storage.lmdb.trimming import MOST_KNOWN, TrimmedLog
from natsbroker.storage.policy import Policy, sweepAgain

_log = Logger(namespace="natsbroker.storage.lmdb")

_JOURNALLED = (LMDBAppendJob, LMDBDeleteJob, ChangeJob)
"""The jobs that the journal takes."""

_WITHOUT_CHANGES = (LMDBAppendJob,)
"""The jobs that it takes while older versions can open the store, and if that is encrypted."""


class ILMDBCommitOwner(IRefusing, Protocol):
    def committed(self, outcome: LMDBCommit) -> None: ...

    def reopened(self, opened: Opened) -> None: ...

    def sizeOf(self, identity: int, sequence: int) -> tuple[bytes, int] | None:
        """The subject and the size of a record, if that is known without waiting."""


class LMDBCommitter(CommitThread[ILMDBCommitOwner]):
    def __init__(
        self,
        reactor: IReactorFromThreads,
        opened: Opened,
        reopen: Callable[[], Opened],
        owner: ILMDBCommitOwner,
        policies: dict[int, Policy],
        now: Callable[[], int],
        release: Callable[[], None],
        readers: Any,
    ) -> None:
        """C{reopen} verifies the store in this thread. The reactor's thread changes C{policies}."""
        super().__init__(reactor, owner)
        self._opened = opened
        self._reopen = reopen
        self._policies = policies
        self._now = now
        self._release = release
        self._rows = dict(opened.rows)
        self._heads: dict[int, Block] = {}
        self._oldest: dict[int, int] = {}
        self._formatted = False
        self.leftover = {row.identity for row in self._rows.values() if row.dropped}
        self._unmarked: set[int] = set()
        self._backlog = Backlog()
        self._trimmed: dict[int, TrimmedLog] = {}
        self._transaction = opened.environment.lastTransaction()
        self._writer = journalWriter(readers, self._written)
        self._handed: tuple[JournalGroup, float] | None = None
        isSynced = opened.journal is None or opened.journal.isSynced
        self._alarm = JournalAlarm(readers, self._ring) if self._writer else None
        self._patience = GroupPatience(MOST if isSynced else MOST_UNSYNCED)

    def commitGroup(self, jobs: list[Job]) -> bool:
        if self._opened.environment.full is not None:
            jobs = self.freeing(jobs)
        if not self.leftover and not any(job.writes for job in jobs):
            self.tell(self.owner.committed, LMDBCommit(jobs))
            return False
        try:
            self._opened.admitChanges()
            if self._journalled(jobs) or (self._catchUp(jobs) and self._journalled(jobs)):
                return True
            transaction, gone = self._commit(jobs)
        except Exception as failure:
            environment = self._opened.environment
            if isinstance(failure, lmdb.MapFullError):
                if environment.full is None and environment.grow():
                    return self.commitGroup(jobs)
                failure = environment.full or failure
            first = self.freeing(jobs) if isinstance(asStoreError(failure), StoreFull) else jobs
            if len(first) < len(jobs):
                self._undo()
                return self.commitGroup(first)
            self._fail(jobs, failure)
            return False
        self._announce(transaction, self._committed(transaction, jobs, gone))
        self._makeRoom()
        return True

    def _makeRoom(self) -> None:
        """Make room for jobs that are handed over from now on."""
        opened, room = self._opened, SPARE + STEP
        if opened.journal is not None and opened.environment.full is None:
            try:
                if opened.environment.promise(room):
                    self._backlog.room = room
            except OSError as failure:
                self._fail([], failure)

    def _journalled(self, jobs: list[Job]) -> bool:
        """Write jobs that append only a little to the journal, and inform the reactor."""
        opened, backlog = self._opened, self._backlog
        if opened.journal is None or self.leftover or not self._maySuit(jobs):
            return False
        self._learn(jobs)
        group = backlog.after(jobs, self._rows, self._policies, self._trimmed)
        if group is None:
            return False
        if group.room > backlog.room:
            # What is acknowledged must get into the database even if the disk is full by then.
            if not opened.environment.promise(group.room):
                return False
            backlog.room = group.room
        opened.marks.reserve(opened.mark, group.rows)
        self._begin(group)
        began = perf_counter()
        frame = group.generation, opened.generation, group.blobs, group.changes, group.mustSync
        if not opened.journal.append(*frame):
            return False
        self.figures.synced(perf_counter() - began)
        self._add(group)
        self.tell(self.owner.committed, group)
        self._noteGeneration(group.generation)
        return True

    def _begin(self, group: JournalGroup) -> None:
        self._opened.base += 1
        self._formatted = False
        group.generation = self._opened.base + self._transaction
        if known := self._oldest:
            group.oldest = {key: known[key] for key in group.rows if key in known}

    def _add(self, group: JournalGroup) -> None:
        self._backlog.add(group)
        if self._trimmed:
            for identity in group.rows:
                if identity not in group.trimmings:
                    self._trimmed.pop(identity, None)

    # In the reactor's thread

    def handOver(self, jobs: list[Job]) -> bool:
        """Let the journal's writer do L{_journalled} if only the frame must be written."""
        opened, backlog, journal = self._opened, self._backlog, self._opened.journal
        if self._writer is None or journal is None or self.leftover or self.unfinished:
            return False
        if not self._maySuit(jobs):
            return False
        known = self._rows, self._policies, self._trimmed, self.owner.sizeOf
        group = backlog.after(jobs, *known)
        if group is None or group.room > backlog.room or opened.marks.beyond(group.rows):
            return False
        self._begin(group)
        what = group.generation, opened.generation, group.blobs, group.changes, group.mustSync
        frame = journal.frame(*what)
        if not frame:
            return False
        began = perf_counter()
        how = self._patience.isAlone, group.mustSync
        self._writer.write(journal, frame, opened.commits, group.generation, *how)
        self._patience.writes(self._now())
        self._handed = group, began
        return True

    def maySuit(self, jobs: list[Job]) -> bool:
        isWritten = self._writer is not None and self._opened.journal is not None
        return isWritten and self._maySuit(jobs)

    def _maySuit(self, jobs: Sequence[Job]) -> bool:
        """Whether jobs are small and of kinds that the journal takes."""
        kinds = _JOURNALLED if self._opened.takesChanges else _WITHOUT_CHANGES
        weight = 0
        for job in jobs:
            weight += job.weight
            if weight > LARGEST_FRAME or not (isinstance(job, kinds) or not job.writes):
                return False
        return True

    def _written(self, failure: OSError | None, noteFailure: OSError | None) -> None:
        handed, self._handed = self._handed, None
        if handed is None or self._writer is None:
            return
        group, began = handed
        if failure is None:
            seconds = perf_counter() - began
            if self._patience.isAlone or group.states:
                # The only publisher continues meanwhile; the next state of a consumer joins the
                # waiting jobs.
                try:
                    self.owner.committed(group)
                    if not group.states:
                        self._writer.sendNow()
                finally:
                    self._settle(group, seconds, noteFailure)
            else:
                self._settle(group, seconds, noteFailure)
                self.owner.committed(group)
            if self._alarm is not None and self._alarm.isSet:
                self._alarm.set(self._patience.nanoseconds)  # The answers are being sent now.
        elif failure.errno == errno.EINVAL:
            # The thread knows another way to write to this file system.
            self.handedBack(group.jobs)
        else:
            self.handedBack(group.jobs, failure)

    def _settle(self, group: JournalGroup, seconds: float, noteFailure: OSError | None) -> None:
        self._add(group)
        if group.blobs:
            self._patience.wrote(len(group.blobs), self._now())
        self.handedBack(failure=noteFailure)
        self.figures.written(len(group.blobs), group.size, seconds)

    def gathers(self, jobs: list[Job], wereWaiting: bool) -> bool:
        if self._alarm is None or self._patience.isAlone or not self.maySuit(jobs):
            return False
        if {*map(type, jobs)} != {LMDBAppendJob}:
            return False
        if not self._patience.begin(recordsIn(jobs), wereWaiting, self._now()):
            return False
        self._alarm.set(self._patience.nanoseconds)
        return True

    def isGathered(self, jobs: list[Job]) -> bool:
        waiting = recordsIn(jobs)
        if self._alarm is None or not self._alarm.isSet or not self._patience.isComplete(waiting):
            return False
        self._alarm.set(0)
        self._patience.end(waiting)
        return True

    def _ring(self) -> None:
        self._patience.end(recordsIn(self._queue))
        self._offered()

    def ended(self) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._alarm is not None:
            self._alarm.close()
        super().ended()

    # In the thread that writes

    def _learn(self, jobs: Sequence[Job]) -> None:
        """Look up the records that limits per subject remove for appended ones."""
        subjects: dict[int, list[bytes]] = {}
        weight = 0
        for job in jobs:
            weight += job.weight
            if isinstance(job, LMDBAppendJob) and job.subjects:
                subjects.setdefault(job.identity, []).extend(job.subjects)
        if weight > LARGEST_FRAME:
            return
        for identity, subjectsOfLog in subjects.items():
            policy, row = self._policies.get(identity) or Policy(), self._rows.get(identity)
            limit, log = policy.retention.perSubject, self._trimmed.get(identity)
            if policy.sweep is not None or not limit or row is None or not row.indexed:
                continue
            if log is None and identity not in self._backlog.rows:
                log = self._trimmed[identity] = TrimmedLog(row)
            if log is not None and not log.learn(
                self._opened.environment, row, subjectsOfLog, limit
            ):
                self._trimmed.pop(identity, None)

    def _catchUp(self, jobs: Sequence[Job]) -> bool:
        """Apply the journal alone, if it can take the jobs then. Their logs stay known."""
        logs = {job.identity for job in jobs if job.writes}
        isSmall = sum(job.weight for job in jobs) <= LARGEST_FRAME
        if self.leftover or not (isSmall and self._backlog.rows and logs <= self._trimmed.keys()):
            return False
        self._commitBacklog()
        return True

    def _commitBacklog(self) -> None:
        transaction, gone = self._commit([])
        self._announce(transaction, self._committed(transaction, [], gone))

    def _commit(self, jobs: list[Job]) -> tuple[LMDBTransaction, list[int]]:
        """Commit a transaction. Return it, and the dropped logs of which nothing is left."""
        opened = self._opened
        asked, jobs = jobs, self._backlog.jobs + jobs
        identities = {job.identity for job in jobs} | self.leftover
        weight = sum(job.weight for job in jobs) + LOG_WEIGHT * len(identities)
        if not opened.environment.prepareNext(weight, partial(free, opened.environment, asked)):
            self._formatted = False  # With the format in it, there is a commit in any case.
            self._commitBacklog()
            return self._commit(asked)
        txn = opened.environment.begin()
        try:
            known = self._rows, self._policies, self._heads, self._now(), opened.environment.codec
            transaction = LMDBTransaction(txn, opened.mark, opened.base + txn.id(), *known)
            gone = self._apply(transaction, jobs)
            rows = {key: writer.row for key, writer in transaction.writers.items()}
            opened.marks.reserve(opened.mark, rows)
            transaction.announce(opened.environment.names)
            began = perf_counter()
            txn.commit()
            self.figures.synced(perf_counter() - began)
        except BaseException:
            txn.abort()
            raise
        return transaction, gone

    def _apply(self, transaction: LMDBTransaction, jobs: Sequence[Job]) -> list[int]:
        """Apply jobs. Return the dropped logs of which nothing is left."""
        if not self._formatted:
            transaction.putFormat(self._opened.base)
        for job in jobs:
            job.apply(transaction)
        for identity, subjects in self._opened.replayed.items():
            if identity in transaction.writers:
                transaction.log(identity).lookAt(subjects)
        gone = []
        for identity in self.leftover:
            row = self._rows[identity]
            if not row.dropped:
                transaction.log(identity)
            elif transaction.dropSlice(row, self._opened.environment.full is not None):
                gone.append(identity)
        transaction.finish()
        return gone

    def _committed(
        self, transaction: LMDBTransaction, jobs: Sequence[Job], gone: Sequence[int]
    ) -> LMDBCommit:
        opened = self._opened
        self._formatted = True
        self._transaction = opened.environment.lastTransaction()
        opened.generation = opened.base + self._transaction
        if opened.journal is not None:
            opened.journal.rewind()
        self._trimmed = self._stillKnown(transaction)
        self._backlog = Backlog()
        done = [job for job in jobs if job.isDone()]
        outcome = LMDBCommit(done, touched=transaction.touched, caughtUp=True)
        self.unfinished = [job for job in jobs if not job.isDone()]
        for identity, writer in transaction.writers.items():
            self._rows[identity] = writer.row
            if writer.isLimited:
                opened.replayed.pop(identity, None)
            outcome.rows[identity] = writer.row
            self._oldest.pop(identity, None)
            if writer.oldest is not None:
                outcome.oldest[identity] = self._oldest[identity] = writer.oldest
            if writer.row.dropped or identity in transaction.unfinished:
                self.leftover.add(identity)
            else:
                self.leftover.discard(identity)
            if writer.row.dropped:
                self._unmarked.add(identity)
                self._heads.pop(identity, None)
        for identity in gone:
            opened.environment.names.forget(identity)
            del self._rows[identity]
            self.leftover.discard(identity)
        return outcome

    def _stillKnown(self, transaction: LMDBTransaction) -> dict[int, TrimmedLog]:
        """The facts about logs in which a transaction only applied the journal."""
        logs = {}
        known = 0
        for identity, log in self._trimmed.items():
            known += len(log.sizes) + len(log.subjects)
            writer = transaction.writers.get(identity)
            if writer is not None:
                before = self._backlog.rows.get(identity)
                if before is None or writer.row.dropped or writer.row.extent != before.extent:
                    continue
                limit = (self._policies.get(identity) or Policy()).retention.perSubject
                if not log.caughtUp(self._opened.environment, writer.row, limit):
                    continue
            logs[identity] = log
        return logs if known <= MOST_KNOWN else {}

    def _announce(self, transaction: LMDBTransaction, outcome: LMDBCommit) -> None:
        """Tell the reactor of a valid commit. No more are accepted if it cannot be noted."""
        failure = None
        try:
            # First, because after a power cut a mark may bring back a log that is gone.
            self._opened.marks.forget(self._opened.mark, self._unmarked)
            self._unmarked.clear()
        except OSError as error:
            failure = error
        self.tell(self.owner.committed, outcome)
        if failure is not None:
            self._fail([], failure)
        self._note(transaction)

    def _note(self, transaction: LMDBTransaction) -> None:
        """A commit without changes has the next one's generation, which may not be noted yet."""
        if transaction.generation <= self._opened.generation:
            self._noteGeneration(transaction.generation)

    def _noteGeneration(self, generation: int) -> None:
        """Note the last commit, or frame of the journal. If that fails, no more are accepted."""
        try:
            self._opened.commits.write(generation)
        except OSError as failure:
            self._fail([], failure)

    def commitFailed(self, jobs: list[Job], failure: Exception) -> None:
        self._fail(jobs, failure)

    def _fail(self, jobs: list[Job], failure: Exception) -> None:
        environment = self._opened.environment
        error = asStoreError(failure)
        if isinstance(error, StoreFull) and environment.isBroken():
            error = asStoreFailed(failure)
        self._undo()
        if not isinstance(error, StoreFull):
            error.__cause__ = failure
        self.refuse(jobs, error)
        if not isinstance(error, StoreFull):
            environment.stopWriting()

    def _undo(self) -> None:
        self._heads.clear()
        self._opened.base += GENERATIONS
        self._formatted = False
        sweepAgain(self._policies)

    def openAgain(self) -> None:
        """Open and verify the store again. If that fails, continue for reading only."""
        environment = self._opened.environment
        environment.suspend()
        self._opened.closeFiles()
        try:
            opened = self._reopen()
        except Exception as failure:
            environment.stopWriting()
            self.tell(self.owner.refused, [], asStoreFailed(failure))
            return
        environment.succeed(opened.environment)
        self._opened = opened
        self._rows = dict(opened.rows)
        self._backlog = Backlog()
        self._trimmed.clear()
        self._transaction = opened.environment.lastTransaction()
        self._oldest.clear()
        self.leftover = {row.identity for row in self._rows.values() if row.dropped}
        self._formatted = False
        self.tell(self.owner.reopened, opened)

    def leave(self) -> None:
        """Release everything. The journal is applied now, or when the store is opened next."""
        try:
            if not self._backlog.isEmpty:
                transaction, gone = self._commit([])
                self._committed(transaction, [], gone)
                self._opened.marks.forget(self._opened.mark, self._unmarked)
                self._note(transaction)
            self._opened.endChanges()
        except (lmdb.Error, OSError, StoreError) as failure:
            _log.warn("The journal is applied at the next start: {why}", why=failure)
        self._opened.close()
        self._release()
