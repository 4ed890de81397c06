"""
The table of the streams of one host's workers: which of them has which stream.

Each worker has its streams in a directory of its own, where they stay. The table is a small SQLite
database that all workers of the host have open. A worker writes its own rows: all of them when it
starts, so that its directory decides. The row of a stream that is being created comes before the
stream, so no other worker can create one of the same name, also while its worker is down.

With a key of the operator, configurations are encrypted in it. Rows of before a change of the key
are read with the former one, until their worker has started and written them again.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from natsbroker.files import syncDirectory
from natsbroker.interfaces.records import LeaseLost, StoreFailed
from natsbroker.storage.lmdb.encryption.keyring import SALT, Encryption
from natsbroker.storage.lmdb.encryption.valuecipher import ValueCipher

FOLDER = "workers"
"""The name of the table's folder."""

TABLE = "streams.db"

PATIENCE = 5.0
"""Seconds in which another worker's change of the table has to end."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS stream (
    account TEXT NOT NULL, key BLOB NOT NULL, worker INTEGER NOT NULL, config BLOB NOT NULL,
    PRIMARY KEY (account, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS worker (number INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS salt (one INTEGER PRIMARY KEY, salt BLOB NOT NULL);
"""


class StreamPlace(NamedTuple):
    """A row of the table: the number of the stream's worker, and the stream's stored state."""

    worker: int
    config: bytes


