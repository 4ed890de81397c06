"""
The custom account resolver C{examples/resolver.py}, run unchanged, and its class.
"""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import nats
import pytest
from nats.errors import Error
from zope.interface.verify import verifyObject

from examples.resolver import DatabaseResolver
from natsbroker.interfaces import IAccountResolver
from tests.auth.operator.chain import Account, KeyPair, Operator, credentialsFile
from tests.examples.running import running


@pytest.fixture
def database(tmp_path: Path) -> str:
    """An empty table of accounts."""
    path = str(tmp_path / "accounts.db")
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE accounts (key TEXT PRIMARY KEY, jwt TEXT)")
    return path


def insert(database: str, account: Account) -> None:
    """Add an account to the table."""
    with sqlite3.connect(database) as connection:
        row = [account.key, account.jwt()]
        connection.execute("INSERT INTO accounts VALUES (?, ?)", row)


def test_find(database: str) -> None:
    """The resolver finds the JWTs in the table, and no others."""
    resolver = DatabaseResolver(database)
    assert verifyObject(IAccountResolver, resolver)
    account = Account(Operator())
    with pytest.raises(LookupError):
        resolver.find(account.key)
    insert(database, account)
    assert resolver.find(account.key) == account.jwt()


def test_usersOfTheTable(database: str, tmp_path: Path) -> None:
    """Users of an account connect as soon as the account is in the table."""
    operator = Operator()
    account, user = Account(operator), KeyPair("U")
    (tmp_path / "operator.jwt").write_text(operator.jwt())
    credentials = tmp_path / "user.creds"
    credentials.write_text(credentialsFile(account.user(user), user))

    async def connect(port: int) -> None:
        client = await nats.connect(
            f"nats://127.0.0.1:{port}",
            user_credentials=str(credentials),
            allow_reconnect=False,
        )
        await client.flush(timeout=30)
        await client.close()

    with running("resolver.py", "0", str(tmp_path / "operator.jwt"), database) as [port]:
        with pytest.raises(Error, match="Authorization Violation"):
            asyncio.run(connect(port))
        insert(database, account)
        asyncio.run(connect(port))
