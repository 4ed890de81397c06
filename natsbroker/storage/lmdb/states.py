"""
State in the database.

See L{natsbroker.interfaces.IStateStore}.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks
from zope.interface import implementer

from natsbroker.interfaces import IStateStore
from natsbroker.interfaces.records import StoreError
from natsbroker.storage.jobs import BarrierJob, ChangeJob, Job
from natsbroker.storage.lmdb.layout import statePrefix
from natsbroker.storage.lmdb.reading import fetchState
from natsbroker.storage.spaces import AskedSpace

__all__ = ["LMDBStates"]


@implementer(IStateStore)
class LMDBStates(AskedSpace):
    """
    The values of one space.
    """

    @inlineCallbacks
    def load(self, prefix: bytes = b"") -> Generator[Deferred[Any], Any, dict[bytes, bytes]]:
        try:
            yield self._owner.ask(BarrierJob())
        except StoreError:
            pass  # Nothing is taken; what is there can be read.
        head = statePrefix(self._space)
        found, broken = yield self._owner.fetch(fetchState, head + prefix)
        for key, reason in broken:
            self._owner.troubles.stateDamaged(self._space, key[len(head) :], reason)
        return {key[len(head) :]: value for key, value in found}

    def _jobFor(self, changes: Mapping[bytes, bytes | None]) -> Job:
        return ChangeJob(self._space, changes)
