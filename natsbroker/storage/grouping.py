"""
When a group of requests waits for more.

Publishers with one message underway publish again when they are answered. While a group of them is
being written, the others queue up; written at once, these would be the next group, and the
publishers would take turns in two halves: twice the writes, twice the wait. So what has queued up
waits a moment for those who were just answered.
"""

from __future__ import annotations

PATIENCE = 250_000
"""Nanoseconds that a group waits at most."""

MISSES = 3
"""The number of waits in which too few came, one after another, before a pause."""

PAUSE = 64
"""How many groups do not wait in a pause."""


class GroupPatience:
    """
    Decides by what came of the last waits.
    """

    def __init__(self) -> None:
        self._misses = 0
        self._pause = 0
        self._least = 0
        self._expected = 0

    def begin(self, done: int, waiting: int) -> bool:
        """
        @param done: the number of requests that are being answered.
        @param waiting: the number of requests that have queued up.
        @return: whether to wait.
        """
        if self._pause:
            self._pause -= 1
            return False
        self._expected = done + waiting
        self._least = waiting + (done + 1) // 2
        return True

    def isComplete(self, waiting: int) -> bool:
        """
        Whether as many came as were answered.
        """
        return waiting >= self._expected

    def end(self, waiting: int) -> None:
        """
        The wait is over.
        """
        if waiting >= self._least:
            self._misses = 0
            return
        self._misses += 1
        if self._misses == MISSES:
            self._misses = 0
            self._pause = PAUSE
