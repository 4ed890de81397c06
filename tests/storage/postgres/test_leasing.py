"""
Leases: who may write to what, and when that changes.

Two stores here are two brokers: each has its own threads and connections, and they share nothing
but the database. That a broker is gone is shown by its row in the table of holders.

The contract of shared stores, and what goes beyond it: renewal, tokens, and brokers that
stand still at the wrong moment.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from natsbroker.interfaces.records import LeaseLost, StoreFailed
from natsbroker.testing.contracts.harness import numbered
from natsbroker.testing.contracts.leases import LeasedContract, LossWatcher
from tests.storage.postgres.harness import PostgresHarness

RENEWAL = 5 / 3
"""Seconds between two renewals, by default."""


class LeaseTests(PostgresHarness, LeasedContract, SynchronousTestCase):
    """Two brokers."""

    def share(self, store: Any) -> Any:
        """Open the store again."""
        return self.makeStore()

    def expire(self) -> None:
        """Let the holder's leases expire."""
        self.sql(
            "UPDATE holder SET expires = clock_timestamp() - interval '1 second'"
            " WHERE id IN (SELECT holder FROM log UNION SELECT holder FROM space)"
        )

    def test_forgetsItself(self) -> None:
        """A broker that closed the store leaves no row of its own."""
        one, _ = self.brokers()
        self.opened(one)
        self.wait(one.close())
        assert self.sql("SELECT count(*) FROM holder") == [(1,)]
        assert self.sql("SELECT count(*) FROM progress") == [(1,)]
        assert self.sql("SELECT holder FROM log") == [(None,)]

    def test_nobodyTook(self) -> None:
        """A broker whose leases have expired continues if no other broker has taken them."""
        log = self.opened(self.store())
        self.expire()
        assert self.wait(log.append(numbered(3, 4))) == range(4, 5)

    def test_tokens(self) -> None:
        """The token rises whenever a lease changes hands, and at no other time."""
        one, other = self.brokers()
        self.opened(one)
        self.wait(one.open("log"))
        assert self.sql("SELECT token FROM log") == [(1,)]
        self.expire()
        self.wait(other.open("log"))
        assert self.sql("SELECT token FROM log") == [(2,)]

    def test_noticed(self) -> None:
        """A broker that writes nothing notices at the next renewal that a log was taken."""
        one, other = self.brokers()
        self.opened(one)
        watcher = LossWatcher()
        one.watch(watcher)
        self.expire()
        self.wait(other.open("log"))
        self.reactor.advance(RENEWAL)
        while not watcher.lost:
            self.reactor.turn()
        assert watcher.lost == ["log"]

    def test_renewed(self) -> None:
        """Leases are renewed while a broker runs."""
        one, other = self.brokers()
        self.opened(one)
        self.expire()
        for _ in range(2):
            self.reactor.advance(RENEWAL)
            while self.sql("SELECT 1 FROM holder WHERE expires < clock_timestamp()"):
                self.reactor.turn()
            self.failsWith(LeaseLost, other.open("log"))

    def test_forgotten(self) -> None:
        """
        A broker whose entry was deleted because it had no leases for long can open a log again.
        """
        store: Any = self.store()
        self.wait(store.logs())
        self.sql("DELETE FROM holder")
        self.sql("DELETE FROM progress")
        log: Any = None
        while log is None:
            try:
                log = self.wait(store.open("log"))
            except StoreFailed:
                self.reactor.advance(1)
                self.reactor.turn()
        assert self.wait(log.append(numbered(0, 1))) == range(1, 2)

    def test_stillInATransaction(self) -> None:
        """
        A broker that opens a log does not wait for another one that hangs in a transaction; it is
        refused.
        """
        one, other = self.brokers()
        self.opened(one)
        self.expire()
        with self.server.connect() as standing:
            standing.execute(f'SET search_path TO "{self.schema}"')
            with standing.transaction():
                standing.execute("SELECT 1 FROM log FOR UPDATE")
                self.failsWith(LeaseLost, other.open("log"))
        assert self.wait(other.open("log")).bounds().count == 3

    def test_slowDatabase(self) -> None:
        """While a commit waits for the database, stored records can be read."""
        log = self.opened(self.store())
        with self.server.connect() as standing:
            standing.execute(f'SET search_path TO "{self.schema}"')
            with standing.transaction():
                standing.execute("SELECT 1 FROM log FOR UPDATE")
                pending = log.append(numbered(3, 4))
                assert self.payloads(log) == [b"0", b"1", b"2"]
                self.assertNoResult(pending)
        assert self.wait(pending) == range(4, 5)
