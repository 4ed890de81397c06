"""
Waiting for a log that another broker has.

Asks again and again until the log is there or the waiting ends; never twice at a time.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.python.failure import Failure

from natsbroker.interfaces import IStreamLog
from natsbroker.interfaces.records import LeaseLost, StoreFailed, StoreFull

__all__ = ["Waiting"]


class Waiting:
    """
    Somebody who waits for a log.

    @ivar deferred: fires with the log.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        interval: float,
        tryOpen: Callable[[], Deferred[IStreamLog]],
        ended: Callable[[Waiting], object],
    ) -> None:
        """
        @param interval: seconds between two attempts.
        @param ended: told when the waiting is over.
        """
        self._reactor = reactor
        self._interval = interval
        self._tryOpen = tryOpen
        self._ended = ended
        self._isOver = False
        self._call: IDelayedCall | None = None
        self.deferred: Deferred[IStreamLog] = Deferred(lambda _: self._end())

    def attempt(self) -> None:
        """
        Try to open the log.
        """
        self._call = None
        self._tryOpen().addCallbacks(self._opened, self._notOpened)

    def _opened(self, log: IStreamLog) -> None:
        if not self._isOver:
            self._end()
            self.deferred.callback(log)

    def _notOpened(self, failure: Failure) -> None:
        if self._isOver:
            return
        if failure.check(LeaseLost, StoreFailed, StoreFull):
            self._call = self._reactor.callLater(self._interval, self.attempt)
        else:
            self._end()
            self.deferred.errback(failure)

    def _end(self) -> None:
        self._isOver = True
        call, self._call = self._call, None
        if call is not None:
            call.cancel()
        self._ended(self)

    def fail(self, error: Exception) -> None:
        """
        End it.
        """
        if not self._isOver:
            self._end()
            self.deferred.errback(error)
