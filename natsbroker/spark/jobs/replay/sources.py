"""
Sources of a replay: archives, logs, directories of Parquet files, and SQL queries. Without Spark,
DuckDB selects rows. Expressions that it silently reads in another way than Spark are refused or
rewritten: C{"text"}, a column to it, C{\\}, which escapes nothing in C{LIKE}, functions such as
C{dayofweek}, operators such as C{^}, and C{TIMESTAMP} with an offset.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from natsbroker.spark.codecs.datatypes import readSchema
from natsbroker.spark.datasource.tasks import batchesOf
from natsbroker.spark.errors import DataSourceError, OptionError
from natsbroker.spark.jobs.archive.archiver import ArchiveOrigin, LogOrigin, StoredRange
from natsbroker.spark.jobs.archive.tiering import frameOf
from natsbroker.spark.jobs.common import optionTexts
from natsbroker.spark.jobs.replay.replayer import Row
from natsbroker.spark.logs.columns import ddlOf
from natsbroker.spark.logs.planning import oneName
from natsbroker.spark.logs.wholeranges import SequenceRange
from natsbroker.spark.settings import readOptions
from natsbroker.spark.tables.locations import directoryOf
from natsbroker.spark.tables.parquet import COLUMNS, SCHEMA

_NEEDED = ("seq", "subject", "data")


class StoredSource:
    """
    An archive, or a log up to its present end. All sources have these attributes.

    @ivar identity: tells it from another one of that name.
    @ivar stop: behind its last sequence; 0 if that is not known.
    """

    def __init__(
        self, state: StoredRange, identity: str, batches: Callable[[SequenceRange], Iterable[Any]]
    ) -> None:
        self.origin = state.log.name
        self.identity = identity
        self.stop = state.stop
        self._state = state
        self._batches = batches

    def rows(self, start: int, where: str) -> Iterator[Row]:
        first, identity = max(start, self._state.start), self._state.log.identity
        bounds = SequenceRange(self.origin, identity, first, self.stop)
        return filtered(self._batches(bounds), SCHEMA, where)


class ArchiveSource(StoredSource):
    def __init__(self, place: str) -> None:
        self._archive = origin = ArchiveOrigin.of(place)
        super().__init__(origin.state(), f"archive {origin.snapshot.table}", origin.batches)

    def frame(self, spark: Any, start: int) -> Any:
        """A DataFrame with the rows from a sequence on, and perhaps earlier ones."""
        return frameOf(spark, self._archive.root, self._archive.snapshot, COLUMNS)


class LogSource(StoredSource):
    def __init__(self, texts: Mapping[str, str]) -> None:
        options = readOptions(texts)
        oneName(options, " to replay")
        if options["subject"]:
            raise OptionError("subject: say --where \"subject LIKE '...'\"")
        self._texts = dict(texts)
        state = LogOrigin(options).state()
        super().__init__(state, f"log {state.log.identity}", partial(batchesOf, options, COLUMNS))

    def frame(self, spark: Any, start: int) -> Any:
        first = max(start, self._state.start)
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
            dataset = ds.dataset(str(self._root), format="parquet")
            _check(dataset.schema, self.origin)
            whole = dataset.to_table(filter=ds.field("seq") >= start).sort_by("seq")
        except (OSError, pa.ArrowException) as error:
            raise DataSourceError(f"{self._root}: {error}") from None
        return filtered(whole.to_batches(10_000), whole.schema, where)

    def frame(self, spark: Any, start: int) -> Any:
        if not self._root.exists():
            raise DataSourceError(f"{self._root}: there is no such directory")
        return spark.read.parquet(str(self._root))


class SqlSource:
    stop = 0

    def __init__(self, query: str, origin: str) -> None:
        if not origin:
            raise OptionError("--origin: the result of SQL needs a name for its messages")
        self._query = query
        self.origin = origin
        self.identity = f"sql {query}"

    def rows(self, start: int, where: str) -> Iterator[Row]:
        raise OptionError("--sql needs Spark: it cannot run with --master inline")

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


def filtered(batches: Iterable[Any], schema: Any, where: str) -> Iterator[Row]:
    if where:
        nothing = pa.RecordBatch.from_pylist([{}], schema=schema)
        batches = kept = _kept(chain([nothing], batches), schema, where)
        next(kept)  # What is no condition is refused before a row is read.
    return chain.from_iterable(map(rowsIn, batches))


def rowsIn(table: Any) -> Iterator[Row]:
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
    missing = [name for name in _NEEDED if name not in schema.names]
    if missing:
        raise OptionError(
            f"{origin}: there is no column {missing[0]!r}: a source has seq, subject and"
            " data, and may have headers, and time_ns or time"
        )
    for field in schema:
        if not re.fullmatch(_GOOD.get(field.name, ".*"), str(field.type)):
            raise OptionError(f"{origin}: the column {field.name} cannot be {field.type}")


#: The types that the columns of a row may have, as Arrow writes them.
_GOOD = {
    "seq": r"u?int\d+",
    "subject": r"(large_)?string",
    "data": r"(large_)?(binary|string)(_view)?|fixed_size_binary.*",
    "headers": r"list<(element|item): struct<key: string, value: string>>",
    "time_ns": r"u?int\d+",
    "time": r"timestamp.*",
}


def shaped(frame: Any, origin: str, start: int, where: str) -> Any:
    """The rows of a DataFrame, in the columns of L{Row}."""
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


#: The parts of conditions.
_TOKEN = re.compile(
    r"(?P<stamp>TIMESTAMP\s*)?(?P<text>'[^'\\]*'(?!'))|(?P<word>[A-Z_]\w*)|<>|!=|[<>=]=?|[(),]|\s+"
    r"|-?\d{1,18}(\.\d{1,18})?(?![\w.])|(?P<wrong>.+)",
    re.I | re.A | re.S,
)

_WORDS = ("AND", "OR", "NOT", "LIKE", "IN", "BETWEEN", "IS", "NULL", "TRUE", "FALSE")

#: The beginnings of dates and times, and the ends of those with a zone.
_WHEN, _ZONE = re.compile(r"'\s*[+-]?\d+-\d"), re.compile(r"(Z|[+-]\d\d:\d\d)'$")

_ALONE: dict[str, Any] = {
    "threads": 1,
    "enable_external_access": False,
    "autoload_known_extensions": False,
    "lock_configuration": True,
}


def _kept(batches: Iterable[Any], schema: Any, where: str) -> Iterator[Any]:
    import duckdb

    try:
        text, needed = _forDuckDB(where, schema)
        duckdb.SQLExpression(text)  # Within parentheses only, the text could close them.
        condition = duckdb.SQLExpression(f"({text})")
        with duckdb.connect(config=_ALONE) as connection:
            for batch in batches:
                table = pa.Table.from_batches([batch])
                rows = connection.from_arrow(table.select(needed.names).cast(needed))
                yield table.filter(rows.project(condition).to_arrow_table().column(0))
    except (duckdb.Error, pa.ArrowException, TypeError, ValueError) as error:
        raise OptionError(f"where: {where!r}: {str(error).splitlines()[0]}") from None


def _forDuckDB(where: str, schema: Any) -> tuple[str, Any]:
    """A condition with the same meaning in DuckDB, and the columns that it needs."""
    needed = {"seq": schema.field("seq")}
    parts: list[str] = []
    zones: set[bool] = set()
    given: set[bool] = set()
    for match in _TOKEN.finditer(where):
        part, word, text = match[0], match["word"], match["text"]
        if match["wrong"]:
            raise ValueError(f"{part!r} is not understood without Spark")
        if word in schema.names:
            kind = schema.field(word).type
            if pa.types.is_temporal(kind):
                zones.add(getattr(kind, "tz", None) is not None)
            # To Spark a number such as 1.1 is a DOUBLE beside a FLOAT.
            needed[word] = pa.field(word, pa.float64() if pa.types.is_floating(kind) else kind)
            part = f'"{word}"'
        elif word and word.upper() not in _WORDS:
            raise ValueError(f"there is no column {word!r}; there are {', '.join(schema.names)}")
        elif text and (match["stamp"] or _WHEN.match(text)):
            given.add(_ZONE.search(text) is not None)
            if match["stamp"]:
                zones.add(True)
                part = f"TIMESTAMPTZ {text}"
        parts.append(part)
    if zones and len(zones | given) > 1:
        raise ValueError("a time needs its zone, as 2030-01-31T12:00:00Z, if its column has zones")
    return "".join(parts), pa.schema(list(needed.values()))
