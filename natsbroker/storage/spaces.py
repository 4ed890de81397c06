"""
State, as far as it is the same in every store.

See L{natsbroker.interfaces.IStateStore}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred

from natsbroker.storage.checks import checkChanges
from natsbroker.storage.jobs import BarrierJob, Job
from natsbroker.storage.watching import StoreHealth

T = TypeVar("T")


class ISpaceOwner(Protocol):
    troubles: StoreHealth

    def ask(self, job: Job) -> Deferred[Any]:
        """
        Have something done.
        """

    def fetch(self, call: Callable[..., T], *args: Any) -> Deferred[T]:
        """
        Call something with the database in a thread that reads.
        """


class SpaceBase:
    def put(self, key: bytes, value: bytes) -> Deferred[None]:
        return self.change({key: value})

    def delete(self, key: bytes) -> Deferred[None]:
        return self.change({key: None})

    def change(self, changes: Mapping[bytes, bytes | None]) -> Deferred[None]:
        raise NotImplementedError


class AskedSpace(SpaceBase):
    def __init__(self, owner: ISpaceOwner, space: str) -> None:
        self._owner = owner
        self._space = space

    def change(self, changes: Mapping[bytes, bytes | None]) -> Deferred[None]:
        checkChanges(changes)
        return self._owner.ask(self._jobFor(changes) if changes else BarrierJob())

    def _jobFor(self, changes: Mapping[bytes, bytes | None]) -> Job:
        raise NotImplementedError
