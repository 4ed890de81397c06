"""
The guarantees of the data source for any log: for streams of nats-server, for streams with three
replicas, and for channels of our broker. They are tested in the process of the test, without Spark.
"""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from natsbroker.spark.datasource.source import BatchReader
from natsbroker.spark.datasource.streaming import StreamReader
from natsbroker.spark.datasource.writing import BatchWriter
from natsbroker.spark.errors import DataLoss, DataSourceError, OptionError
from natsbroker.spark.logs.planning import rfc3339
from natsbroker.spark.nats.connection import connect
from natsbroker.spark.settings import readOptions
from tests.interop.servers import OURS_FAST, Server
from tests.spark.kinds import ChannelKind, Cluster, Kind, StreamKind
from tests.spark.limits import ReadAllAvailable, ReadMaxRows
from tests.spark.support import BrokerStation

COLUMNS = ("seq", "subject", "data", "time", "headers", "stream", "time_ns")
DATA = StructType([StructField("data", BinaryType())])


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerStation]:
    """
    A broker some of whose channels keep few messages.
    """
    text = f"streaming {{ store: lmdb, dir: $DIR/store, {ChannelKind.LIMITS} }}\n"
    directory = tmp_path_factory.mktemp("limited")
    station = BrokerStation(Server(OURS_FAST, directory, text).start())
    yield station
    station.close()


@pytest.fixture(params=["stream", "replicated", "channel"])
def kind(request: pytest.FixtureRequest) -> Kind:
    """
    A kind of log.
    """
    if request.param == "channel":
        return ChannelKind(request.getfixturevalue("limited"))
    if request.param == "stream":
        return StreamKind(request.getfixturevalue("station"))
    return StreamKind(request.getfixturevalue("sharedCluster"), num_replicas=3)


def batchOf(columns: tuple[str, ...], options: dict[str, str]) -> pa.Table:
    """
    @return: the contents of a batch, read by workers that got it pickled, as in Spark.
    """
    reader = BatchReader(columns, readOptions(options))
    copy = pickle.loads(pickle.dumps(reader))
    batches = [
        batch
        for partition in reader.partitions()
        for batch in copy.read(pickle.loads(pickle.dumps(partition)))
    ]
    return (
        pa.Table.from_batches(batches) if batches else pa.table({column: [] for column in columns})
    )


def seqs(options: dict[str, str]) -> list[int]:
    """
    @return: the sequences of a batch.
    """
    return [int(row) for row in batchOf(("seq",), options).column("seq").to_pylist()]


class TestBatch:
    """Stored messages in a batch query."""

    def test_everyRange(self, kind: Kind) -> None:
        """Each half-open range gives its own sequences once, in any number of tasks and pieces."""
        name = kind.make(b"%d" % number for number in range(1, 14))
        for manner in ({}, {"minPartitions": "5"}, {"batchRows": "2", "fetchBytes": "1024"}):
            for start, stop in ((1, 14), (1, 1), (14, 14), (3, 4), (5, 12), (13, 14)):
                given = {"startingOffsets": str(start), "endingOffsets": str(stop), **manner}
                assert seqs(kind.options(name, **given)) == list(range(start, stop))

    def test_columns(self, kind: Kind) -> None:
        """All columns, each of them alone, and in any order. Empty and large data are unchanged."""
        payloads = [b"", b"\x00\xff\r\n", b"x" * 1_000_000, "é".encode()]
        name = kind.make(payloads)
        table = batchOf(COLUMNS, kind.options(name))
        assert table.column("data").to_pylist() == payloads
        assert table.column("stream").to_pylist() == [name] * 4
        times, nanoseconds = table.column("time"), table.column("time_ns").to_pylist()
        assert times.cast(pa.int64()).to_pylist() == [
            nanosecond // 1000 for nanosecond in nanoseconds
        ]
        assert nanoseconds == sorted(nanoseconds)
        for chosen in (*((column,) for column in COLUMNS), COLUMNS[::-1]):
            assert batchOf(chosen, kind.options(name)).equals(table.select(list(chosen)))

    def test_severalLogs(self, kind: Kind) -> None:
        """Several logs, one without messages among them, each from its own position."""
        one, empty, two = kind.make([b"a"] * 5), kind.make(), kind.make([b"b"] * 3)
        if kind.option == "channel":
            empty = kind.make([b"c"])
        places = json.dumps({one: 3, two: 2, **({} if kind.option == "stream" else {empty: 2})})
        options = kind.options(one, empty, two, startingOffsets=places)
        rows = batchOf(("stream", "seq"), options).to_pylist()
        assert [(row["stream"], row["seq"]) for row in rows] == [
            (one, 3),
            (one, 4),
            (one, 5),
            (two, 2),
            (two, 3),
        ]

    def test_times(self, kind: Kind) -> None:
        """Messages from one time to another, by the stored time of each."""
        name = kind.make()
        for number in range(6):
            kind.fill(name, [b"%d" % number])
        stored = batchOf(("time_ns",), kind.options(name)).column("time_ns").to_pylist()
        for place in range(6):
            second, part = divmod(stored[place], 10**9)
            time = rfc3339(str(second * 1000), "x").replace("+00:00", f".{part:09}Z")
            since = kind.options(name, startingTimestamp=time)
            until = kind.options(name, endingTimestamp=time)
            assert (seqs(since), seqs(until)) == (
                list(range(place + 1, 7)),
                list(range(1, place + 1)),
            )

    def test_planned(self, kind: Kind) -> None:
        """A message that comes after a read was planned is not in it."""
        name = kind.make([b"x"] * 5)
        reader = BatchReader(("seq",), readOptions(kind.options(name)))
        tasks = reader.partitions()
        kind.fill(name, [b"y"] * 5)
        assert sum(batch.num_rows for task in tasks for batch in reader.read(task)) == 5

    def test_wrongPlaces(self, kind: Kind) -> None:
        """Invalid offsets, and offsets for logs that are not read, are refused."""
        name = kind.make([b"x"] * 5)
        for given, why in (
            ({"startingOffsets": "9"}, "ends before"),
            ({"endingOffsets": "9"}, "ends before"),
            ({"startingOffsets": "4", "endingOffsets": "2"}, "would begin at 4 and stop at 2"),
            ({"startingOffsets": "0"}, "a sequence from 1 expected"),
            ({"startingOffsets": '{"other": 1}'}, "names 'other', which is not one of the streams"),
        ):
            with pytest.raises(OptionError, match=why):
                seqs(kind.options(name, **given))


