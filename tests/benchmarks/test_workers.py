"""
The benchmark of several workers.
"""

from __future__ import annotations

import pytest

from benchmarks.settings import SETTINGS
from benchmarks.workers import LOADS, Cost, asMarkdown, counts, ours, processors, projected


@pytest.mark.parametrize(
    ("cores", "workers"), [(1, [1, 2]), (2, [1, 2]), (4, [1, 2, 4]), (7, [1, 2, 4])]
)
def test_counts(cores: int, workers: list[int]) -> None:
    """One and two workers are always measured, and more if each has a processor."""
    assert counts(cores) == workers


def test_places() -> None:
    """The generator gets the processors that the server leaves, or shares all of them."""
    assert processors(1, [0, 1, 2]) == (frozenset({0}), frozenset({1, 2}))
    assert processors(2, [0, 1]) == (frozenset({0, 1}), frozenset({0, 1}))


def test_loads() -> None:
    """Each load has a unique name, and an existing configuration."""
    assert len({load.key for load in LOADS}) == len(LOADS)
    assert {load.setting for load in LOADS} <= SETTINGS.keys()


def test_command() -> None:
    """Our server is started with the number of workers."""
    assert ours(4).command[-2:] == ("--workers", "4")


def test_projected() -> None:
    """
    The projection multiplies rates if messages stay in their workers. Otherwise more workers mean
    more messages between workers.
    """
    assert projected(2.0, 2.0, 8, False) == 8
    assert projected(2.0, 4.0, 8, False) == 4
    assert projected(2.0, 3.0, 2, True) == pytest.approx(2 * 2 / 3)
    assert projected(2.0, 3.0, 4, True) == pytest.approx(4 * 2 / 3.5)


def test_markdown() -> None:
    """
    The file has measured costs relative to those of one worker, and a projection from those of two.
    """
    costs = {
        ("one-16", "natsbroker", 1): Cost(2.0, 1000),
        ("one-16", "natsbroker", 2): Cost(3.0, 1500),
        ("one-16", "nats-server", 1): Cost(5.0, 800),
        ("login", "natsbroker", 1): Cost(50.0, 10),
    }
    text = asMarkdown(costs, {"cores": 2})
    assert "- cores: 2" in text
    assert "| one account, 16 B | 2 | 3.00 | 1.50 | 1,500 |  |  |  |" in text
    assert "| one account, 16 B | 1 | 2.00 | 1.00 | 1,000 | 5.00 | 1.00 | 800 |" in text
    measured, projection = text.split("Projection, not measured")
    assert "| logins | 1 | 50.00" in measured
    assert "logins" not in projection
    assert "| one account, 16 B | 2.3 | 4.3 | 8.3 |" in projection
