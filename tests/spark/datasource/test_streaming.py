"""
Streaming queries, with nats-server 2.15: planned by hand, and run by Spark.
"""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from natsbroker.spark.datasource import streaming
from natsbroker.spark.datasource.streaming import (
    PASSES_START,
    EarlierStreamReader,
    StreamReader,
)
from natsbroker.spark.datasource.tasks import connected
from natsbroker.spark.errors import (
    ApiError,
    ConnectionFailed,
    DataLoss,
    LogGone,
    OptionError,
)
from natsbroker.spark.nats.connection import BlockingConnection
from natsbroker.spark.settings import readOptions
from tests.interop.servers import REAL, Server
from tests.spark.limits import ReadAllAvailable, ReadMaxBytes, ReadMaxRows
from tests.spark.support import CONFIG, BrokerStation, Station, Stream

#: One of Spark's limits that are none of a stream.
ReadMaxFiles: Any = type("ReadMaxFiles", (), {})

#: Spark asks a reader for limits since 4.2.
limited = pytest.mark.skipif(not PASSES_START, reason="needs the limits of Spark 4.2")


def readerOf(station: Station, *streams: Stream, **options: str) -> StreamReader:
    """@return: the reader of a streaming query that never reuses the state of a stream."""
    names = ",".join(stream.name for stream in streams)
    given = {"servers": station.url, "stream": names, "pollInterval": "0.000001", **options}
    return StreamReader(("seq", "data"), readOptions(given, "readStream"))


def positions(offset: dict[str, Any]) -> list[int]:
    """
    @return: the sequences of an offset.
    """
    return [log["seq"] for log in offset["logs"].values()]


