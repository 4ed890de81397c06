"""
The bounds of batches.
"""

from __future__ import annotations

import pytest

from natsbroker.jetstream.batches.budget import BatchBudget, BatchLimits


def test_bytes() -> None:
    """The bytes of atomic batches have a bound."""
    budget = BatchBudget(most=10)
    budget.size = 6
    assert (budget.allows(4), budget.allows(5)) == (True, False)


@pytest.mark.parametrize(
    ("limits", "atomic", "fast"),
    [
        (BatchLimits(), (50, 1000), (1000, 50_000)),
        (BatchLimits(-1, -1), (50, 1000), (1000, 50_000)),
        (BatchLimits(3, 2), (3, 2), (3, 2)),
    ],
)
def test_open(limits: BatchLimits, atomic: tuple[int, int], fast: tuple[int, int]) -> None:
    """The configuration bounds both kinds of batches, of a stream and of all; each has defaults."""
    budget = BatchBudget(limits)
    for kind, (perStream, total) in ((budget.atomic, atomic), (budget.fast, fast)):
        assert (kind.allows(perStream - 1), kind.allows(perStream)) == (True, False)
        kind.open = total - 1
        assert kind.allows(0)
        kind.open = total
        assert not kind.allows(0)
