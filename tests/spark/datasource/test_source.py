"""
The data source in Spark, with nats-server 2.15.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSourceReader

from natsbroker.spark import register
from natsbroker.spark.datasource.source import NatsBrokerSource
from tests.spark.support import Station, Stream


@pytest.fixture
def stream(station: Station) -> Stream:
    """
    A stream with four messages.
    """
    made = station.stream()
    made.add("a.1", b"one", {"K": "v", "k": "w"})
    made.add("b.1", b"two")
    made.add("a.2", b"\x00\xff")
    made.add("b.2", b"")
    return made


def reader(spark: Any, station: Station, *streams: Stream, **options: str) -> Any:
    """
    @return: a DataFrame of streams.
    """
    names = ",".join(source.name for source in streams)
    read = spark.read.format("natsbroker").options(servers=station.url, stream=names)
    return read.options(**options)


class TestRows:
    """The rows of a read."""

    def test_default(self, spark: Any, station: Station, stream: Stream) -> None:
        """Without registration: sequence, subject, data and time of every message."""
        frame = reader(spark, station, stream).load()
        assert frame.dtypes == [
            ("seq", "bigint"),
            ("subject", "string"),
            ("data", "binary"),
            ("time", "timestamp"),
        ]
        rows = frame.orderBy("seq").collect()
        assert [(row.seq, row.subject, bytes(row.data)) for row in rows] == [
            (1, f"{stream.name}.a.1", b"one"),
            (2, f"{stream.name}.b.1", b"two"),
            (3, f"{stream.name}.a.2", b"\x00\xff"),
            (4, f"{stream.name}.b.2", b""),
        ]

    def test_everyColumn(self, spark: Any, station: Station, stream: Stream) -> None:
        """Headers keep their order and repetitions, times their nanoseconds."""
        frame = reader(spark, station, stream, includeHeaders="true", includeMetadata="true").load()
        row = frame.where("seq = 1").collect()[0]
        assert [tuple(header) for header in row.headers] == [("K", "v"), ("k", "w")]
        assert row.stream == stream.name
        stored = stream.api("MSG.GET", {"seq": 1})["message"]["time"]
        digits = stored[20:-1].ljust(9, "0")
        assert row.time_ns % 10**9 == int(digits)
        assert row.time_ns // 1000 == round(
            row.time.replace(tzinfo=datetime.timezone.utc).timestamp() * 10**6
        )

    def test_projection(self, spark: Any, station: Station, stream: Stream) -> None:
        """A user's schema is a choice of columns, in its order."""
        read = reader(spark, station, stream).schema("time_ns BIGINT, seq BIGINT")
        assert read.load().columns == ["time_ns", "seq"]
        assert read.load().where("time_ns > 0").count() == 4

    def test_otherZone(self, spark: Any, station: Station, stream: Stream) -> None:
        """The session's time zone does not change the values of times."""
        frame = reader(spark, station, stream, includeMetadata="true").load()
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        try:
            assert frame.where("unix_micros(time) = time_ns div 1000").count() == 4
        finally:
            spark.conf.set("spark.sql.session.timeZone", "UTC")

    def test_severalStreams(self, spark: Any, station: Station, stream: Stream) -> None:
        """Rows of several streams come in one frame."""
        other, empty = station.stream(), station.stream()
        other.fill([b"x"] * 3)
        frame = reader(spark, station, stream, other, empty, includeMetadata="true").load()
        counts = {row.stream: row["count"] for row in frame.groupBy("stream").count().collect()}
        assert counts == {stream.name: 4, other.name: 3}

    def test_empty(self, spark: Any, station: Station) -> None:
        """An empty stream is an empty frame."""
        assert reader(spark, station, station.stream()).load().count() == 0

    def test_partitions(self, spark: Any, station: Station) -> None:
        """Each message is read once, over several tasks."""
        stream = station.stream()
        stream.fill(b"%d" % number for number in range(1000))
        stream.delete(*range(100, 1000, 100))
        frame = reader(spark, station, stream, minPartitions="5", batchRows="64").load()
        assert frame.rdd.getNumPartitions() == 5
        rows = frame.selectExpr("seq", "int(string(data)) AS number").collect()
        expected = [seq for seq in range(1, 1001) if seq % 100 or seq == 1000]
        assert sorted(row.seq for row in rows) == expected
        assert all(row.number == row.seq - 1 for row in rows)

    def test_limit(self, spark: Any, station: Station) -> None:
        """A read can stop before its end."""
        stream = station.stream()
        stream.fill([b"x" * 100] * 500)
        assert reader(spark, station, stream, batchRows="10").load().limit(3).count() == 3

    def test_sql(self, spark: Any, station: Station, stream: Stream) -> None:
        """A SQL view over the source reads a stream."""
        spark.sql(
            "CREATE OR REPLACE TEMPORARY VIEW messages USING natsbroker OPTIONS"
            f" (servers '{station.url}', stream '{stream.name}', subject '{stream.name}.a.>')"
        )
        rows = spark.sql("SELECT seq FROM messages ORDER BY seq").collect()
        assert [row.seq for row in rows] == [1, 3]

    def test_parquet(self, spark: Any, station: Station, stream: Stream, tmp_path: Path) -> None:
        """A read can be written to Parquet and is the same there."""
        frame = reader(spark, station, stream, includeHeaders="true", includeMetadata="true").load()
        frame.write.parquet(str(tmp_path / "kept"))
        kept = spark.read.parquet(str(tmp_path / "kept"))
        assert kept.exceptAll(frame).count() == 0
        assert kept.count() == 4


