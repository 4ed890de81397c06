"""
Reading channels as clients of NATS Streaming read them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from natsbroker.spark.errors import ApiError, DataLoss, DataSourceError, TimedOut
from natsbroker.spark.jobs.migrate.copying import ChannelReader
from natsbroker.spark.nats.addresses import ServerAccess
from natsbroker.spark.nats.connection import BlockingConnection, connect
from natsbroker.streaming.protocol import Ack, ConnectResponse, MsgProto, SubscriptionResponse
from tests.interop.conftest import StartServer
from tests.interop.servers import OURS_FAST
from tests.spark.support import STREAMING, BrokerStation, Station


def readerAt(connection: BlockingConnection, name: str) -> ChannelReader:
    """A reader of a channel."""
    return ChannelReader(connection, name, "test-cluster", "_STAN.discover")


def readerOf(station: BrokerStation, name: str) -> ChannelReader:
    """A reader over the test's connection."""
    return readerAt(station.connection, name)


def rowsOf(batches: Iterator[Any]) -> list[dict[str, Any]]:
    """The rows of batches."""
    return [row for batch in batches for row in batch.to_pylist()]


class TestRead:
    """From a server."""

    @pytest.mark.parametrize("window", [1, 2, 7, 1024])
    def test_wholeChannel(self, window: int, streaming: BrokerStation) -> None:
        """Each message comes once and in order, with any window. Large and empty ones come too."""
        payloads = [b"", b"x" * 100_000, *(b"%d" % n for n in range(40))]
        name = streaming.channel(payloads)
        with closing(readerOf(streaming, name)) as reader:
            assert reader.last() == 42
            rows = rowsOf(reader.batches(1, 43, window=window))
        assert [row["data"] for row in rows] == payloads
        assert [row["seq"] for row in rows] == list(range(1, 43))
        assert {row["subject"] for row in rows} == {name}
        times = [row["time_ns"] for row in rows]
        assert times == sorted(times)
        assert times[0] > 1_500_000_000 * 10**9

    def test_partOfAChannel(self, streaming: BrokerStation) -> None:
        """A part of a channel is copied if the message before it is the expected one."""
        name = streaming.channel(b"%d" % n for n in range(1, 31))
        with closing(readerOf(streaming, name)) as reader:
            rows = rowsOf(reader.batches(11, 21))
            assert [row["seq"] for row in rows] == list(range(11, 21))
            when = rows[-1]["time_ns"]
            assert [row["seq"] for row in rowsOf(reader.batches(21, 24, when))] == [21, 22, 23]
            with pytest.raises(DataLoss, match="the message 20 is another one"):
                rowsOf(reader.batches(21, 24, when + 1))
            assert rowsOf(reader.batches(31, 31)) == []

    def test_empty(self, streaming: BrokerStation) -> None:
        """A channel that has nothing ends at 0."""
        peer = ServerAccess(streaming.peer.addresses, requestTimeout=1.0)
        with (
            connect(peer) as connection,
            closing(
                ChannelReader(connection, "empty.one", "test-cluster", "_STAN.discover")
            ) as reader,
        ):
            assert reader.last() == 0

    def test_missingMessage(self, streaming: BrokerStation) -> None:
        """If messages do not arrive in time, the error has their number."""
        name = streaming.channel([b"one"])
        peer = ServerAccess(streaming.peer.addresses, requestTimeout=1.0)
        with (
            connect(peer) as connection,
            closing(readerAt(connection, name)) as reader,
            pytest.raises(TimedOut, match=f"channel {name}: 2 messages did not come"),
        ):
            rowsOf(reader.batches(1, 4))

    def test_refusedSubscription(self, streaming: BrokerStation) -> None:
        """The cluster's refusal of a subscription is the error."""
        with (
            closing(readerOf(streaming, "a..b")) as reader,
            pytest.raises(ApiError, match=r"channel a\.\.b: stan"),
        ):
            reader.last()


