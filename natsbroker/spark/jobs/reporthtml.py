"""
Reports as HTML: one file, whose charts are SVG in it.

matplotlib would bring 174 MB of packages for the three kinds of charts, and Plotly adds 4.8 MB of
script to each page, where the page's policy lets none run.
"""

from __future__ import annotations

import math
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from html import escape
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width

from natsbroker.spark.jobs.common import writeWhole
from natsbroker.spark.jobs.report import (
    Chart,
    JobReport,
    ReportSection,
    bytesOf,
    cellOf,
    numberColumns,
    rateOf,
)

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 860, 240, 80, 30
_BAR, _NAMES = 20, 300
_TOP, _LINE = 20, 16

#: How far apart marks on an axis of time may be, in seconds, below a day.
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)
_HOURS = (3600, 7200, 10800, 21600, 43200)
_DAY = 86400

#: Columns with a longer word may break it.
_LONG_WORD = 20

_COLOURS = ("#2266aa", "#cc5522", "#228855", "#884499", "#aa8800", "#008899", "#bb3366", "#556677")

_NOTHING = "<p>Nothing to draw.</p>\n"

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 74em; padding: 0 1em;
  color: #1b1f24; background: #fff }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin-top: 2em }
table { border-collapse: collapse; margin: .5em 0; font-variant-numeric: tabular-nums }
th, td { padding: .2em .6em; border-bottom: 1px solid #d8dde3; text-align: left;
  vertical-align: top }
