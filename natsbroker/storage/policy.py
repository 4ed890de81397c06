"""The retention of a log, and the clock that removes old records even without appends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from natsbroker.interfaces.records import Retention

INTERVAL = 1.0
"""Seconds between two looks at the age of records."""


@dataclass(slots=True)
class Policy:
    """
    Values of one log. The reactor's thread replaces them, and the writing thread reads them.

    @ivar sweep: the key behind which to continue, while all subjects must be looked at for
        C{retention.perSubject}.
    """

    retention: Retention = field(default_factory=Retention)
    holds: dict[str, int] = field(default_factory=dict)
    sweep: bytes | None = None

    @property
    def floor(self) -> int | None:
        """The lowest sequence that limits must not remove; C{None} if they may remove all."""
        return min(self.holds.values(), default=None)

    def isExceeded(self, count: int, size: int) -> bool:
        retention = self.retention
        return bool(
            (retention.count and count > retention.count)
            or (retention.size and size > retention.size and count > 1)
        )


def sweepAgain(policies: Mapping[int, Policy]) -> None:
    for policy in list(policies.values()):
        if policy.retention.perSubject:
            policy.sweep = b""


class Aging:
    def __init__(self, reactor: IReactorTime) -> None:
        self._reactor = reactor
        self._wanted: dict[object, Callable[[], None]] = {}
        self._call: IDelayedCall | None = None

    def want(self, who: object, enforce: Callable[[], None]) -> None:
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
