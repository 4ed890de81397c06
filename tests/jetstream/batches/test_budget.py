"""
The bounds of atomic batches.
"""

from __future__ import annotations

from natsbroker.jetstream.batches.budget import BatchBudget


def test_bounds() -> None:
    """Batches and bytes have a bound each."""
    budget = BatchBudget(2, 10)
    budget.batches, budget.size = 1, 6
    assert (budget.isFull, budget.allows(4), budget.allows(5)) == (False, True, False)
    budget.batches = 2
    assert budget.isFull
