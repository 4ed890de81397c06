"""
Leases: who may write to what, and when that changes.

Two stores here are two brokers: each has its own threads and connections, and they share nothing
but the database. That a broker is gone is shown by its row in the table of holders.

Promises: of two brokers one writes to a log at a time, whatever the other one thinks.
Must never know: how long anything takes.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase

from natsbroker._istore import LogElsewhere, NoSuchLog, StoreClosed
from natsbroker.testing.storecontracts import entry, numbered
from tests.store.postgres.harness import PostgresHarness
from tests.store.postgres.test_store import Watcher


class LeaseTests(PostgresHarness, SynchronousTestCase):
    """Two brokers."""

    def setUp(self) -> None:
        """Open the store twice."""
        super().setUp()
        self.one: Any = self.store()
        self.other: Any = self.store()

    def expire(self) -> None:
        """Let the time of all leases be over, as if nobody had renewed them."""
        self.sql(
            "UPDATE holder SET expires = clock_timestamp() - interval '1 second'"
            " WHERE id IN (SELECT holder FROM log UNION SELECT holder FROM space)"
        )

    def opened(self) -> Any:
        """A log with some records, of the first broker."""
        log = self.wait(self.one.open("log"))
        self.wait(log.append(numbered(0, 3)))
        return log

    def test_oneAtATime(self) -> None:
        """What one broker serves, another cannot open, nor drop."""
        self.opened()
        self.failsWith(LogElsewhere, self.other.open("log"))
        self.failsWith(LogElsewhere, self.other.open("log", create=False))
        self.failsWith(LogElsewhere, self.other.drop("log"))
        assert self.wait(self.other.logs()) == ["log"]

    def test_different(self) -> None:
        """Each may serve what the other does not."""
        log = self.opened()
        another = self.wait(self.other.open("another"))
        self.wait(another.append(numbered(0, 2)))
        self.wait(log.append(numbered(3, 4)))
        assert self.payloads(log) == [b"0", b"1", b"2", b"3"]
        assert self.payloads(another) == [b"0", b"1"]

    def test_closed(self) -> None:
        """A broker that closes the store lets others have everything at once."""
        log = self.opened()
        bounds = log.bounds()
        self.wait(self.one.close())
        log = self.wait(self.other.open("log"))
        assert log.bounds() == bounds
        assert self.wait(log.append(numbered(3, 4))) == range(4, 5)
        assert self.sql("SELECT count(*) FROM holder") == [(1,)]

    def test_givenUp(self) -> None:
        """A log that was given up is another's, with everything that was asked before."""
        log = self.opened()
        pending = log.append(numbered(3, 5))
        given = self.one.giveUp("log")
        self.failsWith(LogElsewhere, log.append([entry(b"late")]))
        assert self.wait(pending) == range(4, 6)
        self.wait(given)
        found = self.wait(self.other.open("log"))
        assert self.payloads(found) == [b"0", b"1", b"2", b"3", b"4"]
        self.failsWith(LogElsewhere, self.one.open("log"))
        self.failsWith(NoSuchLog, self.one.giveUp("log"))

    def test_takenOver(self) -> None:
        """When the time of a broker is over another takes its logs, and it cannot write again."""
        log = self.opened()
        watcher = Watcher()
        self.one.watch(watcher)
        self.expire()
        taken = self.wait(self.other.open("log"))
        self.wait(taken.append([entry(b"new")]))
        pending = [log.append([entry(b"old")]), log.append([entry(b"old")]), log.delete([1])]
        for each in pending:
            self.failsWith(LogElsewhere, each)
        self.failsWith(LogElsewhere, log.append([entry(b"old")]))
        self.failsWith(LogElsewhere, log.read(1))
        self.failsWith(LogElsewhere, self.one.open("log"))
        assert watcher.told == [("lost", "log")]
        assert self.payloads(taken) == [b"0", b"1", b"2", b"new"]

    def test_othersGoOn(self) -> None:
        """A broker that lost one log goes on with the others, in the same commit."""
        log = self.opened()
        kept = self.wait(self.one.open("kept"))
        self.expire()
        self.wait(self.other.open("log"))
        lost, stored = log.append([entry(b"old")]), kept.append([entry(b"kept")])
        self.failsWith(LogElsewhere, lost)
        assert self.wait(stored) == range(1, 2)

    def test_nobodyTook(self) -> None:
        """A broker whose time was over goes on if nobody has taken anything from it."""
        log = self.opened()
        self.expire()
        assert self.wait(log.append(numbered(3, 4))) == range(4, 5)

    def test_fight(self) -> None:
        """Two brokers that take a log from each other again and again never both write."""
        brokers = [self.one, self.other]
        expected = []
        losers: list[Any] = []
        for turn in range(12):
            broker = brokers[turn % 2]
            self.expire()
            log = self.wait(broker.open("log"))
            for loser in losers:
                self.failsWith(LogElsewhere, loser.append([entry(b"never")]))
            first = self.wait(log.append([entry(b"%d" % turn), entry(b"%d" % turn)]))
            assert first == range(2 * turn + 1, 2 * turn + 3)
            expected += [b"%d" % turn] * 2
            losers = [log]
        assert self.payloads(log) == expected
        assert self.sql("SELECT token FROM log") == [(12,)]

    def test_noticed(self) -> None:
        """A broker that writes nothing notices at the next renewal that a log was taken."""
        self.opened()
        watcher = Watcher()
        self.one.watch(watcher)
        self.expire()
        self.wait(self.other.open("log"))
        self.reactor.advance(5 / 3)
        while not watcher.told:
            self.reactor.turn()
        assert watcher.told == [("lost", "log")]

    def test_renewed(self) -> None:
        """Leases are renewed while a broker runs, several times while they last."""
        self.opened()
        self.expire()
        for _ in range(2):
            self.reactor.advance(5 / 3)
            while self.sql("SELECT 1 FROM holder WHERE expires < clock_timestamp()"):
                self.reactor.turn()
            self.failsWith(LogElsewhere, self.other.open("log"))

    def test_whenFree(self) -> None:
        """Who waits for a log gets it when its broker's time is over."""
        self.opened()
        waiting = self.other.whenFree("log")
        for _ in range(3):
            self.reactor.advance(5 / 3)
            self.wait(self.other.logs())
        self.assertNoResult(waiting)
        self.wait(self.one.close())
        self.reactor.advance(5 / 3)
        assert self.payloads(self.wait(waiting)) == [b"0", b"1", b"2"]

    def test_whenFreeAtOnce(self) -> None:
        """A log that nobody serves is there at once, and made if it has to be."""
        assert self.wait(self.other.whenFree("new")).name == "new"

    def test_whenFreeCancelled(self) -> None:
        """Waiting can be ended, and ends when the store is closed."""
        self.opened()
        cancelled, closed = self.other.whenFree("log"), self.other.whenFree("log")
        self.wait(self.other.logs())
        cancelled.cancel()
        self.failsWith(CancelledError, cancelled)
        self.wait(self.other.close())
        self.failsWith(StoreClosed, closed)
        self.failsWith(StoreClosed, self.other.whenFree("log"))

    def test_space(self) -> None:
        """
        State belongs to who used it first; who lost it cannot write to it any more, and when it is
        free again, only after having loaded it.
        """
        ours, theirs = self.one.states("space"), self.other.states("space")
        self.wait(ours.put(b"k", b"1"))
        self.failsWith(LogElsewhere, theirs.load())
        self.failsWith(LogElsewhere, theirs.put(b"k", b"2"))
        self.expire()
        assert self.wait(theirs.load()) == {b"k": b"1"}
        self.wait(theirs.put(b"k", b"3"))
        self.failsWith(LogElsewhere, ours.put(b"k", b"4"))
        self.failsWith(LogElsewhere, ours.delete(b"k"))
        assert self.wait(theirs.load()) == {b"k": b"3"}
        self.wait(self.other.close())
        self.failsWith(LogElsewhere, ours.put(b"k", b"5"))
        assert self.wait(ours.load()) == {b"k": b"3"}
        self.wait(ours.put(b"k", b"6"))

    def test_forgotten(self) -> None:
        """A broker that was forgotten because it held nothing for long goes on all the same."""
        self.wait(self.one.logs())
        self.sql("DELETE FROM holder")
        self.sql("DELETE FROM progress")
        self.reactor.advance(5 / 3)
        log: Any = None
        while log is None:
            try:
                log = self.wait(self.one.open("log"))
            except Exception:
                self.reactor.advance(1)
                self.reactor.turn()
        assert self.wait(log.append(numbered(0, 1))) == range(1, 2)

    def test_stillInATransaction(self) -> None:
        """Nobody waits for a broker that stands still in a transaction."""
        self.opened()
        self.expire()
        with self.server.connect() as standing:
            standing.execute(f'SET search_path TO "{self.schema}"')
            with standing.transaction():
                standing.execute("SELECT 1 FROM log FOR UPDATE")
                self.failsWith(LogElsewhere, self.other.open("log"))
        assert self.wait(self.other.open("log")).bounds().count == 3
