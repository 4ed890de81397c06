"""
State in the database.

Promises: see L{natsbroker.interfaces.IStateStore}.
Must never know: what is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred, inlineCallbacks
from zope.interface import implementer

from natsbroker._istore import StoreError
from natsbroker.interfaces import IStateStore
from natsbroker.store.checks import checkChanges
from natsbroker.store.jobs import BarrierJob, Job
from natsbroker.store.lmdb.jobs import ChangeJob
from natsbroker.store.lmdb.layout import statePrefix
from natsbroker.store.lmdb.reading import fetchState
from natsbroker.store.spaces import SpaceBase
from natsbroker.store.watching import Troubles

__all__ = ["IStatesOwner", "LMDBStates"]

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
        Call something with the database in a thread that reads.
        """


@implementer(IStateStore)
class LMDBStates(SpaceBase):
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
        try:
            yield self._owner.ask(BarrierJob())
        except StoreError:
            pass  # Nothing is taken; what is there can be read.
        head = statePrefix(self._space)
        found, broken = yield self._owner.fetch(fetchState, head + prefix)
        for key, reason in broken:
            self._owner.troubles.stateDamaged(self._space, key[len(head) :], reason)
        return {key[len(head) :]: value for key, value in found}

    def change(self, changes: Mapping[bytes, bytes | None]) -> Deferred[None]:
        """
        See L{natsbroker.interfaces.IStateStore}.
        """
        checkChanges(changes)
        return self._owner.ask(ChangeJob(self._space, changes) if changes else BarrierJob())
