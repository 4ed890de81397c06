"""
The job C{traffic}: rates per account, per what subjects begin with, and per other cluster.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from natsbroker.spark.errors import DataSourceError
from natsbroker.spark.jobs.common import (
    JobRun,
    JobUsageError,
    Progress,
    addSource,
    command,
    runnerFor,
    runnerOf,
    secondsOf,
    sourceOptions,
    writeWhole,
)
from natsbroker.spark.jobs.report import Chart, JobReport, ReportSection, bytesOf, rateOf
from natsbroker.spark.jobs.reporthtml import addPage, writePage
from natsbroker.spark.jobs.traffic.events import COUNTS, addTo, foldEvents
from natsbroker.spark.jobs.traffic.totals import TimeWindows, TrafficTotals, percentile
from natsbroker.spark.settings import readOptions
from natsbroker.wire.instants import instant

_SECOND = 10**9

#: How many rows of each table are shown, and how many lines drawn.
_TOP = 20
_LINES = 8

#: The most windows that hold one moment.
_OVERLAP = 1000

_SCHEMA = pa.schema(
    [
        ("window_start", pa.timestamp("us", tz="UTC")),
        ("window_end", pa.timestamp("us", tz="UTC")),
        *((name, pa.string()) for name in ("account", "peer_kind", "peer", "subject_prefix")),
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
    @param window: how long each window is, in seconds.
    @param slide: how much later the next begins; 0 for as much.
    @param watermark: how late events may come, in seconds.
    @param to: a directory for the rows as Parquet; none if empty.
    @return: what the job's line of JSON says.
    """
    run = runnerOf(spark)
    windows = windowsOf(window, slide or window, watermark)
    found = foldEvents(readOptions(options), partial(TrafficTotals, windows), run)
    return _summary(found, final, to)


def windowsOf(window: float, slide: float, watermark: float) -> TimeWindows:
    size, step = round(window * _SECOND), round(slide * _SECOND)
    if not 0 < step <= size:
        raise JobUsageError("--slide must be more than nothing and at most --window")
    if size > step * _OVERLAP:
        raise JobUsageError(f"--window must be at most {_OVERLAP} times --slide")
    return TimeWindows(size, step, round(watermark * _SECOND))


def _summary(found: TrafficTotals, final: bool, to: str) -> dict[str, Any]:
    closed = found.closed(final)
    summary: dict[str, Any] = {
        "events": found.events,
        "servers": len(found.servers),
        "strange": found.malformed,
        "windows": len(closed),
        "open": len(found.sums) - len(closed),
    }
    sums = {"": [0] * len(COUNTS)}
    for (_, kind, _, prefix), counts in found.totals(final).items():
        if kind == "client" and prefix:
            addTo(sums, "", counts)
    summary |= dict(zip(COUNTS[:5], sums[""], strict=False))
    if to and closed:
        summary["file"] = writeRows(found, final, to)
    return summary


def writeRows(found: TrafficTotals, final: bool, to: str) -> str:
    closed = found.closed(final)
    edges = [_nameOf(each) for each in (closed[0], closed[-1] + found.windows.size)]
    path = Path(to) / f"traffic-{edges[0]}-{edges[1]}.parquet"
    rows = [
        {**row, **{name: _moment(row[name]) for name in ("window_start", "window_end")}}
        for row in found.rows(final)
    ]
    table = pa.Table.from_pylist(rows, _SCHEMA)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataSourceError(f"{to}: {error.strerror or error}") from None
    writeWhole(path, lambda draft: pq.write_table(table, draft, compression="zstd"))
    return str(path)


