"""
What goes wrong in the store, in words for the log.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger
from zope.interface import implementer

from natsbroker.interfaces import IStoreWatcher

__all__ = ["StoreWatch"]

_log = Logger(namespace="natsbroker.streaming")


@implementer(IStoreWatcher)
class StoreWatch:
    """
    Watches a store.

    @ivar stopped: why the store takes no writes; empty while it does.
    """

    def __init__(self, lost: Callable[[], object] = lambda: None) -> None:
        """
        @param lost: called when another broker may serve what this one did.
        """
        self.stopped = ""
        self._lost = lost

    def recordsDamaged(self, log: str, start: int, stop: int, reason: str) -> None:
        _log.error(
            "Messages {start} to {last} of {log} are damaged and lost: {reason}",
            start=start,
            last=stop - 1,
            log=log,
            reason=reason,
        )

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
        self._lost()
