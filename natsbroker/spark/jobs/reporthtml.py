"""
Reports as HTML: one file that loads nothing and runs nothing. Vega-Lite draws the charts as SVG.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from natsbroker.spark.errors import OptionError
from natsbroker.spark.jobs.common import writeWhole
from natsbroker.spark.jobs.report import Chart, JobReport, bytesOf, cellOf, numberColumns, rateOf

_TEMPLATE = Path(__file__).with_name("report.html")

#: How each kind of chart is drawn, as Vega-Lite says it.
_CHARTS = Path(__file__).with_name("charts.json")

#: Columns with a longer word may break it.
_LONG_WORD = 20


def addPage(parser: ArgumentParser) -> None:
    parser.add_argument("--html", default="", help="a file for the report, with plots")


def writePage(report: JobReport, path: str, summary: dict[str, Any]) -> None:
    """
    @param path: none if empty.
    @param summary: gets the path.
    """
    if path:
        page = pageOf(report)
        writeWhole(Path(path), lambda draft: draft.write_text(page, "utf-8"))
        summary["html"] = path


def pageOf(report: JobReport) -> str:
    try:
        from jinja2 import Environment
    except ImportError:
        raise OptionError("--html needs: pip install 'natsbroker[report]'") from None
    pages = Environment(autoescape=True)
    pages.filters.update(cell=cellOf, marks=_marks, drawn=_drawn)
    return str(pages.from_string(_TEMPLATE.read_text("utf-8")).render(report=report))


def _marks(rows: Sequence[Sequence[Any]]) -> list[str | None]:
    """
    The class of each column: numbers end at the same place, and only long words break where they
    need not.
    """
    found: list[str | None] = []
    for isNumber, column in zip(numberColumns(rows), zip(*rows, strict=True), strict=True):
        words = (word for cell in column for word in cellOf(cell).split())
        isLong = max(map(len, words), default=0) > _LONG_WORD
        found.append("n" if isNumber else "w" if isLong else None)
    return found


def _drawn(chart: Chart) -> str:
    """
    The SVG of a chart; empty where there is nothing to draw.
    """
    points = [(name, x, y) for name, series in chart.series.items() for x, y in series]
    if _isEmpty(chart.kind, points):
        return ""
    try:
        from vl_convert import vegalite_to_svg
    except ImportError:
        raise OptionError("--html needs: pip install 'natsbroker[report]'") from None
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
    return str(vegalite_to_svg({**spec, "data": {"values": rows}}))


def _isEmpty(kind: str, points: Sequence[tuple[str, Any, float]]) -> bool:
    if kind == "bars":
        return not any(size > 0 for _, _, size in points)
    return not points or (
        kind == "ranges" and len({end for _, *ends in points for end in ends}) < 2
    )


def _amount(number: float, unit: str | None) -> str:
    if unit == "B":
        return bytesOf(number)
    return rateOf(number) if unit == "B/s" else f"{number:,.6g} {unit or ''}".rstrip()


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")
