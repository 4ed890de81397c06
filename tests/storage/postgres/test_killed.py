"""
Brokers that are killed while they work a store, and servers that crash under them.

The short forms take a few rounds; C{python -m tests.storage.postgres.crash} and C{promotions} take
any number.
"""

from __future__ import annotations

from tests.postgresql import PostgresServer
from tests.storage.postgres.crash import rounds
from tests.storage.postgres.promotions import Promotions


def test_killedAtRandom(postgres: PostgresServer) -> None:
    """Nothing acknowledged is lost or doubled, and no sequence is used twice, whenever the process
    is killed, and if the server crashes in between."""
    schema = postgres.newSchema()
    history = rounds(postgres, schema, 3, "short")
    assert history.acknowledged > 0
    postgres.execute(schema, f'DROP SCHEMA "{schema}" CASCADE')


def test_promoted() -> None:
    """Nothing older than what was acknowledged is read, when a standby is promoted and the
    old primary comes back."""
    promotions = Promotions("short")
    promotions.run(1)
    assert promotions.checks > 500
