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

__all__ = [
    "CheckJob",
    "DropNamedJob",
    "GiveUpJob",
    "ListJob",
    "OpenJob",
    "SpaceJob",
]


class ListJob(Job):
    """
    The names of all logs.
    """

    def apply(self, transaction: PostgresTransaction) -> None:
        self._names = transaction.names()

    def result(self) -> list[str]:
        """
        They, sorted.
        """
        return self._names


class OpenJob(Job):
    """
    A log whose lease is wanted.
    """

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
    """
    A log to delete.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def apply(self, transaction: PostgresTransaction) -> None:
        self._identity = transaction.open(self._name, create=False).identity
        transaction.log(self._identity).drop()

    def result(self) -> int:
        """
        The identity that it had.
        """
        return self._identity


class CheckJob(LogJob):
    """
    Find out whether the log is held still.
    """


class GiveUpJob(LogJob):
    """
    A log to give up.
    """

    def apply(self, transaction: PostgresTransaction) -> None:
        transaction.giveUp(self.identity)


class SpaceJob(Job):
    """
    A space of state whose lease is wanted, in order to load it.
    """

    def __init__(self, space: str) -> None:
        super().__init__()
        self.space = space

    def apply(self, transaction: PostgresTransaction) -> None:
        self._space = transaction.space(self.space, isReload=True)

    def result(self) -> Space:
        """
        It.
        """
        return self._space
