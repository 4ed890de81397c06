"""The use of a store that brokers share: waiting for a lease, and learning of its loss."""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger
from zope.interface import implementer

from natsbroker.interfaces import ILeasedStore, IStoreWatcher, IStreamStore
from natsbroker.interfaces.records import LeaseLost

_log = Logger(namespace="natsbroker.storage")


@implementer(IStoreWatcher)
class StoreWatch:
    def __init__(
        self,
        lost: Callable[[str], object] = lambda log: None,
        damaged: Callable[[str, range], object] = lambda log, sequences: None,
    ) -> None:
        self.stopped = ""
        self._lost = lost
        self._damaged = damaged

    def recordsDamaged(self, log: str, start: int, stop: int, reason: str) -> None:
        _log.error(
            "Messages {start} to {last} of {log} are damaged and lost: {reason}",
            start=start,
            last=stop - 1,
            log=log,
            reason=reason,
        )
        self._damaged(log, range(start, stop))

    def stateDamaged(self, space: str, key: bytes, reason: str) -> None:
        if not space:
            _log.error("State may be lost: {reason}", reason=reason)
            return
        shown = key.decode("ascii", "backslashreplace")
        _log.error(
            "State {key} of {space} is lost: {reason}", key=shown, space=space, reason=reason
        )

    def logQuarantined(self, log: str, reason: str) -> None:
        _log.error("{log} can only be read: {reason}", log=log, reason=reason)

    def writesStopped(self, reason: str) -> None:
        self.stopped = reason or "unknown"
        _log.error("The store takes no writes: {reason}", reason=reason)

    def writesResumed(self) -> None:
        self.stopped = ""
        _log.info("The store takes writes again")

    def logLost(self, log: str) -> None:
        _log.error("{log} is served by another broker now", log=log)
        self._lost(log)


async def lead(store: IStreamStore, name: str, standBy: Callable[[], object]) -> None:
    """
    Wait until this broker has the lease of a log. If the store is not shared, it has it at once.

    @param standBy: called if another broker has it.
    """
    if not ILeasedStore.providedBy(store):
        return
    try:
        await store.open(name)
    except LeaseLost:
        standBy()
        await store.whenFree(name)