th[scope=row] { font-weight: normal }
.n { text-align: right } td.n { white-space: nowrap }
.w { overflow-wrap: anywhere; min-width: 9em }
.wide { overflow-x: auto }
svg { display: block; margin: .5em 0; min-width: 700px; max-width: 100%; height: auto }
svg text { font: 12px system-ui, sans-serif; fill: #444 }
.note { color: #555 }
@media print {
  body { margin: 0; max-width: none; padding: 0; font-size: 9pt }
  h2 { break-after: avoid } tr, svg { break-inside: avoid }
  .wide { overflow: visible } .w { min-width: 6em } svg { min-width: 0 }
  th, td { padding: .15em .4em }
}
"""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def pageOf(report: JobReport) -> str:
    return "".join(_page(report))


def addPage(parser: ArgumentParser) -> None:
    parser.add_argument("--html", default="", help="a file for the report, with plots")


def writePage(report: JobReport, path: str, summary: dict[str, Any]) -> None:
    """
    @param path: none if empty.
    @param summary: gets the path.
    """
    if path:
        writeWhole(Path(path), lambda draft: draft.write_text(pageOf(report), "utf-8"))
        summary["html"] = path


def _page(report: JobReport) -> Iterator[str]:
    title = _text(report.title)
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
    yield f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
    yield f"<h1>{title}</h1>\n"
    if report.facts:
        yield _facts(report.facts)
    for each in report.sections:
        yield from _section(each)
    yield "</main>\n</body>\n</html>\n"


def _section(section: ReportSection) -> Iterator[str]:
    yield f"<h2>{_text(section.title)}</h2>\n"
    if section.note:
        yield f'<p class="note">{_text(section.note)}</p>\n'
    if section.chart is not None:
        drawn = _PLOTS[section.chart.kind](section.chart, section.title)
        if drawn:
            yield f'<div class="wide">\n{drawn}</div>\n'
        elif not section.columns:
            yield _NOTHING
    if section.columns:
        yield _table(section.columns, section.rows) if section.rows else "<p>None.</p>\n"


def _text(value: Any) -> str:
    return escape(cellOf(value))


def _facts(facts: dict[str, Any]) -> str:
    marks = _marks([(value,) for value in facts.values()])
    lines = (
        f'<tr><th scope="row">{_text(name)}</th><td{marks[0]}>{_text(value)}</td></tr>\n'
        for name, value in facts.items()
    )
    return f'<div class="wide">\n<table>\n{"".join(lines)}</table>\n</div>\n'


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    marks = _marks(rows)
    head = "".join(
        f'<th scope="col"{mark}>{_text(name)}</th>'
        for name, mark in zip(columns, marks, strict=True)
    )
    lines = []
    for row in rows:
        cells = (f"<td{mark}>{_text(cell)}</td>" for cell, mark in zip(row, marks, strict=True))
        lines.append(f"<tr>{''.join(cells)}</tr>\n")
    return (
        f'<div class="wide">\n<table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{''.join(lines)}</tbody>\n</table>\n</div>\n"
    )


def _marks(rows: Sequence[Sequence[Any]]) -> list[str]:
    """
    What says of each column how it is set: numbers end at the same place, and only long words break
    where they need not.
    """
    found = []
    for isNumber, column in zip(numberColumns(rows), zip(*rows, strict=True), strict=True):
        words = (word for cell in column for word in cellOf(cell).split())
        isLong = not isNumber and max(map(len, words), default=0) > _LONG_WORD
        found.append(' class="n"' if isNumber else ' class="w"' if isLong else "")
    return found


# Plots: nothing, where there is nothing to draw.


def _svg(height: float, parts: Sequence[str], title: str, top: int = 0) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 {-top} {_WIDTH} {height + top:.0f}"'
        f' role="img" width="{_WIDTH}"><title>{_text(title)}</title>\n{"".join(parts)}</svg>\n'
    )


def _titleOf(title: str, chart: Chart) -> str:
    return f"{title} ({chart.unit})" if chart.unit else title


def _label(x: float, y: float, text: Any, anchor: str = "start", room: float = _WIDTH) -> str:
    shown = escape(_fitted(cellOf(text), room))
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{shown}</text>\n'


def _fitted(text: str, room: float) -> str:
    """
    As much of a text as there is room for, without its middle: names differ where they begin and
    where they end.
    """
    if sum(map(_widthOf, text)) <= room:
        return text
    room -= _widthOf("…")
    start, stop = 0, len(text)
    for place in range(len(text)):
        isFront = place % 2 == 0
        room -= _widthOf(text[start] if isFront else text[stop - 1])
        if room < 0:
            break
        start, stop = (start + 1, stop) if isFront else (start, stop - 1)
    return f"{text[:start]}…{text[stop:]}"


def _widthOf(character: str) -> float:
    """
    How wide a character of a label is at most, in a font that is wide.
    """
    if character in "…mwMW@%" or east_asian_width(character) in "WF":
        return 12.0
    return 4.5 if character in "ijlft.,:-I' " else 9.0 if character.isupper() else 7.7


def _lines(chart: Chart, title: str) -> str:
    points = [point for series in chart.series.values() for point in series]
    if not points:
        return ""
    low, high = min(x for x, _ in points), max(x for x, _ in points)
    top = max(y for _, y in points)
    top = top if top > 0 else 1.0
    width, height = _WIDTH - _LEFT - 10, _HEIGHT - _BOTTOM - 10

    def at(x: float, y: float) -> tuple[float, float]:
        across = (x - low) / (high - low) if high > low else 0.5
        return _LEFT + width * across, 10 + height * (1 - y / top)

    parts = [_label(_LEFT, -6, chart.unit)] if chart.unit else []
    for mark in _marksUpTo(top):
        _, y = at(low, mark)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - 10}" stroke="#e3e7ec" fill="none"/>\n')
        parts.append(_label(_LEFT - 6, y + 4, _short(mark), "end"))
    for mark, text in _clockMarks(low, high):
        x, y = at(mark, 0)
        parts.append(f'<path d="M{x:.1f} {y:.1f}v5" stroke="#8a929b" fill="none"/>\n')
        parts.append(_label(x, y + 18, text, "middle" if x < _WIDTH - 40 else "end"))
    ends = ((low, "start"), (high, "end")) if low < high else ((low, "middle"),)
    for x, anchor in ends:
        parts.append(_label(at(x, 0)[0], _HEIGHT + 4, _moment(x), anchor))
    for place, (name, series) in enumerate(chart.series.items()):
        colour = _COLOURS[place % len(_COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*each) for each in sorted(series)))
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>\n'
        )
        if len(series) == 1:
            x, y = at(*series[0])
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>\n')
        y = _HEIGHT + _LINE * (place + 1) + 10
        parts.append(f'<rect x="{_LEFT}" y="{y - 9}" width="10" height="10" fill="{colour}"/>\n')
        parts.append(_label(_LEFT + 16, y, name, room=width - 16))
    bottom = _HEIGHT + _LINE * (len(chart.series) + 1)
    return _svg(bottom, parts, _titleOf(title, chart), _TOP)


def _bars(chart: Chart, title: str) -> str:
    (points,) = list(chart.series.values())[:1] or [[]]
    top = max((y for _, y in points), default=0.0)
    if top <= 0:
        return ""
    parts = []
    for place, (name, value) in enumerate(points):
        y = place * _BAR
        long = (_WIDTH - _NAMES - 130) * value / top
        parts.append(_label(_NAMES - 8, y + 14, name, "end", _NAMES - 8))
        if value > 0:
            parts.append(
                f'<rect x="{_NAMES}" y="{y + 3}" width="{max(long, 1):.1f}" height="{_BAR - 6}"'
                f' fill="{_COLOURS[0]}"/>\n'
            )
        parts.append(_label(_NAMES + long + 6, y + 14, _amount(value, chart.unit)))
    return _svg(len(points) * _BAR + 4, parts, _titleOf(title, chart))


def _ranges(chart: Chart, title: str) -> str:
    ends = [end for series in chart.series.values() for point in series for end in point]
    low, high = min(ends, default=0), max(ends, default=0)
    if low == high:
        return ""
    width = _WIDTH - _NAMES - 20
    parts = []
    for place, (name, series) in enumerate(chart.series.items()):
        y, colour = place * _BAR, _COLOURS[place % len(_COLOURS)]
        parts.append(_label(_NAMES - 8, y + 14, name, "end", _NAMES - 8))
        for start, stop in series:
            x, long = (_NAMES + width * (start - low) / (high - low), width * (stop - start))
            parts.append(
                f'<rect x="{x:.1f}" y="{y + 3}" width="{max(long / (high - low), 2):.1f}"'
                f' height="{_BAR - 6}" fill="{colour}"/>\n'
            )
    y = len(chart.series) * _BAR + 4
    parts.append(
        f'<path d="M{_NAMES} {y + 4}v-4H{_NAMES + width}v4" stroke="#8a929b" fill="none"/>\n'
    )
    y += 16
    parts.append(_label(_NAMES, y, low))
    parts.append(_label(_NAMES + width / 2, y, chart.unit, "middle"))
    parts.append(_label(_NAMES + width, y, high, "end"))
    return _svg(y + 6, parts, _titleOf(title, chart))


#: What draws which kind of chart.
_PLOTS = {"lines": _lines, "bars": _bars, "ranges": _ranges}


def _marksUpTo(top: float) -> Iterator[float]:
    size = 10 ** math.floor(math.log10(top / 5))
    step = next(each * size for each in (1, 2, 2.5, 5, 10) if each * size >= top / 5 * 0.999999)
    for place in range(math.floor(top / step * 1.000001) + 1):
        yield place * step


def _clockMarks(low: float, high: float) -> Iterator[tuple[float, str]]:
    if high <= low:
        return
    least = (high - low) / 8
    step = next((each for each in (*_STEPS, *_HOURS) if each >= least), 0)
    step = step or _DAY * math.ceil(least / _DAY)
    for place in range(math.ceil(low / step), math.floor(high / step) + 1):
        seconds = place * step
        form = "%m-%d" if seconds % _DAY == 0 else "%H:%M" if step >= 60 else "%H:%M:%S"
        yield seconds, datetime.fromtimestamp(seconds, timezone.utc).strftime(form)


def _amount(number: float, unit: str) -> str:
    if unit == "B":
        return bytesOf(number)
    return rateOf(number) if unit == "B/s" else f"{_short(number)} {unit}".strip()


def _short(number: float) -> str:
    for size, unit in zip((1e18, 1e15, 1e12, 1e9, 1e6, 1e3), "EPTGMk", strict=True):
        if number >= size * 0.9995:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def _moment(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")
