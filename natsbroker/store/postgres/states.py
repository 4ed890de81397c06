"""
State in the database.

Promises: see L{natsbroker.interfaces.IStateStore}. A space has a lease as a log has: it belongs to
the broker that used it first, until that closes the store or is gone.
Must never know: what is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred, inlineCallbacks
from zope.interface import implementer

from natsbroker.interfaces import IStateStore
from natsbroker.store.checks import checkChanges
from natsbroker.store.jobs import BarrierJob, Job
from natsbroker.store.postgres.jobs import ChangeJob, SpaceJob
from natsbroker.store.postgres.reading import fetchState
from natsbroker.store.postgres.writing import checksum
from natsbroker.store.spaces import SpaceBase
from natsbroker.store.watching import Troubles

__all__ = ["IStatesOwner", "PostgresStates"]

T = TypeVar("T")


class IStatesOwner(Protocol):
    """
    What state needs of its store.
    """

    troubles: Troubles

    def ask(self, job: Job) -> Deferred[Any]:
        """
        Have something done.
        """

    def fetch(self, call: Callable[..., T], *args: Any) -> Deferred[T]:
        """
        Call something with a connection in a thread that reads.
        """


@implementer(IStateStore)
class PostgresStates(SpaceBase):
    """
    The values of one space.
    """

    def __init__(self, owner: IStatesOwner, space: str) -> None:
        self._owner = owner
        self._space = space

    @inlineCallbacks
    def load(self, prefix: bytes = b"") -> Generator[Deferred[Any], Any, dict[bytes, bytes]]:
        """
        See L{natsbroker.interfaces.IStateStore}.
        """
        space = yield self._owner.ask(SpaceJob(self._space))
        rows = yield self._owner.fetch(fetchState, space.identity, prefix)
        found = {}
        for key, value, expected in rows:
            if checksum(space.identity, key, value) == expected:
                found[key] = value
            else:
                self._owner.troubles.stateDamaged(
                    self._space, key, "a value does not match its checksum"
                )
        return found

    def change(self, changes: Mapping[bytes, bytes | None]) -> Deferred[None]:
        """
        See L{natsbroker.interfaces.IStateStore}.
        """
        checkChanges(changes)
        return self._owner.ask(ChangeJob(self._space, changes) if changes else BarrierJob())