def _moment(time: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=time // 1000)


def _nameOf(time: int) -> str:
    return _moment(time).strftime("%Y%m%dT%H%M%S.%fZ")


def reportOf(found: TrafficTotals, final: bool = False, top: int = _TOP) -> JobReport:
    totals, seconds = found.totals(final), max(found.covered(final), 1e-9)
    prefixes = {who: counts for who, counts in totals.items() if who[1] == "client" and who[3]}
    accounts: dict[str, list[int]] = {}
    for (account, _, _, _), counts in prefixes.items():
        addTo(accounts, account, counts)
    for (account, kind, _, prefix), counts in totals.items():
        if kind == "client" and not prefix:
            accounts.setdefault(account, [0] * len(COUNTS))[6] += counts[6]
    names = ("msgs/s in", "in", "msgs/s out", "out", "nobody wanted")
    sections = [
        ReportSection("Accounts over time", chart=_over(found, final)),
        ReportSection(
            "Accounts",
            ("account", *names, "mean size", "p50", "p99", "slow"),
            [
                (account, *_rates(counts, seconds), *_sizes(found, account, counts), counts[6])
                for account, counts in _heaviest(accounts, top)
            ],
            "Sizes are the means of rows, weighed by their messages. Slow: clients that were cut.",
        ),
        ReportSection(
            "Top talkers",
            ("account", "subjects", *names),
            [
                (account, prefix, *_rates(counts, seconds))
                for (account, _, _, prefix), counts in _heaviest(prefixes, top)
            ],
            chart=Chart(
                "bars",
                {
                    "bytes": [
                        (f"{account} {prefix}", counts[1] / seconds)
                        for (account, _, _, prefix), counts in _heaviest(prefixes, top)
                    ]
                },
                "B/s",
            ),
        ),
        ReportSection(
            "Other clusters",
            ("account", "cluster", "subjects", *names[:4], "in vain"),
            [
                (account, peer, prefix, *_rates(counts, seconds))
                for (account, _, peer, prefix), counts in _heaviest(
                    {who: counts for who, counts in totals.items() if who[1] == "gateway"}, top
                )
            ],
            "Without subjects: all that passed over the connections.",
        ),
        ReportSection(
            "Other links",
            ("account", "kind", "peer", *names[:4]),
            [
                (account, kind, peer, *_rates(counts, seconds)[:4])
                for (account, kind, peer, _), counts in _heaviest(
                    {who: each for who, each in totals.items() if who[1] in ("route", "leaf")}, top
                )
            ],
        ),
    ]
    facts = {
        "From": _moment(found.first).isoformat(),
        "To": _moment(found.last).isoformat(),
        "Seconds": found.covered(final),
        "Brokers": len(found.servers),
        "Events": found.events,
    }
    return JobReport("Traffic", facts if found.events else {"Events": 0}, sections)


def _heaviest(sums: Mapping[Any, list[int]], top: int) -> list[tuple[Any, list[int]]]:
    def weight(item: tuple[Any, list[int]]) -> int:
        return item[1][1] + item[1][3]

    return sorted(sums.items(), key=weight, reverse=True)[:top]


def _rates(counts: Sequence[int], seconds: float) -> tuple[Any, ...]:
    a, b, c, d, vain = counts[:5]
    return (a / seconds, rateOf(b / seconds), c / seconds, rateOf(d / seconds), vain)


def _sizes(found: TrafficTotals, account: str, counts: Sequence[int]) -> tuple[str, ...]:
    sizes = found.sizes.get(account, Counter())
    mean = counts[1] / counts[0] if counts[0] else 0.0
    return (bytesOf(mean), *(bytesOf(percentile(sizes, part)) for part in (0.5, 0.99)))


def _over(found: TrafficTotals, final: bool) -> Chart:
    series: dict[str, dict[int, int]] = {}
    begins = found.closed(final)
    for begin in begins:
        for (account, kind, _, prefix), counts in found.sums[begin].items():
            if kind == "client" and prefix:
                points = series.setdefault(account, dict.fromkeys(begins, 0))
                points[begin] += counts[0]
    size = found.windows.size / _SECOND
    heaviest = sorted(series, key=lambda name: sum(series[name].values()), reverse=True)
    lines: dict[str, list[tuple[Any, float]]] = {
        name: [(begin / _SECOND, count / size) for begin, count in series[name].items()]
        for name in heaviest[:_LINES]
    }
    return Chart("lines", lines, "msgs/s in")


def sinceOption(
    since: float | None, options: dict[str, Any], now: Callable[[], float]
) -> dict[str, Any]:
    """
    The options of the data source, with a beginning so long ago.

    @param since: in seconds; C{None} for what they say.
    """
    if since is None:
        return options
    try:
        begin = instant(now() - since)
    except (ValueError, OverflowError, OSError):
        raise JobUsageError("--since: no time was so long ago") from None
    return {
        **options,
        "startingTimestamp": begin,
        "startingOffsetsByTimestampStrategy": "latest",
    }


@command("traffic")
def main(job: JobRun) -> int:
    addSource(job)
    job.add_argument("--since", type=secondsOf, help="from so long ago on (1h, 7d)")
    job.add_argument("--window", type=secondsOf, default=60.0, help="how long a window is")
    job.add_argument("--slide", type=secondsOf, help="how much later the next one begins")
    job.add_argument("--watermark", type=secondsOf, default=30.0, help="how late events may come")
    job.add_argument("--final", action="store_true", help="take the last windows too")
    job.add_argument("--to", default="", help="a directory for the rows, as Parquet")
    addPage(job)
    job.add_argument("--top", type=int, default=_TOP, help="how many rows tables have")
    given = job.given()
    if given.top < 1:
        job.error("--top is 1 at least")
    slide = given.window if given.slide is None else given.slide
    windows = windowsOf(given.window, slide, given.watermark)
    options = sinceOption(given.since, sourceOptions(given), time.time)
    progress = Progress("traffic", job.stderr)
    with runnerFor(given.master) as run:
        found = foldEvents(options, partial(TrafficTotals, windows), run, progress)
    progress.end()
    job.summary.update(_summary(found, given.final, given.to))
    report = reportOf(found, given.final, given.top)
    writePage(report, given.html, job.summary)
    job.stdout.write(report.text() + "\n")
    return 0
