"""
The order of requests that change the same stream.
"""

from __future__ import annotations

from collections import deque

from twisted.internet.defer import Deferred, succeed


class RequestOrder:
    """
    Lets one request after the other pass, many in one turn of the reactor, without a call of one
    from within another.
    """

    def __init__(self) -> None:
        self._waiting: deque[Deferred[None]] = deque()
        self._isHeld = False
        self._isPassing = False

    @property
    def isIdle(self) -> bool:
        return not (self._isHeld or self._waiting)

    def acquire(self) -> Deferred[None]:
        """Wait for the earlier requests. One that is cancelled meanwhile is passed over."""
        if not self._isHeld:
            self._isHeld = True
            return succeed(None)
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        return waiting

    def release(self) -> None:
        self._isHeld = False
        if self._isPassing:
            return
        self._isPassing = True
        try:
            while self._waiting and not self._isHeld:
                following = self._waiting.popleft()
                if not following.called:
                    self._isHeld = True
                    following.callback(None)
        finally:
            self._isPassing = False
