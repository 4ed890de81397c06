"""
Whether a broker has started, for those who wait for it.

Promises: everybody who waits is told, once, whether he asked before or after; a failure that nobody
waits for is in the log.
Must never know: what it takes to start.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

__all__ = ["Readiness"]

_log = Logger(namespace="natsbroker")


class Readiness:
    """
    What has become of the start of a broker.
    """

    def __init__(self) -> None:
        self._outcome: Failure | bool | None = None
        self._waiting: list[Deferred[None]] = []

    def wait(self) -> Deferred[None]:
        """
        @return: fires when the broker has started, or fails with what it could not start for.
        """
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        self._tell()
        return waiting

    def reached(self) -> None:
        """
        The broker has started.
        """
        self._outcome = True
        self._tell()

    def failed(self, failure: Failure) -> None:
        """
        It cannot start.
        """
        self._outcome = failure
        if not self._waiting:
            _log.critical("{reason}", reason=failure.getErrorMessage())
        self._tell()

    def raiseFailure(self) -> None:
        """
        Raise what it could not start for, if that is known.
        """
        if isinstance(self._outcome, Failure):
            self._outcome.raiseException()

    def _tell(self) -> None:
        if self._outcome is None:
            return
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if isinstance(self._outcome, Failure):
                each.errback(self._outcome)
            else:
                each.callback(None)
