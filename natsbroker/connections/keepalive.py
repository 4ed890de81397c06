"""The times to PING a peer, and to give it up: a pure calculation in seconds."""

from __future__ import annotations

from enum import Enum

#: The first PING measures the round trip. It is sent two seconds after the connection began, if the
#: interval is not shorter (observed of nats-server; the caller adds up to a fifth).
FIRST_PING = 2.0

#: The interval of PINGs that only measure the round trip while data flows, in seconds.
_MEASURE = 3600.0


class KeepaliveAction(Enum):
    NOTHING = "nothing"
    PING = "ping"
    STALE = "stale"


class Keepalive:
    """C{due} is the next call of L{timePassed}; C{roundTrip} is 0.0 before the first."""

    __slots__ = ("_interval", "_measured", "_outstanding", "_sent", "due", "roundTrip")

    def __init__(self, interval: float, now: float, jitter: float) -> None:
        """C{jitter}, from 0.0 to 1.0, lengthens the first delay by up to a fifth."""
        first = min(interval, FIRST_PING)
        self._interval = interval
        self._outstanding = 0
        self._measured = False
        self._sent = now
        self.due = now + first + jitter * first / 5
        self.roundTrip = 0.0

    def timePassed(self, now: float, heard: float, maximum: int) -> KeepaliveAction:
        """
        C{heard} is the time of the last input other than PONG; C{maximum} PINGs may be unanswered.
        """
        if now < self.due:
            return KeepaliveAction.NOTHING
        self.due = now + self._interval
        wantsMeasure = not self._measured or now - self._sent > _MEASURE
        if now - heard < self._interval and not wantsMeasure:
            return KeepaliveAction.NOTHING
        if self._outstanding >= maximum:
            return KeepaliveAction.STALE
        self._outstanding += 1
        self._measured = True
        self._sent = now
        return KeepaliveAction.PING

    def estimate(self, seconds: float) -> None:
        """Guess the round trip from the time a peer took to say who it is."""
        if not self.roundTrip:
            self.roundTrip = max(seconds, 1e-9)

    def ponged(self, now: float) -> None:
        if self._outstanding:
            self.roundTrip = max(now - self._sent, 1e-9)
        self._outstanding = 0

    def changeInterval(self, interval: float, now: float) -> None:
        self._interval = interval
        self.due = min(self.due, now + interval)
