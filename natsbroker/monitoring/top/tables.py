"""
Tables of monitoring pages, with the changes per second between two readings. A value that is
missing or has another type, as in another version, is an empty cell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from natsbroker.config.errors import oneLine
from natsbroker.monitoring.formats import uptime
from natsbroker.wire.durations import durationText

_LARGEST = 1 << 64

_SECONDS = len("2026-11-28T02:00:00")

Item = Mapping[str, Any]
Value = str | float | None


class Unit(Enum):
    TEXT = "text"
    COUNT = "count"
    BYTES = "bytes"
    DURATION = "duration"
    TIME = "time"


@dataclass(frozen=True)
class Column:
    """
    @ivar path: the dotted path of the value in an item.
    @ivar isRate: whether its change per second is shown.
    @ivar sort: the word of C{/connz?sort=}, for a page with the first rows only.
    """

    title: str
    path: str
    unit: Unit = Unit.TEXT
    isRate: bool = False
    sort: str = ""

    @property
    def isDescending(self) -> bool:
        return self.unit is not Unit.TEXT

    def valueIn(self, item: Item) -> Value:
        value = memberAt(item, self.path)
        if self.unit in (Unit.TEXT, Unit.TIME):
            return None if value is None or isinstance(value, dict | list) else str(value)
        if self.unit is Unit.DURATION and isinstance(value, str):
            value = secondsIn(value)
        isNumber = isinstance(value, int | float) and not isinstance(value, bool)
        return value if isNumber and -_LARGEST < value < _LARGEST else None

    def textOf(self, value: Value) -> str:
        if value is None:
            return ""
        if isinstance(value, str):
            return oneLine(value if self.unit is Unit.TEXT else value[:_SECONDS].replace("T", " "))
        return _FORMATS[self.unit](value)


@dataclass(frozen=True)
class View:
    """
    @ivar key: the key that chooses it.
    @ivar itemsIn: gives the items of a page.
    @ivar identity: the paths that tell items apart.
    @ivar limit: the most items of a page. The server gives the number of all items under C{total}.
    @ivar absence: the reason why a server has no such page.
    @ivar detailQuery: the query in addition to C{query} if a page is read for one row.
    @ivar detailNames: the parameters that choose this row, each with the path of the column that
        has its value. Without them the row is searched in the whole page.
    """

    key: str
    title: str
    path: str
    query: Mapping[str, object]
    itemsIn: Callable[[Item], Iterable[Item]]
    identity: tuple[str, ...]
    columns: tuple[Column, ...]
    order: str
    limit: int = 0
    absence: str = ""
    detailQuery: Mapping[str, object] = field(default_factory=dict)
    detailNames: Mapping[str, str] = field(default_factory=dict)

    def identityOf(self, item: Item) -> str:
        values = (memberAt(item, path) for path in self.identity)
        return "\0".join("" if value is None else str(value) for value in values)

    @property
    def question(self) -> dict[str, object]:
        return {**self.query, "limit": self.limit} if self.limit else dict(self.query)

    @property
    def firstSort(self) -> int:
        return [column.title for column in self.columns].index(self.order)


@dataclass(frozen=True)
class Row:
    identity: str
    values: tuple[Value, ...]
    isInternal: bool = False


@dataclass(frozen=True)
class Table:
    """
    One reading of a page.

    @ivar time: when it was read, by a monotonic clock.
    @ivar server: the id of the server. Counters of another server begin at other numbers.
    @ivar counters: the counters from which rates are computed, by row and path.
    @ivar unread: how many items more the server has.
    @ivar isOff: whether the server reports that it does not have the topic of the page.
    """

    time: float
    server: str
    rows: tuple[Row, ...]
    counters: Mapping[str, Mapping[str, Value]] = field(repr=False)
    unread: int = 0
    isOff: bool = False


def tableFrom(view: View, page: Item, time: float, before: Table | None = None) -> Table:
    """C{before} is the reading that rates are counted from."""
    server = str(memberAt(page, "server_id") or "")
    seconds = 0.0
    if before is not None and before.server == server:
        seconds = time - before.time
    rows: list[Row] = []
    counters: dict[str, dict[str, Value]] = {}
    for item in view.itemsIn(page):
        identity = view.identityOf(item)
        if identity in counters:
            continue
        known = before.counters.get(identity, {}) if before is not None and seconds > 0 else {}
        counted = counters[identity] = {
            column.path: column.valueIn(item) for column in view.columns if column.isRate
        }
        values = tuple(
            _rate(known.get(column.path), counted[column.path], seconds)
            if column.isRate
            else column.valueIn(item)
            for column in view.columns
        )
        rows.append(Row(identity, values, bool(item.get(INTERNAL))))
    total = page.get("total")
    unread = max(total - view.limit, 0) if view.limit and isinstance(total, int) else 0
    return Table(time, server, tuple(rows), counters, unread, page.get("disabled") is True)


def _rate(before: Value, now: Value, seconds: float) -> Value:
    if not isinstance(before, int | float) or not isinstance(now, int | float) or now < before:
        return None
    return (now - before) / seconds


def chosenRows(
    table: Table, view: View, sort: int, isDescending: bool, wanted: str = "", internal: bool = True
) -> list[Row]:
    """
    @param sort: a column; rows without a value there come last.
    @param wanted: a text that a cell of a row must have, in any case.
    @param internal: whether rows about the server's own subjects are wanted.
    """
    wanted = wanted.casefold()
    rows = [row for row in table.rows if internal or not row.isInternal]
    if wanted:
        rows = [row for row in rows if _has(row, view.columns, wanted)]
    rows.sort(key=lambda row: row.identity)
    there = [row for row in rows if row.values[sort] is not None]
    there.sort(key=lambda row: _sortKey(row.values[sort]), reverse=isDescending)
    return there + [row for row in rows if row.values[sort] is None]


def _sortKey(value: Value) -> tuple[float, str]:
    return (0.0, value.casefold()) if isinstance(value, str) else (value or 0.0, "")


def _has(row: Row, columns: Sequence[Column], wanted: str) -> bool:
    cells = zip(columns, row.values, strict=True)
    return any(wanted in column.textOf(value).casefold() for column, value in cells)


def memberAt(item: object, path: str) -> Any:
    for name in path.split("."):
        item = item.get(name) if isinstance(item, Mapping) else None
    return item


_UNITS = {
    "y": 31_536_000.0,
    "d": 86_400.0,
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    "\u00b5s": 1e-6,
    "us": 1e-6,
    "ns": 1e-9,
}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|us|\u00b5s|ns|[ydhms])")


def secondsIn(text: str) -> float | None:
    """Seconds of a duration, or an uptime with days and years, as C{1d2h3m4s}."""
    parts = _PART.findall(text)
    if "".join(number + unit for number, unit in parts) != text or not parts:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def countText(value: float) -> str:
    """At most six characters, as C{9999}, C{12.3K} or C{4.5M}."""
    return _scaled(value, 1000, ("", "K", "M", "G", "T", "P"), 10_000)


def bytesText(value: float) -> str:
    return _scaled(value, 1024, ("B", "KB", "MB", "GB", "TB", "PB"), 1024)


def _scaled(value: float, step: int, units: Sequence[str], most: int) -> str:
    if abs(value) < most:
        short = f"{value:.1f}" if value % 1 and abs(value) < 100 else f"{value:.0f}"
        return f"{short}{units[0]}"
    power = 0
    while abs(value) >= step and power < len(units) - 1:
        value /= step
        power += 1
    return f"{value:.1f}{units[power]}"


def spanText(seconds: float) -> str:
    return uptime(seconds) if seconds >= 1 else durationText(seconds)


_FORMATS: Mapping[Unit, Callable[[float], str]] = {
    Unit.TEXT: str,
    Unit.COUNT: countText,
    Unit.BYTES: bytesText,
    Unit.DURATION: spanText,
}

INTERNAL = "internal"
"""The member of an item that marks what the server made for itself."""


def itemsAt(page: object, path: str) -> Iterator[dict[str, Any]]:
    items = memberAt(page, path)
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict):
            yield item
