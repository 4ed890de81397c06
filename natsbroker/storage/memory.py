"""
The store that forgets: logs in memory, for tests and for streams that need not survive. Deferreds
fire before they are returned, except for a search among thousands of subjects. Appended bytes
objects are kept, not copied.
"""

from __future__ import annotations

import os
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from twisted.internet.defer import Deferred, fail, inlineCallbacks, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from zope.interface import implementer

from natsbroker.interfaces import (
    ICountedLog,
    IExportableLog,
    IHeldLog,
    IStateStore,
    IStoreWatcher,
    IStreamLog,
    IStreamStore,
)
from natsbroker.interfaces.records import (
    Entry,
    LogBounds,
    Matching,
    NoSuchLog,
    Record,
    Retention,
    StoreClosed,
    StoreError,
    StoreFull,
    SubjectTallies,
    SubjectTally,
)
from natsbroker.storage.checks import checkChanges, checkHold, checkLogName, checkSpace, skipError
from natsbroker.storage.exports import Page, StoredLog, beginning
from natsbroker.storage.policy import Aging, Policy
from natsbroker.storage.records import LARGEST_RECORD, LARGEST_SUBJECT
from natsbroker.storage.sortedsubjects import SortedSubjects
from natsbroker.storage.watching import StoreHealth
from natsbroker.subjects.grammar import hasWildcard
from natsbroker.subjects.searching import PatternSearch
from natsbroker.subjects.verdicts import SubjectVerdicts

SCANNED = 4096
"""The number of records that one call looks at for subjects, and of subjects in one turn."""

FEW = 64
"""The number of records of a subject up to which a search for it looks at no others."""


def _sizeOf(record: Record) -> int:
    return len(record.subject) + len(record.headers) + len(record.payload)


class _Records:
    """
    Records by sequence and by subject. A deleted record leaves its sequence in C{_order} and its
    time in C{_times}, until most entries are such. C{_head} is the place where the search for the
    oldest record begins.
    """

    def __init__(self) -> None:
        self._records: dict[int, Record] = {}
        self._order: list[int] = []
        self._times: list[int] = []
        self._head = 0
        self.bySubject: dict[bytes, dict[int, None]] = {}
        self.subjects = SortedSubjects()
        self.size = 0

    def __len__(self) -> int:
        return len(self._records)

    def add(self, record: Record) -> None:
        """Take a record with a higher sequence than all before."""
        self._records[record.sequence] = record
        self._order.append(record.sequence)
        self._times.append(record.timestamp)
        same = self.bySubject.get(record.subject)
        if same is None:
            same = self.bySubject[record.subject] = {}
            self.subjects.add(record.subject)
        same[record.sequence] = None
        self.size += _sizeOf(record)

    def remove(self, sequence: int) -> bool:
        record = self._records.pop(sequence, None)
        if record is None:
            return False
        same = self.bySubject[record.subject]
        del same[sequence]
        if not same:
            del self.bySubject[record.subject]
            self.subjects.remove(record.subject)
        self.size -= _sizeOf(record)
        if len(self._order) > 64 and len(self._order) > 2 * len(self._records):
            self._order = [kept for kept in self._order if kept in self._records]
            self._times = [self._records[kept].timestamp for kept in self._order]
            self._head = 0
        return True

    def tally(self, subject: bytes) -> SubjectTally:
        sequences = self.bySubject[subject]
        return SubjectTally(len(sequences), next(iter(sequences)), next(reversed(sequences)))

    def at(self, sequence: int) -> Record:
        return self._records[sequence]

    def fromSequence(self, sequence: int) -> Iterator[Record]:
        return self._living(bisect_left(self._order, sequence, self._head))

    def _living(self, start: int) -> Iterator[Record]:
        order, records = self._order, self._records
        for index in range(start, len(order)):
            record = records.get(order[index])
            if record is not None:
                yield record

    def oldest(self) -> Record | None:
        order, records = self._order, self._records
        while self._head < len(order):
            record = records.get(order[self._head])
            if record is not None:
                return record
            self._head += 1
        return None

    def sequenceAt(self, timestamp: int) -> int | None:
        record = next(self._living(bisect_left(self._times, timestamp, self._head)), None)
        return None if record is None else record.sequence


