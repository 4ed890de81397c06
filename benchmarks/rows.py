"""
The table of what is measured and what is aimed at.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from benchmarks.figures import Bound, Unit, atLeast, atMost
from benchmarks.operationrows import OPERATIONS
from benchmarks.row import Figure, Row
from benchmarks.streamrows import JETSTREAMS, STREAMS

__all__ = ["QUICK", "ROWS", "Figure", "Row", "choose"]

SIZES = (16, 128, 1024, 16384)

PURE = atLeast(0.15)
"""Of nats-server's throughput, without the compiled lane."""


def target(size: int, small: float) -> Bound:
    """
    @param small: the bound up to 128 bytes; above, copying is what counts and the shape is not.
    @return: the bound for messages of C{size} bytes.
    """
    if size <= 128:
        return atLeast(small)
    return atLeast(1.8 if size <= 1024 else 1.2)


def traffic(name: str, title: str, sizes: Sequence[int], small: float, *load: str) -> Iterator[Row]:
    """
    @return: one row a size; C{small} is the target up to 128 bytes.
    """
    for size in sizes:
        old = atLeast(2.0) if size <= 128 else None
        figure = Figure("rate", Unit.PER_SECOND, "", target(size, small), PURE, old)
        arguments = (*load, "--size", str(size))
        yield Row(f"{name}-{size}", f"{title}, {size:,} B", "traffic", arguments, (figure,))


def requests(inFlight: int, most: float) -> Row:
    """
    @return: the row of request/reply latency with C{inFlight} requests outstanding.
    """
    figures = (
        Figure("p50", Unit.MICROSECONDS, "p50", atMost(most)),
        Figure("p99", Unit.MICROSECONDS, "p99", atMost(most)),
    )
    load = ("--in-flight", str(inFlight), "--size", "16")
    return Row(
        f"request-{inFlight}", f"request/reply, {inFlight} in flight", "request", load, figures
    )


def encrypted(row: Row) -> Row:
    """
    @return: C{row} over TLS on both sides.
    """
    equal = {"rate": atLeast(1.0)}
    figures = tuple(
        replace(figure, fast=equal.get(figure.key), pure=None, old=None) for figure in row.figures
    )
    return replace(
        row,
        key=f"tls-{row.key}",
        title=f"TLS: {row.title}",
        load=(*row.load, "--tls"),
        figures=figures,
        setting="tls" if row.setting == "plain" else f"{row.setting}-tls",
    )


def framed(row: Row) -> Row:
    """
    @return: C{row} over WebSocket on both sides.
    """
    figures = tuple(
        replace(
            figure, fast=atLeast(1.0) if figure.key == "rate" else atMost(1.0), pure=None, old=None
        )
        for figure in row.figures
    )
    return replace(
        row,
        key=f"ws-{row.key}",
        title=f"WebSocket: {row.title}",
        figures=figures,
        setting="websocket",
    )


def permitted(row: Row) -> Row:
    """
    @return: C{row} with per-user permissions on, compared with ours without.
    """
    figures = tuple(
        replace(figure, fast=atLeast(0.85), pure=None, old=None) for figure in row.figures
    )
    return replace(
        row,
        key=f"permissions-{row.key}",
        title=f"permissions on, beside off: {row.title}",
        figures=figures,
        setting="permissions",
        against="plain",
    )


def relayed(row: Row) -> Row:
    """
    @return: C{row} with per-user permissions on, compared with the relay, which has none.
    """
    figures = tuple(
        replace(figure, fast=atLeast(0.8), pure=None, old=None) for figure in row.figures
    )
    return replace(
        row,
        key=f"relay-{row.key}",
        title=f"permissions on, beside a relay in C: {row.title}",
        figures=figures,
        setting="permissions",
        isRelayed=True,
    )


def memory(key: str, title: str, kind: str, unit: Unit, *load: str) -> Row:
    """
    @return: a row of resident memory, which is to be half of nats-server's.
    """
    half = atMost(0.5)
    figure = Figure("memory", unit, "", half, half)
    return Row(f"memory-{key}", title, kind, load, (figure,), fresh=True)


INTEREST = Row(
    "route-interest",
    "two nodes, route, processor time of receiving 200,000 subscriptions",
    "interest",
    ("--connections", "10", "--count", "200000"),
    (Figure("work", Unit.MILLISECONDS, "", atMost(1.5)),),
    setting="route",
    fresh=True,
)

STORM = Row(
    "storm",
    "5,000 clients connect at once",
    "storm",
    ("--connections", "5000", "--window", "1000", "--established", "100"),
    (
        Figure("rate", Unit.PER_SECOND, "connects", atLeast(1.0), limit=atLeast(2000)),
        Figure("answering", Unit.COUNT, "answering afterwards", limit=atLeast(5000)),
        Figure("ping_p99", Unit.MILLISECONDS, "PING p99 of 100 others", limit=atMost(250)),
    ),
    fresh=True,
)

STALLED = Row(
    "stalled",
    "20 stalled subscribers",
    "stalled",
    ("--connections", "20", "--size", "65536"),
    (
        Figure("limits", Unit.TIMES, "peak memory / sum of max_pending", limit=atMost(1.1)),
        Figure("gap", Unit.MILLISECONDS, "longest silence for another subscriber"),
        Figure("healthy", Unit.PER_SECOND, "messages to another subscriber"),
    ),
    setting="stalled",
    fresh=True,
)

LINKS = (
    ("route", "two nodes, route"),
    ("gateway", "two clusters, gateway"),
    ("leaf", "two nodes, leafnode"),
)
"""The kinds of link between two nodes: the setting's name, which its rows' keys begin with, and a
title."""

