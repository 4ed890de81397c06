"""
Whether something has started, for those who wait for it.

Promises: everybody who waits is told, once, whether he asked before or after; a failure that nobody
waits for goes to the owner.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

__all__ = ["Readiness"]


class Readiness:
    """
    What has become of the start of a broker or of a service.

    @ivar outcome: C{True} if it has started, the failure if it cannot, C{None} while that is open.
    """

    def __init__(self, unheard: Callable[[Failure], object] = lambda failure: None) -> None:
        """
        @param unheard: called with a failure that nobody waits for at that time.
        """
        self.outcome: Failure | bool | None = None
        self._unheard = unheard
        self._waiting: list[Deferred[None]] = []

    def wait(self) -> Deferred[None]:
        """
        @return: fires when it has started, or fails with what it could not start for.
        """
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        self._tell()
        return waiting

    def reached(self) -> None:
        """
        It has started.
        """
        self.outcome = True
        self._tell()

    def failed(self, failure: Failure) -> None:
        """
        It cannot start.
        """
        self.outcome = failure
        if not self._waiting:
            self._unheard(failure)
        self._tell()

    def raiseFailure(self) -> None:
        """
        Raise what it could not start for, if that is known.
        """
        if isinstance(self.outcome, Failure):
            self.outcome.raiseException()

    def _tell(self) -> None:
        if self.outcome is None:
            return
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if isinstance(self.outcome, Failure):
                each.errback(self.outcome)
            else:
                each.callback(None)
