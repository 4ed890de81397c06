"""
The tables, and the version of their layout.

All are in one schema of the database, which belongs to the store:

  - C{format}: one row, the version of all this.
  - C{holder}: a row for each broker that has the store open, with the time until which its leases
    hold, by the database's clock.
  - C{progress}: how many commits each of them made. It changes in the same transaction as all
    else, so a broker that lost its connection during a commit finds out what became of that.
  - C{log}: a row for each log, with its bounds, who holds its lease, and the fencing token, which
    rises whenever the lease changes hands. The name of a log that was dropped is null.
  - C{record}: the records, each as L{natsbroker.storage.records} lays it out, checksum included.
  - C{damaged}: records that did not match their checksums, moved there from C{record} as they were.
  - C{hold}: the named holds of each log.
  - C{space} and C{state}: the same for state: who holds a space, and its values.

Tables of another version are refused and not touched; brokers that start at the same time
make them once.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from struct import Struct
from typing import Any, TypeAlias

import psycopg
from psycopg.sql import SQL, Identifier

from natsbroker.interfaces.records import UnknownFormat
from natsbroker.storage.jobs import StoredRow
from natsbroker.storage.records import crc32c

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

VERSION = 1

LONGEST_KEY = 900
"""The bytes of a subject that are indexed; a row of an index must not have over 2,700."""

LARGEST = (1 << 63) - 1
"""The largest sequence that the tables take."""

_TABLES = """
CREATE TABLE format (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    version integer NOT NULL
);
CREATE TABLE holder (
    id bigint PRIMARY KEY,
    name text NOT NULL,
    expires timestamp with time zone NOT NULL
);
CREATE TABLE progress (
    holder bigint PRIMARY KEY,
    commits bigint NOT NULL
);
CREATE TABLE log (
    id bigint PRIMARY KEY,
    name bytea UNIQUE,
    first bigint NOT NULL,
    last bigint NOT NULL,
    count bigint NOT NULL,
    size bigint NOT NULL,
    last_time bigint NOT NULL,
    holder bigint,
    token bigint NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE record (
    log bigint NOT NULL,
    sequence bigint NOT NULL,
    time bigint NOT NULL,
    subject bytea NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (log, sequence)
);
ALTER TABLE record ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE INDEX record_by_subject ON record (log, subject, sequence);
CREATE TABLE hold (
    log bigint NOT NULL,
    name bytea NOT NULL,
    floor bigint NOT NULL,
    PRIMARY KEY (log, name)
);
CREATE TABLE space (
    id bigint PRIMARY KEY,
    name bytea NOT NULL UNIQUE,
    holder bigint,
    token bigint NOT NULL
);
CREATE TABLE state (
    space bigint NOT NULL,
    key bytea NOT NULL,
    value bytea NOT NULL,
    checksum bigint NOT NULL,
    PRIMARY KEY (space, key)
);
"""

_DAMAGED = """
CREATE TABLE IF NOT EXISTS damaged (
    log bigint NOT NULL,
    sequence bigint NOT NULL,
    time bigint NOT NULL,
    subject bytea NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (log, sequence)
);
CREATE INDEX IF NOT EXISTS damaged_by_subject ON damaged (log, subject, sequence);
"""
"""Brokers that do not know this table work beside those that do."""

_LOCK = int.from_bytes(b"natsstor", "big")
"""The advisory lock that is held while tables are made."""


@dataclass(slots=True)
class PostgresLogRow(StoredRow):
    """
    A row of C{log}. It counts only when its transaction is durable.

    @ivar oldest: the timestamp of the oldest record; 0 for none. Not in the database.
    """

    token: int = 0
    oldest: int = 0


def prepare(connection: Connection, schema: str) -> None:
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        rows = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)
        )
        tables = {row[0] for row in rows}
        if "format" in tables:
            _verify(connection, schema)
            if "damaged" not in tables:
                connection.execute(_DAMAGED)
        elif tables & {"holder", "progress", "log", "record", "hold", "space", "state"}:
            raise UnknownFormat(f"schema {schema} has tables, but not those of a store")
        else:
            connection.execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(schema)))
            connection.execute(_TABLES)
            connection.execute(_DAMAGED)
            connection.execute("INSERT INTO format (version) VALUES (%s)", (VERSION,))


def _verify(connection: Connection, schema: str) -> None:
    try:
        row = connection.execute("SELECT version FROM format").fetchone()
    except psycopg.errors.UndefinedColumn:
        row = None
    if row is None:
        raise UnknownFormat(f"the table format in schema {schema} is not that of a store")
    if row[0] != VERSION:
        raise UnknownFormat(
            f"the store in schema {schema} has version {row[0]}; this is a broker for {VERSION}"
        )


def subjectKey(subject: bytes) -> bytes:
    """
    The key of a subject: all of it, or for a long one its beginning and a hash. No two subjects
    have the same key.
    """
    if len(subject) < LONGEST_KEY:
        return subject
    digest = sha256(subject).digest()
    return subject[: LONGEST_KEY - len(digest)] + digest


_CHECKED = Struct("<QH")


def checksum(space: int, key: bytes, value: bytes) -> int:
    return int(crc32c(_CHECKED.pack(space, len(key)) + key + value))