ONE = ("--subscribers", "1")
FAN = ("--subscribers", "8", "--fanout")
SMALL = SIZES[:3]


def linked(kind: str, title: str) -> Iterator[Row]:
    """
    @param kind: the setting of two servers with a link between them.
    @return: the rows of what passes from the one to the other.
    """
    equal = {"rate": atLeast(1.0)}
    queue = ("--subscribers", "4", "--queue", "workers")
    rows = [
        *traffic("", f"{title}, 1 to 1", SIZES, 0, *ONE),
        *traffic("-queue", f"{title}, queue group of 4", SIZES[1:2], 0, *queue),
        replace(requests(1, 1.2), key="-request-1"),
    ]
    for row in rows:
        yield replace(
            row,
            key=f"{kind}{row.key}",
            title=row.title if row.kind == "traffic" else f"{title}, {row.title}",
            setting=kind,
            figures=tuple(
                replace(figure, fast=equal.get(figure.key, figure.fast), pure=None, old=None)
                for figure in row.figures
            ),
        )


def memories() -> Iterator[Row]:
    """
    @return: the rows of resident memory.
    """
    idle = memory(
        "idle",
        "memory of an idle connection",
        "idle",
        Unit.KIBIBYTES,
        *("--connections", "2000"),
    )
    subscriptions = memory(
        "subscriptions",
        "memory of 100,000 subscriptions",
        "subscriptions",
        Unit.MEBIBYTES,
        *("--connections", "10", "--count", "100000"),
    )
    yield idle
    yield encrypted(idle)
    yield subscriptions
    yield replace(
        subscriptions,
        key="memory-wildcards",
        title="memory of 100,000 wildcard subscriptions",
        load=(*subscriptions.load, "--wild"),
    )


def webSockets() -> Iterator[Row]:
    """
    @return: what is measured over WebSocket.
    """
    yield from traffic("publish", "publish only", SIZES[:1], 0)
    yield from traffic("one", "1 to 1", SIZES, 0, *ONE)
    yield from traffic("fan8", "fan-out 1 to 8", SIZES[1:2], 0, *FAN)
    yield from (requests(inFlight, 1.0) for inFlight in (1, 16, 64))


def table() -> Iterator[Row]:
    """
    @return: every row, in the order of the report.
    """
    eight = ("--publishers", "8", "--subscribers", "8", "--subjects", "8")
    yield from traffic("publish", "publish only", SIZES, 4.0)
    yield from traffic("one", "1 to 1", SIZES, 4.0, *ONE)
    yield from traffic("fan8", "fan-out 1 to 8", SIZES, 4.0, *FAN)
    yield from traffic("eight", "8 to 8", SIZES, 4.0, *eight)
    others = "1 to 1 among 10,000 other subscriptions"
    crowd = (*ONE, "--others", "10000")
    yield from traffic("others", others, SMALL, 2.5, *crowd)
    yield from traffic("others-wild", f"{others}, wildcard", SMALL, 2.5, *crowd, "--wild")
    yield from traffic("wild", "1 to 1, wildcard", SMALL, 2.5, *ONE, "--wild")
    yield from traffic("subjects", "1 to 1, 5,000 subjects", SMALL, 2.5, *ONE, "--subjects", "5000")
    queue = ("--subscribers", "4", "--queue", "workers")
    yield from traffic("queue", "queue group of 4", SMALL, 2.5, *queue)
    yield from traffic("headers", "1 to 1, headers", SMALL, 2.5, *ONE, "--headers")
    yield from (requests(inFlight, most) for inFlight, most in ((1, 1.0), (16, 1.2), (64, 1.2)))
    yield from map(permitted, traffic("one", "1 to 1", SIZES[:2], 0, *ONE))
    yield from map(permitted, traffic("fan8", "fan-out 1 to 8", SIZES[1:2], 0, *FAN))
    yield from map(relayed, traffic("publish", "publish only", SIZES[:1], 0))
    yield from map(relayed, traffic("one", "1 to 1", SIZES, 0, *ONE))
    yield from map(relayed, traffic("fan8", "fan-out 1 to 8", SIZES[:2], 0, *FAN))
    yield from map(encrypted, traffic("one", "1 to 1", SIZES, 0, *ONE))
    yield from map(encrypted, traffic("fan8", "fan-out 1 to 8", SIZES[1:2], 0, *FAN))
    yield encrypted(requests(1, 0))
    for row in map(framed, webSockets()):
        yield row
        yield replace(encrypted(row), key=f"wss-{row.key[3:]}", figures=row.figures)
    for kind, title in LINKS:
        yield from linked(kind, title)
    yield INTEREST
    yield from memories()
    yield from STREAMS
    yield from JETSTREAMS
    yield from OPERATIONS
    yield STORM
    yield STALLED
    yield encrypted(STALLED)


ROWS = tuple(table())

QUICK = (
    "*-128",
    "request-*",
    "memory-idle",
    "memory-subscriptions",
    "storm",
    "stalled",
    *(row.key for row in JETSTREAMS if row.quick),
)
"""The rows that C{--quick} measures unless others are named."""


def choose(patterns: Iterable[str], rows: Sequence[Row] = ROWS) -> list[Row]:
    """
    @param patterns: keys of rows, or shell patterns of keys.
    @return: the rows that any of them names, in the table's order.
    @raise LookupError: if one of them names none.
    """
    wanted = list(patterns)
    for pattern in wanted:
        if not fnmatch.filter([row.key for row in rows], pattern):
            raise LookupError(f"no row is called {pattern!r}: see --list")
    return [row for row in rows if any(fnmatch.fnmatchcase(row.key, glob) for glob in wanted)]
