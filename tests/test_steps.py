"""
Tests for L{natsbroker.steps}.
"""

from __future__ import annotations

from natsbroker.steps import PIECE, Steps, finish, pieces


def _doubled(items: list[int]) -> Steps[list[int]]:
    doubled: list[int] = []
    for some in pieces(items):
        doubled += [2 * each for each in some]
        yield
    return doubled


def test_finish() -> None:
    """All steps are done, and give their result."""
    items = list(range(2 * PIECE + 1))
    assert finish(_doubled(items)) == [2 * each for each in items]
    assert sum(1 for _ in _doubled(items)) == 3
    assert finish(_doubled([])) == []
