"""
State in the database.

See L{natsbroker.interfaces.IStateStore}. A space has a lease as a log has: it belongs to
the broker that used it first, until that closes the store or is gone.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks
from zope.interface import implementer

from natsbroker.interfaces import IStateStore
from natsbroker.storage.jobs import ChangeJob, Job
from natsbroker.storage.postgres.jobs import SpaceJob
from natsbroker.storage.postgres.reading import fetchState
from natsbroker.storage.postgres.writing import checksum
from natsbroker.storage.spaces import AskedSpace

__all__ = ["PostgresStates"]


@implementer(IStateStore)
class PostgresStates(AskedSpace):
    """
    The values of one space.
    """

    @inlineCallbacks
    def load(self, prefix: bytes = b"") -> Generator[Deferred[Any], Any, dict[bytes, bytes]]:
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

    def _jobFor(self, changes: Mapping[bytes, bytes | None]) -> Job:
        return ChangeJob(self._space, changes)