def seqsOf(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    """
    @return: the sequences that workers read between two offsets.
    """
    copy = pickle.loads(pickle.dumps(reader))
    results = []
    for task in reader.partitions(start, end):
        for batch in copy.read(task):
            results += batch.column("seq").to_pylist()
    return results


class TestPlanning:
    """Offsets of micro-batches."""

    def test_begins(self, station: Station) -> None:
        """A new query starts at the end, or at its starting offset or time."""
        stream = station.stream()
        stream.fill([b"x"] * 5)
        for options, expected in (
            ({}, [6]),
            ({"startingOffsets": "earliest"}, [1]),
            ({"startingOffsets": "3"}, [3]),
            ({"startingTimestamp": "0"}, [1]),
        ):
            reader = readerOf(station, stream, **options)
            assert positions(reader.initialOffset()) == expected
            reader.stop()

    @limited
    def test_limits(self, station: Station) -> None:
        """A micro-batch has at most C{maxOffsetsPerTrigger} messages of all streams."""
        one, two = station.stream(), station.stream()
        one.fill([b"x" * 100] * 30)
        two.fill([b"x" * 100] * 10)
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"}
        reader = readerOf(station, one, two, **options)
        limit = reader.getDefaultReadLimit()
        assert limit == ReadMaxRows(20)
        start = reader.initialOffset()
        end = reader.latestOffset(start, limit)
        assert positions(end) == [16, 6]
        assert seqsOf(reader, start, end) == [*range(1, 16), *range(1, 6)]
        assert positions(reader.latestOffset(start, ReadAllAvailable())) == [31, 11]
        assert positions(reader.reportLatestOffset()) == [31, 11]
        assert reader.reportLatestOffset()["reconnects"] == 0
        third = reader.latestOffset(reader.latestOffset(end, limit), limit)
        assert positions(third) == [31, 11]
        assert seqsOf(reader, third, third) == []
        with pytest.raises(OptionError, match="ReadMaxFiles is not supported yet"):
            reader.latestOffset(start, ReadMaxFiles())
        reader.stop()

    @limited
    def test_bytes(self, station: Station) -> None:
        """A limit of bytes bounds a micro-batch, about."""
        stream = station.stream()
        stream.fill([b"x" * 1000] * 50)
        options = {"startingOffsets": "earliest", "maxBytesPerTrigger": "10000"}
        reader = readerOf(station, stream, **options)
        limit = reader.getDefaultReadLimit()
        assert limit == ReadMaxBytes(10000)
        (seq,) = positions(reader.latestOffset(reader.initialOffset(), limit))
        assert 8 <= seq <= 11
        reader.stop()

    def test_twoLimits(self, station: Station) -> None:
        """Two limits are too many."""
        limits = {"maxBytesPerTrigger": "1", "maxOffsetsPerTrigger": "1"}
        with pytest.raises(OptionError, match="exclude each other"):
            readerOf(station, station.stream(), **limits)
        limits = {"minOffsetsPerTrigger": "2", "maxOffsetsPerTrigger": "1"}
        with pytest.raises(OptionError, match="minOffsetsPerTrigger is more than"):
            readerOf(station, station.stream(), **limits)

    @pytest.mark.parametrize(("delay", "second"), [("900", 6), ("1e-6", 11)])
    def test_minimum(self, delay: str, second: int, station: Station) -> None:
        """
        A micro-batch waits for a number of sequences, but only for its maximum time. The first one
        does not wait.
        """
        stream = station.stream()
        stream.fill([b"x"] * 5)
        options = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": delay, "pollInterval": "1e-6"}
        reader = readerOf(station, stream, startingOffsets="earliest", **options)
        first = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        assert positions(first) == [6]
        assert reader.latestOffset(first, ReadAllAvailable()) == first
        stream.fill([b"x"] * 5)
        assert positions(reader.latestOffset(first, ReadAllAvailable())) == [second]
        stream.fill([b"x"] * 5)
        assert positions(reader.latestOffset(first, ReadAllAvailable())) == [16]
        reader.prepareForTriggerAvailableNow()
        stream.fill([b"x"] * 5)
        later = reader.latestOffset(first, ReadAllAvailable())
        assert positions(later) == [16]
        assert reader.latestOffset(later, ReadAllAvailable()) == later
        reader.stop()

    def test_availableNow(self, station: Station) -> None:
        """
        With availableNow, messages that arrive after the start are not read, but count for the lag.
        """
        stream = station.stream()
        stream.fill([b"x"] * 5)
        reader = readerOf(station, stream, startingOffsets="earliest")
        reader.prepareForTriggerAvailableNow()
        stream.fill([b"x"] * 5)
        end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        assert positions(end) == [6]
        assert reader.latestOffset(end, ReadAllAvailable()) == end
        assert positions(reader.reportLatestOffset()) == [11]
        reader.commit(end)
        reader.stop()

    def test_availableNowFromLatest(self, station: Station) -> None:
        """With availableNow from the latest offset, there is nothing to read."""
        stream = station.stream()
        stream.fill([b"x"] * 5)
        reader = readerOf(station, stream, startingOffsets="latest")
        reader.prepareForTriggerAvailableNow()
        stream.fill([b"x"] * 5)
        begin = reader.initialOffset()
        assert positions(begin) == [11]
        assert reader.latestOffset(begin, ReadAllAvailable()) == begin
        reader.stop()

    def test_believes(self, station: Station, monkeypatch: pytest.MonkeyPatch) -> None:
        """Within C{pollInterval}, the state of a stream is requested once, over one connection."""
        made: list[dict[str, Any]] = []

        def counted(options: dict[str, Any]) -> BlockingConnection:
            made.append(options)
            return connected(options)

        monkeypatch.setattr(streaming, "connected", counted)
        stream = station.stream()
        reader = readerOf(station, stream, pollInterval="1000")
        start = reader.initialOffset()
        first = reader.latestOffset(start, ReadAllAvailable())
        stream.fill([b"x"])
        for _ in range(5):
            assert reader.latestOffset(start, ReadAllAvailable()) == first
        assert len(made) == 1
        reader.stop()


class TestLoss:
    """Streams that were deleted, made again or went back."""

    def test_madeAgain(self, station: Station) -> None:
        """A stream that was deleted or created again ends the query, in planning as in reading."""
        stream = station.stream()
        stream.fill([b"x"] * 5)
        reader = readerOf(station, stream, startingOffsets="earliest")
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        stream.api("DELETE")
        with pytest.raises(DataLoss, match="stream not found: it was there when the query began"):
            reader.latestOffset(start, ReadAllAvailable())
        stream.make()
        stream.fill([b"y"] * 9)
        with pytest.raises(DataLoss, match="deleted and made again"):
            reader.latestOffset(start, ReadAllAvailable())
        with pytest.raises(DataLoss, match="deleted and made again"):
            seqsOf(reader, start, end)
        reader.stop()

    def test_trimmed(self, station: Station) -> None:
        """Deleted messages of a micro-batch are a loss, or are skipped."""
        stream = station.stream()
        stream.fill([b"x"] * 5)
        for options, expected in (({}, None), ({"failOnDataLoss": "false"}, [4, 5])):
            reader = readerOf(station, stream, startingOffsets="earliest", **options)
            if expected is None:
                start = reader.initialOffset()
                end = reader.latestOffset(start, ReadAllAvailable())
                stream.api("PURGE", {"seq": 4})
                with pytest.raises(DataLoss, match="sequences 1 to 3 are not stored any more"):
                    seqsOf(reader, start, end)
            else:
                assert seqsOf(reader, start, end) == expected
            reader.stop()


@limited
class TestPatterns:
    """Streams that a pattern matches."""

    def reader(self, station: Station, name: str, **options: str) -> StreamReader:
        given = {**_least(station, startingOffsets="earliest", **options), "streamPattern": name}
        del given["stream"]
        return StreamReader(("seq",), readOptions(given, "readStream"))

    def test_madeMeanwhile(self, station: Station) -> None:
        """With availableNow, a stream that is created before the first planning is read."""
        one = station.stream()
        one.fill([b"x"] * 3)
        two = Stream(station.connection, f"{one.name}-2")
        reader = self.reader(station, f"{one.name}(-2)?")
        reader.prepareForTriggerAvailableNow()
        two.make()
        two.fill([b"x"] * 2)
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        assert seqsOf(reader, start, end) == [1, 2, 3, 1, 2]
        reader.stop()

    def test_deleted(self, station: Station, caplog: pytest.LogCaptureFixture) -> None:
        """A stream that is deleted leaves the query, or ends it, depending on C{failOnDataLoss}."""
        one = station.stream()
        two = Stream(station.connection, f"{one.name}-2")
        two.make()
        for stream in (one, two):
            stream.fill([b"x"] * 3)
        reader = self.reader(station, f"{one.name}(-2)?")
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        two.api("DELETE")
        one.fill([b"x"] * 2)
        with pytest.raises(LogGone, match=f"stream {two.name} is gone"):
            reader.latestOffset(end, ReadAllAvailable())
        with pytest.raises(LogGone, match=f"stream {two.name} is gone"):
            seqsOf(reader, start, end)
        reader.stop()
        lenient = self.reader(station, f"{one.name}(-2)?", failOnDataLoss="false")
        # The micro-batch that was planned before is done again.
        assert seqsOf(lenient, start, end) == [1, 2, 3]
        last = lenient.latestOffset(end, ReadAllAvailable())
        assert (seqsOf(lenient, end, last), positions(last)) == ([4, 5], [6])
        assert f"stream {two.name} is gone: the query has read up to 3" in caplog.messages
        two.make()
        two.fill([b"y"] * 2)
        came = lenient.latestOffset(last, ReadAllAvailable())
        then = lenient.latestOffset(came, ReadAllAvailable())
        assert seqsOf(lenient, came, then) == [1, 2]
        lenient.stop()


class TestServers:
    """Servers that stop."""

    def test_firstConnection(self, tmp_path: Path) -> None:
        """
        A server that is down at the start of a query is waited for, up to C{reconnectTimeout}.
        """
        server = Server(REAL, tmp_path, CONFIG).start()
        station = Station(server)
        station.connection.close()
        server.stop()
        impatient = _least(station, reconnectTimeout="0.01")
        with pytest.raises(ConnectionFailed):
            StreamReader(("seq",), readOptions(impatient, "readStream")).initialOffset()
        patient = StreamReader(("seq",), readOptions(_least(station), "readStream"))
        again = threading.Timer(1, server.start)
        again.start()
        try:
            with pytest.raises(ApiError, match="there is no stream S"):
                patient.initialOffset()
        finally:
            again.join()
            server.stop()

    def test_otherReads(self, station: Station) -> None:
        """
        A checkpoint of other streams or filters is refused, unless C{allowCheckpointChange} is set.
        """
        one, two = station.stream(), station.stream()
        for reader in (one, two):
            reader.fill([b"x"] * 5)
        begin = {"startingOffsets": "earliest"}
        start = readerOf(station, one, subject=f"{one.name}.a", **begin).initialOffset()
        other = readerOf(station, one, subject=f"{one.name}.b", **begin)
        with pytest.raises(OptionError, match=r"subject: the checkpoint is of .*allowCheckpoint"):
            other.latestOffset(start, ReadAllAvailable())
        with pytest.raises(OptionError, match="the checkpoint is of the streams"):
            readerOf(station, two, **begin).latestOffset(start, ReadAllAvailable())
        old = {name: value for name, value in start.items() if name != "reads"}
        assert positions(other.latestOffset(old, ReadAllAvailable())) == [6]
        allowed = readerOf(station, two, allowCheckpointChange="true", **begin)
        first = allowed.latestOffset(start, ReadAllAvailable())
        assert (positions(first), seqsOf(allowed, start, first)) == ([1], [])
        second = allowed.latestOffset(first, ReadAllAvailable())
        assert seqsOf(allowed, first, second) == [1, 2, 3, 4, 5]

    def test_laterStream(self, station: Station, broker: BrokerStation) -> None:
        """
        A stream that appears later is read from its beginning. One that was created again ends the
        query.
        """
        for server in (station, broker):
            first = server.stream()
            first.fill([b"x"] * 2)
            prefix = f"LATER-{first.name}"
            early, late, closed = (Stream(server.connection, f"{prefix}-{x}") for x in "abc")
            early.make()
            early.fill([b"x"] * 3)
            given = {"servers": server.url, "streamPattern": f"{prefix}-.*"}
            values = {**given, "startingOffsets": "earliest", "pollInterval": "0.000001"}
            reader = StreamReader(("seq",), readOptions(values, "readStream"))
            start = reader.initialOffset()
            end = reader.latestOffset(start, ReadAllAvailable())
            assert seqsOf(reader, start, end) == [1, 2, 3]
            late.make()
            late.fill([b"y"] * 4)
            seen = reader.latestOffset(end, ReadAllAvailable())
            assert seqsOf(reader, end, seen) == []
            again = StreamReader(("seq",), readOptions(values, "readStream"))
            assert seqsOf(again, seen, again.latestOffset(seen, ReadAllAvailable())) == [1, 2, 3, 4]
            with pytest.raises(OptionError, match="the checkpoint is of the streams LATER"):
                readerOf(station, first).latestOffset(seen, ReadAllAvailable())
            if server is station:
                closed.make(allow_direct=False)
                with pytest.raises(ApiError, match="-c does not answer direct gets"):
                    reader.latestOffset(seen, ReadAllAvailable())
                closed.api("DELETE")
            late.api("DELETE")
            with pytest.raises(DataLoss, match="-b is gone: the query has read up to 0"):
                reader.latestOffset(seen, ReadAllAvailable())
            late.make()
            late.fill([b"z"] * 9)
            with pytest.raises(DataLoss, match="-b was deleted and made again"):
                reader.latestOffset(seen, ReadAllAvailable())
            for copy in (reader, again):
                copy.stop()

    def test_otherPattern(self, broker: BrokerStation) -> None:
        """A checkpoint of one pattern of channels is refused for another."""
        broker.channel([b"x"], "chosen.a")
        begin = {"startingOffsets": "earliest", "servers": broker.url}
        given = [
            readOptions({**begin, "channel": channel}, "readStream")
            for channel in ("chosen.*", "chosen.>")
        ]
        one, two = (StreamReader(("seq",), options) for options in given)
        with pytest.raises(OptionError, match=r"channel: the checkpoint is of chosen\.\*, and"):
            two.latestOffset(one.initialOffset(), ReadAllAvailable())
        for stream in (one, two):
            stream.stop()

    def test_restart(self, tmp_path: Path) -> None:
        """A restarted server is found, and the query continues at its position."""
        server = Server(REAL, tmp_path, CONFIG)
        server.start()
        station = Station(server)
        try:
            stream = station.stream(storage="file")
            stream.fill([b"x"] * 5)
            reader = readerOf(station, stream, startingOffsets="earliest")
            start = reader.initialOffset()
            station.connection.close()
            server.restart()
            end = reader.latestOffset(start, ReadAllAvailable())
            assert seqsOf(reader, start, end) == [1, 2, 3, 4, 5]
            server.stop()
            impatient = {"startingOffsets": "earliest", "reconnectTimeout": "0.01"}
            reader._options.update(readOptions(_least(station, **impatient), "readStream"))
            with pytest.raises(ConnectionFailed):
                reader.latestOffset(end, ReadAllAvailable())
        finally:
            station.close()


def _least(station: Station, **options: str) -> dict[str, str]:
    return {"servers": station.url, "stream": "S", "pollInterval": "0.000001", **options}


def earlierOf(station: Station, name: str, **options: str) -> EarlierStreamReader:
    """
    @return: what plans the micro-batches of a query in Spark 4.0 and 4.1, from the oldest message.
    """
    given = {**_least(station, startingOffsets="earliest", **options), "stream": name}
    return EarlierStreamReader(("seq", "data"), readOptions(given, "readStream"))


class TestEarlier:
    """Spark 4.0 and 4.1 do not say where a query is."""

    @limited
    def test_limits(self, station: Station) -> None:
        """Micro-batches of a new query follow one another within their limit."""
        stream = station.stream()
        stream.fill([b"x"] * 5)
        reader = earlierOf(station, stream.name, maxOffsetsPerTrigger="3")
        start, seqs = reader.initialOffset(), []
        for expected in ([1, 2, 3], [4, 5], []):
            end = reader.latestOffset()
            seqs.append(seqsOf(reader, start, end))
            assert seqs[-1] == expected
            start = end
        reader.stop()

    def test_continued(self, station: Station) -> None:
        """
        After a restart from a checkpoint, the rest is read in one micro-batch, and limits then
        apply again.
        """
        stream = station.stream()
        stream.fill([b"x"] * 9)
        reader = earlierOf(station, stream.name, maxOffsetsPerTrigger="3")
        begin = reader.initialOffset()
        start = reader.latestOffset()
        reader.stop()
        again = earlierOf(station, stream.name, maxOffsetsPerTrigger="3")
        assert seqsOf(again, begin, start) == [1, 2, 3]
        end = again.latestOffset()
        assert seqsOf(again, start, end) == [4, 5, 6, 7, 8, 9]
        stream.fill([b"x"] * 5)
        assert positions(again.latestOffset()) == [13]
        again.stop()

    def test_lostStream(self, station: Station) -> None:
        """A stream that was made again, or has gone back, ends the query."""
        stream = station.stream()
        stream.fill([b"x"] * 9)
        start = earlierOf(station, stream.name).latestOffset()
        stream.api("DELETE")
        stream.make()
        stream.fill([b"x"] * 3)
        reader = earlierOf(station, stream.name)
        end = reader.latestOffset()
        with pytest.raises(DataLoss, match="ends before 4, and the query has read up to 9"):
            reader.partitions(start, end)
        start["logs"][stream.name]["seq"] = 2
        with pytest.raises(DataLoss, match="was deleted and made again"):
            reader.partitions(start, end)
        reader.stop()

    def test_notWithoutPlace(self, station: Station) -> None:
        """Options that need the start of a micro-batch are refused before Spark 4.2."""
        with pytest.raises(OptionError, match=r"allowCheckpointChange: .* PySpark 4.2 or later"):
            earlierOf(station, "S", allowCheckpointChange="true")
        with pytest.raises(OptionError, match=r"patterns: .* and this is 4\.\d"):
            earlierOf(station, "", streamPattern="S.*")


class TestSpark:
    """In Spark."""

    def test_exactlyOnce(self, spark: Any, station: Station, tmp_path: Path) -> None:
        """Over several runs, the sink has each message once. The progress shows the lag."""
        one, two = station.stream(), station.stream()

        def run() -> Any:
            query = (
                spark.readStream.format("natsbroker")
                .options(servers=station.url, stream=f"{one.name},{two.name}")
                .options(includeMetadata="true", startingOffsets="earliest")
                .options(maxOffsetsPerTrigger="400", minPartitions="2")
                .load()
                .writeStream.format("parquet")
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .option("path", str(tmp_path / "table"))
                .trigger(availableNow=True)
                .start()
            )
            try:
                assert query.awaitTermination(120)
                return query.lastProgress
            finally:
                query.stop()

        one.fill([b"x"] * 600)
        two.fill([b"x"] * 100)
        progress = run()
        source = progress["sources"][0]
        assert '"seq":601' in str(source["latestOffset"]).replace(" ", "").replace("'", '"')
        one.fill([b"x"] * 50)
        run()
        table = spark.read.parquet(str(tmp_path / "table"))
        places = sorted((row.stream, row.seq) for row in table.select("stream", "seq").collect())
        expected = [(one.name, seq) for seq in range(1, 651)]
        assert places == sorted(expected + [(two.name, seq) for seq in range(1, 101)])

    def test_reason(self, spark: Any, station: Station, tmp_path: Path) -> None:
        """An error ends the query with its reason."""
        reading = spark.readStream.format("natsbroker").options(servers=station.url)
        frame = reading.options(stream="NOWHERE").load()
        checkpoint = str(tmp_path / "checkpoint")
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        with pytest.raises(PySparkException, match="there is no stream NOWHERE"):
            query.processAllAvailable()

    @pytest.mark.parametrize(
        ("trigger", "why"),
        [({"continuous": "1 second"}, "ontinuous"), ({"realTime": "5 seconds"}, "eal-time")],
    )
    def test_modes(
        self, trigger: dict[str, str], why: str, spark: Any, station: Station, tmp_path: Path
    ) -> None:
        """Spark refuses the modes that a source in Python does not support, and names them."""
        stream = station.stream()
        reading = spark.readStream.format("natsbroker").options(servers=station.url)
        writing = reading.options(stream=stream.name).load().writeStream.format("console")
        if "realTime" in trigger:
            writing = writing.outputMode("update")
        with pytest.raises(PySparkException, match=why):
            query = writing.option("checkpointLocation", str(tmp_path)).trigger(**trigger).start()
            try:
                query.processAllAvailable()
            finally:
                query.stop()