class TestFilters:
    """The requests to servers for a filter."""

    def test_subjects(self, spark: Any, station: Station, stream: Stream) -> None:
        """Filters with wildcards, of which a message may match two."""
        name = stream.name
        frame = reader(spark, station, stream, subject=f"{name}.a.*, {name}.*.2").load()
        assert sorted(row.seq for row in frame.collect()) == [1, 3, 4]

    def test_ranges(self, spark: Any, station: Station, stream: Stream) -> None:
        """Offsets limit a read to a range of sequences."""
        options = {"startingOffsets": "2", "endingOffsets": "4"}
        frame = reader(spark, station, stream, **options).load()
        assert sorted(row.seq for row in frame.collect()) == [2, 3]

    def test_pushdown(self, spark: Any, station: Station, stream: Stream) -> None:
        """Conditions limit the read, and the answer is the same as without."""
        name = stream.name
        for condition, expected in (
            ("seq >= 3", [3, 4]),
            (f"subject = '{name}.b.1'", [2]),
            (f"subject IN ('{name}.b.1', '{name}.a.2') AND seq > 2", [3]),
            ("seq > 10", []),
            ("length(data) = 3", [1, 2]),
        ):
            for pushdown in ("true", "false"):
                frame = reader(spark, station, stream, pushdown=pushdown).load().where(condition)
                assert sorted(row.seq for row in frame.collect()) == expected
        frame = reader(spark, station, stream, pushdown="true", minPartitions="4").load()
        tasks = 1 if hasattr(DataSourceReader, "pushFilters") else 4
        assert frame.where("seq = 3").rdd.getNumPartitions() == tasks


class TestErrors:
    """The errors that a user sees."""

    @pytest.mark.parametrize(
        ("options", "why"),
        [
            ({"strem": "X"}, "there is no option 'strem'; did you mean 'stream'"),
            ({"rate": "5"}, "'rate' is not supported yet"),
            ({"servers": "127.0.0.1:1"}, "127.0.0.1:1: Connection refused"),
            ({"stream": "NOWHERE"}, "there is no stream NOWHERE"),
            ({"user": "a", "token": "b"}, "user and token exclude each other"),
        ],
    )
    def test_reason(
        self, options: dict[str, str], why: str, spark: Any, station: Station, stream: Stream
    ) -> None:
        """The error that Spark raises has the reason."""
        with pytest.raises(PySparkException, match=f"(?i){why}"):
            reader(spark, station, stream, **options).load().count()

    def test_wrongSchema(self, spark: Any, station: Station, stream: Stream) -> None:
        """A schema that is no choice of columns is refused."""
        with pytest.raises(PySparkException, match="seq is bigint, not string"):
            reader(spark, station, stream).schema("seq STRING").load().count()

    def test_loss(self, spark: Any, station: Station, stream: Stream) -> None:
        """Data loss fails the job with its reason, unless it is allowed."""
        stream.api("PURGE", {"seq": 3})
        with pytest.raises(PySparkException, match="sequences 1 to 2 are not stored any more"):
            reader(spark, station, stream, startingOffsets="1").load().count()
        read = reader(spark, station, stream, startingOffsets="1", failOnDataLoss="false")
        assert read.load().count() == 2


def test_register(spark: Any, station: Station, stream: Stream) -> None:
    """The source can be registered in a session."""
    register(spark)
    assert reader(spark, station, stream).load().count() == 4


def test_names() -> None:
    """The source is found by this name."""
    assert NatsBrokerSource.name() == "natsbroker"
