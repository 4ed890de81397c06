"""Whether a broker or a service has started."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure


class Readiness:
    """
    The outcome of a start.

    @ivar outcome: C{True} after a successful start, the failure of a failed one, and C{None} before
        either.
    """

    def __init__(self, unheard: Callable[[Failure], object] = lambda failure: None) -> None:
        self.outcome: Failure | bool | None = None
        self._unheard = unheard
        self._waiting: list[Deferred[None]] = []

    def wait(self) -> Deferred[None]:
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        self._fire()
        return waiting

    def reached(self) -> None:
        self.outcome = True
        self._fire()

    def failed(self, failure: Failure) -> None:
        self.outcome = failure
        if not self._waiting:
            self._unheard(failure)
        self._fire()

    def raiseFailure(self) -> None:
        if isinstance(self.outcome, Failure):
            self.outcome.raiseException()

    def _fire(self) -> None:
        if self.outcome is None:
            return
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if isinstance(self.outcome, Failure):
                waiter.errback(self.outcome)
            else:
                waiter.callback(None)