class TestLoss:
    """Messages that are stored no more."""

    def test_deletedBeforePlanning(self, kind: Kind) -> None:
        """Messages that were deleted before planning are data loss, unless that is allowed."""
        name = kind.make([b"x"] * 20, isKept=True)
        kind.trim(name, 15)
        stop = kind.state(name).stop
        given = kind.options(name, startingOffsets="3")
        with pytest.raises(DataLoss, match="sequences 3 to 14 are not stored any more"):
            seqs(given)
        assert seqs({**given, "failOnDataLoss": "false"}) == list(range(15, stop))
        assert seqs(kind.options(name)) == list(range(15, stop))

    def test_meanwhile(self, kind: Kind) -> None:
        """A message gone between the plan and the read is an error, or is passed over."""
        for fails in ("true", "false"):
            name = kind.make([b"x"] * 10, isKept=True)
            options = readOptions(kind.options(name, failOnDataLoss=fails))
            reader = BatchReader(("seq",), options)
            tasks = reader.partitions()
            kind.trim(name, 7)
            if fails == "true":
                with pytest.raises(DataLoss, match="sequences 1 to 6 are not stored any more"):
                    [list(reader.read(task)) for task in tasks]
            else:
                values = [x for task in tasks for batch in reader.read(task) for x in batch[0]]
                assert [value.as_py() for value in values] == [7, 8, 9, 10]


def follow(options: dict[str, str]) -> StreamReader:
    """@return: the reader of a streaming query from the beginning."""
    given = {"startingOffsets": "earliest", "pollInterval": "0.000001", **options}
    return StreamReader(("seq", "data"), readOptions(given, "readStream"))


