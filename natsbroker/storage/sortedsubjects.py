"""Many subjects in byte order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import islice

from natsbroker.subjects.searching import NEAR, PatternSearch

LONGEST = 2048
"""The subjects in one of several lists."""


class SortedSubjects:
    """Subjects in byte order, in many short lists, so that adding or removing one costs little."""

    def __init__(self) -> None:
        self._lists: list[list[bytes]] = [[]]

    def _place(self, subject: bytes) -> int:
        return max(
            bisect_right(
                self._lists, subject, key=lambda subjects: subjects[0] if subjects else b""
            )
            - 1,
            0,
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

    def find(self, search: PatternSearch, start: bytes, most: int) -> tuple[list[bytes], bytes]:
        """
        The matching subjects at or behind a place, and the place to continue at, which is empty at
        the end.

        @param most: the number of subjects that are examined, matching or not.
        """
        subjects: list[bytes] = []
        step = NEAR
        while most > 0:
            looked = list(islice(self._since(start), min(step, most) + 1))
            if not looked:
                return subjects, b""
            isEnd = len(looked) <= min(step, most)
            ahead = b"" if isEnd else looked.pop()
            subjects += search.select(looked)
            start = search.following(looked[-1])
            if isEnd or not start:
                return subjects, b""
            most -= len(looked)
            step = NEAR if start > ahead else step * 2
        return subjects, start

    def _since(self, start: bytes) -> Iterator[bytes]:
        place = self._place(start)
        index = bisect_left(self._lists[place], start)
        while place < len(self._lists):
            yield from islice(self._lists[place], index, None)
            place, index = place + 1, 0
