"""The data source C{natsbroker} on PySpark's Python Data Source API."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from natsbroker.spark.datasource.streaming import (
    PASSES_START,
    EarlierStreamReader,
    RangedReader,
    RangePartition,
    StreamReader,
)
from natsbroker.spark.datasource.tasks import connected
from natsbroker.spark.datasource.writing import BatchWriter, StreamWriter
from natsbroker.spark.errors import OptionError
from natsbroker.spark.logs.columns import COLUMNS, checkedColumns, ddlOf
from natsbroker.spark.logs.planning import Logs, logsOf, planRanges
from natsbroker.spark.logs.wholeranges import SequenceRange
from natsbroker.spark.settings import readOptions
from natsbroker.subjects.grammar import isSubset, isValidLiteral, matches, overlaps

#: The number that a condition adds to its own, for the least that is left and the first behind.
_LEAST = {"EqualTo": 0, "EqualNullSafe": 0, "GreaterThanOrEqual": 0, "GreaterThan": 1}
_STOP = {"EqualTo": 1, "EqualNullSafe": 1, "LessThanOrEqual": 1, "LessThan": 0}

_MICROSECOND = timedelta(microseconds=1)


@dataclass
class PushedFilters:
    """
    @ivar stop: every sequence is smaller.
    @ivar since: no message is older; C{None} for no limit.
    @ivar before: every message is older; C{None} for no limit.
    @ivar names: values of C{subject} and C{stream}; a missing key takes all.
    @ivar prefix: the beginning of every subject.
    """

    least: int = 0
    stop: int = sys.maxsize
    since: datetime | None = None
    before: datetime | None = None
    names: dict[str, frozenset[str]] = field(default_factory=dict)
    prefix: str = ""

    def take(self, condition: Any) -> None:
        name = type(condition).__name__
        column = ".".join(getattr(condition, "attribute", ()))
        value = getattr(condition, "value", None)
        if column == "seq" and isinstance(value, int):
            self.least = max(self.least, value + _LEAST.get(name, -sys.maxsize))
            self.stop = min(self.stop, value + _STOP.get(name, sys.maxsize))
        elif column == "time" and isinstance(value, datetime) and value.tzinfo is not None:
            self._takeTime(name, value)
        elif column == "subject" and name == "StringStartsWith" and isinstance(value, str):
            self.prefix = max(self.prefix, value, key=len)
        elif column in ("subject", "stream") and name in ("EqualTo", "EqualNullSafe", "In"):
            given: Iterable[object] = value if name == "In" and value is not None else (value,)
            names = frozenset(x for x in given if isinstance(x, str))
            self.names[column] = names & self.names.get(column, names)

    def _takeTime(self, name: str, value: datetime) -> None:
        """
        Take a condition on C{time}. Rows have microseconds and servers nanoseconds, so a message
        may be a little younger than its row shows. No message that the condition selects is left
        out.
        """
        if name in _LEAST:
            self.since = value if self.since is None else max(self.since, value)
        if name in _STOP:
            value += _STOP[name] * _MICROSECOND
            self.before = value if self.before is None else min(self.before, value)

    def timed(self, logs: Logs, ranges: Iterable[SequenceRange]) -> list[SequenceRange]:
        """Look up where the conditions on C{time} begin and end in each log."""
        left = []
        for bounds in ranges:
            start, stop = bounds.start, bounds.stop
            if self.since is not None:
                first = logs.firstSince(bounds.stream, _utc(self.since))
                start = max(start, stop if first is None else first)
            if self.before is not None:
                first = logs.firstSince(bounds.stream, _utc(self.before))
                stop = stop if first is None else min(stop, first)
            left.append(replace(bounds, start=start, stop=max(start, stop)))
        return left

    def ranges(self, ranges: Iterable[SequenceRange]) -> list[SequenceRange]:
        left = []
        for bounds in ranges:
            start, stop = max(bounds.start, self.least), min(bounds.stop, self.stop)
            if start < stop and bounds.stream in self.names.get("stream", (bounds.stream,)):
                left.append(replace(bounds, start=start, stop=stop))
        return left if self.names.get("subject", True) else []

    def patterns(self, patterns: tuple[str, ...]) -> tuple[str, ...] | None:
        """The patterns below C{prefix}; C{None} if no subject is left."""
        if "subject" not in self.names:
            return self._beginning(patterns)
        wanted = [pattern.encode("utf-8") for pattern in patterns]
        kept = []
        for subject in sorted(self.names["subject"]):
            literal = subject.encode("utf-8")
            # A backslash may be how the column shows a byte that is not UTF-8.
            if not isValidLiteral(literal) or "\\" in subject:
                return patterns
            if not wanted or any(matches(pattern, literal) for pattern in wanted):
                kept.append(subject)
        return tuple(kept) or None

    def _beginning(self, patterns: tuple[str, ...]) -> tuple[str, ...] | None:
        whole = self.prefix.partition("\\")[0].rpartition(".")[0]
        pattern = f"{whole}.>".encode()
        if not isValidLiteral(whole.encode()):
            return patterns
        kept = []
        for pattern_ in patterns or (">",):
            given = pattern_.encode("utf-8")
            if isSubset(pattern, given):
                return (pattern.decode(),)
            if overlaps(pattern, given):
                kept.append(pattern_)
        return tuple(kept) or None


def _utc(time: datetime) -> str:
    return time.astimezone(timezone.utc).isoformat()


class NatsBrokerSource(DataSource):
    """
    JetStream streams, or channels of NATS Streaming, as rows.

    @cvar parallelism: the number of tasks that the cluster runs at a time; 0 if unknown. A session
        has a subclass that knows it, because reads are planned in a process without the session.
    """

    parallelism = 0

    @classmethod
    def name(cls) -> str:
        return "natsbroker"

    def schema(self) -> str:
        options = readOptions(self.options, None)
        left = [] if options["includeHeaders"] else ["headers"]
        left += [] if options["includeMetadata"] else ["stream", "time_ns"]
        return ddlOf([column for column in COLUMNS if column not in left])

    def reader(self, schema: Any) -> DataSourceReader:
        options = self._read("read")
        kind = PushingReader if options["pushdown"] else BatchReader
        return kind(checkedColumns(schema), options)

    def streamReader(self, schema: Any) -> Any:
        kind = StreamReader if PASSES_START else EarlierStreamReader
        return kind(checkedColumns(schema), self._read("readStream"))

    def _read(self, use: str) -> dict[str, Any]:
        options = readOptions(self.options, use)
        known = options["parallelism"] or self.parallelism
        return {**options, "parallelism": known or os.cpu_count() or 1}

    def writer(self, schema: Any, overwrite: bool) -> Any:
        if overwrite:
            raise OptionError("a stream cannot be overwritten: use mode('append')")
        return BatchWriter(schema, readOptions(self.options, "write"))

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        if overwrite:
            raise OptionError("a stream cannot replace earlier results: use outputMode('append')")
        return StreamWriter(schema, readOptions(self.options, "writeStream"))


class BatchReader(RangedReader, DataSourceReader):
    def __init__(self, columns: tuple[str, ...], options: dict[str, Any]) -> None:
        super().__init__(columns, options)
        self._limits = PushedFilters()

    def partitions(self) -> list[InputPartition]:
        """
        The ranges of tasks. If there are none, there is an empty one, since Spark takes no empty
        list.
        """
        with connected(self._options) as connection:
            logs = logsOf(connection, self._options)
            ranges = self._limits.timed(logs, planRanges(logs, self._options))
        patterns = self._limits.patterns(self._patterns)
        left = [] if patterns is None else self._limits.ranges(ranges)
        empty = SequenceRange(ranges[0].stream, ranges[0].created, 0, 0)
        return [RangePartition(piece, patterns or ()) for piece in self._pieces(left) or [empty]]


class PushingReader(BatchReader):
    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:
        """Take filters, and give all of them back: Spark tests every row again."""
        for filter_ in filters:
            self._limits.take(filter_)
            yield filter_
