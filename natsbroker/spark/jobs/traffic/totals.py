"""The closed windows, to which no more events can be added."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import Any, NamedTuple

from natsbroker.spark.datasource.tasks import batchesOf, connected
from natsbroker.spark.errors import DataSourceError
from natsbroker.spark.jobs.common import Runner
from natsbroker.spark.logs.apis import nanoseconds
from natsbroker.spark.logs.planning import checkedNames, logsOf, planRanges, split
from natsbroker.spark.logs.wholeranges import SequenceRange

#: The counts in rows of traffic.
COUNTS = (
    *("msgs_in", "bytes_in", "msgs_out", "bytes_out"),
    *("no_interest", "rs_minus_sent", "slow_drops"),
)

#: The fields that say whose traffic a row counts.
NAMES = ("account", "peer_kind", "peer", "subject_prefix")

_TYPE = "io.natsbroker.event.v1."
_TEXTS, _NUMBERS = (*NAMES, "mode"), (*COUNTS, "patterns", "refused")

#: Account, kind of peer, peer, and prefix.
Who = tuple[str, str, str, str]


class EventRow(NamedTuple):
    who: Who
    counts: list[int]
    mode: str
    patterns: int


class BrokerEvent(NamedTuple):
    """An event of a broker."""

    kind: str
    time: int
    seconds: float
    server: str
    cluster: str
    rows: list[EventRow]


def readEvent(data: bytes) -> BrokerEvent:
    try:
        document = json.loads(data)
        server, cluster = _texts([document["server"]["id"], document["cluster"]])
        kind, time = document["type"].removeprefix(_TYPE), nanoseconds(document["timestamp"])
        rows = [_row(row) for row in document["rows"]]
        event = BrokerEvent(kind, time, float(document["seconds"]), server, cluster, rows)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        raise ValueError("not an event of a broker") from None
    if event.kind not in ("traffic", "interest") or not 0 <= event.seconds < 1e6:
        raise ValueError("not a known event")
    return event


def _row(row: dict[str, Any]) -> EventRow:
    account, kind, peer, prefix, mode = _texts([row.get(name, "") for name in _TEXTS])
    values = [row.get(name, 0) for name in _NUMBERS]
    if not all(type(value) is int and 0 <= value < 1 << 62 for value in values):
        raise ValueError("counts are expected")
    *counts, patterns, _ = values
    return EventRow((account, kind, peer, prefix), counts, mode, patterns)


def _texts(values: list[Any]) -> list[str]:
    if not all(isinstance(value, str) for value in values):
        raise TypeError("texts are expected")
    return values


SECOND = 10**9

#: The most sums.
_MOST = 4_000_000

#: The processors that work on them, and the tasks handed out at a time, so that it can be
#: told how far they are.
_PROCESSORS, _AT_ONCE = 4, 8

Sums = list[int]


@dataclass(frozen=True)
class TimeWindows:
    """
    Windows of time, which begin at multiples of C{slide} since 1970.

    @ivar watermark: how late events may come: a window that ended longer ago than this before the
        newest event is closed.
    """

    size: int
    slide: int
    watermark: int

    def of(self, time: int) -> Iterable[int]:
        return range(time - time % self.slide, time - self.size, -self.slide)


class EventTotals:
    """
    @ivar sums: counts for each window, or without windows for each cluster, by their source.
    @ivar sizes: for each account, the numbers of clients' messages by mean size in bytes.
    @ivar interest: the newest event of what is subscribed to, by the server.
    @ivar first: when the earliest event of traffic began, in nanoseconds since 1970; 0 without.
    @ivar last: when the latest one was made.
    """

    def __init__(self, windows: TimeWindows | None = None) -> None:
        self.windows = windows
        self.sums: defaultdict[Any, dict[Who, Sums]] = defaultdict(dict)
        self.sizes: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self.interest: dict[str, BrokerEvent] = {}
        self.servers: set[str] = set()
        self.kinds: Counter[str] = Counter()
        self.first = self.last = self.malformed = self._size = 0

    def add(self, event: BrokerEvent) -> None:
        self.kinds[event.kind] += 1
        if event.kind == "interest":
            self._hear(event)
            return
        lasted = int(event.seconds * SECOND)
        self._span(event.time - lasted, event.time)
        self.servers.add(event.server)
        groups: Iterable[Any] = [event.cluster]
        if self.windows is not None:
            groups = self.windows.of(event.time - lasted // 2)
        for row in event.rows:
            for group in groups:
                self._count(group, row.who, row.counts)
            messages, size = row.counts[:2]
            if row.who[1] == "client" and messages:
                self.sizes[row.who[0]][size // messages] += messages

    def _hear(self, event: BrokerEvent) -> None:
        known = self.interest.get(event.server)
        if known is None or event.time > known.time:
            self.interest[event.server] = event
        elif event.time == known.time:
            known.rows.extend(event.rows)  # Another part of it.

    def _span(self, first: int, last: int) -> None:
        self.first = min(self.first, first) if self.last else first
        self.last = max(self.last, last)

    def _count(self, group: Any, who: Who, counts: Sums) -> None:
        sums = self.sums[group]
        self._size += who not in sums
        if self._size > _MOST:
            larger = "a larger --window, or " if self.windows else ""
            raise DataSourceError(f"too many sums: take {larger}a later --since")
        addTo(sums, who, counts)

    def merge(self, other: EventTotals) -> None:
        if other.last:
            self._span(other.first, other.last)
        self.kinds += other.kinds
        self.malformed += other.malformed
        self.servers |= other.servers
        for account, sizes in other.sizes.items():
            self.sizes[account].update(sizes)
        for group, sums in other.sums.items():
            for who, counts in sums.items():
                self._count(group, who, counts)
        for event in other.interest.values():
            self._hear(event)


def addTo(sums: dict[Any, Sums], key: Any, counts: Iterable[int]) -> None:
    before = sums.get(key)
    sums[key] = list(counts) if before is None else list(map(add, before, counts))


def foldRange(
    options: dict[str, Any], windows: TimeWindows | None, bounds: SequenceRange
) -> EventTotals:
    totals = EventTotals(windows)
    patterns = tuple(options["subject"])
    for batch in batchesOf(options, ("seq", "data"), bounds, patterns):
        for data in batch.column(1).to_pylist():
            try:
                event = readEvent(data or b"")
            except ValueError:
                totals.malformed += 1
            else:
                totals.add(event)
    return totals


def foldEvents(
    options: dict[str, Any],
    windows: TimeWindows | None,
    run: Runner,
    onProgress: Callable[[int, int], object] = lambda done, end: None,
) -> EventTotals:
    checkedNames(options)
    with connected(options) as connection:
        ranges = planRanges(logsOf(connection, options), options)
    pieces = split(ranges, options["minPartitions"], options["maxRowsPerPartition"], _PROCESSORS)
    end = sum(piece.stop - piece.start for piece in pieces)
    whole, done = EventTotals(windows), 0
    for place in range(0, len(pieces), _AT_ONCE):
        some = pieces[place : place + _AT_ONCE]
        for part in run(partial(foldRange, options, windows), some):
            whole.merge(part)
        done += sum(piece.stop - piece.start for piece in some)
        onProgress(done, end)
    return whole
