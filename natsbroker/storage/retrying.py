"""Doing again what a store could not do, until it does: what must happen later is not forgotten."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred
from zope.interface import implementer

from natsbroker.interfaces import IStoreWatcher, IStreamStore
from natsbroker.interfaces.records import (
    LeaseLost,
    LogReadOnly,
    NoSuchLog,
    StoreClosed,
    StoreError,
)

T = TypeVar("T")

FIRST, MOST = 1.0, 30.0
"""Seconds between attempts while the store does not say that it writes again: twice as many each
time, up to the most."""

_FINAL = (LeaseLost, LogReadOnly, NoSuchLog, StoreClosed)
"""After these, another broker or the next start of this one does it."""


class ITimers(Protocol):
    def after(self, seconds: float, call: Callable[[], object]) -> Any:
        """Call later; the result has C{cancel}."""


@implementer(IStoreWatcher)
class StoreRetry:
    def __init__(self, store: IStreamStore, timers: ITimers) -> None:
        self._store = store
        self._timers = timers
        self._waiting: dict[Deferred[bool], Any] = {}
        self._unwatch: Callable[[], None] | None = None

    async def untilDone(
        self, attempt: Callable[[], Awaitable[T]], isWanted: Callable[[], bool] = lambda: True
    ) -> T:
        """
        Make attempts until one does not fail because of the store.

        @raise StoreError: if it is no longer wanted, or cannot be done with this store.
        """
        pause = FIRST
        while True:
            try:
                return await attempt()
            except _FINAL:
                raise
            except StoreError as error:
                failed = error
            if isWanted():
                isWriting = await self._resumption(pause)
                pause = FIRST if isWriting else min(2 * pause, MOST)
            if not isWanted():
                raise failed

    def _resumption(self, seconds: float) -> Deferred[bool]:
        """@return: fires with whether the store says that it writes again."""
        waiting: Deferred[bool] = Deferred(self._forget)
        self._waiting[waiting] = self._timers.after(seconds, partial(self._wake, waiting, False))
        if self._unwatch is None:
            self._unwatch = self._store.watch(self)
        return waiting

    def _wake(self, waiting: Deferred[bool], isWriting: bool) -> None:
        if waiting in self._waiting:
            self._forget(waiting)
            waiting.callback(isWriting)

    def _forget(self, waiting: Deferred[bool]) -> None:
        timer = self._waiting.pop(waiting, None)
        if timer is not None:
            timer.cancel()
        if not self._waiting and self._unwatch is not None:
            unwatch, self._unwatch = self._unwatch, None
            unwatch()

    # What the store reports.

    def writesResumed(self) -> None:
        """Make the next attempts, but not from within the store."""
        for waiting, timer in self._waiting.items():
            timer.cancel()
            self._waiting[waiting] = self._timers.after(0.0, partial(self._wake, waiting, True))

    def writesStopped(self, reason: str) -> None:
        """The attempts fail, and say so."""

    def recordsDamaged(self, log: str, start: int, stop: int, reason: str) -> None:
        """Leave that to others."""

    def stateDamaged(self, space: str, key: bytes, reason: str) -> None:
        """Leave that to others."""

    def logQuarantined(self, log: str, reason: str) -> None:
        """The next attempt fails."""

    def logLost(self, log: str) -> None:
        """The next attempt fails."""
