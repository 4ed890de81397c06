"""
Reports as tables of text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")

#: Longer texts are cut in tables.
_WIDEST = 60


class Amount(str):
    """
    A number with its unit, as text: it stands in columns where numbers stand.
    """

    __slots__ = ()


@dataclass(frozen=True)
class Chart:
    """
    @ivar kind: C{lines}, with an x and a y for each point of each series; or C{bars}, with a name
        and a number for each point of the only series; or C{ranges}, with where a range begins and
        where it ends for each point of each series.
    @ivar series: the points, by name.
    """

    kind: str
    series: dict[str, list[tuple[Any, float]]]
    unit: str = ""


@dataclass(frozen=True)
class ReportSection:
    title: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    note: str = ""
    chart: Chart | None = None


@dataclass(frozen=True)
class JobReport:
    title: str
    facts: dict[str, Any] = field(default_factory=dict)
    sections: Sequence[ReportSection] = ()

    def text(self) -> str:
        parts = [self.title, ""]
        parts += [f"{name}: {cellOf(value)}" for name, value in self.facts.items()]
        for each in self.sections:
            if each.chart is not None and not each.columns:
                continue
            parts += ["", each.title]
            if each.note:
                parts.append(each.note)
            if each.columns:
                parts.append(tableOf(each.columns, each.rows))
        return "\n".join(parts) + "\n"


def tableOf(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    if not rows:
        return "  (none)"
    cells = [[_cut(cellOf(cell)) for cell in row] for row in rows]
    widths = [
        max(len(column), *(len(row[place]) for row in cells))
        for place, column in enumerate(columns)
    ]
    areNumbers = numberColumns(rows)
    return "\n".join(
        "  "
        + "  ".join(
            cell.rjust(width) if isNumber else cell.ljust(width)
            for cell, width, isNumber in zip(line, widths, areNumbers, strict=True)
        ).rstrip()
        for line in [list(columns), *cells]
    )


def numberColumns(rows: Sequence[Sequence[Any]]) -> list[bool]:
    """
    Which columns have numbers and amounts, and besides these nothing but empty cells.
    """
    return [
        any(_isNumber(cell) for cell in column)
        and all(_isNumber(cell) or cell == "" for cell in column)
        for column in zip(*rows, strict=True)
    ]


def _isNumber(value: Any) -> bool:
    return isinstance(value, (int, float, Amount)) and not isinstance(value, bool)


def cellOf(value: Any) -> str:
    """
    A cell as text: what does not print is escaped.
    """
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = str(value)
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def bytesOf(count: float) -> Amount:
    unit = 0
    while count >= 1024 and unit < len(_UNITS) - 1:
        count /= 1024
        unit += 1
    return Amount(f"{count:,.0f} B" if unit == 0 else f"{count:,.1f} {_UNITS[unit]}")


def rateOf(count: float) -> Amount:
    return Amount(f"{bytesOf(count)}/s")
