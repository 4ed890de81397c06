"""
The contracts of streaming persistence: logs of records, and small state beside them.

A store has any number of logs. A log is a sequence of records: a STAN channel or a JetStream
stream. A log provides the interfaces that it can; a service tests with C{providedBy} and refuses a
request that needs another one.

All methods are called in the reactor's thread and answer there; none blocks on a disk or a network.
A Deferred may have fired already when it is returned. Values and errors are in
L{natsbroker.interfaces.records}.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from natsbroker.interfaces.records import (
        Columns,
        EncodedRecord,
        Entry,
        LeaseCensus,
        LogBounds,
        Matching,
        RangeDigest,
        Record,
        RecordList,
        Retention,
        StoreFigures,
        SubjectTallies,
    )
    from natsbroker.interfaces.services import IBrokerHost


class IStoreWatcher(Interface):
    """Receives the problems of a store, in the reactor's thread. It must not raise or block."""

    def recordsDamaged(log: str, start: int, stop: int, reason: str) -> None:
        """
        The records from C{start} to before C{stop} cannot be served, now or later. Reported once
        for each record while a store is open; at opening for what earlier runs found.
        """

    def stateDamaged(space: str, key: bytes, reason: str) -> None:
        """
        A value in an L{IStateStore} was lost.

        @param key: empty if it is not known.
        """

    def logQuarantined(log: str, reason: str) -> None:
        """A log can only be read: see L{natsbroker.interfaces.records.LogReadOnly}."""

    def writesStopped(reason: str) -> None:
        """The store takes no writes: it is full, or its medium failed."""

    def writesResumed() -> None:
        """The store takes writes again."""

    def logLost(log: str) -> None:
        """
        The lease of a log is lost, and another broker may have it: every call on the log fails
        with L{LeaseLost}. Only an L{ILeasedStore} reports this.
        """


class IStreamStore(Interface):
    """A store of logs and state. One process opens it; several can share an L{ILeasedStore}."""

    def logs() -> Deferred[list[str]]:
        """The names of all logs, sorted, including those in quarantine."""

    def open(name: str, create: bool = True) -> Deferred[IStreamLog]:
        """
        Open a log. A name gives the same object until the log is dropped.

        @param name: 1 to 400 bytes of UTF-8, any characters.
        @param create: create a log that does not exist; it is durable when the Deferred fires.
        @return: fails with L{NoSuchLog}, L{LeaseLost}, L{StoreFull} or L{StoreFailed}.
        @raise ValueError: for a name that is too long or empty.
        """

    def drop(name: str) -> Deferred[None]:
        """
        Delete a log with all its records, in slices that do not stop writers. The deletion is
        durable when the Deferred fires. A log that is created with the same name afterwards begins
        with sequence 1. State is not touched.

        @return: fails with L{NoSuchLog}, L{LogReadOnly}, L{LeaseLost}, L{StoreFull} or
            L{StoreFailed}.
        """

    def states(space: str) -> IStateStore:
        """
        A space of state, created with the first write. Spaces and logs are independent.

        @raise ValueError: for a name that is too long (100 bytes) or empty.
        """

    def watch(watcher: IStoreWatcher) -> Callable[[], None]:
        """
        Report problems to a watcher, beginning with those that are known.

        @return: a callable without arguments that ends it.
        """

    def close() -> Deferred[None]:
        """
        Finish the calls made before, then close the files. Later calls fail with L{StoreClosed}.
        The Deferred fires when the lock is free.
        """


class IReportingStore(IStreamStore):
    """
    A store that keeps reports of its losses, over restarts, until an operator acknowledges them.
    How depends on the store: LMDB has a command.
    """

    def losses() -> Sequence[str]:
        """A sentence for each known loss that is not acknowledged."""


class IMeasuredStore(IStreamStore):
    """A store that counts what it does, for monitoring."""

    def figures() -> StoreFigures:
        """The figures since the store was opened, from memory."""


class ILeasedStore(IStreamStore):
    """
    A store that several brokers share. Opening a log takes its lease: no other broker can open it
    until this one closes the store, calls C{giveUp}, or dies. The first use of a space of state
    takes its lease too; calls of other brokers fail with L{LeaseLost}. A broker that has lost a
    lease cannot write, whatever it assumes, until it has opened the log or loaded the state again.
    """

    lease = Attribute("The seconds that a lease lasts without renewal.")

    isSure = Attribute("Whether all leases of this broker are certain to be still valid.")

    def verify(name: str) -> Deferred[None]:
        """
        Ask whether this broker has the lease of a log that it has opened.

        @return: fails with L{LeaseLost} if not.
        """

    def introduce(name: str) -> Deferred[None]:
        """Set the name that other brokers see in L{census}."""

    def census(prefix: str) -> Deferred[LeaseCensus]:
        """
        The brokers that share the store, and which of them has the lease of which log.

        @param prefix: only logs whose names begin with this.
        """

    def peek(prefix: str, keys: bytes) -> Deferred[dict[str, dict[bytes, bytes]]]:
        """
        Read state that another broker may have, without taking its lease: what was durable when
        the call was made. Damaged values are left out.

        @param prefix: only spaces whose names begin with this.
        @param keys: only keys that begin with this.
        @return: the values by key, by space; spaces without any are left out.
        """

    def whenFree(name: str) -> Deferred[IStreamLog]:
        """Wait for the lease of a log, then open the log. Cancelling the Deferred ends the wait."""

    def giveUp(name: str) -> Deferred[None]:
        """Finish the calls made on a log, then release its lease."""

    def giveUpStates(space: str) -> Deferred[None]:
        """
        Finish the calls made on a space of state, then release its lease. Nothing happens if this
        broker does not have it.
        """


