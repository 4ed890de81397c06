"""
A reactor for tests of things that have threads: its time stands still, its turns come when asked.

C{callFromThread} may be called from any thread; what it was given runs in the thread
that waits, in order, and never by itself. Time passes by C{advance} only.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

__all__ = ["PumpedReactor", "StillWaiting"]

T = TypeVar("T")

PATIENCE = 120.0
"""Seconds without any call from a thread after which a wait is given up as hanging."""


class StillWaiting(Exception):
    """
    Nothing came from any thread for a long time.
    """


@implementer(IReactorFromThreads)
class PumpedReactor(Clock):
    """
    A L{Clock} with C{callFromThread}.
    """

    def __init__(self) -> None:
        super().__init__()
        self._calls: queue.SimpleQueue[tuple[Callable[..., Any], Any, Any]] = queue.SimpleQueue()

    def callFromThread(self, callable: Callable[..., Any], *args: object, **kwargs: object) -> None:
        self._calls.put((callable, args, kwargs))

    def catchUp(self) -> None:
        """
        Run what threads asked for up to now.
        """
        while not self._calls.empty():
            self.turn()

    def wait(self, deferred: Deferred[T]) -> T:
        """
        Run what threads ask for until a Deferred has fired.

        @return: its result.
        @raise StillWaiting: if nothing happens for a long time.
        """
        results: list[Any] = []
        deferred.addBoth(results.append)
        while not results:
            self.turn()
        if isinstance(results[0], Failure):
            results[0].raiseException()
        result: T = results[0]
        return result

    def turn(self) -> None:
        """
        Wait for one call from a thread, and run it.

        @raise StillWaiting: if nothing happens for a long time.
        """
        try:
            call, args, kw = self._calls.get(timeout=PATIENCE)
        except queue.Empty:
            raise StillWaiting(f"nothing came for {PATIENCE:.0f} seconds") from None
        call(*args, **kw)
