"""The content of the journal that is not yet in the database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from natsbroker.storage.changes import packChanges
from natsbroker.storage.jobs import ChangeJob, Job
from natsbroker.storage.lmdb.journal import LARGEST_FRAME
from natsbroker.storage.lmdb.layout import LogRow
from natsbroker.storage.lmdb.transaction import LMDBAppendJob, LMDBDeleteJob
from natsbroker.storage.lmdb.trimming import TrimJob, TrimmedLog, Trimming
from natsbroker.storage.policy import Policy

LOG_WEIGHT = 16384
"""The bytes of pages that a commit may write for each log in it, beside its records."""

SUBJECT_WEIGHT = 8192
"""The bytes of pages that it may write for each subject of a log that has tallies."""

MOST_ROOM = 16 << 20
"""The largest room for a backlog, in bytes. A backlog that needs more is applied."""

SPARE = 1 << 17
"""The bytes for which the database always has room beyond the backlog."""

MOST_DELETED = 64
"""The most records of a log that a group deletes by way of the journal."""

STEP = 1 << 21
"""As C{SPARE}, for a backlog with tallies."""


SizeOf = Callable[[int, int], "tuple[bytes, int] | None"]

_NOTHING: frozenset[int] = frozenset()
_NO_SUBJECTS: frozenset[bytes] = frozenset()


@dataclass(slots=True)
class LMDBCommit:
    """
    @ivar oldest: timestamps of the oldest records, of those among them that limit the age.
    @ivar touched: blocks that have changed.
    @ivar ahead: records that are in the journal and not in the database yet, by log.
    @ivar gone: subjects of records that limits removed because of these, by log and sequence.
    @ivar deleted: sequences of records whose deletion is only in the journal so far, by log.
    @ivar hasStates: whether the journal got values of state.
    """

    jobs: Sequence[Job]
    rows: dict[int, LogRow] = field(default_factory=dict)
    oldest: dict[int, int] = field(default_factory=dict)
    touched: set[tuple[int, int]] = field(default_factory=set)
    ahead: Mapping[int, Sequence[bytes]] = field(default_factory=dict)
    gone: Mapping[int, Mapping[int, bytes]] = field(default_factory=dict)
    deleted: Mapping[int, Collection[int]] = field(default_factory=dict)
    hasStates: bool = False
    caughtUp: bool = False


@dataclass(slots=True)
class JournalGroup(LMDBCommit):
    """
    A commit by one frame of the journal.

    @ivar rows: the logs as they will be.
    @ivar blobs: the records, with those of each log together.
    @ivar size: bytes of subjects, headers and payloads.
    @ivar changes: what is deleted, and values of state.
    @ivar mustSync: whether it is to be on the disk even if writes are not synced.
    @ivar states: the latter by space and key; C{None} for a deleted one.
    @ivar subjects: of records that it adds or deletes, by log, without those of groups before.
    @ivar weight: the bytes that the database may write for it.
    @ivar room: the bytes of room that the database needs in order to take these jobs too.
    """

    blobs: Sequence[bytes] = ()
    changes: Sequence[bytes] = ()
    mustSync: bool = False
    states: Mapping[tuple[str, bytes], bytes | None] = field(default_factory=dict)
    subjects: Mapping[int, set[bytes]] = field(default_factory=dict)
    size: int = 0
    weight: int = 0
    room: int = 0
    generation: int = 0
    trimmings: Mapping[int, Trimming] = field(default_factory=dict)


class Backlog:
    """The rows and the room that the database needs for the entries that it has yet to take."""

    def __init__(self) -> None:
        self._appends: dict[int, list[LMDBAppendJob]] = {}
        self._gone: dict[int, list[int]] = {}
        self._deleted: dict[int, set[int]] = {}
        self._states: dict[tuple[str, bytes], bytes | None] = {}
        self._subjects: dict[int, set[bytes]] = {}
        self.rows: dict[int, LogRow] = {}
        self._weight = 0
        self.room = 0

    @property
    def isEmpty(self) -> bool:
        return not (self.rows or self._states)

    @property
    def jobs(self) -> list[Job]:
        """
        The entries of the journal: records, then the records that go, and the last values of state.
        """
        gone = [*self._gone.items(), *self._deleted.items()]
        changes: dict[str, dict[bytes, bytes | None]] = {}
        for (space, key), value in self._states.items():
            changes.setdefault(space, {})[key] = value
        return [
            *self._joined(),
            *(TrimJob(identity, sequences) for identity, sequences in gone),
            *(ChangeJob(space, some) for space, some in changes.items()),
        ]

    def _joined(self) -> Iterator[LMDBAppendJob]:
        """The appends, with consecutive ones of a log joined."""
        for identity, appends in self._appends.items():
            gone = {*self._gone.get(identity, ()), *self._deleted.get(identity, ())}
            begin = 0
            for place in range(1, len(appends) + 1):
                if place == len(appends) or not appends[place - 1].isFollowedBy(appends[place]):
                    yield LMDBAppendJob.joined(appends[begin:place], gone)
                    begin = place

    def after(
        self,
        jobs: Sequence[Job],
        rows: Mapping[int, LogRow],
        policies: Mapping[int, Policy],
        trimmed: Mapping[int, TrimmedLog],
        sizeOf: SizeOf | None = None,
    ) -> JournalGroup | None:
        """
        @param sizeOf: gives the subject and the size of a stored record, or C{None} if it is not
            known; without this, nothing is deleted.
        @return: C{None} if the jobs are not for the journal: they do more than append or delete a
            few records and change values of state; or a log gets tallies or exceeds its limits; or
            it is not known which records the limits remove.
        """
        weight = size = 0
        grown: dict[int, LogRow] = {}
        ahead: dict[int, list[bytes]] = {}
        trimmings: dict[int, Trimming] = {}
        deletions: dict[int, _Deletion] = {}
        states: dict[tuple[str, bytes], bytes | None] = {}
        subjects: dict[int, set[bytes]] = {}
        logs = len(self.rows)
        mustSync = False
        for job in jobs:
            weight += job.weight
            if weight > LARGEST_FRAME:
                return None
            if not job.writes:
                continue
            if isinstance(job, ChangeJob):
                mustSync = mustSync or not job.isRelaxed
                states.update(((job.space, key), value) for key, value in job.changes.items())
                continue
            if not isinstance(job, (LMDBAppendJob, LMDBDeleteJob)):
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
            policy = policies.get(identity)
            if isinstance(job, LMDBDeleteJob):
                mustSync = mustSync or not job.isRelaxed
                if sizeOf is None or (policy is not None and policy.retention.perSubject):
                    return None
                deletion = deletions.get(identity)
                if deletion is None:
                    earlier = self._deleted.get(identity, _NOTHING)
                    deletion = deletions[identity] = _Deletion(row, earlier, sizeOf)
                if not deletion.delete(job):
                    return None
                continue
            if not job.extend(row):
                return None
            size += job.encoded.size
            if job.subjects is not None:
                subjects.setdefault(identity, set()).update(job.subjects)
            run = ahead.get(identity)
            ahead[identity] = job.blobs if run is None else run + job.blobs
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
        if not (grown or states):
            return None
        deleted = {identity: deletion.gone for identity, deletion in deletions.items()}
        weight += sum(deletion.size for deletion in deletions.values())
        for identity, gone in deleted.items():
            subjects.setdefault(identity, set()).update(gone.values())
        for identity, some in subjects.items():
            some -= self._subjects.get(identity, _NO_SUBJECTS)
        heavy = weight + SUBJECT_WEIGHT * sum(map(len, subjects.values()))
        needed = self._weight + heavy + SPARE + LOG_WEIGHT * logs
        if needed > MOST_ROOM:
            return None
        room = self.room
        if needed > room:
            room = needed + (STEP if heavy > weight or self._subjects else SPARE)
        runs = ahead.values()
        return JournalGroup(
            jobs,
            grown,
            ahead=ahead,
            gone={key: known.gone for key, known in trimmings.items() if known.gone},
            deleted=deleted,
            hasStates=bool(states),
            blobs=next(iter(runs)) if len(runs) == 1 else list(chain.from_iterable(runs)),
            changes=packChanges(deleted, states) if deleted or states else (),
            mustSync=mustSync,
            states=states,
            subjects=subjects,
            size=size,
            weight=heavy,
            room=room,
            trimmings=trimmings,
        )

    def add(self, group: JournalGroup) -> None:
        for job in group.jobs:
            if isinstance(job, LMDBAppendJob) and job.writes:
                self._appends.setdefault(job.identity, []).append(job)
        self._states.update(group.states)
        for identity, subjects in group.subjects.items():
            self._subjects.setdefault(identity, set()).update(subjects)
        for identity, deleted in group.deleted.items():
            self._deleted.setdefault(identity, set()).update(deleted)
        self.rows.update(group.rows)
        self._weight += group.weight
        for identity, trimming in group.trimmings.items():
            trimming.apply()
            self._gone.setdefault(identity, []).extend(trimming.gone)


class _Deletion:
    """
    Deletes records of a log, in a copy of its row.

    @ivar gone: the subjects of the deleted records, by sequence.
    @ivar size: the bytes of their subjects, headers and payloads.
    """

    def __init__(self, row: LogRow, before: Collection[int], sizeOf: SizeOf) -> None:
        """C{before} are records that the journal deletes already."""
        self._row = row
        self._stored = row.last
        self._before = before
        self._sizeOf = sizeOf
        self.gone: dict[int, bytes] = {}
        self.size = 0

    def delete(self, job: LMDBDeleteJob) -> bool:
        """Delete records, and count them in their job. Return whether all of them are known."""
        row, gone, job.deleted = self._row, self.gone, 0
        if len(job.sequences) + len(gone) > MOST_DELETED:
            return False
        for sequence in job.sequences:
            if sequence < row.first or sequence in gone or sequence in self._before:
                continue
            known = self._sizeOf(row.identity, sequence)
            if known is None:
                return False
            gone[sequence], size = known
            job.deleted += 1
            row.count -= 1
            row.size -= size
            self.size += size
        return self._findFirst()

    def _findFirst(self) -> bool:
        """Move to the first record that stays. Return whether it is known."""
        row, gone, before = self._row, self.gone, self._before
        if not row.count:
            row.first = row.last + 1
        elif row.first in gone:
            sequence = row.first + 1
            while sequence in gone or sequence in before:
                sequence += 1
            isStored = sequence <= self._stored
            if isStored and self._sizeOf(row.identity, sequence) is None:
                return False
            row.first = sequence
        return True
