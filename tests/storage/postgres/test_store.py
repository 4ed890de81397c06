"""
The store in PostgreSQL: held to every contract, with a real server and threads.

What goes beyond the contracts is tested here: damage, full disks, long subjects. Lost
connections and leases have files of their own.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from natsbroker.interfaces import ILeasedStore, IStoreWatcher
from natsbroker.interfaces.records import RecordDamaged, Retention, StoreFailed, StoreFull
from natsbroker.storage.postgres import fetching as reading
from natsbroker.storage.postgres.connecting import Database
from natsbroker.storage.postgres.leasing import Renewed
from natsbroker.storage.postgres.store import Renewing, openPostgres
from natsbroker.testing.contracts.stores import (
    DurableContract,
    ExportContract,
    GroupingContract,
    HeldContract,
    HistoryContract,
    LogContract,
    ReadersContract,
    RetainedContract,
    StateContract,
    SubjectContract,
    entry,
    numbered,
)
from tests.storage.postgres.harness import PostgresHarness


class PostgresStoreTests(
    PostgresHarness,
    LogContract,
    StateContract,
    ReadersContract,
    RetainedContract,
    HeldContract,
    SubjectContract,
    ExportContract,
    GroupingContract,
    DurableContract,
    HistoryContract,
    SynchronousTestCase,
):
    """L{natsbroker.storage.postgres.store.PostgresStore}."""


@implementer(IStoreWatcher)
class Watcher:
    """
    Records its calls.
    """

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def recordsDamaged(self, log: str, start: int, stop: int, reason: str) -> None:
        """Note the damaged records."""
        self.told.append(("records", log, start, stop))

    def stateDamaged(self, space: str, key: bytes, reason: str) -> None:
        """Note the damaged state."""
        self.told.append(("state", space, key))

    def logQuarantined(self, log: str, reason: str) -> None:
        """Note the quarantined log."""
        self.told.append(("quarantined", log))

    def writesStopped(self, reason: str) -> None:
        """Note that writes stopped."""
        self.told.append(("stopped", reason))

    def writesResumed(self) -> None:
        """Note that writes resumed."""
        self.told.append(("resumed",))

    def logLost(self, log: str) -> None:
        """Note the lost log."""
        self.told.append(("lost", log))


class BeyondTests(PostgresHarness, SynchronousTestCase):
    """Tests beyond the contract of every store."""

    def watched(self) -> tuple[Any, Any, Watcher]:
        """A store, a log in it, and a watcher."""
        store: Any = self.store()
        watcher = Watcher()
        store.watch(watcher)
        return store, self.wait(store.open("log")), watcher

    def test_isLeased(self) -> None:
        """The store may be shared by several brokers."""
        assert verifyObject(ILeasedStore, self.store())

    def test_cancelled(self) -> None:
        """Opening can be cancelled; connections that had been opened are closed again."""
        opening = openPostgres(self.reactor, self.database(), self.now)
        opening.cancel()
        self.failsWith(CancelledError, opening)
        self.reactor.turn()
        self.reactor.turn()
        assert self.sql("SELECT count(*) FROM holder") == [(0,)]

    def test_cannotBeOpened(self) -> None:
        """The server's error text is logged, and not sent to clients."""
        database = Database(f"{self.server.source} dbname=nowhere", self.schema)
        with capturedLogs() as events:
            failure = self.failsWith(StoreFailed, openPostgres(self.reactor, database))
        [event] = events
        assert 'database "nowhere" does not exist' in formatEvent(event)
        assert str(failure) == "the database cannot be reached"

    def test_damagedRecord(self) -> None:
        """
        A record that does not match its checksum is reported and left out; all others are read.
        """
        _, log, watcher = self.watched()
        self.wait(log.append(numbered(0, 5)))
        self.sql("UPDATE record SET data = set_byte(data, 41, 66) WHERE sequence IN (2, 5)")
        assert self.sequences(log) == [1, 3, 4]
        assert watcher.told == [("records", "log", n, n + 1) for n in (2, 5)]
        self.failsWith(RecordDamaged, log.lastFor(b"s"))
        assert self.wait(log.exportRange(1, 6)).damaged == (2, 5)
        assert self.wait(log.digest(1, 4)).damaged == (2,)
        assert len(self.wait(log.readMatching([b"s"], 1)).records) == 3
        assert len(watcher.told) == 2

    def test_manySubjects(self) -> None:
        """A search among many subjects frees the connection for others in between."""
        store, log, _ = self.watched()
        names = [b"a.%03d.%c" % (number, b"xy"[number % 2]) for number in range(300)]
        self.wait(log.append([entry(b"", name) for name in names]))
        case: Any = self
        case.patch(reading, "LOOKED_AT", 50)
        fetch = store.fetch
        calls: list[Any] = []

        def counted(*arguments: Any) -> Any:
            calls.append(arguments)
            return fetch(*arguments)

        case.patch(store, "fetch", counted)
        for pattern, wanted in ((b"a.*.nope", []), (b"a.*.y", names[1::2]), (b"a.>", names)):
            calls.clear()
            assert list(self.wait(log.subjects(pattern))) == wanted
            assert 2 < len(calls) <= 7
        assert list(self.wait(log.subjects(b"a.*.y", b"a.100.x", 60))) == names[101::2][:60]

    def test_exchangedRecords(self) -> None:
        """A record in the place of another one is damaged."""
        _, log, watcher = self.watched()
        self.wait(log.append(numbered(0, 3)))
        self.sql(
            "UPDATE record SET data = (SELECT data FROM record WHERE sequence = 1)"
            " WHERE sequence = 2"
        )
        assert self.sequences(log) == [1, 3]
        assert watcher.told == [("records", "log", 2, 3)]

    def test_damagedState(self) -> None:
        """A value that does not match its checksum is left out and reported."""
        store, _, watcher = self.watched()
        states = store.states("space")
        self.wait(states.change({b"a": b"1", b"b": b"2"}))
        self.sql("UPDATE state SET value = '3' WHERE key = 'a'")
        assert self.wait(states.load()) == {b"b": b"2"}
        assert watcher.told == [("state", "space", b"a")]

    def test_full(self) -> None:
        """
        A server without space refuses writes; reads continue, and later writes succeed as soon as
        there is space.
        """
        _, log, watcher = self.watched()
        self.wait(log.append(numbered(0, 2)))
        self.sql(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = 'disk_full'; END $$"
        )
        self.sql("CREATE TRIGGER full_disk BEFORE INSERT ON record EXECUTE FUNCTION full_disk()")
        first, second = log.append(numbered(2, 4)), log.append([entry(b"x")])
        for store in (first, second):
            failure = self.failsWith(StoreFull, store)
            assert str(failure) == "the database has no space left"
        assert self.payloads(log) == [b"0", b"1"]
        assert log.nextSequence == 3
        self.failsWith(StoreFull, log.append([entry(b"x")]))
        self.sql("DROP TRIGGER full_disk ON record")
        assert self.wait(log.append([entry(b"x")])) == range(3, 4)
        told = [("stopped", "the database has no space left"), ("resumed",)]
        assert watcher.told == told

    def test_refusing(self) -> None:
        """
        After another error nothing is written until the store has verified its content again; the
        client's error names no table.
        """
        store, log, watcher = self.watched()
        self.wait(log.append(numbered(0, 2)))
        self.sql("ALTER TABLE record RENAME TO elsewhere")
        failure = self.failsWith(StoreFailed, log.append([entry(b"x")]))
        assert str(failure) == "the database failed: UndefinedTable (42P01)"
        self.failsWith(StoreFailed, log.append([entry(b"x")]))
        self.failsWith(StoreFailed, store.states("s").put(b"k", b"v"))
        self.sql("ALTER TABLE elsewhere RENAME TO record")
        self.reactor.advance(1)
        while ("resumed",) not in watcher.told:
            self.reactor.turn()
        assert self.wait(log.append([entry(b"x")])) == range(3, 4)
        assert self.payloads(log) == [b"0", b"1", b"x"]

    def test_longestSubjects(self) -> None:
        """Subjects far longer than an index takes are distinguished, listed and matched."""
        _, log, _ = self.watched()
        names = [b"a." + b"x" * 60000 + b".%d" % index for index in range(3)] + [b"a.b"]
        self.wait(log.append([entry(b"%d" % n, name) for n, name in enumerate(names)]))
        for number, name in enumerate(names):
            assert self.wait(log.lastFor(name)).payload == b"%d" % number
        assert set(self.wait(log.subjects(b">"))) == set(names)
        assert list(self.wait(log.subjects(names[1]))) == [names[1]]
        matching = self.wait(log.readMatching([b"a.*.1"], 1))
        assert [record.subject for record in matching.records] == [names[1]]

    def test_droppedRecordsGo(self) -> None:
        """A dropped log that a closing broker had not deleted is deleted by the next one."""
        store, log, _ = self.watched()
        self.wait(log.append([entry(b"x") for _ in range(12000)]))
        self.wait(store.drop("log"))
        self.wait(store.close())
        if self.sql("SELECT 1 FROM record LIMIT 1"):
            store = self.store()
            while self.sql("SELECT 1 FROM record LIMIT 1"):
                self.wait(store.logs())
        assert self.sql("SELECT count(*) FROM log") == [(0,)]

    def test_agesWithoutWriting(self) -> None:
        """The database is not queried while no record is too old."""
        _, log, _ = self.watched()
        log.retain(Retention(age=10_000_000_000))
        self.wait(log.append(numbered(0, 3)))
        [(before,)] = self.sql("SELECT commits FROM progress")
        for _ in range(5):
            self.advance(1)
            self.wait(log.append([]))
        assert self.sql("SELECT commits FROM progress") == [(before,)]


