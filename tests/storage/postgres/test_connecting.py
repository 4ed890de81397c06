"""
Connections, their settings, and errors in words for clients.
"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import errors

from natsbroker.interfaces.records import StoreClosed, StoreError, StoreFailed, StoreFull
from natsbroker.storage.postgres.connecting import Database, Readers, asStoreError, isLost
from natsbroker.storage.postgres.schema import Connection
from tests.postgresql import PostgresServer


@pytest.mark.parametrize(
    "settings",
    [
        {"source": "no pairs"},
        {"source": "host=x", "schema": ""},
        {"source": "host=x", "schema": "\u00e4" * 32},
        {"source": "host=x", "schema": "a\0b"},
        {"source": "host=x", "lease": 0.4},
        {"source": "host=x", "lease": 3601},
        {"source": "host=x", "readers": 0},
    ],
)
def test_nonsense(settings: dict[str, Any]) -> None:
    """Settings that make no sense are refused before anything is connected to."""
    with pytest.raises(ValueError):
        Database(**settings)


def test_secrets() -> None:
    """The description of a connection string does not have the password in it."""
    with pytest.raises(ValueError) as failure:
        Database("host=x password secret")
    assert "secret" not in str(failure.value)


def test_settings(postgres: PostgresServer) -> None:
    """A connection uses its schema, and its transactions may not stand still for ever."""
    connection = Database(postgres.source, 'a "b"', 2.5).connect("who it is")
    shown = [
        connection.execute(f"SHOW {name}").fetchone()
        for name in (
            "search_path",
            "idle_in_transaction_session_timeout",
            "synchronous_commit",
            "application_name",
        )
    ]
    connection.close()
    assert shown == [('"a ""b"""',), ("2500ms",), ("on",), ("who it is",)]


@pytest.mark.parametrize(
    ("default", "ours"),
    [
        ("off", "on"),
        ("local", "on"),
        ("remote_write", "on"),
        ("on", "on"),
        ("remote_apply", "remote_apply"),
    ],
)
def test_synchronousCommit(postgres: PostgresServer, default: str, ours: str) -> None:
    """Commits are durable even if the server's default says that they are not."""
    source = f"{postgres.source} options='-c synchronous_commit={default}'"
    connection = Database(source).connect("test")
    shown = connection.execute("SHOW synchronous_commit").fetchone()
    connection.close()
    assert shown == (ours,)


@pytest.mark.parametrize(
    ("failure", "kind", "text"),
    [
        (errors.DiskFull("path"), StoreFull, "the database has no space left"),
        (errors.UndefinedTable("x"), StoreFailed, "the database failed: UndefinedTable (42P01)"),
        (psycopg.OperationalError("host x"), StoreFailed, "the database cannot be reached"),
        (KeyError("x"), StoreFailed, "the store failed: KeyError"),
    ],
)
def test_asStoreError(failure: Exception, kind: type[StoreError], text: str) -> None:
    """Errors are reported without hosts, paths and tables; the original is kept as the cause."""
    error = asStoreError(failure)
    assert (type(error), str(error), error.__cause__) == (kind, text, failure)


def test_storeErrorsStay() -> None:
    """An error of stores is passed on unchanged."""
    error = StoreClosed("closed")
    assert asStoreError(error) is error


class TestReaders:
    """L{Readers}."""

    def one(self, connection: Connection) -> int:
        """Read something, and return which connection was used."""
        connection.execute("SELECT 1")
        return int(connection.info.backend_pid)

    def test_keepsConnections(self, postgres: PostgresServer) -> None:
        """A connection is used again."""
        readers = Readers(Database(postgres.source), "test")
        assert readers.call(self.one) == readers.call(self.one)
        readers.close()

    def test_lost(self, postgres: PostgresServer) -> None:
        """A request over a connection that is lost is sent again over a new one."""
        readers = Readers(Database(postgres.source), "test")
        before = readers.call(self.one)
        postgres.execute("x", "SELECT pg_terminate_backend(%s)", before)
        assert readers.call(self.one) != before
        readers.close()

    def test_fails(self, postgres: PostgresServer) -> None:
        """A row that cannot be read is an error of the store; the connection is kept."""
        readers = Readers(Database(postgres.source), "test")
        before = readers.call(self.one)
        with pytest.raises(StoreFailed):
            readers.call(lambda connection: connection.execute("SELECT nothing"))
        assert readers.call(self.one) == before
        readers.close()

    def test_closed(self, postgres: PostgresServer) -> None:
        """A connection that is in use when the readers are closed is closed afterwards."""
        readers = Readers(Database(postgres.source), "test")

        def closing(connection: Connection) -> Connection:
            readers.close()
            return connection

        assert isLost(readers.call(closing))
