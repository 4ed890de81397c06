"""
What can be replayed: archives, logs, directories of Parquet files, and what SQL finds.

Without Spark a part of its language chooses rows: comparisons of columns with texts, numbers and
times, C{LIKE}, C{IN}, C{BETWEEN}, C{IS NULL}, C{AND}, C{OR}, C{NOT} and parentheses. PyIceberg's
parser takes no C{TIMESTAMP}, and C{LIKE} with C{%} at the end alone. To DuckDB 2.0 C{TIMESTAMP}
with an offset is another moment than to Spark, C{"text"} is a column, and C{\\} in C{LIKE} escapes
nothing. SQLGlot's trees differ between its versions: C{NOT LIKE} is C{LIKE} with an argument in
some.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from natsbroker.spark.codecs.datatypes import readSchema
from natsbroker.spark.datasource.tasks import batchesOf
from natsbroker.spark.errors import DataSourceError, OptionError
from natsbroker.spark.jobs.archive.archiver import ArchiveOrigin, LogOrigin, StoredRange
from natsbroker.spark.jobs.archive.tiering import frameOf
from natsbroker.spark.jobs.common import optionTexts
from natsbroker.spark.jobs.replay.replayer import Row
from natsbroker.spark.logs.columns import ddlOf, schemaOf
from natsbroker.spark.logs.planning import oneName
from natsbroker.spark.logs.reading import SequenceRange
from natsbroker.spark.settings import readOptions
from natsbroker.spark.tables.locations import directoryOf
from natsbroker.spark.tables.parquet import COLUMNS, SCHEMA

_NEEDED = ("seq", "subject", "data")


class StoredSource:
    """
    An archive, or a log as far as it goes now. All sources have what it has.

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
        return _filtered(self._batches(bounds), SCHEMA, where)


class ArchiveSource(StoredSource):
    def __init__(self, place: str) -> None:
        self._archive = found = ArchiveOrigin.of(place)
        super().__init__(found.state(), f"archive {found.snapshot.table}", found.batches)

    def frame(self, spark: Any, start: int) -> Any:
        """
        A DataFrame of at least the rows from a sequence on.
        """
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


_TOKEN = re.compile(
    r"\s*(?:(?P<text>'[^'\\]*'(?!')|\"[^\"\\]*\"(?!\"))|(?P<number>-?\d{1,18}(\.\d{1,18})?)(?![\w.])"
    r"|(?P<word>[A-Za-z_]\w*)|(?P<sign><>|!=|<=|>=|==|=|<|>|\(|\)|,))"
)

_COMPARED = {"=": eq, "==": eq, "!=": ne, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}

_WORDS = ("AND", "OR", "NOT", "LIKE", "IN", "BETWEEN", "IS", "NULL", "TIMESTAMP", "TRUE", "FALSE")

#: Deeper parentheses are refused.
_DEEPEST = 50


class Condition:
    def __init__(self, text: str, schema: Any) -> None:
        self._text = text
        self._schema = schema
        self._tokens = self._split()
        self._place = self._depth = 0
        self._expression = self._either()
        if self._place < len(self._tokens):
            raise self._wrong(f"what is {self._tokens[self._place][1]!r} there for?")
        self.kept(pa.Table.from_batches([], schema))

    def kept(self, table: Any) -> Any:
        try:
            return table.filter(self._expression)
        except (pa.ArrowException, TypeError) as error:
            raise self._wrong(str(error)) from None

    def _wrong(self, why: str) -> OptionError:
        return OptionError(
            f"where: {self._text!r}: {why}. Without Spark a part of SQL is understood:"
            " comparisons, LIKE, IN, BETWEEN, IS NULL, AND, OR, NOT"
        )

    def _split(self) -> list[tuple[str, str]]:
        text, place, found = self._text.rstrip(), 0, []
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                raise self._wrong(f"{text[place:].strip()!r} is not understood")
            kind = str(match.lastgroup)
            value = match[kind]
            if kind == "word" and value.upper() in _WORDS:
                kind, value = "key", value.upper()
            found.append((kind, value[1:-1] if kind == "text" else value))
            place = match.end()
        return found

    def _next(self) -> tuple[str, str]:
        if self._place >= len(self._tokens):
            raise self._wrong("it ends too soon")
        self._place += 1
        return self._tokens[self._place - 1]

    def _has(self, *words: str) -> bool:
        end = self._place + len(words)
        coming = self._tokens[self._place : end]
        if [value for kind, value in coming if kind in ("key", "sign")] != list(words):
            return False
        self._place = end
        return True

    def _expect(self, word: str) -> None:
        if not self._has(word):
            raise self._wrong(f"{word} is missing")

    def _either(self) -> Any:
        found = self._both()
        while self._has("OR"):
            found |= self._both()
        return found

    def _both(self) -> Any:
        found = self._one()
        while self._has("AND"):
            found &= self._one()
        return found

    def _one(self) -> Any:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._wrong("it is too deep")
        try:
            if self._has("NOT"):
                return ~self._one()
            if self._has("("):
                found = self._either()
                self._expect(")")
                return found
            return self._compared()
        finally:
            self._depth -= 1

    def _compared(self) -> Any:
        kind, name = self._next()
        if kind != "word" or name not in self._schema.names:
            known = ", ".join(self._schema.names)
            raise self._wrong(f"there is no column {name!r}; there are {known}")
        column = pc.field(name)
        if self._has("IS", "NULL"):
            return column.is_null()
        if self._has("IS", "NOT", "NULL"):
            return column.is_valid()
        isNot = self._has("NOT")
        if self._has("LIKE"):
            kind, pattern = self._next()
            if kind != "text":
                raise self._wrong("LIKE takes a text")
            found = pc.match_like(column, pattern)
        elif self._has("BETWEEN"):
            found = column >= self._value(name)
            self._expect("AND")
            found &= column <= self._value(name)
        elif self._has("IN"):
            self._expect("(")
            found = column == self._value(name)
            while self._has(","):
                found |= column == self._value(name)
            self._expect(")")
        else:
            sign = self._next()[1]
            if isNot or sign not in _COMPARED:
                raise self._wrong(f"{sign!r} is not understood behind {name}")
            found = _COMPARED[sign](column, self._value(name))
        return ~found if isNot else found

    def _value(self, name: str) -> Any:
        kind, text = self._next()
        wanted = self._schema.field(name).type
        if kind == "key" and text in ("TRUE", "FALSE"):
            return pa.scalar(text == "TRUE")
        if kind == "number":
            return pa.scalar(float(text) if "." in text else int(text))
        if (kind, text) == ("key", "TIMESTAMP"):
            kind, text = self._next()
        if kind != "text":
            raise self._wrong(f"{text!r} is no value")
        if not pa.types.is_timestamp(wanted):
            return pa.scalar(text)
        try:
            return pa.scalar(text).cast(wanted)
        except pa.ArrowException:
            raise self._wrong(
                f"{text!r} is no time with its zone, as 2030-01-31T12:00:00Z"
            ) from None
