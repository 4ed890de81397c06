"""
Shared parts of the tests of the store in PostgreSQL: a real server, and a schema for each test.

The schema is gone after the test, and each test may look into it behind the store's back.
"""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker.storage.postgres.connecting import Database
from natsbroker.storage.postgres.store import openPostgres
from natsbroker.testing.contracts.stores import StoreHarness
from natsbroker.testing.pumped import PumpedReactor
from tests.postgresql import PostgresServer

__all__ = ["PostgresHarness"]


@pytest.mark.usefixtures("postgresOfClass")
class PostgresHarness(StoreHarness):
    """
    A schema for each test.
    """

    server: PostgresServer

    def setUp(self) -> None:
        """Choose a schema, and make a reactor."""
        self.reactor = PumpedReactor()
        self.schema = self.server.newSchema()
        self.addCleanup(self.sql, f'DROP SCHEMA IF EXISTS "{self.schema}" CASCADE')

    def sql(self, statement: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """Run a statement in the schema, without the store's knowledge."""
        return self.server.execute(self.schema, statement, *arguments)

    def wait(self, deferred: Any) -> Any:
        """Turn the reactor until the Deferred has fired."""
        return self.reactor.wait(deferred)

    def database(self, **settings: Any) -> Database:
        """The address of the database with the schema of this test."""
        return Database(self.server.source, self.schema, **settings)

    def makeStore(self) -> Any:
        """An empty store, or the one of this test again."""
        return self.wait(openPostgres(self.reactor, self.database(), self.now))

    def reopen(self, store: Any) -> Any:
        """Close the store and open it again."""
        self.wait(store.close())
        return self.store()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        super().advance(seconds)
        self.reactor.advance(seconds)
