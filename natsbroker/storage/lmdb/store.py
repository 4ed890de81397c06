"""The store on disk, as the reactor's thread sees it. Other threads access the disk."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import lmdb
from twisted.internet.defer import Deferred, fail, inlineCallbacks
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool
from zope.interface import implementer

from natsbroker.files import syncDirectory
from natsbroker.interfaces import IMeasuredStore, IReportingStore, IStateStore, IStreamLog
from natsbroker.interfaces.records import (
    LogReadOnly,
    NoSuchLog,
    ScrubFigures,
    StoreClosed,
    StoreError,
    StoreFailed,
    UnknownFormat,
)
from natsbroker.storage.checks import checkLogName, checkSpace
from natsbroker.storage.jobs import BarrierJob, Job
from natsbroker.storage.lmdb.backlog import LMDBCommit
from natsbroker.storage.lmdb.cache import BlockCache
from natsbroker.storage.lmdb.commits import LMDBCommitter
from natsbroker.storage.lmdb.encryption.keyring import Encryption
from natsbroker.storage.lmdb.environment import QuickReads, asStoreError
from natsbroker.storage.lmdb.fetching import fetchState
from natsbroker.storage.lmdb.files import Lock
from natsbroker.storage.lmdb.layout import LogRow, statePrefix
from natsbroker.storage.lmdb.log import LMDBLog
from natsbroker.storage.lmdb.losses import Losses
from natsbroker.storage.lmdb.opening import STORE, Opened, openDirectory
from natsbroker.storage.lmdb.scrubbing import Scrubber, ScrubResult
from natsbroker.storage.lmdb.transaction import CreateJob, DropJob
from natsbroker.storage.policy import Policy
from natsbroker.storage.threaded import OwnedSpace, ThreadedStore

T = TypeVar("T")

READERS = 2
"""The number of threads that read."""

LOCK = "lock"


def openLMDB(
    reactor: Any,
    directory: str | os.PathLike[str],
    maxSize: int = 0,
    now: Callable[[], int] = time.time_ns,
    readers: Any = None,
    syncInterval: float = 0,
    encryption: Encryption | None = None,
) -> Deferred[LMDBStore]:
    """
    Open the store in a directory, or make one there.

    @param reactor: with C{callFromThread} and C{callLater}.
    @param maxSize: the largest size of the database, in bytes; 0 for any size.
    @param now: the wall clock, in nanoseconds since 1970.
    @param readers: with C{addReader}, C{removeReader} and C{callFromThread}, if it is not the
        reactor; perhaps with C{writeSoon} and C{sendNow}, as
        L{natsbroker.connections.poller.SocketPoller} has them.
    @param syncInterval: seconds between syncs of small appends, which are acknowledged when the
        kernel has them; 0 to sync before each acknowledgement.
    @param encryption: C{None} for a plain store. If this is given, a plain store is encrypted
        first, which takes time and as much space again.
    @return: may be cancelled; fails with L{natsbroker.interfaces.records.StoreLocked},
        L{natsbroker.interfaces.records.UnknownFormat},
        L{natsbroker.interfaces.records.StoreEncrypted}, L{natsbroker.interfaces.records.StoreFull}
        or L{StoreFailed}.
    """
    path = Path(directory).absolute()
    pool = ThreadPool(0, READERS, "natsbroker-read")
    pool.start()
    result: Deferred[LMDBStore] = Deferred()

    def begin(opening: tuple[Lock, Opened]) -> None:
        lock, opened = opening
        if result.called:
            opened.close()
            lock.release()
            pool.stop()
        else:
            store = LMDBStore(reactor, path, maxSize, now, pool, syncInterval, encryption)
            store.begin(lock, opened, readers or reactor)
            result.callback(store)

    def failed(failure: Failure) -> None:
        pool.stop()
        if not result.called:
            result.errback(failure)

    opening = deferToThreadPool(
        reactor, pool, _openBlocking, path, maxSize, not syncInterval, encryption
    )
    opening.addCallbacks(begin, failed)
    return result


def _openBlocking(
    path: Path, maxSize: int, isSynced: bool, encryption: Encryption | None
) -> tuple[Lock, Opened]:
    try:
        if not (path / STORE).exists():
            refuseForeign(path)
        if not path.exists():
            path.mkdir(mode=0o700, parents=True)
            syncDirectory(path.parent)
        lock = Lock(path / LOCK)
        try:
            return lock, openDirectory(path, maxSize, isSynced, encryption)
        except BaseException:
            lock.release()
            raise
    except NotADirectoryError as failure:
        # nats-server's words, which launchers look for.
        raise StoreFailed(f"storage directory is not a directory: {failure.filename}") from failure
    except (OSError, lmdb.Error) as failure:
        raise asStoreError(failure) from failure


@implementer(IReportingStore, IMeasuredStore)
class LMDBStore(ThreadedStore[LMDBLog]):
    """Logs and state in one LMDB database. Made by L{openLMDB} only."""

    retryFirst = 1.0
    retryMost = 4.0

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        path: Path,
        maxSize: int,
        now: Callable[[], int],
        pool: ThreadPool,
        syncInterval: float,
        encryption: Encryption | None,
    ) -> None:
        super().__init__(reactor, pool, now)
        self._path = path
        self._maxSize = maxSize
        self._syncInterval = syncInterval
        self._encryption = encryption
        self._syncCall: Any = None
        self.cache = BlockCache()
        self._quickReads = QuickReads()
        self._rows: dict[str, LogRow] = {}
        self._holds: dict[int, dict[str, int]] = {}
        self._opening: dict[str, list[Deferred[IStreamLog]]] = {}
        self._ahead: set[LMDBLog] = set()
        self.hasStatesAhead = False
        self._losses = Losses(reactor, pool, path)
        self._scrubber = Scrubber(reactor, now, self.fetch, self.scrubbed)

    def begin(self, lock: Lock, opened: Opened, readers: Any) -> None:
        self._environment = opened.environment
        self.codec = opened.environment.codec
        self._learn(opened)
        self._committer = LMDBCommitter(
            readers,
            opened,
            lambda: openDirectory(
                self._path, self._maxSize, not self._syncInterval, self._encryption
            ),
            self,
            self._policies,
            self.now,
            lock.release,
            readers,
        )
        self._committer.start()
        self.troubles.watch(self._losses)
        self._losses.start(opened.reports)
        self._scrubber.start()

    def _learn(self, opened: Opened) -> None:
        if opened.repaired:
            self._log.error(
                "Store {path} was repaired: {repaired}",
                path=str(self._path),
                repaired=opened.repaired,
            )
        self._rows = {row.name: row for row in opened.rows.values() if not row.dropped}
        self._holds = opened.holds
        for name, start, stop, reason in opened.damage:
            self.troubles.recordsDamaged(name, start, stop, reason)
        for space, key, reason in opened.states:
            self.troubles.stateDamaged(space, key, reason)
        for row in self._rows.values():
            if row.quarantined:
                self.troubles.logQuarantined(row.name, "its description was lost")

    def logs(self) -> Deferred[list[str]]:
        if self._closed is not None:
            return fail(self._closed)
        barrier = self.ask(BarrierJob()).addErrback(lambda failure: failure.trap(StoreError))
        return barrier.addCallback(lambda _: sorted(self._rows))

    def open(self, name: str, create: bool = True) -> Deferred[IStreamLog]:
        checkLogName(name)
        result: Deferred[IStreamLog] = Deferred()
        if self._closed is not None:
            result.errback(self._closed)
        elif name in self._rows:
            result.callback(self._logOf(self._rows[name]))
        elif name in self._opening:
            self._opening[name].append(result)
        elif create:
            self._make(name, result)
        else:
            result.errback(NoSuchLog(f"there is no log {name}"))
        return result

    def _logOf(self, row: LogRow) -> LMDBLog:
        log = self._logs.get(row.name)
        if log is None:
            policy = self._policies.setdefault(row.identity, Policy())
            policy.holds = self._holds.get(row.identity, {})
            log = self._logs[row.name] = LMDBLog(self, self.cache, row, policy)
            self._byIdentity[row.identity] = log
        return log

    def _make(self, name: str, result: Deferred[IStreamLog]) -> None:
        identity = int.from_bytes(os.urandom(8), "little")
        row = LogRow(identity, name)
        self._opening[name] = [result]
        deferred = self.ask(CreateJob(row))
        deferred.addCallbacks(self._made, self._notMade, callbackArgs=(row,), errbackArgs=(row,))

    def _made(self, _: object, row: LogRow) -> None:
        self._rows[row.name] = row
        log = self._logOf(row)
        for waiter in self._opening.pop(row.name):
            waiter.callback(log)

    def _notMade(self, failure: Failure, row: LogRow) -> None:
        for waiter in self._opening.pop(row.name):
            waiter.errback(failure)

    def drop(self, name: str) -> Deferred[None]:
        if self._closed is not None:
            return fail(self._closed)
        row = self._rows.get(name)
        if row is None:
            return fail(NoSuchLog(f"there is no log {name}"))
        if row.quarantined:
            return fail(LogReadOnly(f"log {name} is in quarantine"))
        deferred = self.ask(DropJob(row.identity))
        if deferred.called:
            return deferred
        log = self._logOf(row)
        log.closed = StoreClosed(f"log {name} was dropped")
        self._forget(log)
        return deferred.addCallbacks(
            self._dropped, self._notDropped, callbackArgs=(log,), errbackArgs=(log, row)
        )

    def _forget(self, log: LMDBLog) -> None:
        del self._rows[log.name], self._logs[log.name]
        self._aging.forget(log)
        self.cache.forgetLog(log.identity)
        self.troubles.logDropped(log.name)

    def _dropped(self, _: object, log: LMDBLog) -> None:
        for known in (self._byIdentity, self._policies, self._holds):
            known.pop(log.identity, None)

    def _notDropped(self, failure: Failure, log: LMDBLog, row: LogRow) -> Failure:
        if log.name not in self._rows:
            log.closed = self._closed
            self._rows[log.name] = row
            self._logs[log.name] = log
        return failure

    def states(self, space: str) -> LMDBStates:
        checkSpace(space)
        return LMDBStates(self, space)

    def losses(self) -> list[str]:
        return self._losses.open

    def _scrubbed(self) -> ScrubFigures:
        return self._scrubber.figures

    def _leave(self, closed: StoreError) -> None:
        self._stopWaiting()
        self._scrubber.stop()
        self._losses.stop()

    def scrubbed(self, findings: ScrubResult) -> None:
        rows = {row.identity: row for row in self._rows.values()}
        for identity, start, stop in findings.records:
            row = rows.get(identity)
            if row is not None:
                log = self._logOf(row)
                stop = stop or log.bounds().last + 1
                log.damaged(start, stop, "a record does not match its checksum")
        for key, reason in findings.values:
            self.troubles.stateDamaged(*self.codec.nameIn(key), reason)

    def _read(self, call: Callable[..., T], *args: Any) -> T:
        try:
            return call(self._environment, *args)
        except (lmdb.Error, OSError) as failure:
            raise StoreFailed(f"the store cannot be read: {failure}") from failure

    def readQuickly(self, call: Callable[..., T], *args: Any) -> T | None:
        """
        Call a function with a transaction that reads, in the reactor's thread; see L{QuickReads}.
        """
        return self._quickReads.read(self._environment, call, *args)

    # For the thread that writes, called in the reactor's

    def committed(self, outcome: LMDBCommit) -> None:
        if outcome.touched:
            for identity, _ in outcome.touched:
                log = self._byIdentity.get(identity)
                if log is not None:
                    log.version += 1
            self.cache.forget(outcome.touched)
        if outcome.caughtUp:
            self._databaseCaughtUp()
        for identity in outcome.ahead.keys() | outcome.deleted.keys():
            log = self._byIdentity[identity]
            log.journalled(
                outcome.ahead.get(identity, ()),
                outcome.gone.get(identity, {}),
                outcome.deleted.get(identity, ()),
            )
            self._ahead.add(log)
        self.hasStatesAhead = self.hasStatesAhead or outcome.hasStates
        self._syncLater()
        for identity, row in outcome.rows.items():
            log = self._byIdentity.get(identity)
            if log is not None:
                log.committed(row, outcome.oldest.get(identity))
        self._done(outcome.jobs, bool(outcome.rows))

    def _databaseCaughtUp(self) -> None:
        self._stopWaiting()
        for log in self._ahead:
            log.databaseCaughtUp()
        self._ahead.clear()
        self.hasStatesAhead = False

    def sizeOf(self, identity: int, sequence: int) -> tuple[bytes, int] | None:
        log = self._byIdentity.get(identity)
        return None if log is None else log.sizeOf(sequence)

    def _syncLater(self) -> None:
        isAhead = self._ahead or self.hasStatesAhead
        wants = isAhead and self._syncInterval and self._closed is None
        if wants and self._syncCall is None:
            self._syncCall = self._reactor.callLater(self._syncInterval, self._sync)

    def _stopWaiting(self) -> None:
        if self._syncCall is not None:
            self._syncCall.cancel()
            self._syncCall = None

    def _sync(self) -> None:
        """Have the database take the content of the journal, which it syncs."""
        self._syncCall = None
        self.ask(Job()).addErrback(self._notSynced)

    def _notSynced(self, failure: Failure) -> None:
        failure.trap(StoreError)
        self._syncLater()

    def refused(self, jobs: Sequence[Job], error: StoreError) -> None:
        self.troubles.writesStopped(str(error))
        self._log.error("Store {path} stopped writing: {error}", path=self._path, error=error)
        if isinstance(error, StoreFailed):
            self._tryLater()
        else:
            for log in self._logs.values():
                log.rollBack()
        self._fail(jobs, error)

    def reopened(self, opened: Opened) -> None:
        self._environment = opened.environment
        self.codec = opened.environment.codec
        self._databaseCaughtUp()
        self._learn(opened)
        self._losses.start(opened.reports)
        for log in list(self._logs.values()):
            self.cache.forgetLog(log.identity)
            log.version += 1
            row = opened.rows.get(log.identity)
            if row is not None and not row.dropped:
                log.reopened(row)
            else:
                log.closed = StoreFailed(f"log {log.name} was not there any more")
                self._forget(log)
                self._dropped(None, log)
        self._resumed()


@implementer(IStateStore)
class LMDBStates(OwnedSpace):
    _owner: LMDBStore

    @inlineCallbacks
    def load(self, prefix: bytes = b"") -> Generator[Deferred[Any], Any, dict[bytes, bytes]]:
        try:
            yield self._owner.ask(BarrierJob())
            if self._owner.hasStatesAhead:
                yield self._owner.ask(Job())  # The database has to apply them first.
        except StoreError:
            pass  # Writes fail; stored data can be read.
        head = statePrefix(self._space)
        values, broken = yield self._owner.fetch(fetchState, head + prefix)
        for key, reason in broken:
            self._owner.troubles.stateDamaged(*self._owner.codec.nameIn(key), reason)
        return {key[len(head) :]: value for key, value in values}


#: With which every file of nats-streaming-server's file store begins: its version.
_FILE_STORE_VERSION = b"\x01\0\0\0"


def refuseForeign(directory: Path) -> None:
    """
    Raise L{UnknownFormat} for a data directory of nats-streaming-server, and do not touch it. An
    empty store of ours between its files would make its channels seem lost.
    """
    if not directory.is_dir():
        return
    # Without server.dat it is one still: the server makes that file again.
    patterns = ("server.dat", "*/subs.dat", "*/msgs.*.dat")
    if any(_isMark(file) for pattern in patterns for file in directory.glob(pattern)):
        raise UnknownFormat(
            f"{directory} is a data directory of nats-streaming-server and was not touched: give "
            f"another directory, and read this one with: natsbroker streaming import {directory}"
        )


def _isMark(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_FILE_STORE_VERSION)) == _FILE_STORE_VERSION
    except (FileNotFoundError, IsADirectoryError):
        return False
