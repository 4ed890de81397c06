"""
State in the database.

Promises: see L{natsbroker.interfaces.IStateStore}.
Must never know: what is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred, fail, inlineCallbacks
from zope.interface import implementer

from natsbroker._istore import StoreError
from natsbroker.interfaces import IStateStore
from natsbroker.store.checks import checkChanges
from natsbroker.store.lmdb.jobs import BarrierJob, ChangeJob, Job
from natsbroker.store.lmdb.layout import statePrefix
from natsbroker.store.lmdb.reading import fetchState
from natsbroker.store.watching import Troubles

__all__ = ["IStatesOwner", "LMDBStates"]

T = TypeVar("T")


class IStatesOwner(Protocol):
    """
    What state needs of its store.
    """

    troubles: Troubles

    def submit(self, job: Job) -> Deferred[Any] | None:
        """
        Have something done; L{None} if it is refused.
        """

    def refusal(self) -> StoreError:
        """
        Why nothing is taken.
        """

    def fetch(self, call: Callable[..., T], *args: Any) -> Deferred[T]:
        """
        Call something with the database in a thread that reads.
        """


@implementer(IStateStore)
class LMDBStates:
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
        barrier = self._owner.submit(BarrierJob())
        if barrier is not None:
            yield barrier
        head = statePrefix(self._space)
        found, broken = yield self._owner.fetch(fetchState, head + prefix)
        for key, reason in broken:
            self._owner.troubles.stateDamaged(self._space, key[len(head) :], reason)
        return {key[len(head) :]: value for key, value in found}

    def put(self, key: bytes, value: bytes) -> Deferred[None]:
        """
        See L{natsbroker.interfaces.IStateStore}.
        """
        return self.change({key: value})

    def delete(self, key: bytes) -> Deferred[None]:
        """
        See L{natsbroker.interfaces.IStateStore}.
        """
        return self.change({key: None})

    def change(self, changes: Mapping[bytes, bytes | None]) -> Deferred[None]:
        """
        See L{natsbroker.interfaces.IStateStore}.
        """
        checkChanges(changes)
        job: Job = ChangeJob(self._space, changes) if changes else BarrierJob()
        return self._owner.submit(job) or fail(self._owner.refusal())
