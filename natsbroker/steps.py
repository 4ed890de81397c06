"""
Work in steps: a generator that yields at least once in a millisecond or so, and returns the result.
The caller decides when the next step is due.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
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
