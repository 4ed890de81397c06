"""
A few at a time.

No more calls run at a time than may, no more wait than may, and what is one too many is
denied at once, so a flood of logins neither reaches what stands behind nor fills the memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred

from natsbroker import errors

__all__ = ["ConcurrencyLimiter"]


class _Turn:
    """
    One call.

    @ivar result: fires with what it comes to.
    """

    __slots__ = ("_arguments", "_call", "_leave", "_running", "result")

    def __init__(
        self, call: Callable[..., Any], arguments: tuple[Any, ...], leave: Callable[[_Turn], None]
    ) -> None:
        self._call = call
        self._arguments = arguments
        self._leave = leave
        self._running: Deferred[Any] | None = None
        self.result: Deferred[Any] = Deferred(lambda _: self._cancel())

    def start(self, done: Callable[[], None]) -> None:
        running = self._running = maybeDeferred(self._call, *self._arguments)
        running.addBoth(self._finished, done)

    def _finished(self, outcome: Any, done: Callable[[], None]) -> None:
        done()
        # One that was cancelled has failed already, unless the call failed for it first.
        if not self.result.called:
            self.result.callback(outcome)

    def _cancel(self) -> None:
        if self._running is None:
            self._leave(self)
        else:
            self._running.cancel()


class ConcurrencyLimiter:
    """
    Lets calls through.

    @ivar atATime: how many may run at a time.
    @ivar waiting: how many may wait besides.
    """

    def __init__(self, atATime: int, waiting: int) -> None:
        self.atATime = atATime
        self.waiting = waiting
        self._running = 0
        self._queue: deque[_Turn] = deque()
        self._isPassing = False

    def run(self, call: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        """
        Call something when it is its turn.

        @return: fires with what the call comes to. Cancelling it leaves the queue, or cancels the
            call.
        @raise errors.Unauthorized: if too many wait already.
        """
        if self._running >= self.atATime and len(self._queue) >= self.waiting:
            raise errors.Unauthorized("too many logins at a time")
        turn = _Turn(call, arguments, self._queue.remove)
        self._queue.append(turn)
        self._pass()
        return turn.result

    def _pass(self) -> None:
        if self._isPassing:
            return  # whoever is at it below goes on with the next
        self._isPassing = True
        try:
            while self._queue and self._running < self.atATime:
                self._running += 1
                self._queue.popleft().start(self._done)
        finally:
            self._isPassing = False

    def _done(self) -> None:
        self._running -= 1
        self._pass()
