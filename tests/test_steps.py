"""
Tests for L{natsbroker.steps}.
"""

from __future__ import annotations

from random import Random

from natsbroker.steps import PIECE, SortedRuns, Steps, finish, pieces


def _doubled(items: list[int]) -> Steps[list[int]]:
    doubled: list[int] = []
    for some in pieces(items):
        doubled += [2 * number for number in some]
        yield
    return doubled


def test_finish() -> None:
    """Finishing runs all steps, and returns their result."""
    items = list(range(2 * PIECE + 1))
    assert finish(_doubled(items)) == [2 * number for number in items]
    assert sum(1 for _ in _doubled(items)) == 3
    assert finish(_doubled([])) == []


def test_sortedRuns() -> None:
    """Numbers that were added in parts are sorted."""
    numbers = Random(3).sample(range(10_000), 1000)
    runs = SortedRuns()
    for place in range(0, len(numbers), 7):
        runs.add(numbers[place : place + 7])
    assert runs.merged() == sorted(numbers)
    assert SortedRuns().merged() == []
