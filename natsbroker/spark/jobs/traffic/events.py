"""
The broker's own events, read from where they are stored, and folded into sums by tasks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import Any, Protocol, TypeVar

from natsbroker.spark.datasource.tasks import batchesOf, connected, logLoss
from natsbroker.spark.errors import DataSourceError
from natsbroker.spark.jobs.common import Runner
from natsbroker.spark.logs.channels import nanoseconds
from natsbroker.spark.logs.planning import planRanges, split
from natsbroker.spark.logs.reading import SequenceRange
from natsbroker.spark.logs.selection import checkedNames, logsOf

#: What rows of traffic count.
COUNTS = (
    "msgs_in",
    "bytes_in",
    "msgs_out",
    "bytes_out",
    "no_interest",
    "rs_minus_sent",
    "slow_drops",
)

_TYPE = "io.natsbroker.event.v1."
TEXTS = ("account", "peer_kind", "peer", "subject_prefix", "mode")
_NUMBERS = (*COUNTS, "patterns", "refused")

#: How many tasks are handed out at a time, so that it can be told how far they are.
_AT_ONCE = 8


@dataclass(frozen=True)
class BrokerEvent:
    """
    @ivar kind: C{traffic} or C{interest}.
    @ivar seconds: how long what it counts took.
    @ivar cluster: what its cluster is called; empty for none.
    """

    kind: str
    time: int
    seconds: float
    server: str
    cluster: str
    rows: tuple[Mapping[str, Any], ...]


class EventTotals(Protocol):
    malformed: int

    def add(self, event: BrokerEvent) -> None: ...

    def merge(self, other: Any) -> None: ...


AnyTotals = TypeVar("AnyTotals", bound=EventTotals)


def readEvent(data: bytes) -> BrokerEvent:
    try:
        found = json.loads(data)
        kind = found["type"].removeprefix(_TYPE)
        event = BrokerEvent(
            kind,
            nanoseconds(found["timestamp"]),
            float(found["seconds"]),
            _text(found["server"]["id"]),
            _text(found["cluster"]),
            tuple(_checkedRow(each) for each in found["rows"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        raise ValueError("no event of a broker") from None
    if kind not in ("traffic", "interest") or not 0 <= event.seconds < 1e6:
        raise ValueError("no event that is known")
    return event


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is expected")
    return value


def _checkedRow(row: object) -> Mapping[str, Any]:
    if not isinstance(row, dict):
        raise TypeError("an object is expected")
    for name in TEXTS:
        _text(row.get(name, ""))
    for name in _NUMBERS:
        value = row.get(name, 0)
        if type(value) is not int or not 0 <= value < 1 << 62:
            raise ValueError("a count is expected")
    return row


def foldRange(
    options: dict[str, Any],
    make: Callable[[], AnyTotals],
    bounds: SequenceRange,
) -> AnyTotals:
    fold = make()
    patterns = tuple(options["subject"])
    for batch in batchesOf(options, ("seq", "data"), bounds, patterns, logLoss):
        for data in batch.column(1).to_pylist():
            try:
                event = readEvent(data or b"")
            except ValueError:
                fold.malformed += 1
            else:
                fold.add(event)
    return fold


def foldEvents(
    options: dict[str, Any],
    make: Callable[[], AnyTotals],
    run: Runner,
    onProgress: Callable[[int, int], object] = lambda done, end: None,
    processors: int = 4,
) -> AnyTotals:
    """
    Count all events that the options name.

    @param onProgress: told how many sequences were read, of how many.
    """
    checkedNames(options)
    with connected(options) as connection:
        ranges = planRanges(logsOf(connection, options), options, logLoss)
    rows = options["maxRowsPerPartition"]
    pieces = split(ranges, options["minPartitions"], rows, processors)
    end = sum(each.stop - each.start for each in pieces)
    whole, done = make(), 0
    for place in range(0, len(pieces), _AT_ONCE):
        some = pieces[place : place + _AT_ONCE]
        for part in run(partial(foldRange, options, make), some):
            whole.merge(part)
        done += sum(each.stop - each.start for each in some)
        onProgress(done, end)
    return whole


def addTo(sums: dict[Any, list[int]], key: Any, counts: Sequence[int]) -> None:
    before = sums.get(key)
    if before is None:
        sums[key] = list(counts)
    else:
        before[:] = map(add, before, counts)


def tooMany(what: str) -> DataSourceError:
    return DataSourceError(f"too many {what}: take a larger --window, or a later --since")
