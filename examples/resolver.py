"""
A custom account resolver: in operator mode, the JWTs of accounts are rows of a database.

The table is C{accounts (key TEXT PRIMARY KEY, jwt TEXT)}; another program writes to it. The broker
asks for an account when its first user connects, and verifies the JWT.

Run it with the port that clients connect to, a file with the operator's JWT and the database, and
end it with Ctrl-C::

    python examples/resolver.py 4222 operator.jwt accounts.db
"""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react
from twisted.internet.threads import deferToThread
from zope.interface import implementer

from natsbroker import Broker
from natsbroker.interfaces import IAccountResolver


@implementer(IAccountResolver)
class DatabaseResolver:
    """
    Looks JWTs up in a table. A query may block, so it runs in a thread.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def fetch(self, account: str) -> Deferred[str]:
        return deferToThread(self.find, account)

    def find(self, account: str) -> str:
        """
        @raise LookupError: if the table has no such account.
        """
        database = sqlite3.connect(self._path)
        try:
            query = "SELECT jwt FROM accounts WHERE key = ?"
            row = database.execute(query, [account]).fetchone()
        finally:
            database.close()
        if row is None:
            raise LookupError(f"no account {account}")
        return str(row[0])


async def main(reactor: Any, port: str, operator: str, database: str) -> None:
    """
    Serve until the process ends.

    @param port: for clients; 0 for any that is free.
    """
    config = (
        f"operator: {Path(operator).read_text().strip()}\nlisten: 127.0.0.1:{int(port) or -1}\n"
    )
    resolver = DatabaseResolver(database)
    broker = Broker.fromText(config, reactor=reactor, accountResolver=resolver)
    broker.startService()
    reactor.addSystemEventTrigger("before", "shutdown", broker.stopService)
    await broker.whenReady()
    print("listening on {}:{}".format(*broker.clientAddress()), flush=True)
    await Deferred()


if __name__ == "__main__":
    react(main, sys.argv[1:])
