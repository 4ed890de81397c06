"""
Servers that are promoted, and old primaries that come back.
"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from natsbroker.interfaces.records import Retention, StoreFailed
from natsbroker.storage.postgres import primaries
from natsbroker.storage.postgres.connecting import Database, asStoreError
from natsbroker.storage.postgres.primaries import Primaries, Superseded, Timeline, timelineOf
from natsbroker.storage.postgres.store import openPostgres
from natsbroker.testing.contracts.harness import StoreHarness, entry, numbered
from natsbroker.testing.pumped import PumpedReactor
from tests.postgresql import USER, PostgresServer


class Server:
    """
    Makes connections of one timeline.

    @ivar number: of the timeline.
    @ivar made: how many connections.
    @ivar closed: how many of them were closed.
    """

    def __init__(self, number: int, system: int = 7) -> None:
        self.number = number
        self.system = system
        self.isDown = False
        self.made = self.closed = 0

    def __call__(self) -> Any:
        """Connect."""
        if self.isDown:
            raise psycopg.OperationalError("down")
        self.made += 1
        return Made(self)


class Made(primaries.PrimaryConnection):
    """A connection to nothing."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.timeline = Timeline(server.system, server.number)

    def __del__(self, *_: object) -> None:
        """Nothing is open."""

    def close(self) -> None:
        """Count the closed connection."""
        self._server.closed += 1

    @property
    def info(self) -> Any:
        """The primary's description in the log."""
        return type("Info", (), {"host": "h", "port": 1})


class TestPrimaries:
    """L{Primaries}."""

    def test_latest(self) -> None:
        """Of several servers, that with the latest timeline is taken, and the others are closed."""
        servers = [Server(1), Server(3), Server(2)]
        known = Primaries()
        with capturedLogs() as events:
            connection = known.connect(servers)
        assert connection.timeline.number == 3
        assert [(server.made, server.closed) for server in servers] == [(1, 1), (1, 0), (1, 1)]
        texts = sorted(map(formatEvent, events))
        assert texts == [
            f"h port 1 is an old primary, on timeline {number}: end it" for number in (1, 2)
        ]

    def test_comparedSeldom(self) -> None:
        """
        Servers that were compared a short time ago are not compared again for each connection.
        """
        servers = [Server(1), Server(2)]
        known = Primaries()
        for _ in range(3):
            known.connect(servers)
        assert [server.made for server in servers] == [1, 3]
        known.doubt()
        known.connect(servers)
        assert [server.made for server in servers] == [2, 4]

    def test_promoted(self) -> None:
        """When another server is promoted, connections to the earlier primary are not current."""
        servers = [Server(1), Server(1)]
        servers[1].isDown = True
        known = Primaries()
        before = known.connect(servers)
        assert known.isCurrent(before)
        servers[1].isDown, servers[1].number = False, 2
        with capturedLogs():
            known.compare(servers).close()
        assert not known.isCurrent(before)
        assert known.isCurrent(known.connect(servers))

    def test_onlyTheOldOne(self) -> None:
        """An old primary is refused even if no other server answers."""
        servers = [Server(1), Server(2)]
        known = Primaries()
        with capturedLogs():
            known.connect(servers)
        servers[1].isDown = True
        with pytest.raises(Superseded) as failure:
            known.connect(servers)
        assert servers[0].closed == servers[0].made
        error = asStoreError(failure.value)
        assert isinstance(error, StoreFailed)
        assert str(error) == "the database that answers is an old primary"

    def test_oneName(self) -> None:
        """A name that leads to the old primary again, after the new one, is refused."""
        server = Server(2)
        known = Primaries()
        known.connect([server])
        server.number = 1
        for call in (known.connect, known.compare):
            with pytest.raises(Superseded):
                call([server])
        server.number = 3
        with capturedLogs() as events:
            known.connect([server])
        assert [formatEvent(event) for event in events] == [
            "The database has a new primary, on timeline 3"
        ]

    def test_otherDatabase(self) -> None:
        """A server of another database is no successor, whatever its timeline."""
        known = Primaries()
        known.connect([Server(1)])
        with pytest.raises(Superseded):
            known.connect([Server(2, system=8)])

    def test_unknown(self) -> None:
        """A server that does not report its timeline is used."""
        known = Primaries()
        known.connect([Server(0, system=0)])
        assert known.isCurrent(known.connect([Server(0, system=0)]))

    def test_noneAnswers(self) -> None:
        """If no server answers, connecting raises a server's error."""
        servers = [Server(1), Server(1)]
        for server in servers:
            server.isDown = True
        with pytest.raises(psycopg.OperationalError, match="down"):
            Primaries().connect(servers)

    def test_timelineOf(self, postgres: PostgresServer) -> None:
        """
        A server reports its timeline; if it cannot, the timeline is unknown and the connection
        stays usable.
        """
        with postgres.connect() as connection:
            timeline = timelineOf(connection)
            assert timeline.number == 1
            assert timeline.system > 0
            connection.execute("SET search_path TO nowhere, pg_catalog")
            connection.execute("CREATE SCHEMA IF NOT EXISTS nowhere")
            connection.execute(
                "CREATE OR REPLACE FUNCTION nowhere.pg_control_system(OUT system_identifier bigint)"
                " LANGUAGE sql AS 'SELECT 1::bigint / 0'"
            )
            assert timelineOf(connection) == Timeline()
            connection.execute("DROP SCHEMA nowhere CASCADE")
            assert timelineOf(connection) == timeline


