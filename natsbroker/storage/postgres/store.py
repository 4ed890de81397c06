"""
The store in a PostgreSQL database, as the reactor's thread sees it. Threads speak to the database:
one that writes, a few that read, and one that renews the leases.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import psycopg
from twisted.internet.defer import Deferred, fail, gatherResults, inlineCallbacks, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool
from zope.interface import implementer

from natsbroker.interfaces import (
    IMeasuredStore,
    IStateStore,
    IStreamLog,
    ISubjectIndexedLog,
    IViewableStore,
)
from natsbroker.interfaces.records import (
    LeaseCensus,
    LeaseLost,
    NoSuchLog,
    StoreClosed,
    StoreError,
    StoreFailed,
    StoreFull,
)
from natsbroker.storage.checks import checkLogName, checkSpace
from natsbroker.storage.jobs import Job, LogJob
from natsbroker.storage.policy import Policy
from natsbroker.storage.postgres.commits import PostgresCommit, PostgresCommitter
from natsbroker.storage.postgres.connecting import Database, Readers, asStoreError
from natsbroker.storage.postgres.fetching import fetchSpaces, fetchState
from natsbroker.storage.postgres.leasing import Renewed, census, renew
from natsbroker.storage.postgres.log import PostgresLog, PostgresView, fetchRow
from natsbroker.storage.postgres.schema import PostgresLogRow, checksum
from natsbroker.storage.postgres.session import Session
from natsbroker.storage.postgres.writing import PostgresTransaction
from natsbroker.storage.threaded import OwnedSpace, ThreadedStore

T = TypeVar("T")

_log = Logger(namespace="natsbroker.storage.postgres")


def openPostgres(
    reactor: Any,
    database: Database,
    now: Callable[[], int] = time.time_ns,
    monotonic: Callable[[], float] = time.monotonic,
) -> Deferred[PostgresStore]:
    """
    Open the store in a database, or make one there.

    @param reactor: with C{callFromThread} and C{callLater}.
    @param now: the wall clock, in nanoseconds since 1970, for the timestamps of records.
    @param monotonic: seconds of a clock that is never set.
    @return: may be cancelled; fails with L{natsbroker.interfaces.records.UnknownFormat},
        L{natsbroker.interfaces.records.StoreFull} or L{StoreFailed}.
    """
    pool = ThreadPool(0, database.readers + 2, "natsbroker-read")
    pool.start()
    result: Deferred[PostgresStore] = Deferred()
    asked = monotonic()

    def opened(session: Session) -> None:
        store = PostgresStore(reactor, database, now, pool, session, monotonic, asked)
        if result.called:
            store.close()
        else:
            result.callback(store)

    def failed(failure: Failure) -> None:
        pool.stop()
        why = getattr(failure.value, "__cause__", None) or failure.getErrorMessage()
        _log.error("The store cannot be opened: {why}", why=str(why).strip())
        if not result.called:
            result.errback(failure)

    deferToThreadPool(reactor, pool, _openBlocking, database).addCallbacks(opened, failed)
    return result


def _openBlocking(database: Database) -> Session:
    try:
        return Session(database)
    except Exception as failure:
        raise asStoreError(failure) from failure


class TransactionJob(Job):
    def __init__(
        self, do: Callable[[PostgresTransaction], Any], identity: int = 0, space: str = ""
    ) -> None:
        super().__init__()
        self.identity = identity
        self.space = space
        self._do = do

    def apply(self, transaction: PostgresTransaction) -> None:
        self._result = self._do(transaction)

    def result(self) -> Any:
        return self._result


@implementer(IViewableStore, IMeasuredStore)
class PostgresStore(ThreadedStore[PostgresLog]):
    retryFirst = 0.5
    retryMost = 5.0

    def __init__(
        self,
        reactor: Any,
        database: Database,
        now: Callable[[], int],
        pool: ThreadPool,
        session: Session,
        monotonic: Callable[[], float],
        asked: float,
    ) -> None:
        super().__init__(reactor, pool, now)
        self.lease = database.lease
        self._session = session
        self._holder = session.holder
        self._readers = Readers(database, session.who("read"))
        self._renewer = session.leases
        self._waiting: set[Waiting] = set()
        self._committer = PostgresCommitter(reactor, session, self, self._policies, now)
        self._committer.start()
        self._renewing = Renewing(reactor, self.lease, self._renew, self._renewed, monotonic, asked)
        self._comparing = LoopingCall(self._compare, partial(database.compare, session.who("look")))
        self._comparing.clock = reactor
        self._comparing.start(min(self.lease, COMPARED), now=False)

    def logs(self) -> Deferred[list[str]]:
        return self.ask(TransactionJob(PostgresTransaction.names))

    def open(self, name: str, create: bool = True) -> Deferred[IStreamLog]:
        checkLogName(name)
        if name in self._logs and self._closed is None:
            return succeed(self._logs[name])
        return self.ask(
            TransactionJob(lambda transaction: transaction.openWhole(name, create))
        ).addCallback(self._opened)

    def _opened(self, answer: tuple[PostgresLogRow, dict[str, int], list[int]]) -> IStreamLog:
        row, holds, damaged = answer
        log = self._logs.get(row.name)
        if log is None:
            policy = self._policies[row.identity] = Policy(holds=holds)
            log = self._logs[row.name] = PostgresLog(self, row, policy)
            self._byIdentity[row.identity] = log
            log.lost(damaged)
            if row.count:
                log.verifyCount()
        return log

    def introduce(self, name: str) -> Deferred[None]:
        self._session.name = name
        return self.ask(TransactionJob(lambda transaction: transaction.introduce(name)))

    @property
    def isSure(self) -> bool:
        return self._renewing.isSure

    def verify(self, name: str) -> Deferred[None]:
        log = self._logs.get(name)
        if log is None:
            return fail(self._closed or LeaseLost(f"log {name} is not open"))
        return self.ask(LogJob(log.identity))

    def census(self, prefix: str) -> Deferred[LeaseCensus]:
        return self.fetch(census, prefix, self.lease)

    def peek(self, prefix: str, keys: bytes) -> Deferred[dict[str, dict[bytes, bytes]]]:
        return self.fetch(fetchSpaces, prefix, keys)

    def view(self, name: str) -> Deferred[ISubjectIndexedLog]:
        checkLogName(name)
        return self.fetch(fetchRow, name).addCallback(lambda row: PostgresView(self, row))

    def whenFree(self, name: str) -> Deferred[IStreamLog]:
        checkLogName(name)
        if self._closed is not None:
            return fail(self._closed)
        waiting = Waiting(
            self._reactor, self.lease / RENEWALS, lambda: self.open(name), self._waiting.discard
        )
        self._waiting.add(waiting)
        waiting.attempt()
        return waiting.deferred

    def giveUp(self, name: str) -> Deferred[None]:
        log = self._logs.get(name)
        if self._closed is not None or log is None:
            return fail(self._closed or NoSuchLog(f"log {name} is not open"))
        self._end(log, LeaseLost(f"log {name} was given up"))
        identity = log.identity
        return self.ask(TransactionJob(lambda transaction: transaction.giveUp(identity), identity))

    def giveUpStates(self, space: str) -> Deferred[None]:
        checkSpace(space)
        return self.ask(
            TransactionJob(lambda transaction: transaction.giveUpSpace(space), space=space)
        )

    def drop(self, name: str) -> Deferred[None]:
        log = self._logs.get(name)
        if log is not None:
            self._end(log, StoreClosed(f"log {name} was dropped"))
        dropping = self.ask(TransactionJob(lambda transaction: transaction.drop(name)))
        return dropping.addCallbacks(
            self._dropped, self._notDropped, callbackArgs=(name,), errbackArgs=(log,)
        )

    def _end(self, log: PostgresLog, why: StoreError) -> None:
        log.closed = why
        log.rollBack()  # No commit will end the reads that wait for its appends.
        if self._logs.get(log.name) is log:
            del self._logs[log.name]
        self._byIdentity.pop(log.identity, None)
        self._aging.forget(log)
        self.troubles.logDropped(log.name)

    def _dropped(self, identity: int, name: str) -> None:
        log = self._byIdentity.get(identity)
        if log is not None:
            self._end(log, StoreClosed(f"log {name} was dropped"))
        self._policies.pop(identity, None)

    def _notDropped(self, failure: Failure, log: PostgresLog | None) -> Failure:
        if log is not None and failure.check(StoreFull, StoreFailed) and self._closed is None:
            log.closed = None
            log.rollBack()
            self._logs[log.name] = self._byIdentity[log.identity] = log
        return failure

    def states(self, space: str) -> PostgresStates:
        checkSpace(space)
        return PostgresStates(self, space)

    def _leave(self, closed: StoreError) -> None:
        self._renewing.stop()
        if self._comparing.running:
            self._comparing.stop()
        for waiting in list(self._waiting):
            waiting.fail(closed)

    def _read(self, call: Callable[..., T], *args: Any) -> T:
        return self._readers.call(call, *args)

    # For the thread that writes, called in the reactor's

    def committed(self, outcome: PostgresCommit) -> None:
        for row in outcome.lost:
            self._lost(row.identity)
        for identity, row in outcome.rows.items():
            log = self._byIdentity.get(identity)
            if log is not None:
                log.committed(row)
        self._done(outcome.jobs, bool(outcome.rows))

    def _lost(self, identity: int) -> None:
        log = self._byIdentity.get(identity)
        self._policies.pop(identity, None)
        if log is not None:
            self._end(log, LeaseLost(f"another broker serves {log.name}"))
            _log.error("Log {name} is served by another broker now", name=log.name)
            self.troubles.logLost(log.name)

    def refused(self, jobs: Sequence[Job], error: StoreError) -> None:
        self.troubles.writesStopped(str(error))
        _log.error("The store stopped writing: {error}: {why}", error=error, why=error.__cause__)
        for log in self._logs.values():
            log.rollBack()
        if isinstance(error, StoreFailed):
            self._tryLater()
        self._fail(jobs, error)

    def reopened(self, rows: Mapping[int, PostgresLogRow]) -> None:
        for log in list(self._logs.values()):
            row = rows.get(log.identity)
            if row is None:
                self._lost(log.identity)
            else:
                log.committed(row)
                log.rollBack()
        self._resumed()

    def stopped(self) -> None:
        self._readers.close()
        self._renewer.close()
        super().stopped()

    def _renew(self) -> Deferred[Renewed]:
        return deferToThreadPool(
            self._reactor, self._pool, self._renewer.call, renew, self._holder, self.lease
        )

    def _compare(self, compare: Callable[[], None]) -> Deferred[None]:
        comparing = deferToThreadPool(self._reactor, self._pool, compare)
        # Users of the connections report that there are none.
        return comparing.addErrback(lambda failure: failure.trap(psycopg.Error, StoreError))

    def _renewed(self, held: Renewed) -> Deferred[Any]:
        # They fail if the log is not held any more.
        missing = [self.ask(LogJob(log)) for log in self._byIdentity.keys() - held.logs]
        for asking in missing:
            asking.addErrback(lambda failure: failure.trap(StoreError))
        return gatherResults(missing)


@implementer(IStateStore)
class PostgresStates(OwnedSpace):
    @inlineCallbacks
    def load(self, prefix: bytes = b"") -> Generator[Deferred[Any], Any, dict[bytes, bytes]]:
        reload = TransactionJob(
            lambda transaction: transaction.space(self._space, isReload=True), space=self._space
        )
        space = yield self._owner.ask(reload)
        rows = yield self._owner.fetch(fetchState, space.identity, prefix)
        values = {}
        for key, value, expected in rows:
            if checksum(space.identity, key, value) == expected:
                values[key] = value
            else:
                self._owner.troubles.stateDamaged(
                    self._space, key, "a value does not match its checksum"
                )
        return values


COMPARED = 5.0
"""The most seconds between two comparisons of the servers."""

RENEWALS = 3
"""The number of renewals in the duration of a lease."""


class Renewing:
    def __init__(
        self,
        reactor: IReactorTime,
        lease: float,
        renew: Callable[[], Deferred[Renewed]],
        renewed: Callable[[Renewed], Deferred[Any]],
        monotonic: Callable[[], float],
        asked: float,
    ) -> None:
        """
        @param lease: the seconds that leases last.
        @param renewed: called with the leases that are not held any more.
        @param monotonic: seconds of a clock that is never set.
        @param asked: the time at which the leases were requested, by that clock.
        """
        self._lease = lease
        self._monotonic = monotonic
        self._asked = asked
        self._renew = renew
        self._renewed = renewed
        self._works = True
        self._loop = LoopingCall(self._now)
        self._loop.clock = reactor
        self._loop.start(lease / RENEWALS, now=False)

    def stop(self) -> None:
        if self._loop.running:
            self._loop.stop()

    @property
    def isSure(self) -> bool:
        """
        Whether leases are still valid, even if the database renewed them at the moment of the
        request.
        """
        return self._monotonic() < self._asked + self._lease

    def _now(self) -> Deferred[None]:
        asked = self._monotonic()
        return self._renew().addCallbacks(self._done, self._failed, (asked,))

    def _done(self, held: Renewed, asked: float) -> None:
        self._works = True
        if self._loop.running:
            self._renewed(held).addCallback(lambda _: self._noticed(asked))

    def _noticed(self, asked: float) -> None:
        self._asked = asked

    def _failed(self, failure: Failure) -> None:
        if not failure.check(StoreError):
            _log.failure("Renewing the leases failed", failure)
        elif self._works and self._loop.running:
            self._works = False
            _log.error("The leases cannot be renewed: {why}", why=failure.getErrorMessage())


class Waiting:
    def __init__(
        self,
        reactor: IReactorTime,
        interval: float,
        tryOpen: Callable[[], Deferred[IStreamLog]],
        ended: Callable[[Waiting], object],
    ) -> None:
        self._reactor = reactor
        self._interval = interval
        self._tryOpen = tryOpen
        self._ended = ended
        self._isOver = False
        self._call: IDelayedCall | None = None
        self.deferred: Deferred[IStreamLog] = Deferred(lambda _: self._end())

    def attempt(self) -> None:
        self._call = None
        self._tryOpen().addCallbacks(self._opened, self._notOpened)

    def _opened(self, log: IStreamLog) -> None:
        if not self._isOver:
            self._end()
            self.deferred.callback(log)

    def _notOpened(self, failure: Failure) -> None:
        if self._isOver:
            return
        if failure.check(LeaseLost, StoreFailed, StoreFull):
            self._call = self._reactor.callLater(self._interval, self.attempt)
        else:
            self._end()
            self.deferred.errback(failure)

    def _end(self) -> None:
        self._isOver = True
        call, self._call = self._call, None
        if call is not None:
            call.cancel()
        self._ended(self)

    def fail(self, error: Exception) -> None:
        if not self._isOver:
            self._end()
            self.deferred.errback(error)
