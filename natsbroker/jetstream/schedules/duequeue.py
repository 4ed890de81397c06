"""
Queues of messages with a time: their end, or the next time of a schedule.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

from twisted.internet.defer import Deferred, inlineCallbacks

from natsbroker.jetstream.streams.streamcore import StreamCore
from natsbroker.runtime.deadlines import Deadline

if TYPE_CHECKING:
    from collections.abc import Generator

LONGEST_WAIT = 86_400.0
"""Seconds after which the time of the next message is checked again, however far away it is."""

SLICE = 256
"""The most messages that are handled at once: the next ones wait for a turn of the reactor."""

_SECOND = 1_000_000_000


class DueMessage(NamedTuple):
    """A message that is due at a C{time} in nanoseconds since 1970."""

    time: int
    sequence: int
    subject: bytes


class DueQueue:
    """The messages of one stream in the order of their times, with one timer for the first."""

    def __init__(
        self,
        stream: StreamCore,
        handle: Callable[[list[DueMessage], int], Generator[Deferred[Any], Any, None]],
        pause: float = 0.0,
    ) -> None:
        """
        @param handle: handles the messages that are due at a time in nanoseconds, one call after
            the other. It adds again those that it could not handle.
        @param pause: seconds between two looks, at least.
        """
        self._stream = stream
        self._handle = handle
        self._pause = pause
        self._queue: list[DueMessage] = []
        self._timer: Deadline | None = None
        self._timerFor = 0
        self._isHandling = self._isClosed = False

    def add(self, message: DueMessage) -> None:
        """Add a message; L{schedule} sets the timer."""
        heappush(self._queue, message)

    def schedule(self) -> None:
        """Set the timer for the first message."""
        first = self._queue[0].time if self._queue else 0
        if self._timer is not None and first == self._timerFor:
            return
        self._cancel()
        if self._queue and not (self._isHandling or self._isClosed):
            account = self._stream.account
            self._timerFor = first
            wait = max((first - account.now()) / _SECOND, self._pause)
            self._timer = account.deadlines.after(min(wait, LONGEST_WAIT), self._due)

    def close(self) -> None:
        """Handle nothing more."""
        self._isClosed = True
        self._cancel()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        self._timer = None
        self._isHandling = True
        self._stream.account.run(self._handleDue())

    @inlineCallbacks
    def _handleDue(self) -> Generator[Deferred[Any], Any, None]:
        now = self._stream.account.now()
        while self._queue and self._queue[0].time <= now and not self._isClosed:
            due: list[DueMessage] = []
            while self._queue and self._queue[0].time <= now and len(due) < SLICE:
                due.append(heappop(self._queue))
            yield from self._handle(due, now)
            if len(due) == SLICE:
                yield self._stream.account.turns.turn()
        self._isHandling = False
        self.schedule()
