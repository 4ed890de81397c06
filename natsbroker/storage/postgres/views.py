"""Logs that another broker may hold, with their bounds of one moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, fail
from zope.interface import implementer

from natsbroker.interfaces import ISubjectIndexedLog
from natsbroker.interfaces.records import Entry, LeaseLost, NoSuchLog
from natsbroker.storage.policy import Policy
from natsbroker.storage.postgres.log import PostgresLog
from natsbroker.storage.postgres.schema import Connection, PostgresLogRow

if TYPE_CHECKING:
    from natsbroker.storage.threaded import ThreadedStore


def fetchRow(connection: Connection, name: str) -> PostgresLogRow:
    """Raise L{NoSuchLog} if there is no log of that name."""
    row = connection.execute(
        "SELECT id, first, last, count, size, last_time FROM log WHERE name = %s", (name.encode(),)
    ).fetchone()
    if row is None:
        raise NoSuchLog(f"there is no log {name}")
    identity, *bounds = row
    return PostgresLogRow(identity, name, *bounds)


@implementer(ISubjectIndexedLog)
class PostgresView:
    def __init__(self, owner: ThreadedStore[Any], row: PostgresLogRow) -> None:
        log = PostgresLog(owner, row, Policy())
        self.name = log.name
        self.identity = log.identity
        self.nextSequence = log.nextSequence
        self.bounds = log.bounds
        self.read = log.read
        self.sequenceAt = log.sequenceAt
        self.lastFor = log.lastFor
        self.subjects = log.subjects
        self.readMatching = log.readMatching

    def append(self, batch: Sequence[Entry]) -> Deferred[range]:
        return fail(LeaseLost(f"log {self.name} is only read here"))