class StreamPlaces:
    """
    The table, opened by one worker.

    Reading methods do not wait for other workers. Writing methods wait for them and for the disk,
    so they are called in a thread.
    """

    def __init__(
        self, folder: Path, own: int, name: str, encryption: Encryption | None = None
    ) -> None:
        """
        @param folder: where the workers' files are.
        @param own: the number of this worker, from 1.
        @param name: by which other workers know it.
        @raise StoreFailed: if the table cannot be opened.
        """
        self.own = own
        self._name = name
        self._folder = folder / FOLDER
        self._locks: list[int] = []
        self._leading: dict[str, int] = {}
        try:
            if not self._folder.exists():
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                syncDirectory(folder)
            with self._alone():
                self._writing, self._reading = self._connected(), self._connected()
                self._writing.executescript(_SCHEMA)
                new = (os.urandom(SALT),)
                self._writing.execute("INSERT OR IGNORE INTO salt VALUES (1, ?)", new)
                [salt] = self._writing.execute("SELECT salt FROM salt").fetchone()
            self._cipher = ValueCipher(encryption, salt)
        except (OSError, sqlite3.Error) as error:
            raise StoreFailed(f"the table of workers cannot be opened: {error}") from error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """
        Wait until no other worker is opening the table, because SQLite does not wait while it
        changes its mode.
        """
        descriptor = os.open(
            self._folder / "open.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._folder / TABLE, timeout=PATIENCE, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        # No free pages keep a configuration from before encryption was switched on.
        connection.execute("PRAGMA secure_delete = ON")
        return connection

    def _lockFile(self, name: str) -> int:
        path = self._folder / f"{name}.lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._locks.append(descriptor)
        return descriptor

    def close(self) -> None:
        """Close the table, so that other workers see that this one is gone."""
        for descriptor in self._locks:
            os.close(descriptor)
        self._locks.clear()
        self._writing.close()
        self._reading.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            # The transaction commits at the end, or rolls back.
            with self._writing as table:
                table.execute("BEGIN IMMEDIATE")
                yield table
        except sqlite3.Error as error:
            raise StoreFailed(f"the table of workers cannot be written: {error}") from error

    def appear(self) -> None:
        """
        Show the other workers that this one is running.

        @raise StoreFailed: if the table cannot be written.
        """
        with self._transaction() as table:
            table.execute("INSERT OR REPLACE INTO worker VALUES (?, ?)", (self.own, self._name))
        # Other workers hold the lock only for a moment, to check it.
        fcntl.flock(self._lockFile(str(self.own)), fcntl.LOCK_EX)

    def enter(self, account: str, streams: Mapping[bytes, bytes]) -> None:
        """
        Replace this worker's rows of an account by those of its streams.

        @param streams: stored states by their keys in the account's state.
        @raise LeaseLost: if another worker has one of them.
        @raise StoreFailed: if they cannot be written.
        """
        before = self.rowsOf(account)
        gone = {key for key, row in before.items() if row.worker == self.own and key not in streams}
        self.change(account, {**dict.fromkeys(gone), **streams})

    def change(self, account: str, streams: Mapping[bytes, bytes | None]) -> None:
        """
        Set the rows of this worker's streams, or delete those that are C{None}. Durable on return.

        @raise LeaseLost: if another worker has one of them; nothing is changed then.
        @raise StoreFailed: if they cannot be written.
        """
        with self._transaction() as table:
            for key, config in streams.items():
                if config is None:
                    table.execute(
                        "DELETE FROM stream WHERE account = ? AND key = ? AND worker = ?",
                        (account, key, self.own),
                    )
                    continue
                written = table.execute(
                    "INSERT INTO stream VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE"
                    " SET config = excluded.config WHERE worker = excluded.worker",
                    (account, key, self.own, self._cipher.close(config)),
                )
                if not written.rowcount:
                    raise LeaseLost("another worker has the stream")

    def place(self, account: str, key: bytes) -> StreamPlace | None:
        """The row of a stream by its key in the account's state; C{None} for none."""
        row = self._reading.execute(
            "SELECT worker, config FROM stream WHERE account = ? AND key = ?", (account, key)
        ).fetchone()
        return None if row is None else StreamPlace(row[0], self._cipher.open(row[1]))

    def rowsOf(self, account: str) -> dict[bytes, StreamPlace]:
        """The rows of an account's streams, by their keys in its state."""
        rows = self._reading.execute(
            "SELECT key, worker, config FROM stream WHERE account = ?", (account,)
        )
        opened = self._cipher.open
        return {key: StreamPlace(worker, opened(config)) for key, worker, config in rows}

    def elsewhere(self) -> list[bytes]:
        """The configurations of the streams of other workers, of all accounts."""
        rows = self._reading.execute("SELECT config FROM stream WHERE worker <> ?", (self.own,))
        return [self._cipher.open(config) for (config,) in rows]

    def loads(self) -> Counter[int]:
        """The number of streams of each worker."""
        rows = self._reading.execute("SELECT worker, count(*) FROM stream GROUP BY worker")
        return Counter(dict(rows))

    def names(self) -> dict[int, str]:
        """The names of all workers so far, by number."""
        return dict(self._reading.execute("SELECT number, name FROM worker"))

    def alive(self, numbers: Iterable[int]) -> set[int]:
        """Those of the given workers that are alive."""
        return {number for number in numbers if number == self.own or self._isLocked(number)}

    def _isLocked(self, number: int) -> bool:
        try:
            descriptor = os.open(self._folder / f"{number}.lock", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def lead(self, account: str) -> bool:
        """
        Become the worker that answers for an account, unless there is another one. The kernel ends
        the role with the process.
        """
        lock = self._leading.get(account)
        if lock is None:
            name = f"lead-{sha256(account.encode()).hexdigest()[:32]}"
            lock = self._leading[account] = self._lockFile(name)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def follow(self, account: str) -> None:
        """Let another worker answer for an account."""
        lock = self._leading.pop(account, None)
        if lock is not None:
            self._locks.remove(lock)
            os.close(lock)


def strayWorkers(folder: Path, count: int) -> list[int]:
    """
    The workers beyond the first C{count} that have streams.

    @raise StoreFailed: if the table cannot be read.
    """
    if not (folder / FOLDER / TABLE).exists():
        return []
    table = StreamPlaces(folder, 0, "")
    try:
        return sorted(worker for worker in table.loads() if worker > count)
    finally:
        table.close()