def _checkEntries(batch: Sequence[Entry]) -> int:
    total = 0
    for subject, headers, payload, _ in batch:
        if len(subject) > LARGEST_SUBJECT:
            raise ValueError(f"a subject of {len(subject)} bytes is too long")
        size = len(subject) + len(headers) + len(payload)
        if size > LARGEST_RECORD:
            raise ValueError(f"a record of {size} bytes is too large")
        total += size
    return total


@implementer(IHeldLog, ICountedLog, IExportableLog)
class MemoryLog(StoredLog):
    def __init__(
        self,
        name: str,
        hasRoom: Callable[[int], bool],
        now: Callable[[], int],
        aging: Aging,
        turn: Callable[[], Deferred[None]],
    ) -> None:
        super().__init__(name, int.from_bytes(os.urandom(8), "little"), Policy())
        self._hasRoom = hasRoom
        self._now = now
        self._aging = aging
        self._turn = turn
        self.nextSequence = 1
        self._rows = _Records()
        self._lastTime = 0
        self._sweeps = 0

    @property
    def size(self) -> int:
        return self._rows.size

    def append(self, batch: Sequence[Entry]) -> Deferred[range]:
        size = _checkEntries(batch)
        if self.closed is not None:
            return fail(self.closed)
        if batch and not self._hasRoom(size):
            return fail(StoreFull("the store in memory is full"))
        first = self.nextSequence
        now = self._now()
        for subject, headers, payload, timestamp in batch:
            self._lastTime = max(timestamp or now, self._lastTime)
            self._rows.add(Record(self.nextSequence, self._lastTime, subject, headers, payload))
            self.nextSequence += 1
        if self.policy.retention.perSubject:
            self._enforcePerSubject({entry[0] for entry in batch})
        self.enforce()
        return succeed(range(first, self.nextSequence))

    def read(
        self, sequence: int, limit: int = 256, maxBytes: int = 1048576
    ) -> Deferred[list[Record]]:
        if self.closed is not None:
            return fail(self.closed)
        records: list[Record] = []
        for record in self._rows.fromSequence(sequence) if limit > 0 else ():
            records.append(record)
            maxBytes -= _sizeOf(record)
            if len(records) >= limit or maxBytes <= 0:
                break
        return succeed(records)

    def bounds(self) -> LogBounds:
        oldest = self._rows.oldest()
        first = self.nextSequence if oldest is None else oldest.sequence
        last = self.nextSequence - 1
        return LogBounds(first, last, len(self._rows), self._rows.size, self._lastTime)

    def sequenceAt(self, timestamp: int) -> Deferred[int]:
        if self.closed is not None:
            return fail(self.closed)
        return succeed(self._rows.sequenceAt(timestamp) or self.nextSequence)

    def retain(self, retention: Retention) -> None:
        self.policy.retention = retention
        if retention.age and self.closed is None:
            self._aging.want(self, self.enforce)
        else:
            self._aging.forget(self)
        self._sweeps += 1
        if retention.perSubject:
            self._sweep(self._sweeps)
        self.enforce()

    @inlineCallbacks
    def _sweep(self, number: int) -> Generator[Deferred[None], None, None]:
        """
        Enforce the limit of each subject, over several turns. Records that arrive meanwhile obey
        it. A later sweep, with another C{number} of limits, replaces this one.
        """
        looked = 0
        for subject in list(self._rows.bySubject):
            while True:
                removed = self._enforcePerSubject((subject,), SCANNED - looked)
                looked += removed + 1
                if looked >= SCANNED:
                    looked = 0
                    yield self._turn()
                    if self.closed is not None or number != self._sweeps:
                        return
                if not removed:
                    break

    def enforce(self) -> None:
        policy, rows = self.policy, self._rows
        age = policy.retention.age
        limit = self._holdFloor()
        cutoff = self._now() - age if age else 0
        while (oldest := rows.oldest()) is not None and oldest.sequence < limit:
            isOld = age and oldest.timestamp < cutoff
            if not (isOld or policy.isExceeded(len(rows), rows.size)):
                break
            rows.remove(oldest.sequence)

    def _enforcePerSubject(self, subjects: Collection[bytes], most: int = sys.maxsize) -> int:
        """Remove at most C{most} records of each subject. Return their number."""
        limit, removed = self._holdFloor(), 0
        for subject in subjects:
            sequences = self._rows.bySubject.get(subject, {})
            excess = len(sequences) - self.policy.retention.perSubject
            for sequence in list(islice(sequences, min(max(excess, 0), most))):
                if sequence < limit:
                    removed += self._rows.remove(sequence)
        return removed

    def _holdFloor(self) -> int:
        """The first sequence that limits must not remove."""
        return min(self.policy.holds.values(), default=self.nextSequence)

    def discardBefore(self, sequence: int) -> Deferred[int]:
        if self.closed is not None:
            return fail(self.closed)
        limit = min(sequence, self._holdFloor())
        while (oldest := self._rows.oldest()) is not None and oldest.sequence < limit:
            self._rows.remove(oldest.sequence)
        return succeed(self.bounds().first)

    def delete(self, sequences: Collection[int]) -> Deferred[int]:
        if self.closed is not None:
            return fail(self.closed)
        return succeed(sum(map(self._rows.remove, sequences)))

    def skipTo(self, sequence: int) -> Deferred[None]:
        error = skipError(sequence, self.nextSequence) or self.closed
        if error is not None:
            return fail(error)
        self.nextSequence = sequence
        return succeed(None)

    def hold(self, name: str, floor: int) -> Deferred[None]:
        checkHold(self.policy.holds, name)
        if self.closed is not None:
            return fail(self.closed)
        self.policy.holds[name] = floor
        self.enforce()
        return succeed(None)

    def release(self, name: str) -> Deferred[None]:
        if self.closed is not None:
            return fail(self.closed)
        self.policy.holds.pop(name, None)
        self.retain(self.policy.retention)
        return succeed(None)

    def lastFor(self, subject: bytes) -> Deferred[Record | None]:
        if self.closed is not None:
            return fail(self.closed)
        sequences = self._rows.bySubject.get(subject)
        if not sequences:
            return succeed(None)
        return succeed(self._rows.at(next(reversed(sequences))))

    @inlineCallbacks
    def subjects(
        self, pattern: bytes, after: bytes = b"", limit: int = 0
    ) -> Generator[Deferred[None], None, dict[bytes, SubjectTally]]:
        if self.closed is not None:
            raise self.closed
        rows = self._rows
        if not hasWildcard(pattern):
            isThere = pattern > after and pattern in rows.bySubject
            return {pattern: rows.tally(pattern)} if isThere else {}
        tallies: SubjectTallies = {}
        search = PatternSearch(pattern)
        place = max(after + b"\0", beginning(pattern)) if after else beginning(pattern)
        while True:
            some, place = rows.subjects.find(search, place, SCANNED)
            for subject in some:
                tallies[subject] = rows.tally(subject)
                if len(tallies) == limit:
                    return tallies
            if not place:
                return tallies
            yield self._turn()

    def countSubjects(self) -> Deferred[int]:
        if self.closed is not None:
            return fail(self.closed)
        return succeed(len(self._rows.bySubject))

    def readMatching(
        self, patterns: Sequence[bytes], sequence: int, limit: int = 256, maxBytes: int = 1048576
    ) -> Deferred[Matching]:
        if self.closed is not None:
            return fail(self.closed)
        records: list[Record] = []
        wanted = SubjectVerdicts(patterns)
        for looked, record in enumerate(self._candidates(patterns, sequence)):
            if len(records) >= limit or maxBytes <= 0 or looked >= SCANNED:
                return succeed(Matching(records, record.sequence))
            if wanted[record.subject]:
                records.append(record)
                maxBytes -= _sizeOf(record)
        return succeed(Matching(records, self.nextSequence))

    def _candidates(self, patterns: Sequence[bytes], sequence: int) -> Iterator[Record]:
        """
        The records from a sequence on that may match. For a subject with few records, these are
        only its own.
        """
        rows = self._rows
        if len(patterns) == 1 and not hasWildcard(patterns[0]):
            same = rows.bySubject.get(patterns[0], {})
            if len(same) <= FEW:
                return (rows.at(number) for number in list(same) if number >= sequence)
        return rows.fromSequence(sequence)

    def _page(self, start: int, stop: int, maxBytes: int) -> Deferred[Page]:
        if self.closed is not None:
            return fail(self.closed)
        records: list[Record] = []
        for record in self._rows.fromSequence(start):
            if record.sequence >= stop:
                break
            records.append(record)
            maxBytes -= _sizeOf(record)
            if maxBytes <= 0:
                return succeed(Page(records, record.sequence + 1, []))
        return succeed(Page(records, stop, []))