class IViewableStore(ILeasedStore):
    """A store that several brokers share, and whose logs can be read without their lease."""

    def view(name: str) -> Deferred[ISubjectIndexedLog]:
        """
        A log that is only read, also if another broker has its lease. Its bounds are those of the
        moment of this call and do not change. Reads give what was durable then, or later.

        @return: fails with L{NoSuchLog} or L{StoreFailed}.
        """


class IStreamLog(Interface):
    """
    A sequence of records.

    Each read gives the records of one moment, which is not earlier than the call. A limit may let a
    record go for a newer one while the read is under way; then it finds one of the two. A read may
    find records that are beyond the C{bounds} of the moment when it was called.

    Sequence numbers begin with 1 and have no gaps, except after C{skipTo} or a repair. A number
    that was ever durable is never used again, not after deletion, damage or a crash.
    """

    name = Attribute("The name in the store.")

    identity = Attribute(
        "A number below 2**64 that no other log has, not even a log of the same name before or "
        "after this one. It stays when the store is reopened."
    )

    nextSequence = Attribute(
        "The sequence of the first record of the next C{append}, counting records that are not "
        "durable yet. When an append fails, all later ones of this log fail too, and this goes "
        "back: a decision that depends on it holds for every append that succeeds."
    )

    def append(batch: Sequence[Entry]) -> Deferred[range]:
        """
        Store records, in order, all of them or none.

        It may be called again before the Deferred fires: records that are appended while the store
        syncs earlier ones become durable together (group commit). The Deferreds of one log fire in
        the order of the calls. Records can be read when their Deferred has fired, not before.

        The caller may change the batch afterwards, but not its bytes objects. An empty batch fires
        when all earlier calls on the log are durable.

        @return: the sequences, once the records are durable: they survive the end of the process
            and, in a store on disk, the loss of power. Fails with L{StoreFull}, L{StoreFailed},
            L{LogReadOnly}, L{LeaseLost} or L{StoreClosed}; none of the batch is stored then,
            but after L{StoreFailed} that is not known.
        @raise ValueError: for a subject over 65,535 bytes, or over 1 GiB in one record.
        """

    def read(sequence: int, limit: int = 256, maxBytes: int = 1048576) -> Deferred[list[Record]]:
        """
        Records in order, beginning with the first at or after C{sequence}. Deleted and damaged
        records are left out; watchers receive the damaged ones.

        @param limit: the most records.
        @param maxBytes: the read ends with the record that reaches this size, so it gives at least
            one record if there is any.
        @return: fails with L{StoreFailed} if the medium fails: an empty list always means that
            there are no records.
        """

    def bounds() -> LogBounds:
        """The bounds of the durable records, from memory."""

    def sequenceAt(timestamp: int) -> Deferred[int]:
        """
        The sequence of the first record that is not older than C{timestamp} (nanoseconds since
        1970); C{bounds().last + 1} if all are.
        """


class IRetainedLog(IStreamLog):
    """
    A log whose records can be deleted, by limits or by a call. Deletion runs in slices inside the
    commits of writers, so it never stops them; C{bounds} shows what is done.
    """

    def retain(retention: Retention) -> None:
        """
        Set the limits. They are not stored: the service sets them whenever it opens the log. They
        hold when the Deferred of an append fires; age is enforced without appends too, within two
        seconds.
        """

    def discardBefore(sequence: int) -> Deferred[int]:
        """
        Delete the records below C{sequence} that no hold protects.

        @return: the first sequence that may still exist, once the deletion is durable.
        """

    def delete(sequences: Collection[int]) -> Deferred[int]:
        """
        Delete single records anywhere in the log, whether a hold protects them or not. Missing ones
        are ignored.

        @return: the number of deleted records, once the deletion is durable.
        """

    def skipTo(sequence: int) -> Deferred[None]:
        """
        Use C{sequence} for the next record: a copy keeps the sequences of its original.

        @return: fails with L{SequenceTooLarge} for a sequence over 2**62, so that as many
            sequences remain for records.
        @raise ValueError: for a sequence below the next one.
        """


class IHeldLog(IRetainedLog):
    """
    A log with holds: limits and C{discardBefore} stop at the lowest floor of all holds. Holds are
    durable and outlive the job that set them.
    """

    def hold(name: str, floor: int) -> Deferred[None]:
        """
        Keep C{floor} and all later records; a hold of the same name is replaced. It is in force at
        once, and durable when the Deferred fires.

        @raise ValueError: for a name over 100 bytes of UTF-8, or more than 64 holds.
        """

    def release(name: str) -> Deferred[None]:
        """End a hold. An unknown name is ignored."""

    def holds() -> Mapping[str, int]:
        """The floors in force, by name."""


