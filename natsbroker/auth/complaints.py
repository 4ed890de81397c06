"""
Telling the log what is out of order, and not over and over.

The first trouble is told at once, and after it one line in so many seconds, which says
how many were not told; what a peer sends cannot fill the disk.
"""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

__all__ = ["RateLimitedLog", "reasonOf"]

_log = Logger()

#: Characters of a reason that are told.
_LONGEST = 300


class RateLimitedLog:
    """
    What is told of one thing that can be out of order.

    @cvar INTERVAL: seconds from one line to the next.
    """

    INTERVAL = 10.0

    def __init__(self, clock: IReactorTime, what: str) -> None:
        """
        @param what: how a line begins.
        """
        self._clock = clock
        self._what = what
        self._silentUntil = float("-inf")
        self._untold = 0

    def log(self, failure: Failure) -> None:
        """
        Tell of a trouble, or count it.
        """
        now = self._clock.seconds()
        if now < self._silentUntil:
            self._untold += 1
            return
        untold, self._untold = self._untold, 0
        self._silentUntil = now + self.INTERVAL
        _log.error(
            "{what}: {why}{more}",
            what=self._what,
            why=reasonOf(failure),
            more=f" (and {untold} times more before)" if untold else "",
        )


def reasonOf(failure: Failure) -> str:
    """
    What went wrong, in one line: also what lies behind it, where a request has several reasons.
    """
    reasons = getattr(failure.value, "reasons", None) or [failure]
    told = [f"{each.type.__name__} {each.getErrorMessage()}" for each in reasons if each.type]
    return "; ".join(told)[:_LONGEST].strip()