@implementer(IStateStore)
class MemoryStates:
    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._values: dict[bytes, bytes] = {}

    def load(self, prefix: bytes = b"") -> Deferred[dict[bytes, bytes]]:
        if self._store.closed is not None:
            return fail(self._store.closed)
        keys = sorted(key for key in self._values if key.startswith(prefix))
        return succeed({key: self._values[key] for key in keys})

    def put(self, key: bytes, value: bytes) -> Deferred[None]:
        return self.change({key: value})

    def delete(self, key: bytes) -> Deferred[None]:
        return self.change({key: None})

    def change(self, changes: Mapping[bytes, bytes | None]) -> Deferred[None]:
        checkChanges(changes)
        if self._store.closed is not None:
            return fail(self._store.closed)
        for key, value in changes.items():
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value
        return succeed(None)


@implementer(IStreamStore)
class MemoryStore:
    def __init__(
        self,
        reactor: IReactorTime | Any,
        maxSize: int = 0,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self.now = now
        self._aging = Aging(reactor)
        self._turn = partial(deferLater, reactor, 0)
        self.closed: StoreError | None = None
        self._maxSize = maxSize
        self._logs: dict[str, MemoryLog] = {}
        self._states: dict[str, MemoryStates] = {}
        self._troubles = StoreHealth()

    def _hasRoom(self, size: int) -> bool:
        if not self._maxSize:
            return True
        return sum(log.size for log in self._logs.values()) + size <= self._maxSize

    def logs(self) -> Deferred[list[str]]:
        return fail(self.closed) if self.closed is not None else succeed(sorted(self._logs))

    def open(self, name: str, create: bool = True) -> Deferred[IStreamLog]:
        checkLogName(name)
        if self.closed is not None:
            return fail(self.closed)
        log = self._logs.get(name)
        if log is None:
            if not create:
                return fail(NoSuchLog(f"there is no log {name}"))
            log = MemoryLog(name, self._hasRoom, self.now, self._aging, self._turn)
            self._logs[name] = log
        return succeed(log)

    def drop(self, name: str) -> Deferred[None]:
        if self.closed is not None:
            return fail(self.closed)
        log = self._logs.pop(name, None)
        if log is None:
            return fail(NoSuchLog(f"there is no log {name}"))
        log.closed = StoreClosed(f"log {name} was dropped")
        self._aging.forget(log)
        return succeed(None)

    def states(self, space: str) -> MemoryStates:
        checkSpace(space)
        return self._states.setdefault(space, MemoryStates(self))

    def watch(self, watcher: IStoreWatcher) -> Callable[[], None]:
        return self._troubles.watch(watcher)

    def close(self) -> Deferred[None]:
        if self.closed is None:
            self.closed = StoreClosed("the store is closed")
            self._aging.stop()
            for log in self._logs.values():
                log.closed = self.closed
        return succeed(None)
