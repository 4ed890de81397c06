"""Units, bounds and the value that represents several rounds."""

from __future__ import annotations

import pytest

from benchmarks.figures import Bound, Statistic, Unit, atLeast, atMost, summary


@pytest.mark.parametrize(
    ("unit", "value", "shown"),
    [
        (Unit.PER_SECOND, 4_830_000, "4.83 M/s"),
        (Unit.PER_SECOND, 16_600_000, "16.6 M/s"),
        (Unit.PER_SECOND, 81_860, "81.9 k/s"),
        (Unit.PER_SECOND, 368, "368 /s"),
        (Unit.MICROSECONDS, 113.93, "114 us"),
        (Unit.KIBIBYTES, 7.456, "7.46 KiB"),
        (Unit.TIMES, 1.1, "1.10 x"),
        (Unit.COUNT, 5000, "5000"),
    ],
)
def test_show(unit: Unit, value: float, shown: str) -> None:
    """A figure is shown with three digits, and rates in thousands or millions."""
    assert unit.show(value) == shown


@pytest.mark.parametrize(
    ("bound", "kept", "broken"), [(atLeast(4), (4, 4.1), 3.9), (atMost(0.5), (0.5, 0.1), 0.51)]
)
def test_bounds(bound: Bound, kept: tuple[float, float], broken: float) -> None:
    """A bound holds when it is reached exactly, and fails beyond."""
    assert [bound.holds(figure) for figure in (*kept, broken)] == [True, True, False]


def test_boundText() -> None:
    """A bound is written in words that people use."""
    assert (str(atLeast(4.0)), str(atMost(0.85))) == (">= 4", "<= 0.85")


def test_median() -> None:
    """The value of several rounds is their median, whichever direction is better."""
    assert summary([9, 1, 2], Unit.PER_SECOND, Statistic.MEDIAN) == 2
    assert summary([9, 1], Unit.MICROSECONDS, Statistic.MEDIAN) == 5


def test_bestRound() -> None:
    """The best round is the highest rate and the lowest latency."""
    assert summary([9, 1, 2], Unit.PER_SECOND, Statistic.BEST) == 9
    assert summary([9, 1, 2], Unit.MICROSECONDS, Statistic.BEST) == 1


def test_nothingMeasured() -> None:
    """Without rounds there is no summary."""
    with pytest.raises(ValueError, match="no samples"):
        summary([], Unit.COUNT, Statistic.BEST)
