"""
Letting records go: those that the limits do not allow, and those that were discarded.

What is done in one transaction is bounded by what was appended in it, so that it never
stops writers; what is left over is done in the next ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from natsbroker.storage.policy import Policy
from natsbroker.storage.postgres.reading import distinctSubjects
from natsbroker.storage.postgres.rows import PostgresLogRow
from natsbroker.storage.postgres.schema import Connection
from natsbroker.storage.records import HEAD_SIZE

SLICE = 5000
"""How many records may go in a transaction in any case, besides four for each appended one."""

LOOK = 16
"""How many records are looked at first, when it is not known how many have to go."""

SUBJECTS_A_SLICE = 500
"""How many subjects are looked at in a transaction, when the limit for each has changed."""


class Trimming:
    """
    @ivar appended: how many records were added in this transaction.
    @ivar counted: the indexed subjects of those, where each has a limit.
    @ivar discardTo: records below this sequence are to go.
    @ivar trimmed: whether all that had to go went.
    """

    def __init__(
        self, connection: Connection, row: PostgresLogRow, policy: Policy, now: int
    ) -> None:
        self._connection = connection
        self._now = now
        self.row = row
        self.policy = policy
        self.discardTo = 0
        self.trimmed = True
        self.appended = 0
        self.counted: set[bytes] = set()

    def deleteThese(self, sequences: Sequence[int]) -> int:
        """
        @return: how many were there.
        """
        found = self._connection.execute(
            "DELETE FROM record WHERE log = %s AND sequence = ANY(%s::bigint[])"
            " RETURNING sequence, octet_length(data)",
            (self.row.identity, sequences),
        ).fetchall()
        row = self.row
        row.count -= len(found)
        row.size -= sum(length - HEAD_SIZE for _, length in found)
        if any(sequence == row.first for sequence, _ in found):
            self._findFirst()
        return len(found)

    def _findFirst(self) -> None:
        row = self.row
        found = self._connection.execute(
            "SELECT sequence, time FROM record WHERE log = %s AND sequence > %s"
            " ORDER BY sequence LIMIT 1",
            (row.identity, row.first),
        ).fetchone()
        row.first, row.oldest = found or (row.last + 1, 0)

    def trimAll(self) -> bool:
        """
        @return: whether that was all; if not, enough was done for one transaction.
        """
        budget = SLICE + 4 * self.appended
        swept = self._trimSubjects(budget)
        self.trimmed = self._trim(budget)
        return swept and self.trimmed

    # The oldest

    def _wanted(self) -> int:
        """
        About how many records have to go, as far as the row says.
        """
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
        if retention.age and row.oldest < self._now - retention.age:
            return LOOK
        return 0

    def _trim(self, budget: int) -> bool:
        """
        @return: whether that is done; if not, enough was done for one transaction.
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
        """
        @param number: the most to delete.
        @return: how many went; 0 if none has to go, or may.
        """
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
        """
        Whether the oldest record has to go, and may.
        """
        row, retention, floor = self.row, self.policy.retention, self.policy.floor
        if floor is not None and sequence >= floor:
            return False
        return bool(
            sequence < self.discardTo
            or (retention.count and row.count > retention.count)
            or (retention.size and row.size > retention.size and row.count > 1)
            or (retention.age and time < self._now - retention.age)
        )

    # Of each subject

    def _trimSubjects(self, budget: int) -> bool:
        """
        @return: whether that is done.
        """
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
        """
        @return: how many went.
        """
        limit, floor = self.policy.retention.perSubject, self.policy.floor
        found = self._connection.execute(
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
                (1 << 63) - 1 if floor is None else floor,
                budget,
            ),
        ).fetchall()
        return self.deleteThese([row[0] for row in found]) if found else 0
