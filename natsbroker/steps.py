"""
Work in steps: a generator that yields at least once in a millisecond or so, and returns the result.
The caller decides when the next step is due.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[None, None, T]

PIECE = 256
"""The elements of a list that make a step."""


def finish(steps: Steps[T]) -> T:
    """Do all steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def pieces(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Parts of a list, each of which makes a step."""
    for place in range(0, len(items), PIECE):
        yield items[place : place + PIECE]


class SortedRuns:
    """
    Sorts many numbers, a part at a time. The sorted runs are merged, which takes little of a turn.
    """

    def __init__(self) -> None:
        self._runs: list[list[int]] = []

    def add(self, numbers: Iterable[int]) -> None:
        run = sorted(numbers)
        while self._runs and len(self._runs[-1]) <= len(run):
            run += self._runs.pop()
            run.sort()
        self._runs.append(run)

    def merged(self) -> list[int]:
        """All numbers. Nothing can be added afterwards."""
        run: list[int] = []
        while self._runs:
            run += self._runs.pop()
            run.sort()
        return run
