"""
What can be replayed: archives, logs, directories of Parquet files, and what SQL finds.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from natsbroker.spark.codecs.datatypes import readSchema
from natsbroker.spark.datasource.tasks import batchesOf, stateOf
from natsbroker.spark.errors import DataSourceError, OptionError
from natsbroker.spark.jobs.archive.archiver import ArchiveOrigin
from natsbroker.spark.jobs.archive.tiering import frameOf
from natsbroker.spark.jobs.common import optionTexts
from natsbroker.spark.jobs.replay.conditions import Condition
from natsbroker.spark.jobs.replay.replayer import Row
from natsbroker.spark.logs.columns import ddlOf, schemaOf
from natsbroker.spark.logs.reading import SequenceRange
from natsbroker.spark.logs.selection import oneName
from natsbroker.spark.settings import readOptions
from natsbroker.spark.tables.checking import COLUMNS, SCHEMA
from natsbroker.spark.tables.locations import directoryOf

_NEEDED = ("seq", "subject", "data")


class ArchiveSource:
    """
    An archive. All sources have what it has.

    @ivar identity: tells it from another one of that name.
    @ivar stop: behind its last sequence; 0 if that is not known.
    """

    def __init__(self, place: str) -> None:
        self._archive = ArchiveOrigin.of(place)
        snapshot = self._archive.snapshot
        self.origin = snapshot.log.name
        self.identity = f"archive {snapshot.table}"
        self.stop = snapshot.stop

    def rows(self, start: int, where: str) -> Iterator[Row]:
        batches = self._archive.batches(SequenceRange(self.origin, "", start, self.stop))
        return _filtered(batches, SCHEMA, where)

    def frame(self, spark: Any, start: int) -> Any:
        """
        A DataFrame of at least the rows from a sequence on.
        """
        return frameOf(spark, self._archive.root, self._archive.snapshot, COLUMNS)


class LogSource:
    def __init__(self, texts: Mapping[str, str]) -> None:
        options = readOptions(texts)
        name = oneName(options, " to replay")
        if options["subject"]:
            raise OptionError("subject: say --where \"subject LIKE '...'\"")
        self._texts = dict(texts)
        self._options = options
        self._state = stateOf(options, name)
        self.origin = name
        self.identity = f"log {self._state.created}"
        self.stop = self._state.stop

    def rows(self, start: int, where: str) -> Iterator[Row]:
        first = max(start, self._state.first)
        bounds = SequenceRange(self.origin, self._state.created, first, self.stop)
        return _filtered(batchesOf(self._options, COLUMNS, bounds), SCHEMA, where)

    def frame(self, spark: Any, start: int) -> Any:
        first = max(start, self._state.first)
        if first >= self.stop:
            return spark.createDataFrame([], ddlOf(COLUMNS))
        offsets = {"startingOffsets": str(first), "endingOffsets": str(self.stop)}
        reader = spark.read.format("natsbroker").options(**{**self._texts, **offsets})
        return reader.schema(ddlOf(COLUMNS)).load()


class ParquetSource:
    stop = 0

    def __init__(self, place: str, origin: str = "") -> None:
        self._root = directoryOf(place)
        self.origin = origin or self._root.name
        self.identity = f"parquet {self._root}"

    def rows(self, start: int, where: str) -> Iterator[Row]:
        try:
            found = ds.dataset(str(self._root), format="parquet")
            _check(found.schema, self.origin)
            whole = found.to_table(filter=ds.field("seq") >= start).sort_by("seq")
        except (OSError, pa.ArrowException) as error:
            raise DataSourceError(f"{self._root}: {error}") from None
        return _filtered(whole.to_batches(10_000), whole.schema, where)

    def frame(self, spark: Any, start: int) -> Any:
        if not self._root.exists():
            raise DataSourceError(f"{self._root}: there is no such directory")
        return spark.read.parquet(str(self._root))


class SqlSource:
    stop = 0

    def __init__(self, query: str, origin: str) -> None:
        if not origin:
            raise OptionError("--origin: what SQL finds needs a name, which messages are known by")
        self._query = query
        self.origin = origin
        self.identity = f"sql {query}"

    def rows(self, start: int, where: str) -> Iterator[Row]:
        raise OptionError("--sql needs Spark: it does not go with --master inline")

    def frame(self, spark: Any, start: int) -> Any:
        return spark.sql(self._query)


Source = ArchiveSource | LogSource | ParquetSource | SqlSource


def sourceOf(given: Namespace) -> Source:
    if given.archive:
        return ArchiveSource(given.archive)
    if given.parquet:
        return ParquetSource(given.parquet, given.origin)
    if given.sql:
        return SqlSource(given.sql, given.origin)
    if not given.servers:
        raise OptionError("--stream and --channel need --servers")
    return LogSource(optionTexts(given))


def _filtered(batches: Iterable[Any], schema: Any, where: str) -> Iterator[Row]:
    if where:
        kept = Condition(where, schema).kept
        batches = (kept(pa.Table.from_batches([each])) for each in batches)
    return chain.from_iterable(map(rowsIn, batches))


def rowsIn(table: Any) -> Iterator[Row]:
    """
    @param table: a table of Arrow, or a batch.
    """
    names, nothing = table.schema.names, [None] * table.num_rows
    times: list[Any] = nothing
    if "time_ns" in names:
        times = table.column("time_ns").to_pylist()
    elif "time" in names:
        times = table.column("time").cast(pa.timestamp("ns", tz="UTC")).cast(pa.int64()).to_pylist()
    columns = [table.column(name).to_pylist() for name in _NEEDED]
    headers = table.column("headers").to_pylist() if "headers" in names else nothing
    yield from zip(*columns, headers, times, strict=True)


def _check(schema: Any, origin: str) -> None:
    missing = [each for each in _NEEDED if each not in schema.names]
    if missing:
        raise OptionError(
            f"{origin}: there is no column {missing[0]!r}: what is replayed has seq, subject and"
            " data, and may have headers, and time_ns or time"
        )
    for name in schema.names:
        kind = schema.field(name).type
        if not _GOOD.get(name, lambda kind: True)(kind):
            raise OptionError(f"{origin}: the column {name} cannot be {kind}")


def _isText(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


_HEADERS = str(schemaOf(("headers",)).field(0).type).replace("element", "item")

#: What the columns of a row may be.
_GOOD: dict[str, Callable[[Any], bool]] = {
    "seq": pa.types.is_integer,
    "subject": _isText,
    "data": lambda kind: (
        not (pa.types.is_nested(kind) or pa.types.is_primitive(kind) or pa.types.is_decimal(kind))
    ),
    "headers": lambda kind: str(kind).replace("element", "item") == _HEADERS,
    "time_ns": pa.types.is_integer,
    "time": pa.types.is_timestamp,
}


def shaped(frame: Any, origin: str, start: int, where: str) -> Any:
    """
    The rows of a DataFrame, in the columns of L{Row}.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    known = [f"{name} {kind}" for name, kind in frame.dtypes if name in _GOOD]
    schema = readSchema(", ".join(known)) if known else pa.schema([])
    _check(schema, origin)
    names = schema.names
    try:
        kept = frame.where(where) if where else frame
    except PySparkException as error:
        first = str(error).splitlines()[0]
        raise OptionError(f"where: {where!r}: {first}") from None
    if "time_ns" in names:
        when = F.col("time_ns")
    elif "time" in names and schema.field("time").type.tz is not None:
        when = F.unix_micros("time") * 1000
    else:
        when = F.lit(None).cast("bigint")
    headers = F.col("headers") if "headers" in names else F.lit(None)
    columns = [F.col("seq").cast("bigint").alias("seq"), "subject", "data"]
    chosen = kept.select(*columns, headers.alias("headers"), when.alias("time_ns"))
    return chosen.where(F.col("seq") >= start)
