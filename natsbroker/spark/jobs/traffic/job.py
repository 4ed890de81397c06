"""The job C{traffic}: rates per account, per what subjects begin with, and per other cluster."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from natsbroker.spark.errors import OptionError
from natsbroker.spark.jobs.common import (
    JobRun,
    command,
    runnerOf,
    sessionFor,
    sourceOptions,
    writeWhole,
)
from natsbroker.spark.jobs.report import (
    Chart,
    JobReport,
    ReportSection,
    bytesOf,
    rateOf,
    writePage,
)
from natsbroker.spark.jobs.traffic.totals import (
    COUNTS,
    NAMES,
    SECOND,
    EventTotals,
    Sums,
    TimeWindows,
    Who,
    addTo,
    foldEvents,
)
from natsbroker.spark.settings import readOptions
from natsbroker.wire.instants import instant

#: The most lines that are drawn.
_LINES = 8

#: The most windows that hold one moment.
_OVERLAP = 1000

_SCHEMA = pa.schema(
    [
        ("window_start", pa.timestamp("us", tz="UTC")),
        ("window_end", pa.timestamp("us", tz="UTC")),
        *((name, pa.string()) for name in NAMES),
        *((name, pa.int64()) for name in COUNTS),
        *((f"{name}_rate", pa.float64()) for name in COUNTS[:4]),
    ]
)


def traffic(
    spark: Any,
    options: Mapping[str, str],
    window: float = 60.0,
    slide: float = 0.0,
    watermark: float = 30.0,
    final: bool = False,
    to: str = "",
) -> dict[str, Any]:
    """
    Sum up events of traffic.

    @param spark: a session whose workers read; C{None} to do it here.
    @param options: of the data source: C{servers}, and C{stream} or C{channel} with the events.
    @param window: the length of a window, in seconds.
    @param slide: seconds between the beginnings of two windows; 0 for the length of one.
    @param watermark: how late events may come, in seconds.
    @param to: a directory for the rows as Parquet; none if empty.
    @return: the job's line of JSON.
    """
    windows = windowsOf(window, slide or window, watermark)
    totals = foldEvents(readOptions(options), windows, runnerOf(spark))
    return ClosedWindows(totals, windows, final).summary(to)


def windowsOf(window: float, slide: float, watermark: float) -> TimeWindows:
    size, step = round(window * SECOND), round(slide * SECOND)
    if not 0 < step <= size:
        raise OptionError("--slide must be more than 0 and at most --window")
    if size > step * _OVERLAP:
        raise OptionError(f"--window must be at most {_OVERLAP} times --slide")
    return TimeWindows(size, step, round(watermark * SECOND))


class ClosedWindows:
    """
    The windows to which no event can be added any more.

    @ivar totals: sums of the windows that do not overlap: the first, and each that begins at or
        after the end of the one before.
    @ivar seconds: the time that these cover, from the first event to the last.
    """

    def __init__(self, totals: EventTotals, windows: TimeWindows, final: bool) -> None:
        self._events = totals
        self._size = windows.size
        edge = totals.last - windows.watermark - windows.size
        self.begins: list[int] = sorted(begin for begin in totals.sums if final or begin <= edge)
        self.totals: dict[Who, Sums] = {}
        after, covered = 0, 0
        for begin in self.begins:
            if begin >= after:
                after = begin + windows.size
                covered += max(min(after, totals.last) - max(begin, totals.first), 0)
                for who, counts in totals.sums[begin].items():
                    addTo(self.totals, who, counts)
        self.seconds = covered / SECOND

    def summary(self, to: str) -> dict[str, Any]:
        clients = [c for (_, kind, _, x), c in self.totals.items() if kind == "client" and x]
        return {
            "events": self._events.kinds["traffic"],
            "servers": len(self._events.servers),
            "strange": self._events.malformed,
            "windows": len(self.begins),
            "open": len(self._events.sums) - len(self.begins),
            **{
                name: sum(client[place] for client in clients)
                for place, name in enumerate(COUNTS[:5])
            },
            **({"file": self.write(to)} if to and self.begins else {}),
        }

    def write(self, to: str) -> str:
        edges = (self.begins[0], self.begins[-1] + self._size)
        first, last = (_moment(edge).strftime("%Y%m%dT%H%M%S.%fZ") for edge in edges)
        path = Path(to) / f"traffic-{first}-{last}.parquet"
        rows = (
            (
                *(_moment(begin), _moment(begin + self._size), *who, *counts),
                *(count * SECOND / self._size for count in counts[:4]),
            )
            for begin in self.begins
            for who, counts in sorted(self._events.sums[begin].items())
        )
        table = pa.table([list(column) for column in zip(*rows, strict=True)], schema=_SCHEMA)

        def write(draft: Path) -> None:
            draft.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, draft, compression="zstd")

        writeWhole(path, write)
        return str(path)

    def report(self, top: int) -> JobReport:
        totals = self._events
        facts: dict[str, Any] = {"Events": totals.kinds["traffic"]}
        if facts["Events"]:
            facts = {
                "From": _moment(totals.first).isoformat(),
                "To": _moment(totals.last).isoformat(),
                "Seconds": self.seconds,
                "Brokers": len(totals.servers),
                **facts,
            }
        return JobReport("Traffic", facts, self._sections(top))

    def _sections(self, top: int) -> list[ReportSection]:
        accounts: dict[str, Sums] = {}
        for (account, kind, _, prefix), counts in self.totals.items():
            if kind == "client":
                # Without a prefix only slow clients are counted.
                addTo(accounts, account, counts if prefix else [*[0] * 6, counts[6]])
        talkers = _heaviest(self.totals, top, lambda who: who[1] == "client" and bool(who[3]))
        clusters = _heaviest(self.totals, top, lambda who: who[1] == "gateway")
        links = _heaviest(self.totals, top, lambda who: who[1] in ("route", "leaf"))
        names = ("msgs/s in", "in", "msgs/s out", "out", "nobody wanted")
        bars = [(f"{who[0]} {who[3]}", self._rate(counts[1])) for who, counts in talkers]
        return [
            ReportSection("Accounts over time", chart=self._overTime()),
            ReportSection(
                "Accounts",
                ("account", *names, "mean size", "p50", "p99", "slow"),
                [
                    (account, *self._rates(counts), *self._sizes(account, counts), counts[6])
                    for account, counts in _heaviest(accounts, top)
                ],
                "Sizes are the means of rows, weighed by their messages. Slow: clients that were"
                " cut.",
            ),
            ReportSection(
                "Top talkers",
                ("account", "subjects", *names),
                [(who[0], who[3], *self._rates(counts)) for who, counts in talkers],
                chart=Chart("bars", {"": bars}, "B/s"),
            ),
            ReportSection(
                "Other clusters",
                ("account", "cluster", "subjects", *names[:4], "in vain"),
                [(who[0], *who[2:], *self._rates(counts)) for who, counts in clusters],
                "Without subjects: all that passed over the connections.",
            ),
            ReportSection(
                "Other links",
                ("account", "kind", "peer", *names[:4]),
                [(*who[:3], *self._rates(counts)[:4]) for who, counts in links],
            ),
        ]

    def _rate(self, count: float) -> float:
        return count / max(self.seconds, 1e-9)

    def _rates(self, counts: Sums) -> tuple[Any, ...]:
        a, b, c, d = map(self._rate, counts[:4])
        return (a, rateOf(b), c, rateOf(d), counts[4])

    def _sizes(self, account: str, counts: Sums) -> tuple[str, ...]:
        sizes = self._events.sizes[account]
        mean = counts[1] / counts[0] if counts[0] else 0.0
        return (bytesOf(mean), *(bytesOf(percentile(sizes, part)) for part in (0.5, 0.99)))

    def _overTime(self) -> Chart:
        """
        The rates of the heaviest accounts; an account without traffic in a window has 0 there.
        """
        series: dict[str, Counter[int]] = {}
        for begin in self.begins:
            for (account, kind, _, prefix), counts in self._events.sums[begin].items():
                if kind == "client" and prefix:
                    series.setdefault(account, Counter())[begin] += counts[0]
        heaviest = sorted(series.items(), key=lambda item: item[1].total(), reverse=True)
        lines: dict[str, list[tuple[Any, float]]] = {
            name: [(at / SECOND, counts[at] * SECOND / self._size) for at in self.begins]
            for name, counts in heaviest[:_LINES]
        }
        return Chart("lines", lines, "msgs/s in")


def _heaviest(
    sums: Mapping[Any, Sums], top: int, isWanted: Callable[[Any], bool] = lambda who: True
) -> list[tuple[Any, Sums]]:
    chosen = [(who, counts) for who, counts in sums.items() if isWanted(who)]
    return sorted(chosen, key=lambda item: item[1][1] + item[1][3], reverse=True)[:top]


def percentile(sizes: Counter[int], part: float) -> int:
    left = part * sizes.total()
    for size in sorted(sizes):
        left -= sizes[size]
        if left <= 0:
            return size
    return max(sizes, default=0)


def _moment(time: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=time // 1000)


# The command line, of which the job C{interest} has a part.


def addEvents(job: JobRun) -> None:
    job.addSource()
    job.addMaster()
    job.duration("--since", None, "from so long ago on (1h, 7d)")
    job.addPage()
    job.option("--top", 20, "how many rows tables have")


def readEvents(
    job: JobRun, given: argparse.Namespace, windows: TimeWindows | None = None
) -> EventTotals:
    if given.top < 1:
        job.error("--top is 1 at least")
    options = sourceOptions(given)
    if given.since is not None:
        try:
            options["startingTimestamp"] = instant(time.time() - given.since)
        except (ValueError, OverflowError, OSError):
            raise OptionError("--since: no time was so long ago") from None
        options["startingOffsetsByTimestampStrategy"] = "latest"
    with sessionFor(given.master) as spark:
        return foldEvents(options, windows, runnerOf(spark), job.progress)


def writeReport(job: JobRun, given: argparse.Namespace, report: JobReport) -> None:
    writePage(report, given.html, job.summary)
    job.stdout.write(report.text() + "\n")


@command("traffic")
def main(job: JobRun) -> int:
    addEvents(job)
    job.duration("--window", 60.0, "how long a window is")
    job.duration("--slide", None, "how much later the next one begins")
    job.duration("--watermark", 30.0, "how late events may come")
    job.option("--final", False, "take the last windows too")
    job.option("--to", "", "a directory for the rows, as Parquet")
    given = job.given()
    slide = given.window if given.slide is None else given.slide
    windows = windowsOf(given.window, slide, given.watermark)
    closed = ClosedWindows(readEvents(job, given, windows), windows, given.final)
    job.summary.update(closed.summary(given.to))
    writeReport(job, given, closed.report(given.top))
    return 0
