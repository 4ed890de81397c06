"""
Reading channels as frames.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from natsbroker.spark.datasource.tasks import batchesOf, connected
from natsbroker.spark.errors import ApiError, DataLoss, DataSourceError
from natsbroker.spark.logs.apis import ChannelApi, StreamApi, StreamExports
from natsbroker.spark.logs.exports import ExportReader
from natsbroker.spark.logs.planning import planRanges
from natsbroker.spark.logs.wholeranges import ReadOptions, SequenceRange
from natsbroker.spark.nats.addresses import ServerAccess, readAddresses
from natsbroker.spark.nats.connection import connect
from natsbroker.spark.settings import readOptions
from natsbroker.wire.columnar import FramePosition, encodeFrame
from tests.interop.conftest import StartServer
from tests.interop.servers import OURS_FAST
from tests.spark.support import BrokerStation, Stream

COLUMNS = ("seq", "data")


def readerOf(
    channels: Any,
    bounds: SequenceRange,
    options: ReadOptions | None = None,
    losses: list[str] | None = None,
    columns: tuple[str, ...] = COLUMNS,
) -> ExportReader:
    """A reader that repeats requests without waiting."""
    onLoss = None if losses is None else losses.append
    return ExportReader(channels, bounds, options or ReadOptions(), columns, onLoss, lambda _: None)


def rowsOf(reader: ExportReader) -> list[tuple[int, bytes]]:
    """The rows that it reads."""
    return [(row["seq"], row["data"]) for batch in reader.read() for row in batch.to_pylist()]


def rangeOf(broker: BrokerStation, name: str) -> SequenceRange:
    """All of a channel."""
    state = broker.channels.state(name)
    return SequenceRange(name, state.created, state.first, state.stop)


class TestBroker:
    """With a broker of ours."""

    def test_everyMessage(self, broker: BrokerStation) -> None:
        """Every message of a range is read once and in order, with pieces of any size."""
        payloads = [b"%d" % n * 20 for n in range(1, 501)]
        bounds = rangeOf(broker, broker.channel(payloads))
        expected = list(enumerate(payloads, 1))
        assert rowsOf(readerOf(broker.channels, bounds)) == expected
        small = ReadOptions(fetchBytes=1024, batchRows=7)
        reader = readerOf(broker.channels, bounds, small)
        batches = [batch.num_rows for batch in reader.read()]
        assert (sum(batches), max(batches)) == (500, 7)
        assert rowsOf(readerOf(broker.channels, bounds, small)) == expected
        part = replace(bounds, start=100, stop=103)
        assert [seq for seq, _ in rowsOf(readerOf(broker.channels, part))] == [100, 101, 102]
        assert rowsOf(readerOf(broker.channels, replace(bounds, stop=1))) == []

    def test_trimmed(self, startServer: StartServer) -> None:
        """Messages that retention has removed are data loss, or are reported."""
        limits = "store_limits { channels { c { max_msgs: 5 } } }"
        broker = BrokerStation(startServer(OURS_FAST, f"streaming {{ {limits} }}"))
        broker.channel([b"%d" % n for n in range(1, 11)], "c")
        bounds = replace(rangeOf(broker, "c"), start=3)
        text = r"channel c: sequences 3 to 5 are not stored any more \(expired or trimmed\)"
        with pytest.raises(DataLoss, match=f"{text}; failOnDataLoss=false continues without them"):
            rowsOf(readerOf(broker.channels, bounds))
        losses: list[str] = []
        rows = rowsOf(readerOf(broker.channels, bounds, losses=losses))
        assert [seq for seq, _ in rows] == [6, 7, 8, 9, 10]
        assert losses == [
            "channel c: sequences 3 to 5 are not stored any more (expired or trimmed)"
        ]

    def test_deletedChannel(self, broker: BrokerStation) -> None:
        """A deleted channel is a loss in any case."""
        reader = readerOf(broker.channels, SequenceRange("gone", "0" * 16, 1, 5), losses=[])
        with pytest.raises(DataLoss, match="channel gone is gone"):
            rowsOf(reader)

    def test_madeAgain(self, broker: BrokerStation) -> None:
        """A channel that was deleted and created again is refused."""
        name = broker.channel([b"x"])
        reader = readerOf(broker.channels, SequenceRange(name, "0" * 16, 1, 2), losses=[])
        with pytest.raises(DataLoss, match="was deleted and made again"):
            rowsOf(reader)

    def test_otherCluster(self, broker: BrokerStation) -> None:
        """If no broker serves the cluster id, the error says so."""
        with pytest.raises(ApiError, match="serves NATS Streaming with the cluster id other"):
            rowsOf(readerOf(ChannelApi(broker.connection, "other"), SequenceRange("c", "0", 1, 2)))

    def test_shorter(self, broker: BrokerStation) -> None:
        """A channel that ends before the range is an error."""
        name = broker.channel([b"x"])
        bounds = replace(rangeOf(broker, name), stop=10)
        with pytest.raises(
            DataSourceError, match=f"channel {name} ends at 1, and the read was to go"
        ):
            rowsOf(readerOf(broker.channels, bounds))

    def test_brokerDies(self, startServer: StartServer) -> None:
        """A broker that ends in the middle gives an error with that reason."""
        server = startServer(OURS_FAST, "streaming {}")
        broker = BrokerStation(server)
        bounds = rangeOf(broker, broker.channel([b"x" * 1000] * 2000))
        with connect(broker.peer) as connection:
            reader = readerOf(
                ChannelApi(connection, "test-cluster"), bounds, ReadOptions(fetchBytes=10_000)
            ).read()
            next(reader)
            server.stop()
            with pytest.raises(DataSourceError, match=r"127\.0\.0\.1"):
                list(reader)


class Scripted:
    """Channels of a broker that answers what a test gives it."""

    version = 1
    word = "channel"

    def __init__(self, *answers: list[bytes]) -> None:
        self.connection = self
        self.answers = list(answers)
        self.questions: list[dict[str, Any]] = []
        self._coming: list[bytes] = []

    def subject(self, verb: str, name: str) -> str:
        return f"{verb}.{name}"

    def ask(self, subject: str, payload: bytes) -> bytes:
        self.questions.append(json.loads(payload))
        self._coming = self.answers.pop(0)
        return b"r"

    def answer(self, reply: bytes, subject: str) -> tuple[int, bytes]:
        return 0, self._coming.pop(0)

    explained = ChannelApi.explained
    absent = "no broker"


def frame(
    seqs: list[int],
    start: int,
    following: int,
    first: int = 1,
    damaged: tuple[int, ...] = (),
    isLast: bool = True,
) -> bytes:
    """A frame, which ends its answer."""
    count = len(seqs)
    columns = SimpleNamespace(
        sequences=array("Q", seqs),
        timestamps=array("q", seqs),
        subjectEnds=array("q", range(count + 1)),
        subjects=b"c" * count,
        headerEnds=array("q", [0] * (count + 1)),
        headers=b"",
        payloadEnds=array("q", range(count + 1)),
        payloads=b"p" * count,
        damaged=damaged,
    )
    return encodeFrame(columns, FramePosition(start, following, first, 100), isLast=isLast)


def scripted(
    *answers: list[bytes], fails: bool = True, stop: int = 11
) -> tuple[Callable[[], list[int]], list[str], Scripted]:
    """The reader, its losses, and the broker."""
    channels, losses = Scripted(*answers), list[str]()
    given = None if fails else losses
    reader = readerOf(channels, SequenceRange("c", "id", 1, stop), losses=given)
    return lambda: [seq for seq, _ in rowsOf(reader)], losses, channels


class TestScripted:
    """With a scripted broker, for cases that are rare with real ones."""

    def test_deleted(self) -> None:
        """Gaps after the oldest message are deleted messages, not losses."""
        read, losses, _ = scripted([frame([1, 2, 5, 9], 1, 11)])
        assert (read(), losses) == ([1, 2, 5, 9], [])

    def test_trimmedBetweenPages(self) -> None:
        """A message that is removed during the read is a loss, also between two messages."""
        read, losses, _ = scripted([frame([1, 2, 7, 9], 1, 11, first=6)], fails=False)
        assert read() == [1, 2, 7, 9]
        assert losses == [
            "channel c: sequences 3 to 5 are not stored any more (expired or trimmed)"
        ]

    def test_everythingIsGone(self) -> None:
        """A range without any message left is all lost."""
        read, losses, _ = scripted([frame([], 1, 11, first=50)], fails=False)
        assert (read(), len(losses)) == ([], 1)
        assert "sequences 1 to 10" in losses[0]

    def test_damaged(self) -> None:
        """Messages that the store cannot read are data loss, or are reported."""
        damaged = tuple(range(3, 15))
        read, _, _ = scripted([frame([1], 1, 20, damaged=damaged)], stop=20)
        with pytest.raises(DataLoss, match="sequences 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and others"):
            read()
        read, losses, _ = scripted([frame([1], 1, 11, damaged=(4,))], fails=False)
        assert (read(), losses) == ([1], ["channel c: sequences 4 are damaged in the store"])

    def test_goesOn(self) -> None:
        """The next request begins where the last frame ended."""
        read, _, channels = scripted([frame([1, 2], 1, 4)], [frame([7], 4, 11)])
        assert read() == [1, 2, 7]
        assert [question["start"] for question in channels.questions] == [1, 4]
        assert channels.questions[0] == {
            "start": 1,
            "stop": 11,
            "identity": "id",
            "max_bytes": 4 << 20,
            "columns": ["data"],
            "version": 1,
        }

    def test_asksAhead(self) -> None:
        """The next answer is requested while the current one is used, and none beyond that."""
        channels = Scripted([frame([1], 1, 4)], [frame([4], 4, 7)], [frame([7], 7, 11)])
        batches = readerOf(channels, SequenceRange("c", "id", 1, 11)).read()
        asked = []
        for batch in batches:
            asked.append((batch.column("seq")[0].as_py(), len(channels.questions)))
        assert asked == [(1, 2), (4, 3), (7, 3)]

    def test_wholeAnswers(self) -> None:
        """If a frame of an answer is invalid, none of the answer is used."""
        read, losses, channels = scripted([frame([1], 1, 4, isLast=False), b"NBCF"])
        with pytest.raises(DataSourceError, match="not a frame"):
            read()
        assert (losses, len(channels.questions)) == ([], 1)

    def test_busy(self) -> None:
        """A broker that has too much to do is asked again."""
        busy = json.dumps({"error": {"err_code": 20005, "description": "later"}}).encode()
        read, _, channels = scripted([busy], [busy], [frame([1], 1, 11)])
        assert (read(), len(channels.questions)) == ([1], 3)

    @pytest.mark.parametrize(
        ("answer", "text"),
        [
            (frame([2], 2, 11), "frames that do not follow each other"),
            (frame([1], 1, 12), "frames that do not follow each other"),
            (b"NBCF" + bytes(100), "version 0"),
            (frame([1], 1, 11)[:-8], "checksum"),
            (b'{"error": {"err_code": 20006, "description": "the store fails: x"}}', "fails: x"),
            (b'{"hello": 1}', "is malformed"),
            (b"{", "not JSON"),
        ],
    )
    def test_invalidFrames(self, answer: bytes, text: str) -> None:
        """A frame that does not follow the previous one is an error."""
        read, _, _ = scripted([answer])
        with pytest.raises(DataSourceError, match=text):
            read()


class TestStreams:
    """JetStream streams of a broker of ours."""

    NAMES = ("seq", "subject", "data", "time", "headers", "stream", "time_ns")

    def read(
        self, broker: BrokerStation, stream: Stream, patterns: tuple[str, ...] = (), **more: Any
    ) -> list[dict[str, Any]]:
        """All of a stream, as a task reads it."""
        options = readOptions({"servers": broker.url, "stream": stream.name})
        state = StreamApi(broker.connection).state(stream.name)
        bounds = SequenceRange(stream.name, state.created, state.first, state.stop)
        given = {**options, **more}, self.NAMES, bounds, patterns
        return [row for batch in batchesOf(*given) for row in batch.to_pylist()]

    @pytest.mark.parametrize("storage", ["file", "memory"])
    def test_asDirectGet(
        self, broker: BrokerStation, storage: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        Rows are the same as those of direct get, with and without a filter, also in small pieces.
        """
        stream = broker.stream(storage=storage)
        for n in range(60):
            headers = {"Number": str(n), "Nats-Msg-Id": f"m{n}"} if n % 3 else b""
            stream.add(f"x.{n % 4}", b"%d" % n, headers)
        stream.delete(7, 8, 30)
        name = stream.name
        filters: tuple[tuple[str, ...], ...] = (
            (),
            (f"{name}.x.1",),
            (f"{name}.*.2", f"{name}.x.3"),
        )
        byFrames = [self.read(broker, stream, pattern) for pattern in filters]
        small = self.read(broker, stream, fetchBytes=1024, batchRows=7)
        monkeypatch.setattr(StreamExports, "identity", lambda *_: None)
        direct = [self.read(broker, stream, pattern) for pattern in filters]
        assert [len(matching) for matching in direct] == [57, 14, 28]
        assert [sorted(matching, key=lambda row: row["seq"]) for matching in direct] == byFrames
        assert small == byFrames[0]

    def test_withoutDirectGet(self, broker: BrokerStation) -> None:
        """A stream of natsbroker can be read although it does not allow direct get."""
        stream = broker.stream(allow_direct=False)
        stream.fill([b"a", b"b"])
        options = readOptions({"servers": broker.url, "stream": stream.name})
        [bounds] = planRanges(StreamApi(broker.connection), options)
        assert (bounds.start, bounds.stop) == (1, 3)
        assert [row["data"] for row in self.read(broker, stream)] == [b"a", b"b"]

    def test_madeAgain(self, broker: BrokerStation) -> None:
        """A stream that was created again after planning is refused."""
        stream = broker.stream()
        stream.fill([b"a"])
        options = readOptions({"servers": broker.url, "stream": stream.name})
        state = StreamApi(broker.connection).state(stream.name)
        bounds = SequenceRange(stream.name, state.created, 1, 2)
        stream.api("DELETE")
        stream.make()
        stream.fill([b"b"])
        with pytest.raises(DataLoss, match="made again"):
            list(batchesOf(options, COLUMNS, bounds))

    def test_trimmed(self, broker: BrokerStation) -> None:
        """A message that retention took since the read was planned is a loss, with a filter too."""
        stream = broker.stream(max_msgs=5)
        stream.fill([b"%d" % n for n in range(8)])
        options = readOptions({"servers": broker.url, "stream": stream.name})
        state = StreamApi(broker.connection).state(stream.name)
        bounds = SequenceRange(stream.name, state.created, 2, 9)
        for patterns in ((), (f"{stream.name}.x",)):
            with pytest.raises(DataLoss, match=f"stream {stream.name}: sequences 2 to 3 are not"):
                list(batchesOf(options, COLUMNS, bounds, patterns))

    def test_notAllowed(self, startServer: StartServer) -> None:
        """A user without permission for frames reads by direct get."""
        users = """
        authorization { users [
            { user: all, password: all }
            { user: few, password: few, permissions {
                publish: ["$JS.API.STREAM.INFO.*", "$JS.API.STREAM.MSG.GET.*", "$JS.API.DIRECT.>"]
            } }
        ] }
        """
        server = startServer(OURS_FAST, "jetstream { store_dir: $DIR/js }\n" + users)
        url = server.url.replace("nats://", "nats://all:all@")
        with connect(ServerAccess(readAddresses(url))) as connection:
            stream = Stream(connection, "S")
            stream.make()
            stream.fill([b"a"])
        options = readOptions(
            {"servers": server.url, "stream": "S", "user": "few", "password": "few"}
        )
        with connected(options) as connection:
            assert StreamExports(connection, "").identity("S") is None
            [bounds] = planRanges(StreamApi(connection), options)
        batches = batchesOf(options, COLUMNS, bounds)
        assert [row for batch in batches for row in batch.to_pylist()] == [{"seq": 1, "data": b"a"}]
