"""
A custom store: NATS Streaming in one SQLite file.

The store provides C{IStreamStore}, C{IRetainedLog} and C{IStateStore} of L{natsbroker.interfaces},
which is all that the streaming service needs. The contract tests in
C{tests/examples/test_sqlitestore.py} are those of the built-in stores.

Run a broker with it, with the port that clients connect to and the file, and end it with Ctrl-C::

    python examples/sqlitestore.py 4222 channels.db

In an installed package, put an object of L{SQLiteOpener} into a module in C{twisted/plugins/} and
name it in the configuration::

    streaming { store: sqlite, store_options { path: channels.db } }
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, ensureDeferred, fail, succeed
from twisted.internet.task import LoopingCall, react
from twisted.internet.threads import deferToThreadPool
from twisted.plugin import IPlugin
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool
from zope.interface import implementer

from natsbroker import Broker
from natsbroker.config.model import Settings
from natsbroker.interfaces import (
    Entry,
    IBrokerHost,
    IBrokerService,
    IRetainedLog,
    IStateStore,
    IStoreOpener,
    IStoreWatcher,
    IStreamStore,
    LogBounds,
    NoSuchLog,
    Record,
    Retention,
    SequenceTooLarge,
    StoreClosed,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreLocked,
)
from natsbroker.streaming.service import StreamingService

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

SCHEMA = """
CREATE TABLE IF NOT EXISTS logs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE NOT NULL, first INTEGER NOT NULL,
    last INTEGER NOT NULL, count INTEGER NOT NULL, size INTEGER NOT NULL, time INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS records (
    log INTEGER NOT NULL, sequence INTEGER NOT NULL, time INTEGER NOT NULL, subject BLOB NOT NULL,
    headers BLOB NOT NULL, payload BLOB NOT NULL, PRIMARY KEY (log, sequence)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS states (
    space TEXT NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, PRIMARY KEY (space, key)
) WITHOUT ROWID;
"""

_BOUNDS = "SELECT first, last, count, size, time FROM logs WHERE id = ?"
_OLDEST = """
SELECT sequence, time, length(subject) + length(headers) + length(payload)
FROM records WHERE log = ? ORDER BY sequence
"""


@implementer(IStreamStore)
class SQLiteStore:
    """
    All logs and states in one file. One thread does the work: what is asked for while it commits is
    the next transaction, and a Deferred fires when its transaction is synced.
    """

    def __init__(self, reactor: Any, path: str, now: Callable[[], int] = time.time_ns) -> None:
        """
        @param now: the wall clock, in nanoseconds.
        """
        self.now = now
        self._reactor = reactor
        self._path = path
        self._pool = ThreadPool(1, 1, "sqlite")
        self._waiting: list[tuple[Work[Any], Deferred[Any]]] = []
        self._isWorking = False
        self._failure: StoreError | None = None
        self._idle: list[Deferred[None]] = []
        self._opened: dict[str, SQLiteLog] = {}
        self._aging = LoopingCall(self._age)
        self._aging.clock = reactor

    def start(self) -> Deferred[Any]:
        """
        Open the file.

        @return: fires with this store; fails with L{StoreLocked} if another process has the file.
        """
        return ensureDeferred(self._start())

    async def _start(self) -> SQLiteStore:
        self._pool.start()
        try:
            await self.run(lambda database: None)
        except StoreError:
            self._pool.stop()
            raise
        self._aging.start(1.0, now=False)
        return self

    def run(self, work: Work[T]) -> Deferred[T]:
        """
        Do some work in the next transaction.
        """
        if self._failure is not None:
            return fail(self._failure)
        result: Deferred[T] = Deferred()
        self._waiting.append((work, result))
        if not self._isWorking:
            self._next()
        return result

    def _next(self) -> None:
        jobs, self._waiting = self._waiting, []
        self._isWorking = bool(jobs)
        if jobs:
            works = [work for work, _ in jobs]
            committing = deferToThreadPool(self._reactor, self._pool, self._commit, works)
            committing.addErrback(lambda failure: [failure] * len(works))
            committing.addCallback(self._done, [result for _, result in jobs])
        else:
            idle, self._idle = self._idle, []
            for connection in idle:
                connection.callback(None)

    def _done(self, outcomes: list[Any], results: list[Deferred[Any]]) -> None:
        for outcome, result in zip(outcomes, results, strict=True):
            if isinstance(outcome, Failure) and isinstance(outcome.value, StoreFailed):
                self._failure = outcome.value
            result.callback(outcome)
        self._next()

    # What runs in the thread.

    def _commit(self, works: list[Work[Any]]) -> list[Any]:
        try:
            database = self._database()
            with database:
                database.execute("BEGIN IMMEDIATE")
                return [self._outcome(work, database) for work in works]
        except sqlite3.Error as error:
            raise _storeError(error) from error

    def _outcome(self, work: Work[Any], database: sqlite3.Connection) -> Any:
        try:
            return work(database)
        except StoreError:
            return Failure()

    def _database(self) -> sqlite3.Connection:
        if not hasattr(self, "_connection"):
            connection = sqlite3.connect(
                self._path, timeout=0, isolation_level=None, check_same_thread=False
            )
            connection.executescript(
                "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL;"
                "PRAGMA synchronous = FULL;" + SCHEMA
            )
            self._connection = connection
        return self._connection

    # IStreamStore.

    def logs(self) -> Deferred[list[str]]:
        return self.run(
            lambda database: [
                name for (name,) in database.execute("SELECT name FROM logs ORDER BY 1")
            ]
        )

    def open(self, name: str, create: bool = True) -> Deferred[Any]:
        if not 1 <= len(name.encode()) <= 400:
            raise ValueError("the name of a log has 1 to 400 bytes")
        return self.run(lambda database: _find(database, name, create)).addCallback(
            self._openedLog, name
        )

    def _openedLog(self, opened: tuple[int, LogBounds], name: str) -> SQLiteLog:
        log = self._opened.get(name)
        if log is None:
            log = self._opened[name] = SQLiteLog(self, name, *opened)
        return log

    def drop(self, name: str) -> Deferred[None]:
        def work(database: sqlite3.Connection) -> None:
            identity, _ = _find(database, name, False)
            database.execute("DELETE FROM records WHERE log = ?", [identity])
            database.execute("DELETE FROM logs WHERE id = ?", [identity])

        log = self._opened.pop(name, None)
        if log is not None:
            log.isDropped = True
        return self.run(work)

    def states(self, space: str) -> SQLiteStates:
        if not 1 <= len(space.encode()) <= 100:
            raise ValueError("the name of a space has 1 to 100 bytes")
        return SQLiteStates(self, space)

    def watch(self, watcher: IStoreWatcher) -> Callable[[], None]:
        return lambda: None

    def close(self) -> Deferred[None]:
        if not self._aging.running:
            return succeed(None)
        self._aging.stop()
        self._failure = StoreClosed("the store is closed")
        closed: Deferred[None] = Deferred()
        closed.addCallback(self._closed)
        if self._isWorking:
            self._idle.append(closed)
        else:
            closed.callback(None)
        return closed

    def _closed(self, _: None) -> None:
        self._pool.stop()
        if hasattr(self, "_connection"):
            self._connection.close()
            del self._connection

    def _age(self) -> None:
        for log in self._opened.values():
            log.age()


@implementer(IRetainedLog)
class SQLiteLog:
    """
    A log. Its bounds are those of the last transaction.
    """

    def __init__(self, store: SQLiteStore, name: str, identity: int, bounds: LogBounds) -> None:
        self.name = name
        self.identity = identity
        self.isDropped = False
        self._store = store
        self._bounds = bounds
        self.nextSequence = bounds.last + 1
        self._retention = Retention()

    def _run(self, work: Work[T]) -> Deferred[T]:
        if self.isDropped:
            return fail(StoreClosed(f"{self.name} is dropped"))
        return self._store.run(work)

    def _write(self, work: Work[T]) -> Deferred[T]:
        """
        Do some work, apply the limits, and take over the bounds when both are durable.
        """
        retention, oldest = self._retention, self._store.now() - self._retention.age

        def all(database: sqlite3.Connection) -> tuple[T, LogBounds]:
            result = work(database)
            return result, _trim(database, self.identity, retention, oldest)

        return self._run(all).addCallbacks(self._written, self._failed)

    def _written(self, outcome: tuple[T, LogBounds]) -> T:
        result, self._bounds = outcome
        return result

    def _failed(self, failure: Failure) -> Failure:
        self.nextSequence = self._bounds.last + 1
        return failure

    def append(self, batch: Sequence[Entry]) -> Deferred[range]:
        if any(len(subject) > 65_535 for subject, _, _, _ in batch):
            raise ValueError("a subject has at most 65,535 bytes")
        start, now, entries = self.nextSequence, self._store.now(), list(batch)
        self.nextSequence = start + len(entries)

        def work(database: sqlite3.Connection) -> range:
            last, time = database.execute(
                "SELECT last, time FROM logs WHERE id = ?", [self.identity]
            ).fetchone()
            if start != last + 1:
                raise StoreFull("an earlier append has failed")
            rows = []
            for sequence, (subject, headers, payload, stamp) in enumerate(entries, start):
                time = max(time, stamp or now)
                rows.append((self.identity, sequence, time, subject, headers, payload))
            database.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)", rows)
            size = sum(len(s) + len(h) + len(p) for s, h, p, _ in entries)
            database.execute(
                "UPDATE logs SET last = last + ?1, count = count + ?1, size = size + ?2, time = ?3"
                " WHERE id = ?4",
                [len(rows), size, time, self.identity],
            )
            return range(start, start + len(rows))

        return self._write(work)

    def read(
        self, sequence: int, limit: int = 256, maxBytes: int = 1048576
    ) -> Deferred[list[Record]]:
        last = self._bounds.last

        def work(database: sqlite3.Connection) -> list[Record]:
            records: list[Record] = []
            size = 0
            for row in database.execute(
                "SELECT sequence, time, subject, headers, payload FROM records"
                " WHERE log = ? AND sequence BETWEEN ? AND ? ORDER BY sequence LIMIT ?",
                [self.identity, sequence, last, limit],
            ):
                records.append(Record(*row))
                size += sum(map(len, row[2:]))
                if size >= maxBytes:
                    break
            return records

        return self._run(work)

    def bounds(self) -> LogBounds:
        return self._bounds

    def sequenceAt(self, timestamp: int) -> Deferred[int]:
        last = self._bounds.last

        def work(database: sqlite3.Connection) -> int:
            (first,) = database.execute(
                "SELECT min(sequence) FROM records WHERE log = ? AND time >= ? AND sequence <= ?",
                [self.identity, timestamp, last],
            ).fetchone()
            return last + 1 if first is None else int(first)

        return self._run(work)

    # IRetainedLog.

    def retain(self, retention: Retention) -> None:
        self._retention = retention

    def age(self) -> None:
        """Delete records that are too old, without an append."""
        if self._retention.age and self._bounds.count and not self.isDropped:
            self._write(lambda _: None).addErrback(
                lambda failure: failure.trap(StoreError) and None
            )

    def discardBefore(self, sequence: int) -> Deferred[int]:
        deleting = self._write(lambda database: self._delete(database, "sequence < ?", [sequence]))
        return deleting.addCallback(lambda _: self._bounds.first)

    def delete(self, sequences: Collection[int]) -> Deferred[int]:
        chosen = set(sequences)
        return self._write(
            lambda database: sum(
                self._delete(database, "sequence = ?", [sequence]) for sequence in sorted(chosen)
            )
        )

    def _delete(self, database: sqlite3.Connection, which: str, values: list[int]) -> int:
        where = f"FROM records WHERE log = ? AND {which}"
        arguments = [self.identity, *values]
        count, size = database.execute(
            "SELECT count(*), total(length(subject) + length(headers) + length(payload)) " + where,
            arguments,
        ).fetchone()
        database.execute("DELETE " + where, arguments)
        database.execute(
            "UPDATE logs SET count = count - ?, size = size - ? WHERE id = ?",
            [count, int(size), self.identity],
        )
        return int(count)

    def skipTo(self, sequence: int) -> Deferred[None]:
        if sequence < self.nextSequence:
            raise ValueError(f"{sequence} is below the next sequence")
        if sequence > 1 << 62:
            return fail(SequenceTooLarge(sequence))
        self.nextSequence = sequence

        def work(database: sqlite3.Connection) -> None:
            database.execute("UPDATE logs SET last = ? WHERE id = ?", [sequence - 1, self.identity])

        return self._write(work)


@implementer(IStateStore)
class SQLiteStates:
    """
    A space of state.
    """

    def __init__(self, store: SQLiteStore, space: str) -> None:
        self._run = store.run
        self._space = space

    def load(self, prefix: bytes = b"") -> Deferred[dict[bytes, bytes]]:
        return self._run(
            lambda database: dict(
                database.execute(
                    "SELECT key, value FROM states"
                    " WHERE space = ?1 AND substr(key, 1, length(?2)) = ?2 ORDER BY key",
                    [self._space, prefix],
                )
            )
        )

    def put(self, key: bytes, value: bytes) -> Deferred[None]:
        return self.change({key: value})

    def delete(self, key: bytes) -> Deferred[None]:
        return self.change({key: None})

    def change(self, changes: Mapping[bytes, bytes | None]) -> Deferred[None]:
        for key, value in changes.items():
            if not 1 <= len(key) <= 300 or (value is not None and len(value) > 16 << 20):
                raise ValueError("a key has 1 to 300 bytes, and a value up to 16 MiB")
        rows = list(changes.items())

        def work(database: sqlite3.Connection) -> None:
            for key, value in rows:
                if value is None:
                    arguments = [self._space, key]
                    database.execute("DELETE FROM states WHERE space = ? AND key = ?", arguments)
                else:
                    row = [self._space, key, value]
                    database.execute("INSERT OR REPLACE INTO states VALUES (?, ?, ?)", row)

        return self._run(work)


def _find(database: sqlite3.Connection, name: str, create: bool) -> tuple[int, LogBounds]:
    row = database.execute("SELECT id FROM logs WHERE name = ?", [name]).fetchone()
    if row is None and not create:
        raise NoSuchLog(f"there is no log {name}")
    if row is None:
        fresh = "INSERT INTO logs (name, first, last, count, size, time) VALUES (?, 1, 0, 0, 0, 0)"
        row = (database.execute(fresh, [name]).lastrowid,)
    return row[0], LogBounds(*database.execute(_BOUNDS, [row[0]]).fetchone())


def _trim(
    database: sqlite3.Connection, identity: int, retention: Retention, oldest: int
) -> LogBounds:
    """
    Apply the limits of a log.

    @param oldest: records from before are too old, if there is a limit.
    @return: the bounds afterwards.
    """
    bounds = LogBounds(*database.execute(_BOUNDS, [identity]).fetchone())
    count, size, first = bounds.count, bounds.size, bounds.last + 1
    for sequence, stamp, length in database.execute(_OLDEST, [identity]):
        isTooOld = retention.age and stamp < oldest
        isTooMuch = retention.count and count > retention.count
        isTooBig = retention.size and size > retention.size and count > 1
        if not (isTooOld or isTooMuch or isTooBig):
            first = sequence
            break
        count, size = count - 1, size - length
    database.execute("DELETE FROM records WHERE log = ? AND sequence < ?", [identity, first])
    database.execute(
        "UPDATE logs SET first = ?, count = ?, size = ? WHERE id = ?",
        [first, count, size, identity],
    )
    return LogBounds(first, bounds.last, count, size, bounds.lastTime)


def _ignoreStoreError(failure: Failure) -> None:
    # The next append fails with it, or aging is tried again a second later.
    failure.trap(StoreError)


def _storeError(error: sqlite3.Error) -> StoreError:
    text = str(error)
    if "locked" in text:
        return StoreLocked(f"the store is open in another process: {text}")
    return StoreFull(text) if "full" in text else StoreFailed(text)


@implementer(IPlugin, IStoreOpener)
class SQLiteOpener:
    """
    The plugin.
    """

    name = "sqlite"

    def openStore(self, host: IBrokerHost, section: Mapping[str, Any]) -> Deferred[Any]:
        if set(section) != {"path"}:
            raise ValueError("the options of this store are: path")
        return SQLiteStore(host.reactor, str(section["path"])).start()


@implementer(IBrokerService)
class Channels:
    """
    NATS Streaming over this store, for a broker without a configuration file.
    """

    name = "channels"

    def __init__(self, path: str) -> None:
        self._path = path

    def makeService(self, host: IBrokerHost, section: Mapping[str, Any]) -> Any:
        store = SQLiteStore(host.reactor, self._path)
        return StreamingService(host.bus("$G"), host.reactor, store.start)


async def main(reactor: Any, port: str = "4222", path: str = "channels.db") -> None:
    """
    Serve until the process ends.

    @param port: for clients; 0 for any that is free.
    """
    settings = Settings(host="127.0.0.1", port=int(port) or -1)
    broker = Broker(settings, reactor=reactor, services=[Channels(path)])
    broker.startService()
    reactor.addSystemEventTrigger("before", "shutdown", broker.stopService)
    await broker.whenReady()
    print("listening on {}:{}".format(*broker.clientAddress()), flush=True)
    await Deferred()


if __name__ == "__main__":
    react(main, sys.argv[1:])
