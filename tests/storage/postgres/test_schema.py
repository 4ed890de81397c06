"""
The tables and their version.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from natsbroker.interfaces.records import UnknownFormat
from natsbroker.storage.postgres.connecting import Database
from natsbroker.storage.postgres.schema import LONGEST_KEY, prepare, subjectKey
from tests.postgresql import PostgresServer


@pytest.fixture
def schema(postgres: PostgresServer) -> Iterator[str]:
    """
    A name for a schema.
    """
    name = postgres.newSchema()
    yield name
    postgres.execute(name, f'DROP SCHEMA IF EXISTS "{name}" CASCADE')


def prepared(postgres: PostgresServer, schema: str) -> None:
    """Have the tables made, or verified."""
    connection = Database(postgres.source, schema).connect("test")
    try:
        prepare(connection, schema)
    finally:
        connection.close()


def test_madeOnce(postgres: PostgresServer, schema: str) -> None:
    """The tables are made where there are none, and kept where they are."""
    prepared(postgres, schema)
    postgres.execute(schema, "INSERT INTO progress VALUES (1, 5)")
    prepared(postgres, schema)
    assert postgres.execute(schema, "SELECT commits FROM progress") == [(5,)]


def test_anotherVersion(postgres: PostgresServer, schema: str) -> None:
    """Tables of another version are refused, and not touched."""
    prepared(postgres, schema)
    postgres.execute(schema, "UPDATE format SET version = 2")
    with pytest.raises(UnknownFormat, match="has version 2; this is a broker for 1"):
        prepared(postgres, schema)
    assert postgres.execute(schema, "SELECT version FROM format") == [(2,)]


@pytest.mark.parametrize(
    "table", ["log (x integer)", "format (x integer)", "format (version integer)"]
)
def test_otherTables(postgres: PostgresServer, schema: str, table: str) -> None:
    """Tables of another program that have the store's names are refused."""
    postgres.execute(schema, f'CREATE SCHEMA "{schema}"')
    postgres.execute(schema, f"CREATE TABLE {table}")
    with pytest.raises(UnknownFormat, match="schema test"):
        prepared(postgres, schema)


def test_subjectKeys() -> None:
    """Long subjects are indexed by their beginning and a hash, which no short one can be."""
    short = b"x" * (LONGEST_KEY - 1)
    assert subjectKey(short) == short
    keys = {subjectKey(b"x" * LONGEST_KEY + suffix) for suffix in (b"", b"a", b"b", b"a" * 60000)}
    assert len(keys) == 4
    assert {len(key) for key in keys} == {LONGEST_KEY}
