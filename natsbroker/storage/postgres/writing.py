"""
One transaction's changes of logs and state. Deletions by limits are bounded by the appends in it,
so that they never stop writers; the next transactions do the rest. The given rows are not changed:
L{PostgresTransaction.held} has the new ones. Logs and spaces of other brokers are never written to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from struct import Struct

from psycopg import Cursor

from natsbroker.interfaces.records import LeaseLost, StoreFailed
from natsbroker.storage.policy import Policy
from natsbroker.storage.postgres.damage import countAgain, moveDamaged, readDamaged
from natsbroker.storage.postgres.fetching import distinctSubjects, readHolds
from natsbroker.storage.postgres.leasing import (
    Holdings,
    Space,
    giveUp,
    giveUpSpace,
    introduce,
    stillHeld,
    takeLog,
    takeSpace,
)
from natsbroker.storage.postgres.schema import LARGEST, PostgresLogRow, checksum, subjectKey
from natsbroker.storage.postgres.session import Session
from natsbroker.storage.records import HEAD_SIZE, Encoded, subjectOf, timestampOf

_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_ROW = Struct(">hiqiqiqi")
_LENGTH = Struct(">i")

DELETED_AT_ONCE = 5000
"""The sequences that one statement names."""

DROPPED_AT_ONCE = 5000
"""The records of a dropped log that one transaction deletes."""

SLICE = 5000
"""The records that may go in a transaction in any case, besides four for each appended one."""

LOOK = 16
"""The records that are looked at first, when it is not known how many have to go."""

SUBJECTS_A_SLICE = 500
"""The subjects that are looked at in a transaction, when the limit for each has changed."""


class PostgresLogWriter:
    """
    @ivar counted: the indexed subjects of appended records, if each subject has a limit.
    """

    def __init__(
        self, transaction: PostgresTransaction, row: PostgresLogRow, policy: Policy
    ) -> None:
        self._transaction = transaction
        self._connection = transaction.connection
        self.row = row
        self.policy = policy
        self.discardTo = 0
        self.trimmed = True
        self.appended = 0
        self.counted: set[bytes] = set()

    def append(self, first: int, encoded: Encoded) -> None:
        row, blobs, perSubject = self.row, encoded.blobs, self.policy.retention.perSubject
        if first != row.last + 1:
            raise StoreFailed(f"sequence {first} does not follow {row.last}")
        if not row.count:
            row.oldest = timestampOf(blobs[0], 0)
        pieces = self._transaction.copied
        known: dict[bytes, bytes] = {}
        for sequence, blob in enumerate(blobs, first):
            subject = subjectOf(blob, 0)
            key = known.get(subject)
            if key is None:
                key = known[subject] = subjectKey(subject)
            time = timestampOf(blob, 0)
            pieces += (
                _ROW.pack(5, 8, row.identity, 8, sequence, 8, time, len(key)),
                key,
                _LENGTH.pack(len(blob)),
                blob,
            )
        if perSubject:
            self.counted.update(known.values())
        self.appended += len(blobs)
        row.grow(first, encoded)

    def skipTo(self, sequence: int) -> None:
        self.row.last = sequence - 1
        if not self.row.count:
            self.row.first = sequence

    def delete(self, sequences: Collection[int]) -> int:
        self._transaction.flush()
        wanted = [sequence for sequence in sequences if 0 < sequence <= LARGEST]
        deleted = 0
        for start in range(0, len(wanted), DELETED_AT_ONCE):
            deleted += self.deleteThese(wanted[start : start + DELETED_AT_ONCE])
        return deleted

    def putHolds(self) -> None:
        connection, identity = self._connection, self.row.identity
        connection.execute("DELETE FROM hold WHERE log = %s", (identity,))
        for name, floor in self.policy.holds.items():
            connection.execute(
                "INSERT INTO hold (log, name, floor) VALUES (%s, %s, %s)",
                (identity, name.encode(), min(max(floor, 0), LARGEST)),
            )
        self.sweep()

    def sweep(self) -> None:
        if self.policy.retention.perSubject:
            self.policy.sweep = b""

    def drop(self) -> None:
        """Drop a log: remove its name. Its records are deleted bit by bit."""
        self._connection.execute("UPDATE log SET name = NULL WHERE id = %s", (self.row.identity,))
        self.row.dropped = True

    def dropSlice(self) -> bool:
        """Delete a part of a dropped log. Return whether nothing is left."""
        connection, identity = self._connection, self.row.identity
        border = connection.execute(
            "SELECT sequence FROM record WHERE log = %s AND sequence >= %s"
            " ORDER BY sequence OFFSET %s LIMIT 1",
            (identity, self.row.first, DROPPED_AT_ONCE),
        ).fetchone()
        if border is not None:
            connection.execute(
                "DELETE FROM record WHERE log = %s AND sequence >= %s AND sequence < %s",
                (identity, self.row.first, border[0]),
            )
            self.row.first = border[0]
            return False
        connection.execute("DELETE FROM record WHERE log = %s", (identity,))
        connection.execute("DELETE FROM damaged WHERE log = %s", (identity,))
        connection.execute("DELETE FROM hold WHERE log = %s", (identity,))
        connection.execute("DELETE FROM log WHERE id = %s", (identity,))
        return True

    def deleteThese(self, sequences: Sequence[int]) -> int:
        rows = self._connection.execute(
            "DELETE FROM record WHERE log = %s AND sequence = ANY(%s::bigint[])"
            " RETURNING sequence, octet_length(data)",
            (self.row.identity, sequences),
        ).fetchall()
        row = self.row
        row.count -= len(rows)
        row.size -= sum(length - HEAD_SIZE for _, length in rows)
        if any(sequence == row.first for sequence, _ in rows):
            self._findFirst()
        return len(rows)

    def lose(self, sequences: Sequence[int]) -> None:
        self._transaction.flush()
        moveDamaged(self._connection, self.row.identity, sequences)
        # There may be more that is gone.
        countAgain(self._connection, self.row)

    def recount(self) -> None:
        self._transaction.flush()
        countAgain(self._connection, self.row)

    def _findFirst(self) -> None:
        row = self.row
        following = self._connection.execute(
            "SELECT sequence, time FROM record WHERE log = %s AND sequence > %s"
            " ORDER BY sequence LIMIT 1",
            (row.identity, row.first),
        ).fetchone()
        row.first, row.oldest = following or (row.last + 1, 0)

    def trimAll(self) -> bool:
        """
        Remove records of all logs by their limits. Return whether that was all; if not, this
        transaction has done enough.
        """
        budget = SLICE + 4 * self.appended
        swept = self._trimSubjects(budget)
        self.trimmed = self._trim(budget)
        return swept and self.trimmed

    def _wanted(self) -> int:
        row, retention = self.row, self.policy.retention
        floor = self.policy.floor
        if not row.count or (floor is not None and row.first >= floor):
            return 0
        if row.first < self.discardTo:
            return min(self.discardTo - row.first, row.count)
        if retention.count and row.count > retention.count:
            return row.count - retention.count
        if retention.size and row.size > retention.size and row.count > 1:
            return LOOK
        if retention.age and row.oldest < self._transaction.now - retention.age:
            return LOOK
        return 0

    def _trim(self, budget: int) -> bool:
        """
        Remove records of a log by its limits. Return whether that is done; if not, this transaction
        has done enough.
        """
        look = LOOK
        while wanted := self._wanted():
            if budget <= 0:
                return False
            number = min(max(wanted, look), budget)
            look *= 4
            gone = self._trimSome(number)
            if not gone:
                return True
            budget -= gone
        return True

    def _trimSome(self, number: int) -> int:
        row = self.row
        rows = self._connection.execute(
            "SELECT sequence, time, octet_length(data) FROM record"
            " WHERE log = %s AND sequence >= %s ORDER BY sequence LIMIT %s",
            (row.identity, row.first, number + 1),
        ).fetchall()
        gone = 0
        for sequence, time, length in rows[:number]:
            if not self._mustGo(sequence, time):
                break
            row.count -= 1
            row.size -= length - HEAD_SIZE
            gone += 1
        if gone:
            self._connection.execute(
                "DELETE FROM record WHERE log = %s AND sequence >= %s AND sequence <= %s",
                (row.identity, rows[0][0], rows[gone - 1][0]),
            )
        if gone < len(rows):
            row.first, row.oldest = rows[gone][:2]
        else:
            row.first, row.oldest = row.last + 1, 0
            row.count = row.size = 0
        return gone

    def _mustGo(self, sequence: int, time: int) -> bool:
        row, policy, floor = self.row, self.policy, self.policy.floor
        if floor is not None and sequence >= floor:
            return False
        return bool(
            sequence < self.discardTo
            or policy.isExceeded(row.count, row.size)
            or (policy.retention.age and time < self._transaction.now - policy.retention.age)
        )

    def _trimSubjects(self, budget: int) -> bool:
        policy = self.policy
        if not policy.retention.perSubject:
            policy.sweep = None
            return True
        if self.counted:
            budget -= self._trimEach(sorted(self.counted), budget)
            if budget <= 0:
                policy.sweep = b""
        start = policy.sweep
        if start is None:
            return True
        subjects = distinctSubjects(self._connection, self.row.identity, start, SUBJECTS_A_SLICE)
        if budget <= 0 or self._trimEach(subjects, budget) >= budget:
            return False
        if policy.sweep is start:
            policy.sweep = subjects[-1] + b"\0" if len(subjects) == SUBJECTS_A_SLICE else None
        return policy.sweep is None

    def _trimEach(self, subjects: Sequence[bytes], budget: int) -> int:
        limit, floor = self.policy.retention.perSubject, self.policy.floor
        rows = self._connection.execute(
            "SELECT record.sequence FROM unnest(%s::bytea[]) AS wanted (subject)"
            " CROSS JOIN LATERAL (SELECT sequence FROM record WHERE log = %s"
            " AND record.subject = wanted.subject"
            " ORDER BY sequence DESC OFFSET %s LIMIT 1) AS border"
            " JOIN record ON record.log = %s AND record.subject = wanted.subject"
            " AND record.sequence <= border.sequence AND record.sequence < %s LIMIT %s",
            (
                list(subjects),
                self.row.identity,
                limit,
                self.row.identity,
                LARGEST if floor is None else floor,
                budget,
            ),
        ).fetchall()
        return self.deleteThese([row[0] for row in rows]) if rows else 0


class PostgresTransaction:
    """
    @ivar copied: records to store, as C{COPY} wants them.
    @ivar held: the rows of this broker's logs after the transaction.
    @ivar lost: logs that others hold.
    @ivar gone: dropped logs without any records left.
    @ivar givenUp: logs that another broker may have.
    @ivar unfinished: logs with more records to remove.
    """

    def __init__(
        self, session: Session, held: Holdings, policies: Mapping[int, Policy], now: int
    ) -> None:
        self.connection = session.connection
        self.copied: list[bytes] = []
        self.now = now
        self.writers: dict[int, PostgresLogWriter] = {}
        self.held = held.copy()
        self.lost: dict[int, PostgresLogRow] = {}
        self.gone: list[int] = []
        self.givenUp: list[int] = []
        self.unfinished: set[int] = set()
        self._holder = session.holder
        self._policies = policies

    def lock(self, identities: Iterable[int], spaces: Iterable[str]) -> None:
        """Lock the logs and spaces that will be written to, and find out which others hold."""
        tokens = {
            identity: self.held.rows[identity].token
            for identity in identities
            if identity in self.held.rows
        }
        held = stillHeld(self.connection, "log", self._holder, tokens) if tokens else ()
        for identity in tokens.keys() - set(held):
            self.lost[identity] = self.held.rows.pop(identity)
        for identity in held:
            self._write(self.held.rows[identity])
        wanted = {name: self.held.spaces[name] for name in spaces if name in self.held.spaces}
        tokens = {space.identity: space.token for space in wanted.values()}
        held = stillHeld(self.connection, "space", self._holder, tokens) if tokens else ()
        for name, space in wanted.items():
            if space.identity not in held:
                del self.held.spaces[name]
                self.held.lostSpaces.add(name)

    def log(self, identity: int) -> PostgresLogWriter:
        writer = self.writers.get(identity)
        if writer is None:
            raise LeaseLost("another broker serves the log")
        return writer

    def open(self, name: str, create: bool) -> PostgresLogRow:
        taken = takeLog(self.connection, self._holder, name, create)
        known = self.held.rows.get(taken.identity)
        if known is not None and known.token == taken.token:
            taken = known
        return self._write(taken).row

    def openWhole(
        self, name: str, create: bool
    ) -> tuple[PostgresLogRow, dict[str, int], list[int]]:
        row = self.open(name, create)
        damaged = readDamaged(self.connection, row.identity, row.first)
        return row, readHolds(self.connection, row.identity), damaged

    def drop(self, name: str) -> int:
        identity = self.open(name, create=False).identity
        self.log(identity).drop()
        return identity

    def _write(self, row: PostgresLogRow) -> PostgresLogWriter:
        """Begin to write to a log whose row is locked, unless that was begun before."""
        writer = self.writers.get(row.identity)
        if writer is None:
            row = self.held.rows[row.identity] = replace(row)
            policy = self._policies.get(row.identity) or Policy()
            writer = self.writers[row.identity] = PostgresLogWriter(self, row, policy)
        return writer

    def giveUp(self, identity: int) -> None:
        self.log(identity)
        giveUp(self.connection, self._holder, identity)
        self.givenUp.append(identity)

    def introduce(self, name: str) -> None:
        introduce(self.connection, self._holder, name)

    def giveUpSpace(self, name: str) -> None:
        space = self.held.spaces.pop(name, None)
        if space is not None:
            giveUpSpace(self.connection, self._holder, space.identity)
        self.held.lostSpaces.add(name)

    def space(self, name: str, isReload: bool = False) -> Space:
        """
        @param isReload: whether a lost space is accepted too, because all of it is read again.
        @raise LeaseLost: if another broker has it, or had.
        """
        space = self.held.spaces.get(name)
        if space is None:
            if name in self.held.lostSpaces and not isReload:
                raise LeaseLost(f"another broker has the state {name}")
            space = self.held.spaces[name] = takeSpace(self.connection, self._holder, name)
            self.held.lostSpaces.discard(name)
        return space

    def change(self, name: str, changes: Mapping[bytes, bytes | None]) -> None:
        space = self.space(name).identity
        gone = [key for key, value in changes.items() if value is None]
        if gone:
            self.connection.execute(
                "DELETE FROM state WHERE space = %s AND key = ANY(%s::bytea[])", (space, gone)
            )
        kept = [
            (space, key, value, checksum(space, key, value))
            for key, value in changes.items()
            if value is not None
        ]
        if kept:
            self._cursor().executemany(
                "INSERT INTO state (space, key, value, checksum) VALUES (%s, %s, %b, %s)"
                " ON CONFLICT (space, key)"
                " DO UPDATE SET value = excluded.value, checksum = excluded.checksum",
                kept,
            )

    def _cursor(self) -> Cursor[tuple[object, ...]]:
        return self.connection.cursor()

    def names(self) -> list[str]:
        rows = self.connection.execute("SELECT name FROM log WHERE name IS NOT NULL").fetchall()
        return sorted(row[0].decode() for row in rows)

    def flush(self) -> None:
        if self.copied:
            pieces, self.copied = self.copied, []
            statement = (
                "COPY record (log, sequence, time, subject, data) FROM STDIN (FORMAT BINARY)"
            )
            with self._cursor().copy(statement) as copy:
                copy.write(b"".join((_HEADER, *pieces, _TRAILER)))

    def finish(self) -> None:
        self.flush()
        for identity, writer in self.writers.items():
            if writer.row.dropped:
                if writer.dropSlice():
                    self.gone.append(identity)
            elif not writer.trimAll():
                self.unfinished.add(identity)
        self._putRows([writer.row for writer in self.writers.values()])

    def _putRows(self, rows: Sequence[PostgresLogRow]) -> None:
        if rows:
            self.connection.execute(
                "UPDATE log SET first = new.first, last = new.last, count = new.count,"
                " size = new.size, last_time = new.last_time"
                " FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[],"
                " %s::bigint[], %s::bigint[])"
                " AS new (id, first, last, count, size, last_time) WHERE log.id = new.id",
                (
                    [row.identity for row in rows],
                    [row.first for row in rows],
                    [row.last for row in rows],
                    [row.count for row in rows],
                    [row.size for row in rows],
                    [row.lastTime for row in rows],
                ),
            )