def test_trimmed(startServer: StartServer) -> None:
    """
    Messages that retention has removed count as lost, unless the copy starts at the beginning.
    """
    text = STREAMING.replace("max_channels: 0", "max_msgs: 10")
    station = BrokerStation(startServer(OURS_FAST, text))
    name = station.channel(b"%d" % n for n in range(1, 31))
    with closing(readerOf(station, name)) as reader:
        rows = rowsOf(reader.batches(1, reader.last() + 1))
        assert [row["seq"] for row in rows] == list(range(21, 31))
        with pytest.raises(DataLoss, match="sequences 6 to 20 are not stored any more"):
            rowsOf(reader.batches(6, 31, 1))
        losses: list[Any] = []
        assert len(rowsOf(reader.batches(6, 31, 1, losses.append))) == 10
        assert losses[0].ranges == ((6, 21),)
    station.connection.close()


class Scripted:
    """A connection whose cluster sends prepared messages."""

    def __init__(self, *messages: bytes) -> None:
        self.messages = list(messages)
        self.sent: list[bytes] = []
        self.heartbeats = 1

    def inbox(self, name: str) -> bytes:
        return b"I." + name.rstrip("0123456789abcdef").encode()

    def request(self, subject: str, payload: bytes) -> bytes:
        isConnect = subject == "_STAN.discover.x"
        answer = (
            ConnectResponse(subRequests="SUB")
            if isConnect
            else SubscriptionResponse(ackInbox="ACKS")
        )
        return bytes(answer.SerializeToString())

    def publish(self, subject: str, payload: bytes) -> None:
        self.sent.append(subject.encode())

    def send(self, *pieces: bytes) -> None:
        self.sent += pieces

    def anyMessage(self, deadline: float | None = None) -> tuple[bytes, bytes, int, bytes]:
        if self.heartbeats:
            self.heartbeats -= 1
            return self.inbox("heartbeats"), b"HB", 0, b""
        if not self.messages:
            raise TimedOut("silence")
        return self.inbox("channel"), b"", 0, self.messages.pop(0)


def read(*messages: bytes, stop: int = 3) -> tuple[Any, Scripted]:
    """The result of a reader for some messages."""
    connection = Scripted(*messages)
    reader = ChannelReader(connection, "c", "x", "_STAN.discover")  # type: ignore[arg-type]
    return rowsOf(reader.batches(1, stop, window=2)), connection


def message(seq: int, data: bytes = b"x", **more: Any) -> bytes:
    """A message."""
    proto = MsgProto(sequence=seq, subject="c", data=data, timestamp=seq * 1000, **more)
    return bytes(proto.SerializeToString())


def test_redeliveredMessages() -> None:
    """A redelivered message is dropped and acknowledged; heartbeats are answered."""
    rows, connection = read(message(1), message(1), message(2), message(1), message(3), stop=4)
    assert [row["seq"] for row in rows] == [1, 2, 3]
    assert connection.sent[0] == b"HB"
    assert [sent.partition(b"\r\n")[2] for sent in connection.sent[1:]] == [
        Ack(subject="c", sequence=seq).SerializeToString() + b"\r\n" for seq in (1, 1, 2, 1, 3)
    ]
    assert all(sent.startswith(b"PUB ACKS ") for sent in connection.sent[1:])


def test_checksum() -> None:
    """A checksum, if there is one, is compared with the message."""
    rows, _ = read(message(1, CRC32=zlib.crc32(b"x")), message(2))
    assert len(rows) == 2
    with pytest.raises(DataSourceError, match="channel c: the message 2 is damaged"):
        read(message(1), message(2, CRC32=zlib.crc32(b"y")))


def test_reply() -> None:
    """The reply subject is a header."""
    rows, _ = read(message(1, reply="r"), stop=2)
    assert rows[0]["headers"] == [{"key": "Stan-Reply", "value": "r"}]


def test_invalidMessage() -> None:
    """A malformed message is an error, and a missing message is data loss."""
    with pytest.raises(ApiError, match="channel c: a message is malformed"):
        read(b"\x0a")
    with pytest.raises(DataLoss, match="sequences 2 to 3 are not stored"):
        read(message(1), message(4), stop=5)


def test_noCluster(station: Station) -> None:
    """Where there is no NATS Streaming, that is the error."""
    with pytest.raises(ApiError, match="there is no NATS Streaming"):
        ChannelReader(station.connection, "c", "x", "_STAN.discover")
