"""
The bounds of batches.
"""

from __future__ import annotations

import pytest

from natsbroker.config.model import JetStream
from natsbroker.jetstream.batches.budget import BatchBudget


def limited(perStream: int, total: int) -> JetStream:
    """A block that limits open batches."""
    return JetStream(max_batch_inflight_per_stream=perStream, max_batch_inflight_total=total)


def test_bytes() -> None:
    """The bytes of atomic batches have a bound."""
    budget = BatchBudget(most=10)
    budget.size = 6
    assert (budget.allows(4), budget.allows(5)) == (True, False)


@pytest.mark.parametrize(
    ("limits", "atomic", "fast"),
    [
        (JetStream(), (50, 1000), (1000, 50_000)),
        (limited(-1, -1), (50, 1000), (1000, 50_000)),
        (limited(3, 2), (3, 2), (3, 2)),
    ],
)
def test_open(limits: JetStream, atomic: tuple[int, int], fast: tuple[int, int]) -> None:
    """
    The configuration limits the open batches of a stream and of all streams, for atomic and for
    fast batches.
    """
    budget = BatchBudget(limits)
    for kind, (perStream, total) in ((budget.atomic, atomic), (budget.fast, fast)):
        assert (kind.allows(perStream - 1), kind.allows(perStream)) == (True, False)
        kind.open = total - 1
        assert kind.allows(0)
        kind.open = total
        assert not kind.allows(0)
