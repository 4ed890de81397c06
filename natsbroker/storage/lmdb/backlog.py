"""
What is in the journal and not yet in the database.

The rows say what the logs will have once the jobs are applied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from natsbroker.storage.jobs import Job
from natsbroker.storage.lmdb.jobs import LMDBAppendJob
from natsbroker.storage.lmdb.journal import LARGEST_FRAME
from natsbroker.storage.lmdb.layout import LogRow
from natsbroker.storage.policy import Policy

LOG_WEIGHT = 16384
"""How many bytes of pages a commit may write for each log in it, beside its records."""

SPARE = 1 << 17
"""How many bytes more than the backlog needs the database always has room for."""


class Backlog:
    """
    What the database still has to take.

    @ivar jobs: what is in the journal, in order.
    @ivar rows: the logs that it is about, as they will be.
    @ivar room: for how many bytes the database has room.
    """

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.rows: dict[int, LogRow] = {}
        self._weight = 0
        self.room = 0

    def after(
        self, jobs: Sequence[Job], rows: Mapping[int, LogRow], policies: Mapping[int, Policy]
    ) -> dict[int, LogRow]:
        """
        @return: nothing if the jobs are not for the journal: they do something else than to append
            a few records, or a log has tallies or goes beyond its limits.
        """
        weight = 0
        found: dict[int, LogRow] = {}
        for job in jobs:
            weight += job.weight
            if weight > LARGEST_FRAME:
                return {}
            if not job.writes:
                continue
            if not isinstance(job, LMDBAppendJob):
                return {}
            identity = job.identity
            row = found.get(identity) or self.rows.get(identity) or rows.get(identity)
            if row is None or row.dropped:
                return {}
            if identity not in found:
                row = row.copy()
            if not job.extend(row):
                return {}
            policy = policies.get(identity)
            if policy is not None and policy.isExceeded(row.count, row.size):
                return {}
            found[identity] = row
        return found

    def roomFor(self, jobs: Sequence[Job]) -> int:
        """
        For how many bytes the database needs room, so that it can take further jobs too.

        @return: C{room} if that is enough.
        """
        needed = self._weight + sum([job.weight for job in jobs]) + SPARE
        more = {job.identity for job in jobs if job.identity not in self.rows}
        needed += LOG_WEIGHT * (len(self.rows) + len(more))
        return self.room if needed <= self.room else needed + SPARE

    def add(self, jobs: Sequence[Job], rows: Mapping[int, LogRow]) -> None:
        self.jobs += [job for job in jobs if job.writes]
        self.rows.update(rows)
        self._weight += sum([job.weight for job in jobs])
