"""
Writing, in Spark, to nats-server 2.15.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from natsbroker.spark.datasource.writing import BatchWriter, StreamWriter
from natsbroker.spark.errors import DataSourceError, OptionError
from natsbroker.spark.settings import readOptions
from tests.spark.support import Station, Stream

TYPES = {"STRING": StringType(), "BINARY": BinaryType(), "BIGINT": LongType()}


def schemaOf(text: str) -> StructType:
    """
    @return: a schema; Spark's own function for it needs a session.
    """
    pairs = [each.split() for each in text.split(", ")]
    return StructType([StructField(name, TYPES[kind]) for name, kind in pairs])


def writerTo(schema: str, station: Station, stream: str, **options: str) -> BatchWriter:
    """
    @return: what writes rows of a schema.
    """
    given = {"servers": station.url, "stream": stream, **options}
    return BatchWriter(schemaOf(schema), readOptions(given, "write"))


class TestColumns:
    """Rows that can be written, and that cannot."""

    @pytest.mark.parametrize(
        ("schema", "options", "why"),
        [
            ("subject STRING", {}, "needs a column 'data'"),
            ("data BINARY", {}, "needs a column 'subject' or the option"),
            ("subject STRING, data BINARY", {"subject": "a"}, "and not both"),
            ("data BINARY", {"subject": "a.*"}, "not a subject to publish to: 'a.*'"),
            ("data BINARY", {"subject": "a,b"}, "subject: name one to write to"),
            (
                "data BINARY, seq BIGINT",
                {"subject": "a"},
                "'seq' cannot be written; there are subj",
            ),
            ("data BIGINT", {"subject": "a"}, "data is binary or string, not bigint"),
            ("data BINARY", {"subject": "a", "stream": "A,B"}, "stream: name the one to write to"),
        ],
    )
    def test_unwritableColumns(
        self, schema: str, options: dict[str, str], why: str, station: Station
    ) -> None:
        """What would not be written is refused before anything is."""
        with pytest.raises(OptionError, match=why.replace("*", r"\*")):
            writerTo(schema, station, **{"stream": "S", **options})

    def test_rows(self, station: Station) -> None:
        """Texts are UTF-8, nulls are nothing; a row without a subject is an error."""
        stream = station.stream()
        name = f"{stream.name}.x"
        writer = writerTo("subject STRING, data STRING, msg_id STRING", station, stream.name)
        batch = pa.RecordBatch.from_pydict(
            {"subject": [name, name], "data": ["é", None], "msg_id": ["1", None]}
        )
        written = writer.write(iter([batch, batch]))
        assert (written.stored, written.duplicates) == (4, 1)
        assert stream.api("MSG.GET", {"seq": 1})["message"]["data"] == "w6k="
        assert "data" not in stream.api("MSG.GET", {"seq": 2})["message"]
        nobody = batch.set_column(0, "subject", pa.array([name, None]))
        with pytest.raises(DataSourceError, match="a row has no subject"):
            writer.write(iter([nobody]))

    def test_noRowsNoConnection(self, station: Station) -> None:
        """A task without rows does not even connect."""
        writer = writerTo("data BINARY", station, "NOWHERE", subject="a", servers="127.0.0.1:1")
        assert writer.write(iter([])).stored == 0

    def test_stream(self, station: Station) -> None:
        """A streaming query's writer takes the same rows and options."""
        options = readOptions(
            {"servers": station.url, "stream": "S", "subject": "a"}, "writeStream"
        )
        assert StreamWriter(schemaOf("data BINARY"), options).write(iter([])).stored == 0


class TestSpark:
    """In Spark."""

    def test_batch(self, spark: Any, station: Station) -> None:
        """Each row once, also where the job is run again: its ids are the same."""
        stream = station.stream()
        frame = spark.range(1000, numPartitions=2).selectExpr(
            f"concat('{stream.name}.', id % 3) AS subject",
            "string(id) AS data",
            "array(struct('K' AS key, string(id) AS value)) AS headers",
            "concat('job-', id) AS msg_id",
        )
        for _ in range(2):
            writing = frame.write.format("natsbroker").mode("append")
            writing.options(servers=station.url, stream=stream.name, window="64").save()
        assert station.streams.state(stream.name).messages == 1000
        read = spark.read.format("natsbroker").options(
            servers=station.url, stream=stream.name, includeHeaders="true"
        )
        rows = read.load().selectExpr("subject", "int(string(data)) AS id", "headers").collect()
        assert sorted(row.id for row in rows) == list(range(1000))
        assert all(row.subject == f"{stream.name}.{row.id % 3}" for row in rows)
        assert all(("K", str(row.id)) in [tuple(x) for x in row.headers] for row in rows)

    def test_streamToStream(self, spark: Any, station: Station, tmp_path: Path) -> None:
        """A micro-batch that is written again, as after a crash, changes nothing."""
        source, target = station.stream(), station.stream()
        source.fill(b"%d" % number for number in range(100))

        def run() -> None:
            query = (
                spark.readStream.format("natsbroker")
                .options(servers=station.url, stream=source.name, startingOffsets="earliest")
                .load()
                .selectExpr("data", f"concat('{source.name}:', seq) AS msg_id")
                .writeStream.format("natsbroker")
                .options(servers=station.url, stream=target.name, subject=f"{target.name}.x")
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            try:
                assert query.awaitTermination(120)
            finally:
                query.stop()

        run()
        assert station.streams.state(target.name).messages == 100
        commits = tmp_path / "checkpoint" / "commits"
        for each in (commits / "0", commits / ".0.crc"):
            each.unlink(missing_ok=True)
        run()
        assert (commits / "0").exists()
        assert station.streams.state(target.name).messages == 100

    def test_told(self, spark: Any, station: Station, stream: Stream) -> None:
        """What is wrong is said."""
        frame = spark.range(1).selectExpr("string(id) AS data")
        for options, mode, why in (
            ({"stream": "NOWHERE"}, "append", "stream NOWHERE: stream not found"),
            ({}, "overwrite", "a stream cannot be overwritten"),
            ({"batchRows": "5"}, "append", "'batchRows' is for read and readStream, not for write"),
        ):
            writing = frame.write.format("natsbroker").mode(mode)
            given = {"servers": station.url, "stream": stream.name, "subject": f"{stream.name}.x"}
            with pytest.raises(PySparkException, match=why):
                writing.options(**{**given, **options}).save()


@pytest.fixture
def stream(station: Station) -> Stream:
    """
    An empty stream.
    """
    return station.stream()
