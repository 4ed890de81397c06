"""
The time that a group of requests waits for more.

Publishers with one message under way publish again when they are answered. Without a wait they
would take turns in two halves, with twice the writes and twice the time. So the requests that
queued up during a write wait for the publishers that were just answered, and so does the first
request after that.
"""

from __future__ import annotations

LEAST, LONGEST = 250_000, 1_000_000
"""The bounds, in nanoseconds, of the time that a group waits: it is that of a write."""

MOST = 256
"""The most records for which a group waits: the larger it is, the less it gains by waiting."""

MOST_UNSYNCED = 16
"""As C{MOST}, where writes are not synced: then there is less to gain."""

MISSES = 3
"""The number of waits in which too few came, one after another, before a pause."""

PAUSE, LONGEST_PAUSE = 8, 1024
"""
The number of groups that do not wait in a pause. It doubles with each pause that follows without
success.
"""


ALONE = 16
"""The successive groups of one record that make a publisher count as alone."""


class GroupPatience:
    """
    @ivar isAlone: whether there is one publisher, with one message in flight.
    """

    def __init__(self, most: int = MOST) -> None:
        """A group waits for at most C{most} records."""
        self.nanoseconds = LEAST
        self._most = most
        self._began = 0
        self._ended = 0
        self._stored = 0
        self._alone = 0
        self.isAlone = False
        self._misses = 0
        self._pause = 0
        self._nextPause = PAUSE
        self._least = 0
        self._expected = 0

    def writes(self, now: int) -> None:
        """Note that a write begins at C{now}, in nanoseconds."""
        self._began = now

    def wrote(self, records: int, now: int) -> None:
        recent = (7 * self.nanoseconds + now - self._began) // 8
        self.nanoseconds = min(max(recent, LEAST), LONGEST)
        self._stored, self._ended = records, now
        self._alone = self._alone + 1 if records == 1 else 0
        self.isAlone = self._alone >= ALONE

    def begin(self, waiting: int, wereWaiting: bool, now: int) -> bool:
        """Whether to wait for one more record for each one that was stored just now."""
        expected = self._stored + waiting if wereWaiting else self._stored
        self._stored = 0
        if not waiting < expected <= self._most or now - self._ended > self.nanoseconds:
            return False
        if self._pause:
            self._pause -= 1
            return False
        self._expected = expected
        self._least = waiting + (expected - waiting + 1) // 2
        return True

    def isComplete(self, waiting: int) -> bool:
        return waiting >= self._expected

    def end(self, waiting: int) -> None:
        if waiting >= self._least:
            self._misses = 0
            self._nextPause = PAUSE
            return
        self._misses += 1
        if self._misses == MISSES:
            self._misses = 0
            self._pause = self._nextPause
            self._nextPause = min(2 * self._nextPause, LONGEST_PAUSE)