def between(query: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    """
    @return: the sequences that workers read between two offsets.
    """
    copy = pickle.loads(pickle.dumps(query))
    tasks = pickle.loads(pickle.dumps(query.partitions(start, end)))
    batches = (batch for task in tasks for batch in copy.read(task))
    return [seq for batch in batches for seq in batch.column("seq").to_pylist()]


class TestStream:
    """Stored messages in a streaming query."""

    def test_replayed(self, kind: Kind) -> None:
        """
        A new reader gives the same micro-batches again, after more messages are stored. Together
        they have each message once.
        """
        name = kind.make([b"x"] * 25)
        options = kind.options(name, minPartitions="3")
        query = follow(options)
        offsets = [query.initialOffset()]
        while (end := query.latestOffset(offsets[-1], ReadMaxRows(10))) != offsets[-1]:
            offsets.append(json.loads(json.dumps(end)))
        query.stop()
        kind.fill(name, [b"y"] * 5)
        other = follow(options)
        steps = list(pairwise(offsets))
        runs = [between(other, start, end) for start, end in steps]
        assert [len(run) for run in runs] == [10, 10, 5]
        assert [seq for run in runs for seq in run] == list(range(1, 26))
        assert [between(other, start, end) for start, end in steps] == runs
        last = other.latestOffset(offsets[-1], ReadAllAvailable())
        assert between(other, offsets[-1], last) == list(range(26, 31))
        other.stop()

    def test_lag(self, kind: Kind) -> None:
        """
        The progress shows the end of the logs. With availableNow, the end of the query is fixed.
        """
        name = kind.make([b"x"] * 5)
        query = follow(kind.options(name))
        query.prepareForTriggerAvailableNow()
        kind.fill(name, [b"y"] * 5)
        end = query.latestOffset(query.initialOffset(), ReadAllAvailable())
        assert [log["seq"] for log in end["logs"].values()] == [6]
        assert [log["seq"] for log in query.reportLatestOffset()["logs"].values()] == [11]
        query.stop()

    def test_trimmed(self, kind: Kind) -> None:
        """A missing message ends the query, or is passed over."""
        for fails in ("true", "false"):
            name = kind.make([b"x"] * 10, isKept=True)
            query = follow(kind.options(name, failOnDataLoss=fails))
            start = query.initialOffset()
            end = query.latestOffset(start, ReadAllAvailable())
            kind.trim(name, 4)
            if fails == "true":
                with pytest.raises(DataLoss, match="sequences 1 to 3 are not stored any more"):
                    between(query, start, end)
            else:
                assert between(query, start, end) == [4, 5, 6, 7, 8, 9, 10]
            query.stop()

    def test_underLoad(self, kind: Kind) -> None:
        """While others publish, reading up to the current end gives each message once."""
        name = kind.make()
        if kind.option == "channel":
            kind.fill(name, [b"x"])
        query = follow(kind.options(name))
        total = kind.state(name).stop - 1 + 40 * 25

        def publish() -> None:
            for _ in range(40):
                kind.fill(name, [b"x" * 200] * 25)

        publisher = threading.Thread(target=publish)
        start = query.initialOffset()
        publisher.start()
        results: list[int] = []
        try:
            while len(results) < total:
                end = query.latestOffset(start, ReadAllAvailable())
                results += between(query, start, end)
                assert results == list(range(1, len(results) + 1))
                assert publisher.is_alive() or end != start or len(results) == total
                start = end
        finally:
            publisher.join()
            query.stop()
        assert len(results) == total


class TestWrite:
    """Storing."""

    def test_rows(self, kind: Kind) -> None:
        """When a task ends, its rows are stored in order, for windows of any size."""
        for window in ("1", "1000"):
            name = kind.make()
            given = {"subject": f"{name}.x"} if kind.option == "stream" else {}
            options = readOptions(kind.options(name, window=window, **given), "write")
            writer = BatchWriter(DATA, options)
            payloads = [b"%d" % number for number in range(300)]
            batches = [
                pa.RecordBatch.from_pydict({"data": payloads[place : place + 100]})
                for place in range(0, 300, 100)
            ]
            written = pickle.loads(pickle.dumps(writer)).write(iter(batches))
            assert (written.stored, written.duplicates) == (300, 0)
            table = batchOf(("data",), kind.options(name))
            assert table.column("data").to_pylist() == payloads

    def test_rowThatCannotBeStored(self, kind: Kind) -> None:
        """A row that cannot be stored fails the task with the reason."""
        name = kind.make()
        given = {"subject": f"{name}.x"} if kind.option == "stream" else {}
        options = readOptions(kind.options(name, **given), "write")
        writer = BatchWriter(DATA, options)
        batch = pa.RecordBatch.from_pydict({"data": [b"x", b"y" * 1_100_000]})
        with pytest.raises(DataSourceError, match=f"{name}.* bytes"):
            writer.write(iter([batch]))


class TestReplicas:
    """Three real servers, where any replica answers and some lag."""

    def test_everyServer(self, sharedCluster: Cluster) -> None:
        """
        An acknowledged message is read at once, whole, from each server, while others publish.
        """
        kind = StreamKind(sharedCluster, num_replicas=3)
        name, other = kind.make(), kind.make()
        isOver = threading.Event()

        def load() -> None:
            with connect(sharedCluster.peer) as connection:
                own = StreamKind(sharedCluster, num_replicas=3)
                own.connection = connection
                while not isOver.wait(0.001):
                    own.fill(other, [b"y" * 500] * 50)

        loading = threading.Thread(target=load)
        loading.start()
        try:
            for turn in range(30):
                start = turn * 20 + 1
                kind.fill(name, [b"x" * 100] * 20)
                servers = sharedCluster.servers[turn % 3].url
                given = {"startingOffsets": str(start), "endingOffsets": str(start + 20)}
                options = {**kind.options(name, **given), "servers": servers}
                assert seqs(options) == list(range(start, start + 20))
        finally:
            isOver.set()
            loading.join()
