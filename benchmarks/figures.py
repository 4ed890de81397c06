"""
The meaning of figures: units, bounds, medians, ratios and verdicts.
"""

from __future__ import annotations

import enum
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "Bound",
    "Statistic",
    "Unit",
    "atLeast",
    "atMost",
    "summary",
]


class Unit(enum.Enum):
    """
    The unit of a figure, and its better direction.

    Each value is the unit's name, whether less is better, and how many of the generator's units
    make one of these.
    """

    PER_SECOND = ("/s", False)
    MICROSECONDS = ("us", True)
    MILLISECONDS = ("ms", True)
    SECONDS = ("s", True)
    KIBIBYTES = ("KiB", True)
    MEBIBYTES = ("MiB", True)
    TIMES = ("x", True)
    COUNT = ("", False)

    def __init__(self, label: str, lessIsBetter: bool) -> None:
        self.label = label
        self.lessIsBetter = lessIsBetter

    def show(self, value: float) -> str:
        """
        @return: C{value} for a reader: three significant digits, rates in thousands or millions.
        """
        if self is Unit.COUNT:
            return f"{value:.0f}"
        if self is Unit.PER_SECOND:
            for size, letter in ((1e6, "M"), (1e3, "k")):
                if value >= size:
                    return f"{threeDigits(value / size)} {letter}/s"
        return f"{threeDigits(value)} {self.label}"


def threeDigits(value: float) -> str:
    """
    @return: C{value} with three significant digits and without an exponent.
    """
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


@dataclass(frozen=True)
class Bound:
    """
    A limit that a ratio or a figure has to keep.

    @ivar value: the limit; it is kept when it is reached exactly.
    @ivar least: true when more is fine, false when less is.
    """

    value: float
    least: bool

    def holds(self, figure: float) -> bool:
        """
        @return: whether C{figure} keeps the limit.
        """
        return figure >= self.value if self.least else figure <= self.value

    def __str__(self) -> str:
        return f"{'>=' if self.least else '<='} {self.value:g}"


def atLeast(value: float) -> Bound:
    """
    @return: the bound that is kept by C{value} and more.
    """
    return Bound(value, True)


def atMost(value: float) -> Bound:
    """
    @return: the bound that is kept by C{value} and less.
    """
    return Bound(value, False)


class Statistic(enum.Enum):
    """
    Which one figure stands for those of several rounds.
    """

    MEDIAN = "median"
    BEST = "best"


def summary(samples: Sequence[float], unit: Unit, statistic: Statistic) -> float:
    """
    @param samples: one figure a round, at least one.
    @param unit: says which way is better.
    @return: the figure that stands for all of them.
    @raise ValueError: if there are no samples.
    """
    if not samples:
        raise ValueError("no samples")
    if statistic is Statistic.MEDIAN:
        return statistics.median(samples)
    return min(samples) if unit.lessIsBetter else max(samples)