class ISubjectIndexedLog(IStreamLog):
    """A log with an index of subjects."""

    def lastFor(subject: bytes) -> Deferred[Record | None]:
        """
        The newest record of a literal subject.

        @return: fails with L{RecordDamaged} if that record is damaged: an older one never
            replaces it.
        """

    def subjects(pattern: bytes, after: bytes = b"", limit: int = 0) -> Deferred[SubjectTallies]:
        """
        The tally of each subject that a pattern matches, in byte order of the subjects.

        @param after: only subjects after this one, to continue a listing.
        @param limit: the most subjects; 0 for all.
        """

    def readMatching(
        patterns: Sequence[bytes], sequence: int, limit: int = 256, maxBytes: int = 1048576
    ) -> Deferred[Matching]:
        """
        As L{IStreamLog.read}, for records whose subject matches one of the patterns. It may return
        early, with fewer records, to share the reactor's time.
        """


class ICountedLog(ISubjectIndexedLog):
    """A log that knows how many subjects it has, without looking at each of them."""

    def countSubjects() -> Deferred[int]:
        """The number of subjects of the records that are durable when this is called."""


class IShortcutLog(ISubjectIndexedLog):
    """
    A log with faster ways to the results of other methods. Services use them where a log has them.
    It gives some durable records without waiting, as L{natsbroker.storage.records} encodes them.
    """

    identity = Attribute("As in L{IStreamLog}. Each encoded record contains this number.")

    def recall(sequence: int) -> EncodedRecord | None:
        """
        The bytes of a record, unverified. C{None} if it cannot be had at once, or is not there.
        """

    def recallLast(subject: bytes) -> int:
        """
        The sequence of the newest record of a literal subject, as far as it is known without a
        search: as of now, or as of the last question or append. 0 if it is not known. The record
        may be gone.
        """

    def collect(
        records: RecordList,
        patterns: Sequence[bytes],
        sequence: int,
        limit: int = 256,
        maxBytes: int = 1048576,
    ) -> Deferred[int]:
        """
        Append records to a list, as C{readMatching} finds them.

        @param patterns: as there; empty for every record.
        @param limit: the most records that the list has afterwards.
        @return: as C{next} of L{natsbroker.interfaces.records.Matching}.
        """

    def hasOnly(pattern: bytes) -> Deferred[bool]:
        """
        Whether a pattern matches the subjects of all records that are durable when this is called.
        False where that cannot be seen without looking at each subject.
        """


class IGroupingLog(IStreamLog):
    """A log whose store commits requests in groups."""

    def together(call: Callable[[], object]) -> None:
        """
        Call something at once. The requests that it makes to the store, of any log and any space of
        state, are one group, unless a group is underway: then they wait with others. In a store
        with an interval between syncs a power cut may undo them, as it may appends.
        """


class IExportableLog(IStreamLog):
    """A log that gives ranges of records as columns, for jobs."""

    def exportRange(start: int, stop: int, maxBytes: int = 16777216) -> Deferred[Columns]:
        """
        The records from C{start} to before C{stop}, as columns.

        @param maxBytes: the export ends with the record that reaches this size; continue at
            L{Columns.next}.
        """

    def digest(start: int, stop: int) -> Deferred[RangeDigest]:
        """A fingerprint of the records from C{start} to before C{stop}."""


class IStateStore(Interface):
    """
    Small values by key: durable subscriptions, consumers, clients, configurations.

    Changes are part of the same group commits as appends, in the order of the calls: a change is
    never durable before an append to the same store that was called earlier.
    """

    def load(prefix: bytes = b"") -> Deferred[dict[bytes, bytes]]:
        """
        The values whose keys begin with C{prefix}, in order of the keys, including all earlier
        changes. Damaged values are left out; watchers receive them.
        """

    def put(key: bytes, value: bytes) -> Deferred[None]:
        """
        Set one value. The Deferred fires when it is durable.

        @param key: 1 to 300 bytes.
        @param value: up to 16 MiB.
        @raise ValueError: for a key or value too long.
        """

    def delete(key: bytes) -> Deferred[None]:
        """Delete one value, if it exists. The Deferred fires when that is durable."""

    def change(changes: Mapping[bytes, bytes | None]) -> Deferred[None]:
        """
        Set and delete (C{None}) several values, all of them or none.

        @return: fails as L{IStreamLog.append} does.
        """


class IStoreOpener(Interface):
    """A plugin that opens stores; the configuration names it."""

    name = Attribute("The name in the configuration.")

    def openStore(host: IBrokerHost, section: Mapping[str, Any]) -> Deferred[IStreamStore]:
        """
        Open the store of a configuration block. Recovery is complete when the Deferred fires; the
        Deferred may be cancelled.

        @param section: the other keys of the block.
        @return: fails with L{StoreLocked} within a second, L{UnknownFormat}, L{StoreFull} or
            L{StoreFailed}.
        @raise ValueError: for wrong keys or values in the section.
        """
