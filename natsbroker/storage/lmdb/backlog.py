"""
What is in the journal and not yet in the database.

The rows say what the logs will have once the jobs are applied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from natsbroker.storage.jobs import Job
from natsbroker.storage.lmdb.jobs import LMDBAppendJob
from natsbroker.storage.lmdb.journal import LARGEST_FRAME
from natsbroker.storage.lmdb.layout import LogRow
from natsbroker.storage.policy import Policy

LOG_WEIGHT = 16384
"""How many bytes of pages a commit may write for each log in it, beside its records."""

SPARE = 1 << 17
"""How many bytes more than the backlog needs the database always has room for."""


class Growth(NamedTuple):
    """
    @ivar rows: the logs as they will be.
    @ivar weight: about how many bytes the jobs bring.
    @ivar room: for how many bytes the database needs room, so that it can take these jobs too.
    """

    rows: dict[int, LogRow]
    weight: int
    room: int


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
    ) -> Growth | None:
        """
        @return: C{None} if the jobs are not for the journal: they do something else than to append
            a few records, or a log has tallies or goes beyond its limits.
        """
        weight = 0
        found: dict[int, LogRow] = {}
        logs = len(self.rows)
        for job in jobs:
            weight += job.weight
            if weight > LARGEST_FRAME:
                return None
            if not job.writes:
                continue
            if not isinstance(job, LMDBAppendJob):
                return None
            identity = job.identity
            row = found.get(identity)
            if row is None:
                before = self.rows.get(identity)
                if before is None:
                    before = rows.get(identity)
                    logs += 1
                if before is None or before.dropped:
                    return None
                row = found[identity] = before.copy()
            if not job.extend(row):
                return None
            policy = policies.get(identity)
            if policy is not None and (
                policy.isExceeded(row.count, row.size)
                or 0 < policy.retention.perSubject < row.count
            ):
                return None
        if not found:
            return None
        needed = self._weight + weight + SPARE + LOG_WEIGHT * logs
        return Growth(found, weight, self.room if needed <= self.room else needed + SPARE)

    def add(self, jobs: Sequence[Job], growth: Growth) -> None:
        self.jobs += [job for job in jobs if job.writes]
        self.rows.update(growth.rows)
        self._weight += growth.weight
