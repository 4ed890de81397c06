"""
Leases: which broker may write to which log and to which space of state.

A broker that has the store open is a I{holder}. Its row has the time until which its leases are
valid, which it extends. A log's row names its holder. A broker takes a log whose holder's time is
over, and raises the log's token. Every transaction first locks the rows of its logs, and continues
only if holder and token are still those that it knows. So the old holder of a log, however late it
wakes up, cannot write to it any more.

Time is the database's clock. A clock that jumps forward makes leases end early, one that jumps back
makes them last longer; neither makes two brokers write. No broker waits for a row that another
has locked in order to take it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from natsbroker.interfaces.records import (
    LeaseCensus,
    LeaseHolder,
    LeaseLost,
    NoSuchLog,
    StoreFailed,
)
from natsbroker.storage.postgres.schema import Connection, PostgresLogRow

FORGOTTEN = 3600
"""Seconds after which a holder that holds nothing is forgotten."""


class Space(NamedTuple):
    identity: int
    token: int


@dataclass(slots=True)
class Holdings:
    """
    @ivar rows: of logs, by identity.
    @ivar lostSpaces: names of spaces that others hold, or have held since they were lost. This
        broker's knowledge of them may be outdated.
    """

    rows: dict[int, PostgresLogRow]
    spaces: dict[str, Space] = field(default_factory=dict)
    lostSpaces: set[str] = field(default_factory=set)

    def copy(self) -> Holdings:
        return Holdings(dict(self.rows), dict(self.spaces), set(self.lostSpaces))


class Renewed(NamedTuple):
    logs: frozenset[int]
    spaces: frozenset[int]


def newIdentity() -> int:
    return int.from_bytes(os.urandom(8), "little") >> 1 | 1


def enter(connection: Connection, holder: int, name: str, seconds: float) -> None:
    connection.execute(
        "INSERT INTO holder (id, name, expires) VALUES"
        " (%s, %s, clock_timestamp() + %s * interval '1 second')"
        " ON CONFLICT (id) DO UPDATE SET expires = excluded.expires",
        (holder, name, seconds),
    )
    connection.execute(
        "INSERT INTO progress (holder, commits) VALUES (%s, 0)"
        " ON CONFLICT (holder) DO UPDATE SET commits = 0",
        (holder,),
    )
    connection.execute(
        "DELETE FROM holder WHERE expires < clock_timestamp() - %s * interval '1 second'"
        " AND NOT EXISTS (SELECT FROM log WHERE log.holder = holder.id)"
        " AND NOT EXISTS (SELECT FROM space WHERE space.holder = holder.id)",
        (FORGOTTEN,),
    )
    connection.execute(
        "DELETE FROM progress WHERE NOT EXISTS"
        " (SELECT FROM holder WHERE holder.id = progress.holder)"
    )


def renew(connection: Connection, holder: int, seconds: float) -> Renewed:
    """Renew the leases. L{StoreFailed} if the holder was forgotten."""
    with connection.transaction():
        # It needs no standby, and must not wait for one: after a failover it may end early.
        connection.execute("SET LOCAL synchronous_commit TO local")
        cursor = connection.execute(
            "UPDATE holder SET expires = clock_timestamp() + %s * interval '1 second'"
            " WHERE id = %s",
            (seconds, holder),
        )
    if not cursor.rowcount:
        raise StoreFailed("the database has forgotten this broker")
    logs = connection.execute("SELECT id FROM log WHERE holder = %s", (holder,)).fetchall()
    spaces = connection.execute("SELECT id FROM space WHERE holder = %s", (holder,)).fetchall()
    return Renewed(frozenset(row[0] for row in logs), frozenset(row[0] for row in spaces))


def leave(connection: Connection, holder: int) -> None:
    with connection.transaction():
        connection.execute("UPDATE log SET holder = NULL WHERE holder = %s", (holder,))
        connection.execute("UPDATE space SET holder = NULL WHERE holder = %s", (holder,))
        connection.execute("DELETE FROM holder WHERE id = %s", (holder,))
        connection.execute("DELETE FROM progress WHERE holder = %s", (holder,))


def introduce(connection: Connection, holder: int, name: str) -> None:
    connection.execute("UPDATE holder SET name = %s WHERE id = %s", (name, holder))


def census(connection: Connection, prefix: str, seconds: float) -> LeaseCensus:
    """
    @param prefix: only logs whose names begin with this.
    """
    holders: dict[str, LeaseHolder] = {}
    names: dict[int, str] = {}
    for identity, name, remaining in connection.execute(
        "SELECT id, name, extract(epoch FROM expires - clock_timestamp())::float8 FROM holder"
        " ORDER BY expires"
    ):
        # The one that renewed last counts.
        holders[name] = LeaseHolder(name, max(seconds - remaining, 0.0), remaining > 0)
        if remaining > 0:
            names[identity] = name
    key = prefix.encode()
    rows = connection.execute(
        "SELECT name, holder FROM log WHERE substring(name FOR %s) = %s", (len(key), key)
    )
    return LeaseCensus(holders, {name.decode(): names.get(other) for name, other in rows})


def giveUpSpace(connection: Connection, holder: int, identity: int) -> None:
    connection.execute(
        "UPDATE space SET holder = NULL WHERE id = %s AND holder = %s", (identity, holder)
    )


def giveUp(connection: Connection, holder: int, identity: int) -> None:
    connection.execute(
        "UPDATE log SET holder = NULL WHERE id = %s AND holder = %s", (identity, holder)
    )


def _isFree(connection: Connection, holder: int, other: int | None) -> bool:
    if other is None or other == holder:
        return True
    alive = connection.execute(
        "SELECT 1 FROM holder WHERE id = %s AND expires > clock_timestamp()", (other,)
    ).fetchone()
    return alive is None


_LOG_COLUMNS = "id, holder, token, first, last, count, size, last_time"


def takeLog(connection: Connection, holder: int, name: str, create: bool) -> PostgresLogRow:
    """Take the lease of a log. L{NoSuchLog} if it does not exist, and is not to be made."""
    key = name.encode()
    while True:
        row = connection.execute(
            f"SELECT {_LOG_COLUMNS} FROM log WHERE name = %s FOR UPDATE SKIP LOCKED", (key,)
        ).fetchone()
        if row is not None:
            return _taken(connection, holder, name, row)
        if connection.execute("SELECT 1 FROM log WHERE name = %s", (key,)).fetchone():
            raise LeaseLost(f"another broker serves {name}")
        if not create:
            raise NoSuchLog(f"there is no log {name}")
        connection.execute(
            "INSERT INTO log (id, name, first, last, count, size, last_time, token)"
            " VALUES (%s, %s, 1, 0, 0, 0, 0, 0) ON CONFLICT (name) DO NOTHING",
            (newIdentity(), key),
        )


def _taken(connection: Connection, holder: int, name: str, row: tuple[Any, ...]) -> PostgresLogRow:
    identity, other, token, first, last, count, size, lastTime = row
    if not _isFree(connection, holder, other):
        raise LeaseLost(f"another broker serves {name}")
    if other != holder:
        token += 1
        connection.execute(
            "UPDATE log SET holder = %s, token = %s WHERE id = %s", (holder, token, identity)
        )
    oldest = connection.execute(
        "SELECT time FROM record WHERE log = %s AND sequence >= %s ORDER BY sequence LIMIT 1",
        (identity, first),
    ).fetchone()
    return PostgresLogRow(
        identity,
        name,
        first,
        last,
        count,
        size,
        lastTime,
        token=token,
        oldest=oldest[0] if oldest else 0,
    )


def takeSpace(connection: Connection, holder: int, name: str) -> Space:
    """Take the lease of a space. L{LeaseLost} if another broker has it."""
    key = name.encode()
    connection.execute(
        "INSERT INTO space (id, name, token) VALUES (%s, %s, 0) ON CONFLICT (name) DO NOTHING",
        (newIdentity(), key),
    )
    row = connection.execute(
        "SELECT id, holder, token FROM space WHERE name = %s FOR UPDATE SKIP LOCKED", (key,)
    ).fetchone()
    if row is None or not _isFree(connection, holder, row[1]):
        raise LeaseLost(f"another broker has the state {name}")
    identity, other, token = row
    if other != holder:
        token += 1
        connection.execute(
            "UPDATE space SET holder = %s, token = %s WHERE id = %s", (holder, token, identity)
        )
    return Space(identity, token)


def stillHeld(
    connection: Connection, table: str, holder: int, tokens: dict[int, int]
) -> Collection[int]:
    """
    Lock the rows that a transaction writes to, if they are still held. C{table} is C{log} or
    C{space}.
    """
    rows = connection.execute(
        f"SELECT id, token FROM {table} WHERE id = ANY(%s::bigint[]) AND holder = %s"
        " ORDER BY id FOR UPDATE",
        (sorted(tokens), holder),
    )
    return [identity for identity, token in rows if tokens[identity] == token]


def held(
    connection: Connection, holder: int, rows: Mapping[int, PostgresLogRow]
) -> dict[int, PostgresLogRow]:
    """The current rows of those logs that are still held."""
    tokens = {identity: row.token for identity, row in rows.items()}
    logs = {}
    for identity in stillHeld(connection, "log", holder, tokens):
        row = connection.execute(
            f"SELECT {_LOG_COLUMNS} FROM log WHERE id = %s", (identity,)
        ).fetchone()
        if row is not None:
            logs[identity] = _taken(connection, holder, rows[identity].name, row)
            logs[identity].dropped = rows[identity].dropped
    return logs


def abandoned(connection: Connection, holder: int) -> list[PostgresLogRow]:
    """Take the dropped logs that still have records."""
    rows = connection.execute(
        f"SELECT {_LOG_COLUMNS} FROM log WHERE name IS NULL FOR UPDATE SKIP LOCKED"
    ).fetchall()
    logs = []
    for row in rows:
        if _isFree(connection, holder, row[1]):
            log = _taken(connection, holder, "", row)
            log.dropped = True
            logs.append(log)
    return logs
