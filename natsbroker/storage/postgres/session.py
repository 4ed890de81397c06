"""
The connection that writes, and its holder. The outcome of a commit on a lost connection is known
when there is a new one.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from natsbroker.interfaces.records import StoreFailed
from natsbroker.storage.postgres.confirming import NO_STANDBY, awaitsStandby, confirmed
from natsbroker.storage.postgres.connecting import Database, Readers, isLost
from natsbroker.storage.postgres.leasing import (
    Holdings,
    abandoned,
    enter,
    held,
    leave,
    newIdentity,
    stillHeld,
)
from natsbroker.storage.postgres.primaries import PrimaryConnection, Superseded
from natsbroker.storage.postgres.schema import Connection, prepare

LOCK_WAIT = 2000
"""Milliseconds to wait for a lost connection's transaction to end."""


class Forgotten(StoreFailed):
    """The database has no count of this broker's commits."""


class Session:
    """
    @ivar leases: the connection that renews leases, and finds out why a commit is not answered.
    @ivar holder: a random number that leases are held under.
    @ivar leftover: dropped logs that still had records at the beginning.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.holder = newIdentity()
        self.name = f"{socket.gethostname()} {os.getpid()}"
        self._number = 0
        self._committing = False
        self._isCommitted = False
        self.leases = Readers(database, self.who("lease"))
        self.connection: Connection = self._connected()
        try:
            with self._confirmed(self.connection):
                prepare(self.connection, database.schema)
            with self._confirmed(self.connection):
                self._enter()
                self.leftover = abandoned(self.connection, self.holder)
        except BaseException:
            self.connection.close()
            self.leases.close()
            raise

    def who(self, what: str) -> str:
        return f"natsbroker {self.holder:016x} {what}"

    def _connected(self) -> PrimaryConnection:
        connection = self._database.connect(self.who("write"))

        def ask() -> None:
            try:
                self.leases.call(awaitsStandby, connection.info.backend_pid)
            except StoreFailed:
                connection.close()
                raise

        connection.whenLate = ask
        return connection

    def _enter(self) -> None:
        enter(self.connection, self.holder, self.name, self._database.lease)

    @contextmanager
    def _confirmed(self, connection: Connection) -> Iterator[None]:
        connection.execute("BEGIN")
        try:
            yield
        except BaseException:
            if not isLost(connection):
                connection.execute("ROLLBACK")
            raise
        self._confirm(connection)

    def _confirm(self, connection: Connection) -> None:
        confirmed(connection, lambda process: self.leases.call(awaitsStandby, process))

    def begin(self) -> None:
        self._committing = self._isCommitted = False
        self._verify()
        self.connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")

    def commit(self) -> None:
        cursor = self.connection.execute(
            "UPDATE progress SET commits = %s WHERE holder = %s", (self._number + 1, self.holder)
        )
        if not cursor.rowcount:
            raise Forgotten("the database has forgotten this broker")
        self._verify()
        self._committing = True
        self._confirm(self.connection)
        self._committing = False
        self._number += 1

    def _verify(self) -> None:
        """
        Raise L{Superseded} if another server is the primary now. The connection is then closed.
        """
        if not self._database.primaries.isCurrent(self.connection):
            self.connection.close()
            raise Superseded("the database has a new primary")

    def rollBack(self) -> bool:
        """
        Roll back. Return whether the transaction is known to have had no effect; if not, the
        connection is lost.
        """
        try:
            if not isLost(self.connection):
                self.connection.execute("ROLLBACK")
                return True
        except psycopg.Error:
            pass  # It is lost.
        return False

    def connect(self) -> None:
        """
        Replace a lost connection, and find out the outcome of its transaction.

        @raise Forgotten: if this broker's count is not there.
        @raise StoreFailed: if the outcome is not known yet.
        """
        self.connection.close()
        self._database.primaries.doubt()
        connection = self._connected()
        try:
            commits = self._commits(connection)
        except BaseException:
            connection.close()
            raise
        self.connection = connection
        self._isCommitted = self._committing and commits == self._number + 1
        self._number = commits

    def hasCommitted(self) -> bool:
        """Whether the transaction on the lost connection is durable. Valid after L{connect}."""
        return self._isCommitted

    def _commits(self, connection: Connection) -> int:
        """Wait until the lost connection's transaction has ended. Return the number of commits."""
        # The server may not have noticed yet that the lost connection is lost.
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = %s AND pid <> pg_backend_pid()"
            " AND wait_event IS DISTINCT FROM 'SyncRep'",
            (self.who("write"),),
        )
        waiting = connection.execute(
            "SELECT 1 FROM pg_stat_activity WHERE application_name = %s AND wait_event = 'SyncRep'",
            (self.who("write"),),
        )
        if waiting.fetchone():
            raise StoreFailed(NO_STANDBY)
        # This query is confirmed after the lost commit, which is then confirmed too.
        with self._confirmed(connection):
            connection.execute(f"SET LOCAL lock_timeout TO {LOCK_WAIT}")
            row = connection.execute(
                "SELECT commits FROM progress WHERE holder = %s FOR UPDATE", (self.holder,)
            ).fetchone()
        if row is None:
            raise Forgotten("the database has forgotten this broker")
        return int(row[0])

    def openAgain(self, known: Holdings) -> Holdings:
        try:
            self.connect()
        except Forgotten:
            self.connection = self._connected()
            self._number = 0
            with self._confirmed(self.connection):
                self._enter()
        with self._confirmed(self.connection):
            rows = held(self.connection, self.holder, known.rows)
            tokens = {space.identity: space.token for space in known.spaces.values()}
            alive = stillHeld(self.connection, "space", self.holder, tokens)
        spaces = {name: space for name, space in known.spaces.items() if space.identity in alive}
        return Holdings(rows, spaces, known.lostSpaces | (known.spaces.keys() - spaces.keys()))

    def leave(self) -> None:
        try:
            if isLost(self.connection):
                self.connection = self._connected()
            with self._confirmed(self.connection):
                self.connection.execute(f"SET LOCAL lock_timeout TO {LOCK_WAIT}")
                leave(self.connection, self.holder)
        finally:
            self.connection.close()
