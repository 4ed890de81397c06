"""
What only this store is asked to do.

As L{natsbroker.storage.jobs}.
"""

from __future__ import annotations

from natsbroker.storage.jobs import Job, LogJob
from natsbroker.storage.postgres.leasing import Space
from natsbroker.storage.postgres.reading import readHolds
from natsbroker.storage.postgres.rows import PostgresLogRow
from natsbroker.storage.postgres.writing import PostgresTransaction


class ListJob(Job):
    def apply(self, transaction: PostgresTransaction) -> None:
        self._names = transaction.names()

    def result(self) -> list[str]:
        return self._names


class OpenJob(Job):
    def __init__(self, name: str, create: bool) -> None:
        super().__init__()
        self._name = name
        self._create = create

    def apply(self, transaction: PostgresTransaction) -> None:
        self._row = transaction.open(self._name, self._create)
        self._holds = readHolds(transaction.connection, self._row.identity)

    def result(self) -> tuple[PostgresLogRow, dict[str, int]]:
        """
        What is known of it, and its holds.
        """
        return self._row, self._holds


class DropNamedJob(Job):
    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def apply(self, transaction: PostgresTransaction) -> None:
        self._identity = transaction.open(self._name, create=False).identity
        transaction.log(self._identity).drop()

    def result(self) -> int:
        return self._identity


class CheckJob(LogJob):
    """
    Find out whether the log is held still.
    """


class GiveUpJob(LogJob):
    def apply(self, transaction: PostgresTransaction) -> None:
        transaction.giveUp(self.identity)


class SpaceJob(Job):
    def __init__(self, space: str) -> None:
        super().__init__()
        self.space = space

    def apply(self, transaction: PostgresTransaction) -> None:
        self._space = transaction.space(self.space, isReload=True)

    def result(self) -> Space:
        return self._space