HELD = Renewed(frozenset({5}), frozenset())


class RenewedDatabase:
    """
    A database that renews leases, or does not.

    @ivar renewals: how often it was asked.
    @ivar told: what was held each time.
    """

    def __init__(self) -> None:
        self.clock = Clock()
        self.answer: Deferred[Renewed] | None = None
        self.renewals = 0
        self.told: list[Renewed] = []
        self.noticed: Deferred[None] = succeed(None)
        monotonic = self.clock.seconds
        self.renewing = Renewing(self.clock, 6, self._renew, self._renewed, monotonic, monotonic())

    def _renew(self) -> Deferred[Renewed]:
        self.renewals += 1
        return self.answer or succeed(HELD)

    def _renewed(self, held: Renewed) -> Deferred[None]:
        self.told.append(held)
        return self.noticed


def test_often() -> None:
    """Leases are renewed three times while they last, and those still held are reported."""
    database = RenewedDatabase()
    database.clock.pump([2] * 5)
    assert (database.renewals, database.told) == (5, [HELD] * 5)


def test_slowly() -> None:
    """The next renewal waits for the last one to end."""
    database = RenewedDatabase()
    database.answer = Deferred()
    database.clock.pump([2] * 5)
    assert database.renewals == 1
    database.answer.callback(HELD)
    database.answer = None
    database.clock.advance(2)
    assert database.renewals == 2


