"""
The pace of a push consumer: its flow control window, and its rate limit.
"""

from __future__ import annotations

from collections.abc import Callable

#: The largest window, in bytes.
LARGEST_WINDOW = 32 << 20

#: The first window, in bytes.
FIRST_WINDOW = LARGEST_WINDOW // 16


class FlowWindow:
    """
    The bytes that a push consumer may have outstanding. It begins small and doubles with each
    answer of the client, so that a slow client is found early.

    @ivar outstanding: bytes that were sent and not confirmed.
    @ivar request: the reply subject of the flow control request that is not answered; else empty.
    """

    __slots__ = ("_confirmable", "outstanding", "request", "size")

    def __init__(self) -> None:
        self.size = FIRST_WINDOW
        self.outstanding = 0
        self.request = b""
        self._confirmable = 0

    @property
    def isStalled(self) -> bool:
        """Whether nothing may be sent until the client answers."""
        return self.outstanding > self.size

    @property
    def room(self) -> int:
        """The bytes that may be sent before a flow control request is due, or before a stall."""
        return (self.size if self.request else self.size // 2) - self.outstanding

    def sent(self, size: int) -> bool:
        """Count a message; true if a flow control request is due."""
        self.outstanding += size
        if not self.request:
            return self.outstanding > self.size // 2
        if self.outstanding - self._confirmable >= self.size:
            self._confirmable += size
        return False

    def requested(self, reply: bytes) -> None:
        """Note a sent flow control request, whose answer confirms what is outstanding now."""
        self.request = reply
        self._confirmable = self.outstanding

    def answered(self, subject: bytes) -> bool:
        """Take an answer; true if it is that to the newest request."""
        if not self.request or subject != self.request:
            return False
        self.size = min(self.size * 2, LARGEST_WINDOW)
        self.outstanding = max(self.outstanding - self._confirmable, 0)
        self.request = b""
        self._confirmable = 0
        return True


class RateLimit:
    """A token bucket of bytes."""

    __slots__ = ("_burst", "_filled", "_now", "_rate", "_tokens")

    def __init__(self, bitsPerSecond: int, burst: int, now: Callable[[], float]) -> None:
        """A bucket for C{burst} bytes at once; C{now} is the monotonic clock."""
        self._rate = max(bitsPerSecond / 8, 1.0)
        self._burst = float(burst)
        self._now = now
        self._tokens = self._burst
        self._filled = now()

    def reserve(self, size: int) -> float:
        """Take the tokens for a message, and return when it may be sent, by the monotonic clock."""
        now = self._now()
        elapsed, self._filled = now - self._filled, now
        self._tokens = min(self._tokens + elapsed * self._rate, self._burst) - size
        return now if self._tokens >= 0 else now - self._tokens / self._rate
