"""
Committing over connections that break.

Whatever happens to a connection or to the server, what was acknowledged is there, once,
under the sequence that was told.
"""

from __future__ import annotations

import signal
import threading
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from natsbroker.interfaces.records import StoreFailed
from natsbroker.storage.postgres.connecting import Database
from natsbroker.storage.postgres.store import openPostgres
from natsbroker.testing.contracts.harness import entry, numbered
from natsbroker.testing.pumped import PATIENCE
from tests.postgresql import USER
from tests.storage.postgres.harness import PostgresHarness
from tests.storage.postgres.proxy import Proxy


class LostConnectionTests(PostgresHarness, SynchronousTestCase):
    """A connection that is cut in the middle of a commit."""

    def setUp(self) -> None:
        """Put a proxy between the store and the server."""
        super().setUp()
        self.proxy = Proxy(self.server.directory, USER)
        self.addCleanup(self.proxy.close)

    def database(self, **settings: Any) -> Database:
        """The database, through the proxy."""
        return Database(self.proxy.source, self.schema, **settings)

    def appended(self, where: str) -> Any:
        """
        Append while the connection is cut, and continue.

        @param where: before or after the server got the commit.
        @return: the log.
        """
        log = self.log()
        self.wait(log.append(numbered(0, 3)))
        self.proxy.cut = where
        deferreds = [log.append(numbered(3, 5)), log.append(numbered(5, 6))]
        assert [self.wait(deferred) for deferred in deferreds] == [range(4, 6), range(6, 7)]
        assert self.proxy.cuts == 1
        return log

    def checked(self, log: Any) -> None:
        """Demand that the log has every acknowledged record once, and accepts more."""
        assert self.wait(log.append([entry(b"6")])) == range(7, 8)
        assert self.payloads(log) == [b"%d" % number for number in range(7)]
        assert self.sequences(log) == list(range(1, 8))
        assert log.bounds().count == 7
        assert self.sql("SELECT last, count FROM log") == [(7, 7)]
        self.wait(log.append([]))
        # The thread notes a commit when it has told of it, so that the last one may be missing.
        figures = log._owner.figures()
        assert figures.records.total in (6, 7)
        assert sum(figures.syncs.counts) > 0 and figures.scrub is None

    def test_beforeTheCommit(self) -> None:
        """
        An append whose commit did not reach the server is stored again, under the same sequences.
        """
        self.checked(self.appended("before"))

    def test_afterTheCommit(self) -> None:
        """An append that was committed without an answer is acknowledged and not stored again."""
        self.checked(self.appended("after"))

    def failed(self, where: str) -> Any:
        """
        Append while the connection is cut, and the server cannot be reached afterwards.

        @return: the log, when the store writes again.
        """
        log = self.log()
        self.wait(log.append(numbered(0, 3)))
        self.proxy.downAfterCut = True
        self.proxy.cut = where
        failure = self.failsWith(StoreFailed, log.append(numbered(3, 5)))
        assert str(failure) == "the database cannot be reached"
        self.failsWith(StoreFailed, log.append([entry(b"refused")]))
        self.proxy.isDown = False
        while True:
            self.reactor.advance(1)
            try:
                self.wait(log.append([]))
            except StoreFailed:
                self.reactor.turn()
            else:
                return log

    def test_downBeforeTheCommit(self) -> None:
        """An append that was not committed is missing afterwards. Its sequences were never used."""
        log = self.failed("before")
        assert self.wait(log.append([entry(b"x")])) == range(4, 5)
        assert self.payloads(log) == [b"0", b"1", b"2", b"x"]

    def test_downAfterTheCommit(self) -> None:
        """
        An append that was committed is there afterwards, and its sequences are not used again.
        """
        log = self.failed("after")
        assert log.bounds().last == 5
        assert self.wait(log.append([entry(b"x")])) == range(6, 7)
        assert self.payloads(log) == [b"0", b"1", b"2", b"3", b"4", b"x"]

    def test_openedAgain(self) -> None:
        """
        An append that is requested before the reactor has noticed that the store was opened again
        is stored once.
        """
        log: Any = self.log()
        self.wait(log.append(numbered(0, 3)))
        self.proxy.downAfterCut = True
        self.proxy.cut = "before"
        self.failsWith(StoreFailed, log.append(numbered(3, 5)))
        self.proxy.isDown = False
        told, tell = threading.Event(), self.reactor.callFromThread

        def telling(call: Any, *arguments: Any, **named: Any) -> None:
            tell(call, *arguments, **named)
            if arguments[:1] == (log._owner.reopened,):
                told.set()

        self.patch(self.reactor, "callFromThread", telling)  # type: ignore[no-untyped-call]
        self.reactor.advance(log._owner.retryFirst)
        assert told.wait(PATIENCE)
        early: list[Any] = []
        log.append(numbered(3, 6)).addBoth(early.append)
        self.reactor.turn()
        assert self.wait(log.append([entry(b"x")])).stop == log.nextSequence
        assert self.wait(log.append([entry(b"y")])).stop == log.nextSequence
        assert log.bounds().last + 1 == log.nextSequence
        assert self.payloads(log)[-2:] == [b"x", b"y"]
        assert len(early) == 1

    def test_idle(self) -> None:
        """Connections that were lost while the store was idle are replaced unnoticed."""
        store = self.store()
        log: Any = self.wait(store.open("log"))
        self.wait(log.append(numbered(0, 3)))
        assert len(self.payloads(log)) == 3
        self.proxy.cutAll()
        assert len(self.payloads(log)) == 3
        assert self.wait(log.append(numbered(3, 5))) == range(4, 6)

    def test_unreachable(self) -> None:
        """A store that cannot be reached when it is opened reports that error."""
        self.proxy.isDown = True
        opening = openPostgres(self.reactor, self.database())
        failure = self.failsWith(StoreFailed, opening)
        assert str(failure) == "the database cannot be reached"

    def test_closedWhileUnreachable(self) -> None:
        """A store whose database is gone can be closed."""
        store = self.store()
        self.wait(store.open("log"))
        self.proxy.isDown = True
        self.proxy.cutAll()
        self.wait(store.close())


class RestartTests(PostgresHarness, SynchronousTestCase):
    """A server that ends and starts again."""

    def restarted(self, how: signal.Signals) -> None:
        """Demand that appends and reads succeed after a restart."""
        log = self.log()
        self.wait(log.append(numbered(0, 100)))
        self.server.stop(how)
        self.server.start()
        assert len(self.payloads(log)) == 100
        assert self.wait(log.append(numbered(100, 101))) == range(101, 102)
        assert self.payloads(log) == [b"%d" % number for number in range(101)]

    def test_restarted(self) -> None:
        """The store continues after its server was stopped and started."""
        self.restarted(signal.SIGINT)

    def test_crashed(self) -> None:
        """The store continues after its server crashed and recovered."""
        self.restarted(signal.SIGQUIT)
