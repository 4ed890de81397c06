"""The values and the errors of streaming persistence."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

__all__ = [
    "Columns",
    "EncodedRecord",
    "Entry",
    "Histogram",
    "LeaseCensus",
    "LeaseHolder",
    "LeaseLost",
    "LogBounds",
    "LogReadOnly",
    "Matching",
    "NoSuchLog",
    "RangeDigest",
    "Record",
    "RecordDamaged",
    "RecordList",
    "Retention",
    "ScrubFigures",
    "SequenceTooLarge",
    "StoreClosed",
    "StoreError",
    "StoreFailed",
    "StoreFigures",
    "StoreFull",
    "StoreLocked",
    "SubjectTallies",
    "SubjectTally",
    "UnknownFormat",
]

Entry = tuple[bytes, bytes, bytes, int]
"""
A record to append: subject, headers, payload, and a timestamp in nanoseconds since 1970, or 0 for
the store's clock. A plain tuple, because there is one for every message.
"""


class Record(NamedTuple):
    """
    One stored record.

    @ivar sequence: its number in the log: at least 1, rising, never used twice.
    @ivar timestamp: nanoseconds since 1970; never less than that of the record before it.
    @ivar subject: the literal subject.
    @ivar headers: a block that the store does not interpret; empty for none.
    """

    sequence: int
    timestamp: int
    subject: bytes
    headers: bytes
    payload: bytes


EncodedRecord = tuple[bytes, int, int]
"""Bytes, and the start and end of a record in them, which L{natsbroker.storage.records} encoded."""


class RecordList(Protocol):
    """
    A list of records, or the sequence that the lane has instead. That one decodes a record when it
    is accessed.
    """

    def append(self, record: Record, /) -> None: ...

    def __len__(self) -> int: ...


class RecordRun(NamedTuple):
    """
    Records on their way to the receivers of a consumer, for the first time.

    @ivar subjects: of the receivers, one for each record, or one for all. A receiver sees the
        messages under the subjects of the stream.
    @ivar prefix: the acknowledgement subject without its numbers.
    @ivar number: the consumer sequence of the first message.
    @ivar pending: messages that the consumer has after the first one.
    @ivar most: the largest size of the run: it ends before the message that would exceed this.
    @ivar isShown: whether sizes count the subjects of the stream, and not C{subject}.
    """

    subjects: Sequence[bytes]
    records: Sequence[Record]
    prefix: bytes
    number: int
    pending: int
    most: int
    isShown: bool


@dataclass(frozen=True, slots=True)
class LogBounds:
    """
    The durable records of a log.

    @ivar first: the oldest sequence that may still exist; C{last + 1} for an empty log.
    @ivar last: the highest sequence ever used, whether its record still exists or not; 0 for none.
    @ivar count: the number of records.
    @ivar size: the bytes of subjects, headers and payloads.
    @ivar lastTime: the timestamp of the record appended last; 0 for none.
    """

    first: int
    last: int
    count: int
    size: int
    lastTime: int


@dataclass(frozen=True, slots=True)
class Retention:
    """
    The limits of a log; 0 is no limit. The oldest records are deleted first.

    @ivar count: records.
    @ivar size: bytes as in L{LogBounds}. The newest record stays, whatever its size.
    @ivar age: nanoseconds by the wall clock. Setting the clock back makes records live longer,
        never shorter.
    @ivar perSubject: records of one subject; only for an C{ISubjectIndexedLog}.
    """

    count: int = 0
    size: int = 0
    age: int = 0
    perSubject: int = 0


@dataclass(frozen=True, slots=True)
class SubjectTally:
    """
    The records of one subject in a log.

    @ivar count: their number.
    @ivar first: the sequence of the oldest.
    @ivar last: the sequence of the newest.
    """

    count: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Columns:
    """
    Many records, a column each, laid out as Arrow lays out C{large_binary}: value C{i} of
    C{payloads} is C{payloads[payloadEnds[i]:payloadEnds[i + 1]]}, and likewise for the subjects
    and headers. The arrays have machine byte order and 8 bytes an item; those of ends hold one
    item more than there are records and begin with 0.

    @ivar sequences: typecode C{Q}.
    @ivar timestamps: nanoseconds since 1970, typecode C{q}.
    @ivar subjectEnds: typecode C{q}.
    @ivar headerEnds: typecode C{q}.
    @ivar payloadEnds: typecode C{q}.
    @ivar next: the first sequence that was not read.
    @ivar damaged: sequences that belong here and cannot be served.
    """

    sequences: array[int]
    timestamps: array[int]
    subjectEnds: array[int]
    subjects: bytes
    headerEnds: array[int]
    headers: bytes
    payloadEnds: array[int]
    payloads: bytes
    next: int
    damaged: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RangeDigest:
    """
    A fingerprint of a range of a log; equal for every store with the same records.

    @ivar sha256: SHA-256 over each record in order of sequence: its sequence, timestamp, and the
        lengths of subject, headers and payload as little-endian C{QqIII}, followed by the three.
    @ivar count: the number of records in it.
    @ivar damaged: sequences that belong to it and could not be read.
    """

    sha256: bytes
    count: int
    damaged: tuple[int, ...] = ()


class LeaseHolder(NamedTuple):
    """
    A broker that has opened a shared store.

    @ivar name: by which it introduced itself.
    @ivar age: seconds since it renewed its leases.
    @ivar isAlive: whether its leases hold.
    """

    name: str
    age: float
    isAlive: bool


class LeaseCensus(NamedTuple):
    """
    The holders of the leases of a shared store.

    @ivar holders: the brokers, by name; of brokers with the same name one that is alive.
    @ivar logs: the names of logs, with the names of the brokers whose leases hold; C{None} for a
        log that can be taken.
    """

    holders: dict[str, LeaseHolder]
    logs: dict[str, str | None]


class Histogram(NamedTuple):
    """
    The distribution of values over buckets of sizes.

    @ivar bounds: the upper bounds of the buckets, without the last one, which has none.
    @ivar counts: the number of values in each bucket, the last one included.
    @ivar total: the sum of all values.
    """

    bounds: Sequence[float]
    counts: Sequence[int]
    total: float


class ScrubFigures(NamedTuple):
    """
    The progress of a store's search for damage in all that it has.

    @ivar records: the records that were checked, in all passes.
    @ivar passes: the passes that reached the end.
    @ivar position: the part of the store that the pass underway has read, from 0 to 1.
    @ivar ended: when the last pass reached the end, in seconds since 1970; 0 for never.
    """

    records: int = 0
    passes: int = 0
    position: float = 0.0
    ended: float = 0.0


class StoreFigures(NamedTuple):
    """
    The work of a store, and its known damage.

    @ivar commits: the seconds that group commits took.
    @ivar syncs: the seconds that single writes waited for the medium; a commit may need several.
    @ivar records: the numbers of records of group commits.
    @ivar sizes: their bytes: subjects, headers and payloads.
    @ivar damagedRecords: records that are known to be damaged.
    @ivar damagedValues: values of state that were found damaged.
    @ivar scrub: C{None} for a store that does not look for damage by itself.
    """

    commits: Histogram
    syncs: Histogram
    records: Histogram
    sizes: Histogram
    damagedRecords: int = 0
    damagedValues: int = 0
    scrub: ScrubFigures | None = None


class StoreError(Exception):
    """Base of the errors of stores. The text is safe to show to a client."""


class StoreFull(StoreError):
    """
    No space is left. Nothing of the call is stored; reads go on. Later writes are tried again, so
    they succeed as soon as there is space.
    """


class StoreFailed(StoreError):
    """
    The medium failed (an I/O error, a lost database). The call may or may not be stored. The store
    has stopped writing: every write fails with this until it has reopened and verified itself.
    """


class StoreClosed(StoreError):
    """The store is closed, or the log is closed or dropped."""


class StoreLocked(StoreError):
    """Another process has opened the store."""


class UnknownFormat(StoreError):
    """The files have a format of another version. They are not touched."""


class StoreEncrypted(StoreError):
    """
    The store cannot be read with the encryption key that was given, or without one. It is not
    touched.
    """


class NoSuchLog(StoreError):
    """No log has that name."""


class SequenceTooLarge(StoreError):
    """The next sequence of a log would leave too few sequences for further records."""

    def __init__(self, sequence: int) -> None:
        super().__init__(f"sequence {sequence} is too large")


class LogReadOnly(StoreError):
    """
    The log is in quarantine: its description is damaged. The remaining records can be read, under
    its own name if that is known, but not changed.
    """


class LeaseLost(StoreError):
    """Another broker that shares the store has the lease of the log."""


class RecordDamaged(StoreError):
    """
    A record does not match its checksum.

    @ivar log: the log's name.
    @ivar sequence: the record's sequence.
    """

    def __init__(self, log: str, sequence: int) -> None:
        super().__init__(f"record {sequence} of {log} is damaged")
        self.log = log
        self.sequence = sequence


SubjectTallies = dict[bytes, SubjectTally]
"""Tallies by subject, in byte order."""


class Matching(NamedTuple):
    """
    The result of C{ISubjectIndexedLog.readMatching}.

    @ivar next: the first sequence that was not read. Above the log's last sequence it means that
        the read is complete.
    """

    records: Sequence[Record]
    next: int
