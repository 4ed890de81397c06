"""
Reports as text tables, and as HTML: one file that loads and runs nothing, with Vega-Lite's SVG.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from natsbroker.spark.errors import OptionError
from natsbroker.spark.jobs.common import writeWhole

_TEMPLATE = Path(__file__).with_name("report.html")

#: The drawing of each kind of chart, for Vega-Lite.
_CHARTS = Path(__file__).with_name("charts.json")

#: Columns with a longer word may break it.
_LONG_WORD = 20

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")

#: Longer texts are cut in tables.
_WIDEST = 60


class Amount(str):
    """A number with its unit, as text: it stands in columns where numbers stand."""

    __slots__ = ()


@dataclass(frozen=True)
class Chart:
    """
    @ivar kind: C{lines}, with an x and a y for each point of each series; or C{bars}, with a name
        and a number for each point of the only series; or C{ranges}, with where a range begins and
        where it ends for each point of each series.
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
        parts = [self.title, "", *(f"{name}: {cellOf(x)}" for name, x in self.facts.items())]
        for section in self.sections:
            if section.columns or section.chart is None:
                parts += ["", section.title, *filter(None, [section.note])]
            if section.columns:
                parts.append(tableOf(section.columns, section.rows))
        return "\n".join(parts) + "\n"


def tableOf(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    if not rows:
        return "  (none)"
    lines = [columns, *([_cut(cellOf(cell)) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    signs = [">" if mark == "n" else "<" for mark in marksOf(rows)]
    form = "".join(f"  {{:{sign}{width}}}" for sign, width in zip(signs, widths, strict=True))
    return "\n".join(form.format(*line).rstrip() for line in lines)


def marksOf(rows: Sequence[Sequence[Any]]) -> list[str | None]:
    """
    The marks of columns: C{n} for numbers, which end at the same place; C{w} where long words may
    break anywhere.
    """
    marks: list[str | None] = []
    for column in zip(*rows, strict=True):
        words = (word for cell in column for word in cellOf(cell).split())
        isLong = max(map(len, words), default=0) > _LONG_WORD
        kinds = {type(cell) for cell in column if cell != ""}
        isNumber = bool(kinds) and kinds <= {int, float, Amount}
        marks.append("n" if isNumber else "w" if isLong else None)
    return marks


def cellOf(value: Any) -> str:
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


def writePage(report: JobReport, path: str, summary: dict[str, Any]) -> None:
    if path:
        page = pageOf(report)
        writeWhole(Path(path), lambda draft: draft.write_text(page, "utf-8"))
        summary["html"] = path


def pageOf(report: JobReport) -> str:
    try:
        from jinja2 import Environment
        from vl_convert import vegalite_to_svg
    except ImportError:
        raise OptionError("--html needs: pip install 'natsbroker[report]'") from None
    pages = Environment(autoescape=True)
    drawn = partial(_drawn, vegalite_to_svg)
    pages.filters.update(cell=cellOf, marks=marksOf, drawn=drawn)
    return str(pages.from_string(_TEMPLATE.read_text("utf-8")).render(report=report))


def _drawn(toSvg: Callable[[dict[str, Any]], str], chart: Chart) -> str:
    points = [(name, x, y) for name, series in chart.series.items() for x, y in series]
    if _isEmpty(chart.kind, points):
        return ""
    charts = json.loads(_CHARTS.read_text("utf-8"))
    spec = {**charts[chart.kind], "config": charts["config"], "background": None}
    across, up = spec["encoding"]["x"], spec["encoding"]["y"]
    rows = [{"series": cellOf(name), "x": x, "y": y} for name, x, y in points]
    unit = cellOf(chart.unit) or None
    if chart.kind == "lines":
        times = sorted(x for _, x, _ in points)
        across["title"] = " to ".join(dict.fromkeys(map(_moment, (times[0], times[-1]))))
        up["title"] = unit
        rows = [{**row, "x": 1000 * row["x"]} for row in rows]
    elif chart.kind == "ranges":
        across["title"] = unit
        across["axis"]["values"] = [min(x for _, x, _ in points), max(y for _, _, y in points)]
    else:
        rows = [{**row, "x": cellOf(row["x"]), "text": _amount(row["y"], unit)} for row in rows]
    return toSvg({**spec, "data": {"values": rows}})


def _isEmpty(kind: str, points: Sequence[tuple[str, Any, float]]) -> bool:
    if kind == "ranges":
        return len({end for _, *ends in points for end in ends}) < 2
    return not points if kind == "lines" else all(size <= 0 for _, _, size in points)


def _amount(number: float, unit: str | None) -> str:
    if unit == "B":
        return bytesOf(number)
    return rateOf(number) if unit == "B/s" else f"{number:,.6g} {unit or ''}".rstrip()


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")
