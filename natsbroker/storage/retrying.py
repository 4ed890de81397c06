"""Repetition of work that a store could not do, until it does it. Such work is never forgotten."""

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
"""
Errors after which there is no further attempt: another broker, or the next start of this one, does
the work.
"""


class ITimers(Protocol):
    def after(self, seconds: float, call: Callable[[], object]) -> Any:
        """Call a function later. The result has C{cancel}."""


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
        Make attempts until one is not stopped by the store.

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
        """
        @return: fires with whether the store has reported that it writes again.
        """
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

    # The reports of the store.

    def writesResumed(self) -> None:
        """Make the next attempts, but not within a call of the store."""
        for waiting, timer in self._waiting.items():
            timer.cancel()
            self._waiting[waiting] = self._timers.after(0.0, partial(self._wake, waiting, True))

    def writesStopped(self, reason: str) -> None:
        """Ignore: the attempts fail by themselves."""

    def recordsDamaged(self, log: str, start: int, stop: int, reason: str) -> None:
        """Ignore: other watchers handle this."""

    def stateDamaged(self, space: str, key: bytes, reason: str) -> None:
        """Ignore: other watchers handle this."""

    def logQuarantined(self, log: str, reason: str) -> None:
        """Ignore: the next attempt fails."""

    def logLost(self, log: str) -> None:
        """Ignore: the next attempt fails."""