def test_sure() -> None:
    """
    Leases count from when they were requested; a renewal counts as soon as lost leases are known.
    """
    database = RenewedDatabase()
    database.answer = Deferred()
    sure = [database.renewing.isSure]
    database.clock.pump([2, 3.5])
    sure.append(database.renewing.isSure)
    database.noticed = Deferred()
    answer, database.answer = database.answer, Deferred()
    answer.callback(HELD)
    database.clock.advance(1)
    sure.append(database.renewing.isSure)
    database.noticed.callback(None)
    sure.append(database.renewing.isSure)
    database.clock.advance(1.5)
    sure.append(database.renewing.isSure)
    assert sure == [True, True, False, True, False]


def test_loggedOnce() -> None:
    """Failing renewals of leases are logged once, and tried again."""
    database = RenewedDatabase()
    with capturedLogs() as events:
        for works in (False, False, True, False):
            database.answer = None if works else fail(StoreFailed("gone"))
            database.clock.advance(2)
    assert [formatEvent(event) for event in events] == ["The leases cannot be renewed: gone"] * 2
    assert database.renewals == 4


def test_stopped() -> None:
    """After renewing was stopped, nothing is renewed or reported, and no timer is left."""
    database = RenewedDatabase()
    database.renewing.stop()
    assert database.clock.getDelayedCalls() == []
    database = RenewedDatabase()
    answer: Deferred[Renewed] = Deferred()
    database.answer = answer
    database.clock.advance(2)
    database.renewing.stop()
    answer.callback(HELD)
    assert (database.told, database.clock.getDelayedCalls()) == ([], [])


