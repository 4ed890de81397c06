"""The content of the journal that is not yet in the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from natsbroker.storage.jobs import Job
from natsbroker.storage.lmdb.journal import LARGEST_FRAME
from natsbroker.storage.lmdb.layout import LogRow
from natsbroker.storage.lmdb.transaction import LMDBAppendJob
from natsbroker.storage.lmdb.trimming import TrimJob, TrimmedLog, Trimming
from natsbroker.storage.policy import Policy

LOG_WEIGHT = 16384
"""The bytes of pages that a commit may write for each log in it, beside its records."""

SUBJECT_WEIGHT = 8192
"""The bytes of pages that it may write for each subject of a log that has tallies."""

MOST_ROOM = 16 << 20
"""For how many bytes there is room at most. A backlog that needs more is applied."""

SPARE = 1 << 17
"""The bytes for which the database always has room beyond the backlog."""

STEP = 1 << 21
"""As C{SPARE}, when tallies are among what it needs."""


@dataclass(slots=True)
class LMDBCommit:
    """
    @ivar oldest: timestamps of the oldest records, of those among them that limit the age.
    @ivar touched: blocks that are not what they were.
    @ivar ahead: records that are in the journal and not in the database yet, by log.
    @ivar gone: subjects of records that were let go for these, by log and sequence.
    """

    jobs: Sequence[Job]
    rows: dict[int, LogRow] = field(default_factory=dict)
    oldest: dict[int, int] = field(default_factory=dict)
    touched: set[tuple[int, int]] = field(default_factory=set)
    ahead: Mapping[int, Sequence[bytes]] = field(default_factory=dict)
    gone: Mapping[int, Mapping[int, bytes]] = field(default_factory=dict)
    caughtUp: bool = False


@dataclass(slots=True)
class JournalGroup(LMDBCommit):
    """
    A commit that is a frame of the journal.

    @ivar rows: the logs as they will be.
    @ivar blobs: the records, each log's behind each other.
    @ivar size: bytes of subjects, headers and payloads.
    @ivar weight: the bytes that the database may write for it.
    @ivar room: for how many bytes the database needs room, so that it can take these jobs too.
    """

    blobs: Sequence[bytes] = ()
    size: int = 0
    weight: int = 0
    room: int = 0
    generation: int = 0
    trimmings: Mapping[int, Trimming] = field(default_factory=dict)


class Backlog:
    """Rows and room of the database for what it still has to take."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._gone: dict[int, list[int]] = {}
        self.rows: dict[int, LogRow] = {}
        self._weight = 0
        self.room = 0

    @property
    def jobs(self) -> list[Job]:
        """The entries of the journal, and then those that limits per subject let go for it."""
        return self._jobs + [TrimJob(identity, gone) for identity, gone in self._gone.items()]

    def after(
        self,
        jobs: Sequence[Job],
        rows: Mapping[int, LogRow],
        policies: Mapping[int, Policy],
        trimmed: Mapping[int, TrimmedLog],
    ) -> JournalGroup | None:
        """
        @return: C{None} if the jobs are not for the journal: they do more than append a few
            records, a log gets tallies or goes beyond its limits, or it is not known what goes for
            them.
        """
        weight = size = 0
        grown: dict[int, LogRow] = {}
        ahead: dict[int, list[bytes]] = {}
        trimmings: dict[int, Trimming] = {}
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
            row = grown.get(identity)
            if row is None:
                before = self.rows.get(identity)
                if before is None:
                    before = rows.get(identity)
                    logs += 1
                if before is None or before.dropped:
                    return None
                row = grown[identity] = before.copy()
            if not job.extend(row):
                return None
            size += job.encoded.size
            run = ahead.get(identity)
            ahead[identity] = job.blobs if run is None else run + job.blobs
            policy = policies.get(identity)
            if policy is None:
                continue
            limit = policy.retention.perSubject
            if limit and row.indexed:
                trimming = trimmings.get(identity)
                if trimming is None:
                    if identity not in trimmed:
                        return None
                    trimming = trimmings[identity] = Trimming(trimmed[identity])
                isKnown = policy.sweep is None and trimming.append(job, row, limit)
                if not isKnown or (trimming.gone and policy.holds):
                    return None
            elif 0 < limit < row.count:
                return None
            if policy.isExceeded(row.count, row.size):
                return None
        if not grown:
            return None
        heavy = weight + SUBJECT_WEIGHT * sum(map(_subjectsOf, jobs))
        needed = self._weight + heavy + SPARE + LOG_WEIGHT * logs
        if needed > MOST_ROOM:
            return None
        room = self.room
        if needed > room:
            room = needed + (STEP if heavy > weight else SPARE)
        runs = ahead.values()
        return JournalGroup(
            jobs,
            grown,
            ahead=ahead,
            gone={key: known.gone for key, known in trimmings.items() if known.gone},
            blobs=next(iter(runs)) if len(runs) == 1 else list(chain.from_iterable(runs)),
            size=size,
            weight=heavy,
            room=room,
            trimmings=trimmings,
        )

    def add(self, group: JournalGroup) -> None:
        self._jobs += [job for job in group.jobs if job.writes]
        self.rows.update(group.rows)
        self._weight += group.weight
        for identity, trimming in group.trimmings.items():
            trimming.apply()
            self._gone.setdefault(identity, []).extend(trimming.gone)


def _subjectsOf(job: Job) -> int:
    if not isinstance(job, LMDBAppendJob) or job.subjects is None:
        return 0
    return len(set(job.subjects))
