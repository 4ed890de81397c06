"""
The sources of a replay.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from natsbroker.spark.errors import DataSourceError, OptionError
from natsbroker.spark.jobs.archive.job import archive
from natsbroker.spark.jobs.replay.replayer import Row
from natsbroker.spark.jobs.replay.sources import (
    ArchiveSource,
    LogSource,
    ParquetSource,
    Source,
    SqlSource,
    rowsIn,
    shaped,
)
from tests.spark.jobs.replayed import parquet
from tests.spark.support import BrokerStation, Station


def inSpark(spark: Any, source: Source, start: int = 0, where: str = "") -> list[Row]:
    """The content of a source in Spark."""
    frame = shaped(source.frame(spark, start), source.origin, start, where).orderBy("seq")
    assert frame.columns == ["seq", "subject", "data", "headers", "time_ns"]
    return [
        (row.seq, row.subject, bytes(row.data), _pairs(row.headers), row.time_ns)
        for row in frame.collect()
    ]


def here(source: Source, start: int = 0, where: str = "") -> list[Row]:
    """The content of a source that is read here."""
    return [
        (seq, subject, bytes(data), _pairs(headers), when)
        for seq, subject, data, headers, when in source.rows(start, where)
    ]


def _pairs(headers: Any) -> Any:
    return None if headers is None else [(header["key"], header["value"]) for header in headers]


class TestLogs:
    """Streams, channels and archives of them."""

    def test_stream(self, station: Station, spark: Any) -> None:
        """A stream is read from a sequence to its end at the time when the source was made."""
        stream = station.stream()
        stream.add("a", b"one", {"K": "v"})
        stream.fill([b"two", b"three"])
        stream.delete(2)
        source = LogSource({"servers": station.url, "stream": stream.name})
        stream.fill([b"four"])
        rows = here(source)
        assert [row[:4] for row in rows] == [
            (1, f"{stream.name}.a", b"one", [("K", "v")]),
            (3, f"{stream.name}.x", b"three", []),
        ]
        assert all(row[4] for row in rows)
        assert (source.origin, source.stop) == (stream.name, 4)
        assert inSpark(spark, source) == rows
        assert inSpark(spark, source, 2) == here(source, 2) == rows[1:]
        assert inSpark(spark, source, 4) == here(source, 4) == []
        where = "subject LIKE '%.a'"
        assert inSpark(spark, source, 0, where) == here(source, 0, where) == rows[:1]

    def test_archive(self, broker: BrokerStation, spark: Any, tmp_path: Path) -> None:
        """A channel and an archive of it have the same rows."""
        name = broker.channel(b"%d" % n for n in range(1, 31))
        options = {"servers": broker.url, "channel": name}
        archive(None, options, str(tmp_path))
        log, source = LogSource(options), ArchiveSource(str(tmp_path))
        assert here(source) == here(log) == inSpark(spark, source)
        assert len(here(source)) == 30
        where = "seq > 5 AND seq < 9"
        assert [row[0] for row in here(source, 7, where)] == [7, 8]
        assert inSpark(spark, source, 7, where) == here(log, 7, where)
        assert (source.origin, source.stop, log.stop) == (name, 31, 31)
        assert source.identity != log.identity

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({"stream": "A,B"}, "name exactly one stream or channel"),
            ({"channel": "a.*"}, "name exactly one stream or channel"),
            ({"stream": "A", "subject": "a"}, "say --where"),
            ({}, "name at least one"),
        ],
    )
    def test_notOneWholeLog(self, options: dict[str, str], text: str, station: Station) -> None:
        """A selection of several logs, or of a part of one, is refused."""
        with pytest.raises(OptionError, match=text):
            LogSource({"servers": station.url, **options})


class TestFiles:
    """Parquet files."""

    def test_requiredColumns(self, spark: Any, tmp_path: Path) -> None:
        """Sequence, subject and data are enough. Rows come in order, from any number of files."""
        first = [{"seq": n, "subject": "a", "data": b"%d" % n} for n in (5, 1)]
        parquet(tmp_path, first)
        parquet(tmp_path, [{"seq": 3, "subject": "b", "data": b"3"}], "b")
        source = ParquetSource(str(tmp_path))
        expected = [(1, "a", b"1"), (3, "b", b"3"), (5, "a", b"5")]
        assert here(source) == inSpark(spark, source) == [(*row, None, None) for row in expected]
        assert inSpark(spark, source, 3, "subject = 'a'") == here(source, 3, "subject = 'a'")
        assert (source.origin, source.stop) == (tmp_path.name, 0)
        assert ParquetSource(str(tmp_path), "named").origin == "named"

    def test_optionalColumns(self, spark: Any, tmp_path: Path) -> None:
        """Headers and times are used if they exist. Conditions may be on other columns."""
        pair = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
        row = {"seq": 1, "subject": "a", "data": b"", "headers": [{"key": "K", "value": "v"}]}
        rows = [{**row, "seq": n, "time": n * 1_000_000, "shop": f"s{n}"} for n in (1, 2)]
        types = {"headers": pair, "time": pa.timestamp("us", "UTC"), "shop": pa.string()}
        parquet(tmp_path, rows, **types)
        source = ParquetSource(str(tmp_path))
        expected = [(2, "a", b"", [("K", "v")], 2 * 10**9)]
        assert here(source, 0, "shop = 's2'") == expected
        assert inSpark(spark, source, 0, "shop = 's2'") == expected

    def test_texts(self, tmp_path: Path) -> None:
        """Payloads may be texts."""
        row = {"seq": 1, "subject": "a", "data": "é", "time_ns": 7}
        parquet(tmp_path, [row], data=pa.string(), time_ns=pa.int64())
        assert list(ParquetSource(str(tmp_path)).rows(0, "")) == [(1, "a", "é", None, 7)]

    def test_invalidColumns(self, spark: Any, tmp_path: Path) -> None:
        """A column that is missing or has another type is refused, here and in Spark."""
        parquet(tmp_path / "no", [{"subject": "a", "data": b""}], seq=None)
        parquet(tmp_path / "odd", [{"seq": "1", "subject": "a", "data": b""}], seq=pa.string())
        for name, text in (("no", "no column 'seq'"), ("odd", "column seq cannot be string")):
            source = ParquetSource(str(tmp_path / name))
            with pytest.raises(OptionError, match=text):
                here(source)
            with pytest.raises(OptionError, match=text):
                inSpark(spark, source)
        nowhere = ParquetSource(str(tmp_path / "nowhere"))
        with pytest.raises(DataSourceError, match="nowhere"):
            here(nowhere)
        with pytest.raises(DataSourceError, match="no such directory"):
            inSpark(spark, nowhere)


def test_sql(spark: Any) -> None:
    """The result of an SQL query needs Spark and a name of its origin."""
    source = SqlSource("SELECT id AS seq, 'a' AS subject, string(id) AS data FROM range(3)", "q")
    frame = shaped(source.frame(spark, 0), "q", 1, "seq < 2")
    assert [tuple(row) for row in frame.collect()] == [(1, "a", "1", None, None)]
    with pytest.raises(OptionError, match="cannot run with --master inline"):
        source.rows(0, "")
    with pytest.raises(OptionError, match="--origin"):
        SqlSource("SELECT 1", "")


def test_wrongCondition(spark: Any) -> None:
    """A condition that Spark does not understand is refused with Spark's reason."""
    frame = spark.sql("SELECT 1L AS seq, 'a' AS subject, 'x' AS data")
    with pytest.raises(OptionError, match=r"where: 'nosuch = 1'.*nosuch"):
        shaped(frame, "q", 0, "nosuch = 1")


def test_noRows() -> None:
    """A table without rows gives none."""
    schema = pa.schema([("seq", pa.int64()), ("subject", pa.string()), ("data", pa.binary())])
    assert list(rowsIn(schema.empty_table())) == []
