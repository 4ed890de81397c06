"""
A reactor for tests of code that uses threads. Its time stands still, and its turns run on request.

C{callFromThread} may be called from any thread. Its calls run in order in the thread that waits,
never by themselves. Time passes by C{advance} only.
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from socket import socketpair
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads, IReadDescriptor
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

__all__ = ["PumpedReactor", "StillWaiting"]

T = TypeVar("T")

PATIENCE = 120.0
"""Seconds without any call from a thread after which a wait is given up as hanging."""


class StillWaiting(Exception):
    """No thread has made a call for a long time."""


@implementer(IReactorFromThreads)
class PumpedReactor(Clock):
    def __init__(self) -> None:
        super().__init__()
        self._calls: deque[tuple[Callable[..., Any], Any, Any]] = deque()
        self._awake, self._wake = socketpair()
        self._awake.setblocking(False)
        self._wake.setblocking(False)
        self._readers: dict[int, IReadDescriptor] = {}
        self._poll = select.poll()
        self._poll.register(self._awake, select.POLLIN)

    def callFromThread(self, callable: Callable[..., Any], *args: object, **kwargs: object) -> None:
        self._calls.append((callable, args, kwargs))
        # If the buffer is full, the reactor is awake.
        with suppress(BlockingIOError):
            self._wake.send(b".")

    def addReader(self, reader: IReadDescriptor) -> None:
        self._readers[reader.fileno()] = reader
        self._poll.register(reader.fileno(), select.POLLIN)

    def removeReader(self, reader: IReadDescriptor) -> None:
        if self._readers.pop(reader.fileno(), None) is not None:
            self._poll.unregister(reader.fileno())

    def catchUp(self) -> None:
        while self._calls or any(
            descriptor in self._readers for descriptor, _ in self._poll.poll(0)
        ):
            self.turn()

    def wait(self, deferred: Deferred[T]) -> T:
        results: list[Any] = []
        deferred.addBoth(results.append)
        while not results:
            self.turn()
        if isinstance(results[0], Failure):
            results[0].raiseException()
        result: T = results[0]
        return result

    def turn(self) -> None:
        while True:
            ready = dict(self._poll.poll(0 if self._calls else PATIENCE * 1000))
            if ready.pop(self._awake.fileno(), None):
                self._awake.recv(4096)
            elif not ready and not self._calls:
                raise StillWaiting(f"nothing came for {PATIENCE:.0f} seconds")
            if ready or self._calls:
                break
        if self._calls:
            call, args, kw = self._calls.popleft()
            call(*args, **kw)
        for descriptor in ready:
            if descriptor in self._readers:
                self._readers[descriptor].doRead()
