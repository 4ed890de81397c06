"""
Many subjects in byte order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import islice

LONGEST = 2048
"""How many subjects are in one of several lists."""


class SortedSubjects:
    """
    Subjects in byte order, in lists of which none is long: so one more, or one less, costs little.
    """

    def __init__(self) -> None:
        self._lists: list[list[bytes]] = [[]]

    def _place(self, subject: bytes) -> int:
        """
        Which list a subject is in, or belongs into.
        """
        return max(
            bisect_right(self._lists, subject, key=lambda each: each[0] if each else b"") - 1, 0
        )

    def add(self, subject: bytes) -> None:
        place = self._place(subject)
        part = self._lists[place]
        insort(part, subject)
        if len(part) > LONGEST:
            self._lists[place : place + 1] = [part[: LONGEST // 2], part[LONGEST // 2 :]]

    def remove(self, subject: bytes) -> None:
        place = self._place(subject)
        part = self._lists[place]
        del part[bisect_left(part, subject)]
        if not part and len(self._lists) > 1:
            del self._lists[place]

    def behind(self, subject: bytes, beginning: bytes) -> Iterator[bytes]:
        """
        The subjects behind one that begin with some bytes.
        """
        start = max(subject + b"\0", beginning) if subject else beginning
        place = self._place(start)
        index = bisect_left(self._lists[place], start)
        while place < len(self._lists):
            for each in islice(self._lists[place], index, None):
                if not each.startswith(beginning):
                    return
                yield each
            place, index = place + 1, 0
