"""
Writing, to nats-server 2.15 and a broker of ours, and in Spark.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from natsbroker.spark.datasource.streaming import PASSES_START
from natsbroker.spark.datasource.writing import BatchWriter, StreamWriter
from natsbroker.spark.errors import ApiError, DataSourceError, OptionError
from natsbroker.spark.metrics import queryMetrics
from natsbroker.spark.settings import readOptions
from natsbroker.wire.headers import Headers
from tests.spark.support import BrokerStation, Station, Stream

PAIR = [StructField("key", StringType()), StructField("value", StringType())]
HEADERS = ArrayType(StructType(PAIR))
TYPES = {"STRING": StringType(), "BINARY": BinaryType(), "BIGINT": LongType()}


def schemaOf(text: str) -> StructType:
    """
    @return: a schema; Spark's own function for it needs a session.
    """
    pairs = [part.split() for part in text.split(", ")]
    return StructType([StructField(name, TYPES[kind]) for name, kind in pairs])


@pytest.fixture(params=["sharedStation", "sharedBroker"])
def server(request: pytest.FixtureRequest) -> Station | BrokerStation:
    """nats-server, and a broker of ours."""
    started: Station | BrokerStation = request.getfixturevalue(request.param)
    return started


def stored(stream: Stream) -> int:
    """
    @return: how many messages a stream has.
    """
    return int(stream.api("INFO")["state"]["messages"])


def writerTo(
    schema: str, station: Station | BrokerStation, stream: str, **options: str
) -> BatchWriter:
    """
    @return: what writes rows of a schema.
    """
    given = {"servers": station.url, "stream": stream, **options}
    return BatchWriter(schemaOf(schema), readOptions(given, "write"))


class TestColumns:
    """Rows that can be written, and rows that cannot."""

    @pytest.mark.parametrize(
        ("schema", "options", "why"),
        [
            ("subject STRING", {}, "needs a column 'data'"),
            ("data BINARY", {}, "needs either a column 'subject' or"),
            ("subject STRING, data BINARY", {"subject": "a"}, "needs either a column"),
            ("data BINARY", {"subject": "a.*"}, "not a subject to publish to: 'a.*'"),
            ("data BINARY", {"subject": "a,b"}, "subject: name one to write to"),
            (
                "data BINARY, seq BIGINT",
                {"subject": "a"},
                "'seq' cannot be written; there are subj",
            ),
            ("data BIGINT", {"subject": "a"}, "data is binary or string, not bigint"),
            (
                "data BINARY",
                {"subject": "a", "stream": "A,B"},
                "stream: name the stream to write to",
            ),
        ],
    )
    def test_unwritableColumns(
        self, schema: str, options: dict[str, str], why: str, station: Station
    ) -> None:
        """A column that cannot be written is refused before any row is written."""
        with pytest.raises(OptionError, match=why.replace("*", r"\*")):
            writerTo(schema, station, **{"stream": "S", **options})

    def test_rows(self, server: Station | BrokerStation) -> None:
        """Texts are UTF-8, and nulls are left out. A row without a subject is an error."""
        stream = server.stream()
        name = f"{stream.name}.x"
        writer = writerTo("subject STRING, data STRING, msg_id STRING", server, stream.name)
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

    @pytest.mark.parametrize("atomic", ["false", "true"])
    def test_repeated(self, atomic: str, server: Station | BrokerStation) -> None:
        """
        A task that runs again stores no row twice. Equal rows in another order are all stored.
        """
        stream = server.stream(allow_atomic=True)
        options = {"subject": f"{stream.name}.x", "window": "7", "atomic": atomic}
        writer = writerTo("data STRING", server, stream.name, **options)
        rows = [str(number // 2) for number in range(1010)]
        batch = pa.RecordBatch.from_pydict({"data": rows})
        cut = batch.slice(0, 500)
        written = [writer.write(iter([part])) for part in (cut, batch, batch)]
        assert [result.duplicates for result in written] == [0, 500, 1010]
        assert stored(stream) == 1010
        turned = batch.take(pa.array(range(1009, -1, -1)))
        # Two equal rows have changed places.
        assert writer.write(iter([turned])).duplicates == 2
        again = writerTo("data STRING", server, stream.name, **options)
        assert again.write(iter([batch])).duplicates == 0

    def test_columnOfIds(self, server: Station | BrokerStation) -> None:
        """C{msgId} may name a column, or be C{none}."""
        stream = server.stream()
        options = {"subject": f"{stream.name}.x"}
        named = writerTo("data STRING, k STRING", server, stream.name, msgId="k", **options)
        rows = pa.RecordBatch.from_pydict({"data": ["a", "b", "c"], "k": ["1", "1", "2"]})
        assert named.write(iter([rows])).duplicates == 1
        without = writerTo("data STRING", server, stream.name, msgId="none", **options)
        for _ in range(2):
            assert without.write(iter([rows.select(["data"])])).duplicates == 0
        for name, schema, why in (
            ("k", "data STRING", "msgId: there is no column 'k'"),
            ("none", "data STRING, msg_id STRING", "'msg_id' cannot be written"),
            ("code", "data STRING, code STRING", "called code and error"),
        ):
            with pytest.raises(OptionError, match=why):
                writerTo(schema, server, stream.name, msgId=name, **options)

    @pytest.mark.parametrize("msgId", ["auto", "none", "k"])
    def test_ownIds(self, msgId: str, server: Station | BrokerStation) -> None:
        """Rows keep their C{Nats-Msg-Id}, unless C{msgId} names a column or is C{none}."""
        stream = server.stream()
        pairs = [[{"key": "Nats-Msg-Id", "value": "order-17"}, {"key": "K", "value": "v"}]]
        rows = {"data": ["a"], "headers": pairs, "k": ["1"]}
        names = ["data", "headers", *(["k"] if msgId == "k" else [])]
        batch = pa.RecordBatch.from_pydict({name: rows[name] for name in names})
        fields = [StructField(name, StringType()) for name in names if name != "headers"]
        schema = StructType([*fields, StructField("headers", HEADERS)])
        given = {"servers": server.url, "stream": stream.name, "subject": f"{stream.name}.x"}
        written = [
            BatchWriter(schema, readOptions({**given, "msgId": msgId}, "write")).write(
                iter([batch])
            )
            for _ in range(2)
        ]
        assert written[1].duplicates == (msgId != "none")
        answer = server.connection.request(f"$JS.API.STREAM.MSG.GET.{stream.name}", b'{"seq": 1}')
        block = Headers.fromBlock(base64.b64decode(json.loads(answer)["message"]["hdrs"]))
        ids = {"auto": "order-17", "none": None, "k": "1"}
        assert block.getAll("Nats-Msg-Id") == [x for x in [ids[msgId]] if x]
        kept = None if msgId == "auto" else "order-17"
        assert block.get("Nb-Origin-Nats-Msg-Id") == kept
        assert block.get("K") == "v"

    @pytest.mark.parametrize("atomic", ["false", "true"])
    def test_commands(self, atomic: str, server: Station | BrokerStation) -> None:
        """Headers of rows that are commands to servers have no effect when they are stored."""
        stream = server.stream(allow_atomic=True, allow_rollup_hdrs=True, allow_msg_ttl=True)
        stream.fill([b"precious"] * 3)
        commands = {
            "Nats-Rollup": "all",
            "Nats-TTL": "1s",
            "Nats-Batch-Id": "b",
            "Nats-Batch-Sequence": "1",
            "Nats-Expected-Stream": "other",
            "Nats-Expected-Last-Sequence": "99",
        }
        pairs = [[{"key": key, "value": value} for key, value in commands.items()]]
        batch = pa.RecordBatch.from_pydict({"data": ["a"], "headers": pairs})
        schema = StructType([StructField("data", StringType()), StructField("headers", HEADERS)])
        given = {"servers": server.url, "stream": stream.name, "subject": f"{stream.name}.x"}
        options = readOptions({**given, "atomic": atomic}, "write")
        assert BatchWriter(schema, options).write(iter([batch])).stored == 1
        assert stored(stream) == 4

    def test_fullStream(self, server: Station | BrokerStation, tmp_path: Path) -> None:
        """
        A full stream fails the task. A message that exceeds the limit of its subject is a dead
        letter.
        """
        for config, isRow in (
            ({"max_msgs": 2}, False),
            ({"max_bytes": 300}, False),
            ({"max_msgs_per_subject": 2, "discard_new_per_subject": True}, True),
        ):
            stream = server.stream(discard="new", **config)
            options = {"subject": f"{stream.name}.x", "deadLetters": str(tmp_path / stream.name)}
            writer = writerTo("data STRING", server, stream.name, **options)
            batch = pa.RecordBatch.from_pydict({"data": ["x" * 50] * 5})
            if isRow:
                assert len(writer.write(iter([batch])).dead) == 1
                continue
            with pytest.raises(ApiError, match="maximum"):
                writer.write(iter([batch]))

    def test_misspelt(self, server: Station | BrokerStation) -> None:
        """The error for a missing stream names the one that is spelt alike."""
        stream = Stream(server.connection, "DELIVERIES")
        stream.make()
        batch = pa.RecordBatch.from_pydict({"data": ["a"]})
        writer = writerTo("data STRING", server, "DELIVERYS", subject="DELIVERIES.x")
        with pytest.raises(ApiError, match="there is no stream DELIVERYS; there is DELIVERIES"):
            writer.write(iter([batch]))
        stream.api("DELETE")

    @pytest.mark.parametrize("atomic", ["false", "true"])
    def test_deadLetters(
        self, atomic: str, server: Station | BrokerStation, tmp_path: Path
    ) -> None:
        """Rows that the stream refuses are dead letters, once each, with the reason."""
        stream = server.stream(allow_atomic=True, max_msg_size=150)
        root = tmp_path / "dead"
        options = {"deadLetters": str(root), "atomic": atomic}
        writer = writerTo("subject STRING, data STRING", server, stream.name, **options)
        good = f"{stream.name}.x"
        subjects = [good, None, "a b", "elsewhere", good, good]
        data = ["1", "2", "3", "4", "x" * 151, "6"]
        batch = pa.RecordBatch.from_pydict({"subject": subjects, "data": data})
        for _ in range(2):
            # The first time nobody hears of the end of the task.
            written = writer.write(iter([batch]))
        assert stored(stream) == 2
        for _ in range(2):
            writer.commit([None, written])
        table = deltalake.DeltaTable(str(root))
        rows = sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: str(row["data"]))
        assert [row["data"] for row in rows] == data[1:5]
        assert [row["subject"] for row in rows] == subjects[1:5]
        assert [row["code"] for row in rows] == [0, 0, 503, 10054]
        assert "no subject" in rows[0]["error"] and "message size exceeds" in rows[3]["error"]
        with pytest.raises(DataSourceError, match="its columns differ"):
            writerTo("data STRING", server, stream.name, subject=good, **options)

    def test_notAtomic(self, station: Station) -> None:
        """Batches need a stream that allows them."""
        stream = station.stream()
        writer = writerTo(
            "data STRING", station, stream.name, atomic="true", subject=f"{stream.name}.x"
        )
        with pytest.raises(DataSourceError, match="set its allow_atomic"):
            writer.write(iter([pa.RecordBatch.from_pydict({"data": ["a"]})]))

    def test_noRowsNoConnection(self, station: Station) -> None:
        """A task without rows does not connect."""
        writer = writerTo("data BINARY", station, "NOWHERE", subject="a", servers="127.0.0.1:1")
        assert writer.write(iter([])).stored == 0

    def test_stream(self, station: Station) -> None:
        """A streaming query's writer accepts the same rows and options."""
        options = readOptions(
            {"servers": station.url, "stream": "S", "subject": "a"}, "writeStream"
        )
        assert StreamWriter(schemaOf("data BINARY"), options).write(iter([])).stored == 0


