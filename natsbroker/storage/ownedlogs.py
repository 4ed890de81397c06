"""
A log in the reactor's thread, as far as it is the same whatever it is kept in: sequences, holds and
limits, and what is asked of the thread that writes.

See the interfaces.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure

from natsbroker.interfaces.records import Columns, LogBounds, RangeDigest, Retention, StoreError
from natsbroker.storage.checks import checkHold, checkSkip
from natsbroker.storage.exports import Page, digestRange, exportRange
from natsbroker.storage.jobs import (
    BarrierJob,
    DeleteJob,
    DiscardJob,
    EnforceJob,
    HoldJob,
    Job,
    SkipJob,
)
from natsbroker.storage.policy import Policy
from natsbroker.storage.watching import StoreHealth


class ILogOwner(Protocol):
    troubles: StoreHealth
    now: Callable[[], int]

    def ask(self, job: Job) -> Deferred[Any]:
        """
        Have something done. The Deferred has failed already if it is refused.
        """

    def ageWanted(self, log: Any, wanted: bool) -> None:
        """
        Have C{enforceAge} called once a second, or not any more.
        """


def _notEnforced(failure: Failure) -> None:
    """
    Limits were not enforced because nothing can be written; they are when something is again.
    """
    if not isinstance(failure.value, StoreError):
        failure.raiseException()


class OwnedLog:
    """
    @ivar policy: what is kept; the thread that writes reads it.
    @ivar closed: what everything fails with, once it is closed or not ours any more.
    """

    _owner: ILogOwner

    def __init__(self, identity: int, name: str, bounds: LogBounds, policy: Policy) -> None:
        self.identity = identity
        self.name = name
        self.policy = policy
        self.closed: StoreError | None = None
        self.nextSequence = bounds.last + 1
        self._bounds = bounds
        self._lastTime = bounds.lastTime
        self._oldest: int | None = None

    def rollBack(self) -> None:
        """
        Everything that was asked and is not durable has failed.
        """
        self.nextSequence = self._bounds.last + 1
        self._lastTime = self._bounds.lastTime

    def _ask(self, job: Job) -> Deferred[Any]:
        return self._owner.ask(job) if self.closed is None else fail(self.closed)

    def bounds(self) -> LogBounds:
        return self._bounds

    # Deleting

    def skipTo(self, sequence: int) -> Deferred[None]:
        checkSkip(sequence, self.nextSequence)
        deferred = self._ask(SkipJob(self.identity, sequence))
        if not deferred.called:
            self.nextSequence = sequence
        return deferred

    def delete(self, sequences: Collection[int]) -> Deferred[int]:
        return self._ask(DeleteJob(self.identity, sequences))

    def discardBefore(self, sequence: int) -> Deferred[int]:
        return self._ask(DiscardJob(self.identity, sequence))

    # Limits

    def retain(self, retention: Retention) -> None:
        before = self.policy.retention
        sweep = bool(retention.perSubject) and retention.perSubject != before.perSubject
        self.policy.retention = retention
        self._owner.ageWanted(self, bool(retention.age) and self.closed is None)
        if retention != before:
            self._enforce(sweep)

    def _enforce(self, sweep: bool = False) -> None:
        """
        Have the limits enforced. If that fails, they are with the next append.
        """
        self._ask(EnforceJob(self.identity, sweep)).addErrback(_notEnforced)

    def enforceAge(self) -> None:
        cutoff = self._owner.now() - self.policy.retention.age
        if self._bounds.count and (self._oldest is None or self._oldest < cutoff):
            floor = self.policy.floor
            if floor is None or self._bounds.first < floor:
                self._enforce()

    # Holds

    def hold(self, name: str, floor: int) -> Deferred[None]:
        checkHold(self.policy.holds, name)
        return self._setHolds({**self.policy.holds, name: floor})

    def release(self, name: str) -> Deferred[None]:
        if name not in self.policy.holds:
            return self._ask(BarrierJob())
        return self._setHolds({k: v for k, v in self.policy.holds.items() if k != name})

    def _setHolds(self, holds: dict[str, int]) -> Deferred[None]:
        before = self.policy.holds
        self.policy.holds = holds
        deferred = self._ask(HoldJob(self.identity))
        return deferred.addErrback(self._notHeld, holds, before)

    def _notHeld(self, failure: Failure, holds: dict[str, int], before: dict[str, int]) -> Failure:
        if self.policy.holds is holds:
            self.policy.holds = before
        return failure

    def holds(self) -> Mapping[str, int]:
        return dict(self.policy.holds)

    # Exports

    def exportRange(self, start: int, stop: int, maxBytes: int = 16777216) -> Deferred[Columns]:
        return exportRange(self._page, start, min(stop, self._bounds.last + 1), maxBytes)

    def digest(self, start: int, stop: int) -> Deferred[RangeDigest]:
        return digestRange(self._page, start, min(stop, self._bounds.last + 1))

    def _page(self, start: int, stop: int, maxBytes: int) -> Deferred[Page]:
        """
        Some records of a range, and what of it is damaged.
        """
        raise NotImplementedError
