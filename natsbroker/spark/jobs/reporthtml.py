"""
Reports as pages of their own: one file, with plots that are drawn in it.

Promises: nothing is loaded from anywhere and nothing runs; what peers have named is text and
nothing else, wherever it stands.
Must never know: what is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from html import escape
from pathlib import Path
from typing import Any

from natsbroker.spark.jobs.report import Chart, Report, Section, cellOf
from natsbroker.spark.tables.wholefile import writeWhole

__all__ = ["pageOf", "writePage"]

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 860, 240, 80, 30
_BAR, _NAMES = 20, 300

_COLOURS = ("#2266aa", "#cc5522", "#228855", "#884499", "#aa8800", "#008899", "#bb3366", "#556677")

_NOTHING = "<p>Nothing to draw.</p>\n"

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 62em; padding: 0 1em;
  color: #1b1f24; background: #fff }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin-top: 2em }
table { border-collapse: collapse; margin: .5em 0; font-variant-numeric: tabular-nums }
th, td { padding: .2em .7em; border-bottom: 1px solid #d8dde3; text-align: left;
  overflow-wrap: anywhere }
td.n, th.n { text-align: right; white-space: nowrap }
svg { max-width: 100%; height: auto } svg text { font: 12px system-ui, sans-serif; fill: #444 }
.note { color: #555 }
"""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def pageOf(report: Report) -> str:
    """
    A report as HTML.
    """
    return "".join(_page(report))


def writePage(report: Report, path: str) -> None:
    """
    Write it into a file: whole, or not at all.

    @raise SourceError: if that cannot be done.
    """
    writeWhole(Path(path), lambda draft: draft.write_text(pageOf(report), "utf-8"))


def _page(report: Report) -> Iterator[str]:
    title = _text(report.title)
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
    yield f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    if report.facts:
        yield _table((), [(name, value) for name, value in report.facts.items()])
    for each in report.sections:
        yield from _section(each)
    yield "</body>\n</html>\n"


def _section(section: Section) -> Iterator[str]:
    yield f"<h2>{_text(section.title)}</h2>\n"
    if section.note:
        yield f'<p class="note">{_text(section.note)}</p>\n'
    if section.chart is not None:
        yield _PLOTS[section.chart.kind](section.chart)
    if section.columns:
        yield _table(section.columns, section.rows) if section.rows else "<p>None.</p>\n"


def _text(value: Any) -> str:
    return escape(cellOf(value))


def _isNumber(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    numbers = [all(_isNumber(row[place]) for row in rows) for place in range(len(rows[0]))]
    marks = [' class="n"' if each else "" for each in numbers]
    head = "".join(
        f"<th{mark}>{_text(name)}</th>" for name, mark in zip(columns, marks, strict=False)
    )
    lines = [f"<tr>{head}</tr>\n"] if head else []
    for row in rows:
        cells = (f"<td{mark}>{_text(cell)}</td>" for cell, mark in zip(row, marks, strict=True))
        lines.append(f"<tr>{''.join(cells)}</tr>\n")
    return f"<table>\n{''.join(lines)}</table>\n"


# Plots.


def _svg(height: float, parts: Sequence[str], title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}"'
        f' role="img" width="{_WIDTH}"><title>{_text(title)}</title>\n{"".join(parts)}</svg>\n'
    )


def _label(x: float, y: float, text: Any, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_text(text)}</text>\n'


def _lines(chart: Chart) -> str:
    """
    Series over time, whose x are seconds since 1970.
    """
    points = [point for series in chart.series.values() for point in series]
    if not points:
        return _NOTHING
    low, high = min(x for x, _ in points), max(x for x, _ in points)
    top = max(max(y for _, y in points), 1e-9)
    width, height = _WIDTH - _LEFT - 10, _HEIGHT - _BOTTOM - 10

    def at(x: float, y: float) -> tuple[float, float]:
        across = (x - low) / (high - low) if high > low else 0.5
        return _LEFT + width * across, 10 + height * (1 - y / top)

    parts = []
    for step in range(5):
        _, y = at(low, top * step / 4)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - 10}" stroke="#e3e7ec" fill="none"/>\n')
        parts.append(_label(_LEFT - 6, y + 4, _short(top * step / 4), "end"))
    for x, anchor in ((low, "start"), (high, "end")):
        parts.append(_label(at(x, 0)[0], _HEIGHT - 10, _moment(x), anchor))
    for place, (name, series) in enumerate(chart.series.items()):
        colour = _COLOURS[place % len(_COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*each) for each in sorted(series)))
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>\n'
        )
        if len(series) == 1:
            x, y = at(*series[0])
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>\n')
        y = _HEIGHT + 16 * place + 8
        parts.append(f'<rect x="{_LEFT}" y="{y - 9}" width="10" height="10" fill="{colour}"/>\n')
        parts.append(_label(_LEFT + 16, y, f"{name} ({chart.unit})" if chart.unit else name))
    return _svg(_HEIGHT + 16 * len(chart.series) + 4, parts, chart.unit)


def _bars(chart: Chart) -> str:
    (points,) = list(chart.series.values())[:1] or [[]]
    top = max((y for _, y in points), default=0.0)
    if top <= 0:
        return _NOTHING
    parts = []
    for place, (name, value) in enumerate(points):
        y = place * _BAR
        long = (_WIDTH - _NAMES - 130) * value / top
        text = cellOf(name)
        parts.append(_label(_NAMES - 8, y + 14, text if len(text) < 44 else text[:43] + "…", "end"))
        parts.append(
            f'<rect x="{_NAMES}" y="{y + 3}" width="{max(long, 1):.1f}" height="{_BAR - 6}"'
            f' fill="{_COLOURS[0]}"/>\n'
        )
        parts.append(_label(_NAMES + long + 6, y + 14, f"{_short(value)} {chart.unit}".strip()))
    return _svg(len(points) * _BAR + 4, parts, chart.unit)


def _spans(chart: Chart) -> str:
    """
    Ranges, a line for each series.
    """
    ends = [end for series in chart.series.values() for point in series for end in point]
    low, high = min(ends, default=0), max(ends, default=0)
    if low == high:
        return _NOTHING
    width = _WIDTH - _NAMES - 20
    parts = []
    for place, (name, series) in enumerate(chart.series.items()):
        y, colour = place * _BAR, _COLOURS[place % len(_COLOURS)]
        parts.append(_label(_NAMES - 8, y + 14, name, "end"))
        for start, stop in series:
            x, long = (_NAMES + width * (start - low) / (high - low), width * (stop - start))
            parts.append(
                f'<rect x="{x:.1f}" y="{y + 3}" width="{max(long / (high - low), 1):.1f}"'
                f' height="{_BAR - 6}" fill="{colour}"/>\n'
            )
    y = len(chart.series) * _BAR + 14
    parts.append(_label(_NAMES, y, low))
    parts.append(_label(_NAMES + width, y, high, "end"))
    return _svg(y + 6, parts, chart.unit)


#: What draws which kind of chart.
_PLOTS = {"lines": _lines, "bars": _bars, "spans": _spans}


def _short(number: float) -> str:
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def _moment(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")
