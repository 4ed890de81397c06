"""
Commits that no standby confirms.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from natsbroker.interfaces.records import StoreFailed
from natsbroker.storage.postgres import confirming, session
from natsbroker.storage.postgres.confirming import NO_ANSWER, NO_STANDBY, awaitsStandby, confirmed
from natsbroker.storage.postgres.connecting import Database
from natsbroker.storage.postgres.store import openPostgres
from natsbroker.testing.contracts.harness import entry, numbered
from tests.postgresql import USER, PostgresServer
from tests.storage.postgres.harness import PostgresHarness
from tests.storage.postgres.proxy import Proxy
from tests.storage.postgres.test_store import Watcher


def test_soonEnough() -> None:
    """A publisher gets its answer within two seconds."""
    assert confirming.PATIENCE + confirming.AGAIN < 2


class WithoutStandbyTests(PostgresHarness, SynchronousTestCase):
    """A server whose synchronous standby is gone, and comes back."""

    def setUp(self) -> None:
        """Make a store with a log and some records in it."""
        super().setUp()
        patched = pytest.MonkeyPatch()
        self.addCleanup(patched.undo)
        patched.setattr(confirming, "PATIENCE", 0.2)
        patched.setattr(session, "LOCK_WAIT", 200)
        self.opened: Any = self.makeStore()
        self.addCleanup(lambda: self.wait(self.opened.close()))
        self.watcher = Watcher()
        self.opened.watch(self.watcher)
        self.made: Any = self.wait(self.opened.open("log"))
        self.wait(self.made.append(numbered(0, 3)))
        self.addCleanup(self.server.waitForStandbys, "")

    def gone(self) -> None:
        """Append a record that is not confirmed."""
        self.server.waitForStandbys("nobody")
        with capturedLogs() as events:
            failure = self.failsWith(StoreFailed, self.made.append([entry(b"unconfirmed")]))
        assert str(failure) == NO_STANDBY
        assert any(NO_STANDBY in formatEvent(event) for event in events)

    def seen(self) -> list[bytes]:
        """The records read by every method, which must agree."""
        payloads = self.payloads(self.made)
        last = self.wait(self.made.lastFor(b"s"))
        assert last.payload == payloads[-1]
        [tally] = self.wait(self.made.subjects(b">")).values()
        assert (tally.count, tally.last) == (len(payloads), last.sequence)
        matching = self.wait(self.made.readMatching([b"*"], 1))
        assert [record.payload for record in matching.records] == payloads
        return payloads

    def back(self) -> None:
        """Let commits be confirmed, and wait until the store writes again."""
        self.server.waitForStandbys("")
        while True:
            self.reactor.advance(1)
            try:
                self.wait(self.made.append([]))
            except StoreFailed:
                self.reactor.turn()
            else:
                return

    def test_writesFail(self) -> None:
        """Without a standby, writes fail for that reason, and unconfirmed records are not read."""
        self.server.waitForStandbys("nobody")
        writing = self.made.append([entry(b"unconfirmed")])
        assert self.seen() == [b"0", b"1", b"2"]
        assert not writing.called
        failure = self.failsWith(StoreFailed, writing)
        assert str(failure) == NO_STANDBY
        assert self.failsWith(StoreFailed, self.made.append([entry(b"later")]))
        assert self.seen() == [b"0", b"1", b"2"]
        assert self.watcher.told == [("stopped", NO_STANDBY)]

    def test_resumed(self) -> None:
        """
        When a standby confirms, the record that was not confirmed is there, and appends continue
        behind it.
        """
        self.gone()
        self.back()
        assert self.seen() == [b"0", b"1", b"2", b"unconfirmed"]
        assert self.made.bounds().last == 4
        assert self.wait(self.made.append([entry(b"next")])) == range(5, 6)
        assert self.sql("SELECT last, count FROM log") == [(5, 5)]
        assert self.watcher.told == [("stopped", NO_STANDBY), ("resumed",)]

    def test_stillGone(self) -> None:
        """While no standby confirms, attempts to continue fail, and leave nothing behind."""
        self.gone()
        for _ in range(3):
            self.reactor.advance(5)
            self.reactor.turn()
            self.failsWith(StoreFailed, self.made.append([]))
        waiting = self.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
        assert waiting == [(1,)]
        self.back()
        assert self.made.bounds().last == 4

    def test_leases(self) -> None:
        """Leases are renewed without a standby, so that no other broker takes over."""
        self.gone()
        [(before,)] = self.sql("SELECT expires FROM holder")
        deadline = time.monotonic() + 30
        while self.sql("SELECT expires FROM holder") == [(before,)]:
            assert time.monotonic() < deadline
            self.reactor.advance(5)
            self.reactor.catchUp()
            time.sleep(0.01)

    def ended(self, how: str) -> None:
        """Demand that a commit whose wait is ended from outside is not acknowledged as durable."""
        self.server.waitForStandbys("nobody")
        writing = self.made.append([entry(b"unconfirmed")])
        while not self.sql(f"SELECT {how}(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"):
            time.sleep(0.01)
        assert str(self.failsWith(StoreFailed, writing)) == NO_STANDBY
        self.back()
        assert self.made.bounds().last == 4
        assert self.wait(self.made.append([entry(b"next")])) == range(5, 6)

    def test_cancelled(self) -> None:
        """
        A commit whose wait is cancelled is not acknowledged, although the server shows its record.
        """
        self.ended("pg_cancel_backend")

    def test_terminated(self) -> None:
        """A commit whose backend is ended is not acknowledged."""
        self.ended("pg_terminate_backend")

    def test_closed(self) -> None:
        """A store whose commit waits for a standby can be closed."""
        self.gone()
        with capturedLogs() as events:
            self.wait(self.opened.close())
        assert any("The leases were not given up" in formatEvent(event) for event in events)

    def test_opened(self) -> None:
        """A store without a standby cannot be opened, and gives the reason."""
        self.server.waitForStandbys("nobody")
        with capturedLogs() as events:
            failure = self.failsWith(StoreFailed, openPostgres(self.reactor, self.database()))
        assert str(failure) == NO_STANDBY
        assert [formatEvent(event) for event in events] == [
            f"The store cannot be opened: {NO_STANDBY}"
        ]


class StandsStillTests(PostgresHarness, SynchronousTestCase):
    """
    A server that accepts connections and does not answer, like one whose disk or machine hangs.
    """

    def setUp(self) -> None:
        """Make a store behind a proxy, and renew its leases."""
        super().setUp()
        patched = pytest.MonkeyPatch()
        self.addCleanup(patched.undo)
        patched.setattr(confirming, "PATIENCE", 0.2)
        self.proxy = Proxy(self.server.directory, USER)
        self.addCleanup(self.proxy.close)
        place = Database(self.proxy.source + " connect_timeout=2", self.schema)
        self.opened: Any = self.wait(openPostgres(self.reactor, place, self.now))
        self.addCleanup(lambda: self.wait(self.opened.close()))
        self.watcher = Watcher()
        self.opened.watch(self.watcher)
        self.made: Any = self.wait(self.opened.open("log"))
        self.wait(self.made.append(numbered(0, 3)))

    def test_writesFail(self) -> None:
        """Writes fail, whatever statement has no answer, and succeed when the server goes on."""
        self.addCleanup(self.proxy.moves.set)
        self.proxy.moves.clear()
        for _ in range(3):
            self.failsWith(StoreFailed, self.made.append([entry(b"unanswered")]))
        [(kind, _)] = self.watcher.told
        assert kind == "stopped"
        self.proxy.moves.set()
        while True:
            self.reactor.advance(1)
            try:
                self.wait(self.made.append([entry(b"next")]))
                break
            except StoreFailed:
                self.reactor.turn()
        assert self.payloads(self.made) == [b"0", b"1", b"2", b"next"]

    def test_waits(self) -> None:
        """A statement that waits for the lock of another connection is not given up."""
        with self.server.connect() as other:
            other.execute(f'SET search_path TO "{self.schema}"')
            other.execute("BEGIN")
            other.execute("SELECT 1 FROM log FOR UPDATE")
            writing = self.made.append([entry(b"late")])
            time.sleep(4 * confirming.PATIENCE)
            self.reactor.catchUp()
            assert not writing.called
            other.execute("COMMIT")
        assert self.wait(writing) == range(4, 5)
        assert self.watcher.told == []


class TestConfirmed:
    """L{confirmed}, without a store."""

    def test_slow(self, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
        """A slow commit that waits for something else than a standby is not given up."""
        monkeypatch.setattr(confirming, "PATIENCE", 0.01)
        monkeypatch.setattr(confirming, "AGAIN", 0.01)
        asked: list[int] = []

        def isAwaiting(process: int) -> bool:
            asked.append(process)
            return False

        with postgres.connect() as connection:
            connection.execute(
                "CREATE TEMPORARY TABLE slow (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)"
            )
            connection.execute(
                "CREATE FUNCTION pg_temp.rest() RETURNS trigger LANGUAGE plpgsql"
                " AS 'BEGIN PERFORM pg_sleep(0.1); RETURN NULL; END'"
            )
            connection.execute(
                "CREATE CONSTRAINT TRIGGER rest AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED"
                " FOR EACH ROW EXECUTE FUNCTION pg_temp.rest()"
            )
            connection.execute("BEGIN")
            connection.execute("INSERT INTO slow VALUES (1)")
            confirmed(connection, isAwaiting)
            assert set(asked) == {connection.info.backend_pid}
            assert connection.execute("SELECT count(*) FROM slow").fetchone() == (1,)

    def test_errors(self, postgres: PostgresServer) -> None:
        """An error of the commit is raised, and a commit that is rolled back is an error."""
        with postgres.connect() as connection:
            connection.execute(
                "CREATE TEMPORARY TABLE slow (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)"
            )
            connection.execute("BEGIN")
            connection.execute("INSERT INTO slow VALUES (1), (1)")
            with pytest.raises(Exception, match="duplicate key"):
                confirmed(connection, lambda process: False)
            connection.execute("BEGIN")
            with pytest.raises(Exception, match="nothing"):
                connection.execute("SELECT nothing")
            with pytest.raises(StoreFailed):
                confirmed(connection, lambda process: False)

    def test_noAnswer(self, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
        """A server that does not even say what a commit waits for counts as not answering."""
        monkeypatch.setattr(confirming, "AGAIN", 0.0)
        monkeypatch.setattr(confirming, "_send", lambda *_: None)
        with postgres.connect() as connection:
            connection.pgconn.send_query(b"SELECT pg_sleep(60)")
            with pytest.raises(StoreFailed, match=NO_ANSWER):
                awaitsStandby(connection, 1)
            assert connection.closed
