"""
Channels of NATS Streaming in Spark: batches, streaming queries and writing, with a broker of ours.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from natsbroker.spark.datasource.streaming import StreamReader
from natsbroker.spark.errors import DataLoss, OptionError
from natsbroker.spark.settings import readOptions
from tests.interop.conftest import StartServer
from tests.interop.servers import OURS_FAST
from tests.spark.limits import ReadAllAvailable
from tests.spark.support import BrokerStation


def reader(spark: Any, broker: BrokerStation, channel: str, **options: str) -> Any:
    """
    @return: a DataFrame of channels.
    """
    read = spark.read.format("natsbroker").options(servers=broker.url, channel=channel)
    return read.options(**options).load()


class TestBatch:
    """A batch."""

    def test_rows(self, spark: Any, broker: BrokerStation) -> None:
        """Each message once, with its sequence, channel, data and time."""
        name = broker.channel([b"one", b"", b"\x00\xff"])
        frame = reader(spark, broker, name, includeHeaders="true", includeMetadata="true")
        rows = frame.orderBy("seq").collect()
        assert [(row.seq, row.subject, bytes(row.data)) for row in rows] == [
            (1, name, b"one"),
            (2, name, b""),
            (3, name, b"\x00\xff"),
        ]
        assert [(row.stream, row.headers) for row in rows] == [(name, [])] * 3
        assert all(row.time_ns // 1000 == round(row.time.timestamp() * 10**6) for row in rows)

    def test_parts(self, spark: Any, broker: BrokerStation) -> None:
        """Many tasks together give every message once."""
        name = broker.channel(b"%d" % n for n in range(5000))
        frame = reader(spark, broker, name, minPartitions="4", fetchBytes="20000")
        counted = frame.selectExpr("count(*) n", "count(distinct seq) d", "max(seq) m").collect()[0]
        assert (counted.n, counted.d, counted.m) == (5000, 5000, 5000)
        assert frame.rdd.getNumPartitions() == 4
        digits = frame.selectExpr("sum(cast(string(data) AS INT)) AS s").collect()[0].s
        assert digits == sum(range(5000))

    def test_patterns(self, spark: Any, broker: BrokerStation) -> None:
        """A pattern stands for the channels that match when the read is planned."""
        for name in ("rows.a", "rows.b", "rows.b.c"):
            broker.channel([b"x", b"y"], name)
        frame = reader(spark, broker, "rows.*", includeMetadata="true")
        assert {row.stream for row in frame.collect()} == {"rows.a", "rows.b"}
        assert reader(spark, broker, "rows.>").count() == 6
        with pytest.raises(PySparkException, match=r"no channel matches nothing\.\*"):
            reader(spark, broker, "nothing.*").count()

    def test_offsetsAndTimes(self, spark: Any, broker: BrokerStation) -> None:
        """A read begins and stops at sequences, or at times."""
        name = broker.channel(b"%d" % n for n in range(1, 11))
        part = {"startingOffsets": "3", "endingOffsets": "6"}
        rows = reader(spark, broker, name, **part).collect()
        assert sorted(row.seq for row in rows) == [3, 4, 5]
        first = reader(spark, broker, name).orderBy("seq").collect()[0].time
        since = {"startingTimestamp": first.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
        assert reader(spark, broker, name, **since).count() == 10
        late = {"startingTimestamp": "2100-01-01T00:00:00Z"}
        with pytest.raises(PySparkException, match=f"channel {name} has no message from 2100"):
            reader(spark, broker, name, **late).count()

    def test_pushdown(self, spark: Any, broker: BrokerStation) -> None:
        """Conditions on sequences narrow the requested range."""
        name = broker.channel(b"%d" % n for n in range(1, 11))
        frame = reader(spark, broker, name, pushdown="true").where("seq > 3 AND seq <= 5")
        assert sorted(row.seq for row in frame.collect()) == [4, 5]

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({"stream": "S"}, "stream and channel exclude each other"),
            ({"subject": "a"}, "subject and channel exclude each other"),
            ({"clusterId": "other"}, "no responders for .* with the cluster id other there"),
            ({"channel": "none"}, "there is no channel none"),
        ],
    )
    def test_unreadableIsAnError(
        self, options: dict[str, str], text: str, spark: Any, broker: BrokerStation
    ) -> None:
        """An unreadable channel is refused in clear words."""
        with pytest.raises(PySparkException, match=text):
            reader(spark, broker, **{"channel": "c", **options}).count()


def follow(broker: BrokerStation, channel: str, **options: str) -> StreamReader:
    """@return: the reader of a streaming query that never reuses the state of a channel."""
    given = {"servers": broker.url, "channel": channel, "pollInterval": "0.000001", **options}
    return StreamReader(("seq", "data"), readOptions(given, "readStream"))


def between(query: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    """
    @return: the payloads that workers read between two offsets.
    """
    copy = pickle.loads(pickle.dumps(query))
    return [
        data
        for task in query.partitions(start, end)
        for batch in copy.read(task)
        for data in batch.column("data").to_pylist()
    ]


class TestStream:
    """Streaming queries."""

    def test_query(self, spark: Any, broker: BrokerStation, tmp_path: Path) -> None:
        """A query goes on where it was, and has each message once."""
        name = broker.channel(b"%d" % n for n in range(100))
        for count in (100, 150):
            query = (
                spark.readStream.format("natsbroker")
                .options(servers=broker.url, channel=name, startingOffsets="earliest")
                .option("maxOffsetsPerTrigger", 30)
                .load()
                .writeStream.format("parquet")
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start(str(tmp_path / "table"))
            )
            assert query.awaitTermination(120)
            rows = spark.read.parquet(str(tmp_path / "table")).collect()
            assert sorted(row.seq for row in rows) == list(range(1, count + 1))
            broker.fill(name, [b"more"] * 50)

    def test_newChannels(self, broker: BrokerStation) -> None:
        """A pattern includes channels that are created later, from their first message on."""
        query = follow(broker, "later.*")
        start = query.initialOffset()
        assert start["logs"] == {}
        broker.channel([b"one", b"two"], "later.a")
        offset = query.latestOffset(start, ReadAllAvailable())
        assert between(query, start, offset) == []
        end = query.latestOffset(offset, ReadAllAvailable())
        assert between(query, offset, end) == [b"one", b"two"]
        assert query.latestOffset(end, ReadAllAvailable()) == end
        query.stop()

    def test_deletedChannel(self, startServer: StartServer) -> None:
        """A channel that is deleted, or created again, ends the query."""
        text = "streaming { store_limits { max_inactivity: '1s' } }"
        broker = BrokerStation(startServer(OURS_FAST, text))
        queries = [follow(broker, channel, startingOffsets="earliest") for channel in ("g", "*")]
        broker.channel([b"x"], "g")
        starts = [stream.initialOffset() for stream in queries]
        ends = [
            query.latestOffset(start, ReadAllAvailable())
            for query, start in zip(queries, starts, strict=True)
        ]
        broker.server.waitForLog('Channel "g" has been deleted', fromStart=True)
        for query, end in zip(queries, ends, strict=True):
            with pytest.raises(DataLoss, match="channel g"):
                query.latestOffset(end, ReadAllAvailable())
        broker.channel([b"x", b"y"], "g")
        for query, start, end in zip(queries, starts, ends, strict=True):
            with pytest.raises(DataLoss, match="channel g was deleted and made again"):
                query.latestOffset(end, ReadAllAvailable())
            with pytest.raises(DataLoss, match="channel g was deleted and made again"):
                between(query, start, end)
            query.stop()

    def test_keepsItsChannels(self, broker: BrokerStation) -> None:
        """A row that a channel refuses fails the write with the reason."""
        names = broker.channel([b"x"]), broker.channel([b"x"])
        query = follow(broker, names[0])
        start = query.initialOffset()
        query.stop()
        other = follow(broker, names[1])
        with pytest.raises(OptionError, match="a query cannot change its channels"):
            other.latestOffset(start, ReadAllAvailable())


class TestWrite:
    """Writing."""

    def test_rows(self, spark: Any, broker: BrokerStation) -> None:
        """Each row is stored when the write returns."""
        name = broker.channel()
        rows = spark.range(1000).selectExpr("concat('row ', id) AS data")
        write = rows.write.format("natsbroker").mode("append")
        write.options(servers=broker.url, channel=name, window="100").save()
        received = reader(spark, broker, name).collect()
        assert sorted(bytes(row.data) for row in received) == sorted(
            b"row %d" % n for n in range(1000)
        )

    @pytest.mark.parametrize(
        ("columns", "options", "text"),
        [
            ("'a' AS data, 'b' AS msg_id", {}, "'msg_id' cannot be written to a channel"),
            ("'a' AS data, 'b' AS subject", {}, "'subject' cannot be written to a channel"),
            ("'a' AS data", {"channel": "a,b"}, "channel: name the channel to write to"),
            ("'a' AS data", {"channel": "a.*"}, "channel: name the channel to write to"),
            ("'a' AS data", {"channel": "a/b"}, "no channel can be called 'a/b'"),
            ("'a' AS data", {"subject": "s"}, "subject and channel exclude each other"),
            ("'a' AS data", {"stream": "S"}, "stream and channel exclude each other"),
            ("'a' AS data", {"clusterId": "other"}, "no NATS Streaming with the cluster id other"),
        ],
    )
    def test_unwritableIsAnError(
        self,
        columns: str,
        options: dict[str, str],
        text: str,
        spark: Any,
        broker: BrokerStation,
    ) -> None:
        """A row that a channel refuses is an error with a clear text."""
        write = spark.sql(f"SELECT {columns}").write.format("natsbroker").mode("append")
        given = {"servers": broker.url, "channel": "c", **options}
        with pytest.raises(PySparkException, match=text):
            write.options(**given).save()