class PromotionTests(StoreHarness, SynchronousTestCase):
    """A primary that dies, a standby that is promoted, and the old primary that comes back."""

    def setUp(self) -> None:
        """Start a primary and a standby, and a store that is given both names."""
        self.reactor = PumpedReactor()
        self.old = PostgresServer()
        self.addCleanup(self.old.remove)
        self.old.start()
        self.new = PostgresServer(primary=self.old)
        self.addCleanup(self.new.remove)
        self.new.start()
        hosts = f"{self.old.directory},{self.new.directory}"
        self.database = Database(f"host={hosts} user={USER} dbname=postgres")
        self.opened: Any = self.makeStore()
        self.addCleanup(lambda: self.wait(self.opened.close()))
        self.made: Any = self.wait(self.opened.open("log"))
        self.made.retain(Retention(perSubject=3))
        self.wait(self.made.append(numbered(0, 3)))

    def wait(self, deferred: Any) -> Any:
        """Turn the reactor until the Deferred has fired."""
        return self.reactor.wait(deferred)

    def makeStore(self) -> Any:
        """The store."""
        return self.wait(openPostgres(self.reactor, self.database, self.now))

    def failOver(self) -> None:
        """Promote the standby when it has all records, and start the old primary again."""
        self.caughtUp()
        self.old.crash()
        self.new.promote()
        self.old.start()

    def caughtUp(self) -> None:
        """Wait until the standby has all records."""
        with self.old.connect() as primary, self.new.connect() as standby:
            [position] = primary.execute("SELECT pg_current_wal_lsn()").fetchone() or ()
            while standby.execute(
                "SELECT pg_last_wal_replay_lsn() < %s::pg_lsn", (position,)
            ).fetchone() != (False,):
                pass

    def appended(self, payload: bytes) -> range:
        """Append until an append is acknowledged."""
        while True:
            try:
                sequences: range = self.wait(self.made.append([entry(payload)]))
            except StoreFailed:
                self.reactor.advance(1)
                self.reactor.turn()
            else:
                return sequences

    def test_promoted(self) -> None:
        """
        Writing and reading continue at the promoted standby, although the old primary answers
        first.
        """
        assert len(self.payloads(self.made)) == 3
        other: Any = self.makeStore()
        self.addCleanup(lambda: self.wait(other.close()))
        assert self.wait(self.wait(other.view("log")).lastFor(b"s")).sequence == 3
        # A standby is not read from, also where the connection string permits any server.
        with pytest.raises(psycopg.OperationalError, match="read-only"):
            Database(self.new.source + " target_session_attrs=any").connect("test")
        self.failOver()
        with capturedLogs() as events:
            assert self.appended(b"3") == range(4, 5)
        assert any("is an old primary, on timeline 1" in formatEvent(event) for event in events)
        assert self.payloads(self.made) == [b"1", b"2", b"3"]
        assert self.wait(self.made.lastFor(b"s")).sequence == 4
        for reader in (other, self.makeStore()):
            assert self.wait(self.wait(reader.view("log")).lastFor(b"s")).sequence == 4
            self.wait(reader.close())

    def test_notEnded(self) -> None:
        """A primary that lives on while a standby is promoted is left within seconds."""
        other: Any = self.makeStore()
        self.addCleanup(lambda: self.wait(other.close()))
        assert self.wait(self.wait(other.view("log")).lastFor(b"s")).sequence == 3
        self.caughtUp()
        self.new.promote()
        with capturedLogs():
            self.wait(other._compare(lambda: self.database.compare("test")))
            assert self.appended(b"3") == range(4, 5)
            assert self.wait(self.wait(other.view("log")).lastFor(b"s")).sequence == 4
        [(there,)] = self.new.execute("natsbroker", "SELECT last FROM log")
        [(gone,)] = self.old.execute("natsbroker", "SELECT last FROM log")
        assert (there, gone) == (4, 3)
