"""
The clock that makes old records go although nothing is appended.

Asks about once a second, only while there is somebody to ask.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime

INTERVAL = 1.0
"""Seconds between two looks at the age of records."""


class Aging:
    def __init__(self, reactor: IReactorTime) -> None:
        self._reactor = reactor
        self._wanted: dict[object, Callable[[], None]] = {}
        self._call: IDelayedCall | None = None

    def want(self, who: object, enforce: Callable[[], None]) -> None:
        """
        Call C{enforce} about once a second from now on.
        """
        self._wanted[who] = enforce
        if self._call is None:
            self._call = self._reactor.callLater(INTERVAL, self._tick)

    def forget(self, who: object) -> None:
        self._wanted.pop(who, None)
        if not self._wanted and self._call is not None:
            self._call.cancel()
            self._call = None

    def stop(self) -> None:
        for who in list(self._wanted):
            self.forget(who)

    def _tick(self) -> None:
        self._call = self._reactor.callLater(INTERVAL, self._tick)
        for enforce in list(self._wanted.values()):
            enforce()
