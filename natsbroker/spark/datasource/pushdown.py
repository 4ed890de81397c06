"""
Conditions that Spark hands down, as limits of what servers are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from natsbroker.spark.logs.reading import SequenceRange
from natsbroker.subjects.grammar import isValidLiteral, matches

__all__ = ["PushedFilters"]


@dataclass
class PushedFilters:
    """
    What the conditions leave.

    @ivar least: no sequence is smaller.
    @ivar stop: every sequence is smaller; C{None} for no limit.
    @ivar subjects: no others; C{None} for all.
    @ivar streams: no others; C{None} for all.
    """

    least: int = 0
    stop: int | None = None
    subjects: frozenset[str] | None = field(default=None)
    streams: frozenset[str] | None = field(default=None)

    def take(self, condition: Any) -> None:
        """
        Narrow the limits by one condition, if it is one of those that are understood.
        """
        name = type(condition).__name__
        column = ".".join(getattr(condition, "attribute", ()))
        value = getattr(condition, "value", None)
        if column == "seq" and isinstance(value, int):
            self._takeSeq(name, value)
        elif column in ("subject", "stream"):
            given: Iterable[object] = value if name == "In" and value is not None else (value,)
            if name in ("EqualTo", "EqualNullSafe", "In"):
                self._takeNames(column, frozenset(x for x in given if isinstance(x, str)))

    def _takeSeq(self, name: str, value: int) -> None:
        if name in ("EqualTo", "EqualNullSafe", "GreaterThanOrEqual"):
            self.least = max(self.least, value)
        elif name == "GreaterThan":
            self.least = max(self.least, value + 1)
        stops = {"EqualTo": 1, "EqualNullSafe": 1, "LessThanOrEqual": 1, "LessThan": 0}
        if name in stops:
            stop = value + stops[name]
            self.stop = stop if self.stop is None else min(self.stop, stop)

    def _takeNames(self, column: str, names: frozenset[str]) -> None:
        if column == "stream":
            self.streams = names if self.streams is None else self.streams & names
        else:
            self.subjects = names if self.subjects is None else self.subjects & names

    def spans(self, spans: Iterable[SequenceRange]) -> list[SequenceRange]:
        """
        What is left of some ranges.
        """
        left = []
        for span in spans:
            start = max(span.start, self.least)
            stop = span.stop if self.stop is None else min(span.stop, self.stop)
            if start < stop and (self.streams is None or span.stream in self.streams):
                left.append(SequenceRange(span.stream, span.created, start, stop))
        return left if self.subjects is None or self.subjects else []

    def patterns(self, patterns: tuple[str, ...]) -> tuple[str, ...] | None:
        """
        What is left of some filters.

        @param patterns: none for all subjects.
        @return: C{None} if no subject is left.
        """
        if self.subjects is None:
            return patterns
        wanted = [each.encode("utf-8") for each in patterns]
        kept = []
        for subject in sorted(self.subjects):
            literal = subject.encode("utf-8")
            if not isValidLiteral(literal):
                return patterns
            if not wanted or any(matches(each, literal) for each in wanted):
                kept.append(subject)
        return tuple(kept) or None