class TestSpark:
    """In Spark."""

    def test_batch(self, spark: Any, station: Station) -> None:
        """A job that runs again stores no row twice if rows have ids."""
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
        """A micro-batch that is written again, as after a crash, stores nothing twice."""
        source, target = station.stream(), station.stream(allow_atomic=True, max_msg_size=120)
        source.fill(b"%d" % number for number in range(100))
        source.add("x", b"x" * 200)

        def run() -> None:
            query = (
                spark.readStream.format("natsbroker")
                .options(servers=station.url, stream=source.name, startingOffsets="earliest")
                .load()
                .select("data")
                .writeStream.format("natsbroker")
                .options(servers=station.url, stream=target.name, subject=f"{target.name}.x")
                .options(atomic="true", deadLetters=str(tmp_path / "dead"))
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            try:
                assert query.awaitTermination(120)
            finally:
                query.stop()

        with queryMetrics(spark, "0") as port:
            run()
            page = ""
            deadline = time.monotonic() + 30
            while "rows_total{" not in page and time.monotonic() < deadline:
                time.sleep(0.05)
                with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                    page = answer.read().decode()
        assert re.search(r'rows_total\{job="[^"]+"\} 101\.0', page)
        lag = re.search(rf'lag\{{job="[^"]+",stream="{source.name}"\}} 0\.0', page)
        assert bool(lag) is PASSES_START  # Since then Spark asks for it too.
        assert station.streams.state(target.name).messages == 100
        commits = tmp_path / "checkpoint" / "commits"
        for path in (commits / "0", commits / ".0.crc"):
            path.unlink(missing_ok=True)
        run()
        assert (commits / "0").exists()
        dead = deltalake.DeltaTable(str(tmp_path / "dead")).to_pyarrow_table().to_pylist()
        assert [(row["data"], row["code"]) for row in dead] == [(b"x" * 200, 10054)]
        assert station.streams.state(target.name).messages == 100

    def test_killed(self, spark: Any, station: Station, tmp_path: Path) -> None:
        """A write whose worker was killed has each row once when it is written again."""
        stream, mark = station.stream(), tmp_path / "killed"

        def dying(batches: Any) -> Any:
            for number, batch in enumerate(batches):
                if number == 3 and not mark.exists():
                    mark.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                data = pc.utf8_lpad(batch.column(0).cast(pa.string()), 500, "0")
                yield pa.RecordBatch.from_arrays([data], ["data"])

        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
        try:
            frame = spark.range(3000, numPartitions=1).mapInArrow(dying, "data STRING")
            writing = (
                frame.write.format("natsbroker")
                .mode("append")
                .options(
                    servers=station.url, stream=stream.name, subject=f"{stream.name}.x", writeId="w"
                )
            )
            with pytest.raises(Py4JJavaError):
                writing.save()
            assert 0 < station.streams.state(stream.name).messages < 3000
            writing.save()
        finally:
            spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
        assert station.streams.state(stream.name).messages == 3000

    def test_reason(self, spark: Any, station: Station, stream: Stream) -> None:
        """A failed write gives its reason."""
        frame = spark.range(1).selectExpr("string(id) AS data")
        for options, mode, why in (
            ({"stream": "NOWHERE"}, "append", "there is no stream NOWHERE"),
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
