"""Results of threads, taken up in the reactor's thread a few at a time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from functools import partial

from twisted.internet.interfaces import IReactorFromThreads
from twisted.logger import Logger
from zope.interface import implementer

SHARE = 0.003
"""Seconds of the processor that one turn of the reactor spends with results."""

_log = Logger(namespace="natsbroker.storage")


@implementer(IReactorFromThreads)
class Arrivals:
    """
    The reactor, as threads use it to hand over results for any number of readers.

    On a busy machine dozens of results may wait in one turn of the reactor. Each means milliseconds
    of work for its reader, so sockets and timers get their turn in between.
    """

    def __init__(
        self, reactor: IReactorFromThreads, worked: Callable[[], float] = time.thread_time
    ) -> None:
        """C{worked} gives the seconds of the reactor thread's work."""
        self._reactor = reactor
        self._worked = worked
        self._waiting: deque[Callable[[], object]] = deque()
        self._spent = 0.0
        self._isPlanned = False

    def callFromThread(self, callable: Callable[..., object], *args: object, **kw: object) -> None:
        self._reactor.callFromThread(self._arrived, partial(callable, *args, **kw))

    def _arrived(self, call: Callable[[], object]) -> None:
        self._waiting.append(call)
        if not self._isPlanned:
            self._takeUp()

    def _takeUp(self) -> None:
        self._isPlanned = False
        while self._waiting and not self._isPlanned:
            # The work of earlier turns counts too. If each turn does little, one of many is
            # skipped.
            if self._spent >= SHARE:
                self._spent = 0.0
                self._isPlanned = True
                self._reactor.callFromThread(self._takeUp)
            else:
                self._takeNext()

    def _takeNext(self) -> None:
        call, began = self._waiting.popleft(), self._worked()
        try:
            call()
        except Exception:
            _log.failure("A call from a thread failed")
        self._spent += self._worked() - began
