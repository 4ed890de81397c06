"""
The deadlines of all connections on one timer. Each connection is called soon after its next
deadline, never before, for one delayed call in the reactor.
"""

from __future__ import annotations

from typing import Protocol

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

_log = Logger()


class HasDeadline(Protocol):
    def deadlinePassed(self, now: float) -> float | None:
        """The time of the next call; C{None} for none."""


class DeadlineWheel:
    """C{WIDTH} is a bucket's seconds, which is how late a call may be."""

    WIDTH = 0.05

    def __init__(self, reactor: IReactorTime) -> None:
        self._reactor = reactor
        self._buckets: dict[int, dict[HasDeadline, None]] = {}
        self._places: dict[HasDeadline, int] = {}
        self._call: IDelayedCall | None = None
        self._callAt = 0

    def schedule(self, who: HasDeadline, when: float) -> None:
        """Replaces an earlier request."""
        place = int(when / self.WIDTH) + 1
        before = self._places.get(who)
        if before == place:
            return
        if before is not None:
            self._take(who, before)
        self._places[who] = place
        self._buckets.setdefault(place, {})[who] = None
        if self._call is None or place < self._callAt:
            self._arm(place)

    def forget(self, who: HasDeadline) -> None:
        place = self._places.pop(who, None)
        if place is not None:
            self._take(who, place)
        if not self._places and self._call is not None:
            self._call.cancel()
            self._call = None

    def _take(self, who: HasDeadline, place: int) -> None:
        bucket = self._buckets[place]
        del bucket[who]
        if not bucket:
            del self._buckets[place]

    def _arm(self, place: int) -> None:
        if self._call is not None:
            self._call.cancel()
        self._callAt = place
        delay = max(place * self.WIDTH - self._reactor.seconds(), 0.0)
        self._call = self._reactor.callLater(delay, self._run)

    def _run(self) -> None:
        self._call = None
        self._serve(self._reactor.seconds())
        if self._buckets:
            # A session that was rescheduled meanwhile may have set the timer later than other
            # sessions need.
            self._arm(min(self._buckets))

    def _serve(self, now: float) -> None:
        """
        Call the connections that are due, until one has ended: freeing a slow consumer may take
        long.
        """
        due = int(now / self.WIDTH + 1e-6)
        for place in sorted(place for place in self._buckets if place <= due):
            for who in list(self._buckets.get(place, ())):
                if self._places.get(who) != place:
                    continue
                self.forget(who)
                try:
                    again = who.deadlinePassed(now)
                except BaseException:
                    _log.failure("{who} - A deadline could not be kept", who=who)
                    continue
                if again is None:
                    return
                self.schedule(who, max(again, now))
