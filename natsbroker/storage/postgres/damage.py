"""Damaged records, and logs that have fewer records than their rows say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from natsbroker.storage.postgres.fetching import wholeRecord
from natsbroker.storage.postgres.schema import Connection, PostgresLogRow
from natsbroker.storage.records import HEAD_SIZE

COUNTED = 1_000_000
"""The number of records up to which a log is counted whenever it is opened."""


def isMiscounted(connection: Connection, identity: int) -> bool:
    """Whether the number of a log's records differs from that in its row."""
    row = connection.execute(
        "SELECT count <> (SELECT count(*) FROM record WHERE record.log = log.id) FROM log"
        " WHERE id = %s AND count <= %s",
        (identity, COUNTED),
    ).fetchone()
    return row is not None and bool(row[0])


def readDamaged(connection: Connection, identity: int, first: int) -> list[int]:
    rows: list[Any] = connection.execute(
        "SELECT sequence FROM damaged WHERE log = %s AND sequence >= %s ORDER BY sequence",
        (identity, first),
    ).fetchall()
    return [row[0] for row in rows]


def moveDamaged(connection: Connection, identity: int, sequences: Sequence[int]) -> None:
    """Move records out of the way if they are damaged."""
    rows = connection.execute(
        "SELECT sequence, data FROM record WHERE log = %s AND sequence = ANY(%s::bigint[])",
        (identity, sequences),
        binary=True,
    ).fetchall()
    damaged = [sequence for sequence, data in rows if wholeRecord(identity, sequence, data) is None]
    connection.execute(
        "WITH lost AS (DELETE FROM record WHERE log = %s AND sequence = ANY(%s::bigint[])"
        " RETURNING log, sequence, time, subject, data) INSERT INTO damaged SELECT * FROM lost",
        (identity, damaged),
    )


def countAgain(connection: Connection, row: PostgresLogRow) -> None:
    row.count, size, first = connection.execute(
        "SELECT count(*), coalesce(sum(octet_length(data)), 0)::bigint, min(sequence)"
        " FROM record WHERE log = %s",
        (row.identity,),
    ).fetchone() or (0, 0, None)
    row.size = size - HEAD_SIZE * row.count
    row.first = row.last + 1 if first is None else first
    oldest = connection.execute(
        "SELECT time FROM record WHERE log = %s AND sequence = %s", (row.identity, row.first)
    ).fetchone()
    row.oldest = oldest[0] if oldest else 0