class DamageTests(PostgresHarness, SynchronousTestCase):
    """Counts of a log that is damaged."""

    def counted(self, log: Any) -> tuple[int, int, dict[bytes, int]]:
        """The number of records, by the bounds and by subject, and their size."""
        tallies = self.wait(log.subjects(b">"))
        bounds = log.bounds()
        return bounds.count, bounds.size, {key: tally.count for key, tally in tallies.items()}

    def test_counts(self) -> None:
        """A damaged record is not counted any more once it is found, also after a restart."""
        store: Any = self.store()
        log = self.wait(store.open("log"))
        self.wait(log.append([*numbered(0, 5), *numbered(5, 10, b"t")]))
        self.sql("UPDATE record SET data = set_byte(data, 41, 66) WHERE sequence IN (1, 4, 10)")
        assert self.counted(log) == (10, 20, {b"s": 5, b"t": 5})
        assert len(self.payloads(log)) == 7
        for _ in range(2):
            assert self.counted(log) == (7, 14, {b"s": 3, b"t": 4})
            assert (log.bounds().first, log.bounds().last) == (2, 10)
            self.failsWith(RecordDamaged, log.lastFor(b"t"))
            assert self.wait(log.lastFor(b"s")).sequence == 5
            assert self.wait(log.exportRange(2, 11)).damaged == (4, 10)
            assert self.wait(log.digest(2, 11)).damaged == (4, 10)
            store = self.reopen(store)
            watcher = Watcher()
            store.watch(watcher)
            log = self.wait(store.open("log"))
            assert [report[2] for report in watcher.told] == [4, 10]
        assert self.sql("SELECT sequence FROM damaged ORDER BY sequence") == [(1,), (4,), (10,)]
        assert self.wait(log.append([entry(b"new", b"t")])) == range(11, 12)
        assert self.wait(log.lastFor(b"t")).sequence == 11
        self.wait(store.drop("log"))
        self.wait(store.open("log"))
        while self.sql("SELECT count(*) FROM record") != [(0,)]:
            self.wait(store.logs())
        self.wait(store.logs())
        assert self.sql("SELECT count(*) FROM damaged") == [(0,)]

    def test_gone(self) -> None:
        """
        Records that are missing from the table are not counted any more when the log is opened.
        """
        store: Any = self.store()
        log = self.wait(store.open("log"))
        self.wait(log.append(numbered(0, 10)))
        store = self.reopen(store)
        self.sql("DELETE FROM record WHERE sequence IN (1, 2, 7)")
        log = self.wait(store.open("log"))
        with capturedLogs() as events:
            while log.bounds().count == 10:
                self.reactor.turn()
            self.wait(log.append([]))
        assert self.counted(log) == (7, 14, {b"s": 7})
        assert (log.bounds().first, log.bounds().last) == (3, 10)
        assert [formatEvent(event) for event in events] == ["3 records of log are gone"]

    def test_notStored(self) -> None:
        """
        If the reduced count cannot be stored, the damage is reported, and the count falls when the
        damage is found again.
        """
        log: Any = self.wait(self.store().open("log"))
        self.wait(log.append(numbered(0, 3)))
        self.sql("UPDATE record SET data = set_byte(data, 41, 66) WHERE sequence = 2")
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(log, "_askWriter", lambda _: fail(StoreFailed("broken")))
            assert self.sequences(log) == [1, 3]
        assert log.bounds().count == 3
        assert self.sequences(log) == [1, 3]
        assert log.bounds().count == 2
