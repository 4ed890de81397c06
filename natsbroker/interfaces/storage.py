"""
The contracts of streaming persistence: logs of records, and small state beside them.

A store keeps any number of logs. A log is a row of records with rising sequences: a STAN channel
or a JetStream stream, nothing here knows which. A provider implements as many of the interfaces
of a log as it can; a service asks with C{providedBy} and refuses clearly what it cannot have.

Everything here is called in the reactor's thread and answers there. A Deferred may have fired
already when it is returned. Nothing here blocks on a disk or a network.

Promises: small interfaces that say what is on disk when a Deferred fires, and the values and
errors that go with them.
Must never know: any implementation, nor what the services make of subjects and headers.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from natsbroker.interfaces.services import IBrokerHost


Entry = tuple[bytes, bytes, bytes, int]
"""
What is appended: subject, headers, payload, and a timestamp in nanoseconds since 1970, or 0 for
the store's clock. A plain tuple, because there is one for every message.
"""


class Record(NamedTuple):
    """
    One stored record.

    @ivar sequence: its number in the log: at least 1, rising, never used twice.
    @ivar timestamp: nanoseconds since 1970; never less than that of the record before it.
    @ivar subject: the literal subject, without meaning to the store.
    @ivar headers: an opaque block, empty for none.
    @ivar payload: the bytes as they were published.
    """

    sequence: int
    timestamp: int
    subject: bytes
    headers: bytes
    payload: bytes


@dataclass(frozen=True, slots=True)
class LogBounds:
    """
    What a log holds that is durable.

    @ivar first: the oldest sequence that may still be there; C{last + 1} when there is none.
    @ivar last: the highest sequence that was ever used, its record there or not; 0 for none.
    @ivar count: how many records there are.
    @ivar size: their bytes: subjects, headers and payloads, without what the store adds.
    @ivar lastTime: timestamp of the last record that was appended; 0 for none.
    """

    first: int
    last: int
    count: int
    size: int
    lastTime: int


@dataclass(frozen=True, slots=True)
class Retention:
    """
    How much of a log is kept; 0 is without limit. The oldest records go first.

    @ivar count: records.
    @ivar size: bytes as L{LogBounds} counts them. The newest record stays, whatever its size.
    @ivar age: nanoseconds. A record that is older by the wall clock goes; a clock that was set
        back makes records live longer, never shorter.
    @ivar perSubject: records of one subject. Only L{ISubjectIndexedLog}s know it.
    """

    count: int = 0
    size: int = 0
    age: int = 0
    perSubject: int = 0


@dataclass(frozen=True, slots=True)
class SubjectTally:
    """
    What a log holds of one subject.

    @ivar count: how many records.
    @ivar first: the oldest one's sequence.
    @ivar last: the newest one's sequence.
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
    @ivar next: where to go on: the first sequence that was not looked at.
    @ivar damaged: sequences that should have been here and cannot be served.
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
    A fingerprint of a range of a log, the same from every store that holds the same records.

    @ivar sha256: SHA-256 over each record in order of sequence: its sequence, timestamp, and the
        lengths of subject, headers and payload as little-endian C{QqIII}, followed by the three.
    @ivar count: how many records went into it.
    @ivar damaged: sequences that should have been in it and could not be read.
    """

    sha256: bytes
    count: int
    damaged: tuple[int, ...] = ()


class StoreError(Exception):
    """
    Base of what a store raises, or fails a Deferred with. The text is safe to show to a client.
    """


class StoreFull(StoreError):
    """
    No space is left. Nothing of what was asked is stored; reads go on. Later writes are tried
    anew, so they succeed as soon as there is space again.
    """


class StoreFailed(StoreError):
    """
    The medium failed (an I/O error, a lost database). What was asked may or may not be stored and
    is not acknowledged. The store has stopped writing: until it has reopened and verified itself,
    every write fails with this.
    """


class StoreClosed(StoreError):
    """
    The store, or the log, was closed or dropped before.
    """


class StoreLocked(StoreError):
    """
    Another process has the store.
    """


class UnknownFormat(StoreError):
    """
    The files were written by a version that this one does not understand. They were not touched.
    """


class NoSuchLog(StoreError):
    """
    There is no log of that name.
    """


class LogReadOnly(StoreError):
    """
    The log is in quarantine: what describes it is damaged. What is left of it can be read, under
    its own name if that is known; nothing is appended to it, and nothing of it is deleted.
    """


class LogElsewhere(StoreError):
    """
    Another broker that shares the store serves the log.
    """


class RecordDamaged(StoreError):
    """
    A record was asked for that is there but does not match its checksum.

    @ivar log: the log's name.
    @ivar sequence: the record's.
    """

    def __init__(self, log: str, sequence: int) -> None:
        super().__init__(f"record {sequence} of {log} is damaged")
        self.log = log
        self.sequence = sequence


class IStoreWatcher(Interface):
    """
    Somebody who is told what goes wrong in a store. Called in the reactor's thread; must not
    raise or block.
    """

    def recordsDamaged(log: str, start: int, stop: int, reason: str) -> None:
        """
        Records cannot be served, now and in future: C{start} and what follows it, before C{stop}.
        Told once per run of a store for each record; at opening for what earlier runs found.
        """

    def stateDamaged(space: str, key: bytes, reason: str) -> None:
        """
        A value in an L{IStateStore} was lost.

        @param key: its key, or no bytes where not even that is known.
        """

    def logQuarantined(log: str, reason: str) -> None:
        """
        A log can only be read: see L{LogReadOnly}.
        """

    def writesStopped(reason: str) -> None:
        """
        The store takes no writes: it is full, or its medium failed.
        """

    def writesResumed() -> None:
        """
        It takes writes again.
        """

    def logLost(log: str) -> None:
        """
        Another broker may serve the log from now on; everything asked of it here fails with
        L{LogElsewhere}. Only of an L{ILeasedStore}.
        """


class IStreamStore(Interface):
    """
    A place for logs and state. One process has it, or several share it if it is an
    L{ILeasedStore}.
    """

    def logs() -> Deferred[list[str]]:
        """
        The names of all logs, sorted, those in quarantine included.
        """

    def open(name: str, create: bool = True) -> Deferred[IStreamLog]:
        """
        Get a log. The same object comes for the same name until it is dropped.

        @param name: 1 to 400 bytes of UTF-8, any characters.
        @param create: make it if it is not there. A log that was made is durable when the
            Deferred fires.
        @return: fails with L{NoSuchLog}, L{LogElsewhere}, L{StoreFull} or L{StoreFailed}.
        @raise ValueError: for a name that is too long or empty.
        """

    def drop(name: str) -> Deferred[None]:
        """
        Delete a log with all its records, in slices that do not stop writers. When the Deferred
        fires, it is durable that the log is gone. A log of the same name that is made afterwards
        is a new one and begins with sequence 1. State is not touched.

        @return: fails with L{NoSuchLog}, L{LogReadOnly}, L{LogElsewhere}, L{StoreFull} or
            L{StoreFailed}.
        """

    def states(space: str) -> IStateStore:
        """
        The state kept under a name, made when it is first written. Spaces and logs have nothing
        to do with each other.

        @raise ValueError: for a name that is too long (100 bytes) or empty.
        """

    def watch(watcher: IStoreWatcher) -> Callable[[], None]:
        """
        Tell somebody of what goes wrong, beginning with what is known to be wrong now.

        @return: a callable without arguments that ends it.
        """

    def close() -> Deferred[None]:
        """
        Finish what was asked before, then let go of the files. Everything asked afterwards fails
        with L{StoreClosed}. Fires when the lock is free.
        """


class IReportingStore(IStreamStore):
    """
    A store that keeps reports of what it has lost until somebody acknowledges them, over restarts.
    How they are acknowledged is a matter of the store: for LMDB there is a command.
    """

    def losses() -> Sequence[str]:
        """
        What was lost and nobody has acknowledged, in words; what is known now, without waiting.
        """


class ILeasedStore(IStreamStore):
    """
    A store that several brokers share. Opening a log takes a lease on it: no other broker can
    open it until this one closes the store, calls C{giveUp}, or is gone. A space of state has a
    lease as well, from its first use until this broker closes the store or is gone; what others
    ask of it fails with L{LogElsewhere}. Whoever has lost a lease cannot write any more, whatever
    it believes, until it has opened the log or loaded the state anew.
    """

    def whenFree(name: str) -> Deferred[IStreamLog]:
        """
        Wait for the lease of a log that another broker has, and open the log. Cancel it to stop
        waiting.
        """

    def giveUp(name: str) -> Deferred[None]:
        """
        Finish what was asked of a log, then let another broker have it.
        """


class IStreamLog(Interface):
    """
    A row of records.

    Sequences begin with 1 and are given without gaps, save where C{skipTo} or a repair left one.
    A sequence that was ever durable is never given again, not after deletion, damage, or a crash.
    """

    name = Attribute("The name in the store.")

    identity = Attribute(
        "A number below 2**64 that tells this log from all others, those of the same name included "
        "that were there before or come after it was dropped. It stays when the store is reopened."
    )

    nextSequence = Attribute(
        "The sequence that the first record of the next C{append} gets: it counts what was "
        "appended and is not durable yet. When an append fails, all that were made after it on "
        "this log fail as well, and this goes back; so whoever decides by it (what is the last "
        "sequence of this subject?) decides rightly for every append that succeeds."
    )

    def append(batch: Sequence[Entry]) -> Deferred[range]:
        """
        Store records, in order, all of them or none.

        May be called again before the Deferred fires: what is appended while the store is busy
        making earlier records durable is made durable together (group commit). The Deferreds of
        one log fire in the order of the calls. Records can be read when their Deferred has fired,
        not before.

        The batch may be changed afterwards, its bytes objects may not. An empty batch fires when
        everything asked of the log before it is durable.

        @return: the sequences, once the records are durable: they survive the end of the process
            and, for a store on disk, the loss of power. Fails with L{StoreFull}, L{StoreFailed},
            L{LogReadOnly}, L{LogElsewhere} or L{StoreClosed}; none of the batch is stored then,
            save that after L{StoreFailed} that is not known.
        @raise ValueError: for a subject over 65,535 bytes, or over 1 GiB in one record.
        """

    def read(sequence: int, limit: int = 256, maxBytes: int = 1048576) -> Deferred[list[Record]]:
        """
        Records in order, beginning with the first at or after C{sequence}. Those deleted or
        damaged are passed over; a watcher is told of the damaged ones.

        @param limit: not more records than that.
        @param maxBytes: stop after the record with which their sizes reach it; so there is at
            least one record unless there is none at all.
        @return: fails with L{StoreFailed} if it cannot be known what is there: that nothing
            comes always means that there is nothing.
        """

    def bounds() -> LogBounds:
        """
        What is durable now; from memory, at once.
        """

    def sequenceAt(timestamp: int) -> Deferred[int]:
        """
        The sequence of the first record that is not older than C{timestamp} (nanoseconds since
        1970); C{bounds().last + 1} if all are.
        """


class IRetainedLog(IStreamLog):
    """
    A log from which records can go, by rule or by order. It is done in slices, inside the commits
    that writers cause anyway, so it never stops them; C{bounds} shows only what is done.
    """

    def retain(retention: Retention) -> None:
        """
        Keep only so much from now on. The limits are not stored: the owner of the log gives them
        each time that it opens it. With every append the limits hold again by the time its
        Deferred fires; age is also enforced without appends, within a second or two.
        """

    def discardBefore(sequence: int) -> Deferred[int]:
        """
        Delete the records below C{sequence}, but none that a hold protects.

        @return: the first sequence that may still be there, once that is durable.
        """

    def delete(sequences: Collection[int]) -> Deferred[int]:
        """
        Delete single records, anywhere in the log, held or not. Those that are not there are
        passed over.

        @return: how many were deleted, once that is durable.
        """

    def skipTo(sequence: int) -> Deferred[None]:
        """
        Give C{sequence} to the next record: for a copy that keeps the sequences of its original.

        @raise ValueError: if that would go back.
        """


class IHeldLog(IRetainedLog):
    """
    A log whose records can be held: retention and C{discardBefore} do not pass the lowest floor
    of all holds. Holds are durable and outlive whoever set them.
    """

    def hold(name: str, floor: int) -> Deferred[None]:
        """
        Keep C{floor} and everything after it; a hold of the same name is replaced. In force at
        once: nothing at or after the floor goes from this moment on, save what had gone already.
        Durable when the Deferred fires.

        @raise ValueError: for a name over 100 bytes of UTF-8, or more than 64 holds.
        """

    def release(name: str) -> Deferred[None]:
        """
        End a hold. If there is none of that name, nothing happens.
        """

    def holds() -> Mapping[str, int]:
        """
        The floors by name, as they are in force.
        """


class ISubjectIndexedLog(IStreamLog):
    """
    A log that finds records by subject without reading everything.
    """

    def lastFor(subject: bytes) -> Deferred[Record | None]:
        """
        The newest record of a literal subject.

        @return: fails with L{RecordDamaged} if that record is damaged: an older one is never
            shown in its place.
        """

    def subjects(pattern: bytes, after: bytes = b"", limit: int = 0) -> Deferred[SubjectTallies]:
        """
        What there is of each subject that a pattern matches, in the order of the subjects' bytes.

        @param after: only subjects behind this one: to go on with more of them.
        @param limit: not more than so many; 0 for all.
        """

    def readMatching(
        patterns: Sequence[bytes], sequence: int, limit: int = 256, maxBytes: int = 1048576
    ) -> Deferred[Matching]:
        """
        As L{IStreamLog.read}, only records whose subject one of the patterns matches. It may
        return early, with fewer records than there are, to share the time with others.
        """


SubjectTallies = dict[bytes, SubjectTally]
"""Tallies by subject, in order."""


class Matching(NamedTuple):
    """
    What was found by L{ISubjectIndexedLog.readMatching}.

    @ivar records: the records.
    @ivar next: where to go on: the first sequence that was not looked at. If it is above the
        log's last sequence, there was nothing more.
    """

    records: list[Record]
    next: int


class IExportableLog(IStreamLog):
    """
    A log that gives many records at once, for jobs that read ranges of sequences.
    """

    def exportRange(start: int, stop: int, maxBytes: int = 16777216) -> Deferred[Columns]:
        """
        The records from C{start} to before C{stop}, as columns.

        @param maxBytes: stop after the record with which their sizes reach it; go on at
            L{Columns.next}.
        """

    def digest(start: int, stop: int) -> Deferred[RangeDigest]:
        """
        A fingerprint of the records from C{start} to before C{stop}.
        """


class IStateStore(Interface):
    """
    Small values by key, for what a service must remember: durable subscriptions, consumers,
    clients, configurations.

    Changes go into the same group commits as appends, in the order of the calls: a change is
    never durable without every append to the same store that was made before it.
    """

    def load(prefix: bytes = b"") -> Deferred[dict[bytes, bytes]]:
        """
        The values whose keys begin so, in the order of the keys, with every change that was made
        before. Damaged values are left out, and watchers are told.
        """

    def put(key: bytes, value: bytes) -> Deferred[None]:
        """
        Set one value; fires when it is durable.

        @param key: 1 to 300 bytes.
        @param value: up to 16 MiB.
        @raise ValueError: for a key or value too long.
        """

    def delete(key: bytes) -> Deferred[None]:
        """
        Delete one value, if it is there; fires when that is durable.
        """

    def change(changes: Mapping[bytes, bytes | None]) -> Deferred[None]:
        """
        Set and delete (L{None}) several values, all of them or none.

        @return: fails as L{IStreamLog.append} does.
        """


class ILogCatalogue(Interface):
    """
    The logs of one service under the names that its clients know, for whoever reads logs for jobs.
    It is good while the service serves them.
    """

    kind = Attribute("What the logs are, as one token of a subject: C{CHANNEL}.")

    realm = Attribute("Whose they are, as tokens of a subject: the id of the streaming cluster.")

    def names() -> list[str]:
        """
        All of them, sorted.
        """

    def find(name: str) -> IStreamLog | None:
        """
        The log of that name, if there is one that can be read now.
        """

    def states() -> IStateStore:
        """
        Where to remember something about the logs, in the same store.
        """


class ILogUser(Interface):
    """
    Somebody who works with the logs of a service.
    """

    def begin(catalogue: ILogCatalogue) -> Deferred[None]:
        """
        The service serves the logs from now on.
        """

    def end() -> Deferred[None]:
        """
        It is about to end: let go of the logs. Called once after each C{begin}.
        """


class IStoreOpener(Interface):
    """
    Makes stores; a plugin, named in the configuration.
    """

    name = Attribute("The name in the configuration.")

    def openStore(host: IBrokerHost, section: Mapping[str, Any]) -> Deferred[IStreamStore]:
        """
        Open the store that a section describes. What recovery is needed is done before the
        Deferred fires; it may be cancelled.

        @param section: the other keys of the block that names the store.
        @return: fails with L{StoreLocked} within a second, L{UnknownFormat}, L{StoreFull} or
            L{StoreFailed}.
        @raise ValueError: if the section makes no sense.
        """
