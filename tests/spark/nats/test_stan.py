"""
Publishing to channels.
"""

from __future__ import annotations

import pytest

from natsbroker.spark.errors import ApiError, DataSourceError, TimedOut
from natsbroker.spark.nats.connection import BlockingConnection, connect
from natsbroker.spark.nats.stan import ChannelPublisher
from natsbroker.streaming.protocol import ConnectResponse, PubAck
from tests.interop.conftest import StartServer
from tests.interop.servers import OURS_FAST
from tests.spark.support import BrokerStation, Station


def publisherOf(
    connection: BlockingConnection,
    name: str = "c",
    window: int = 10,
    clusterId: str = "test-cluster",
) -> ChannelPublisher:
    """A publisher."""
    return ChannelPublisher(connection, name, clusterId, "_STAN.discover", window)


def test_stores(broker: BrokerStation) -> None:
    """Messages of any size are stored in order, and counted when they are acknowledged."""
    payloads = [b"", b"x" * 100_000, *(b"%d" % n for n in range(50))]
    name = broker.channel()
    with connect(broker.peer) as connection:
        publisher = publisherOf(connection, name)
        for payload in payloads:
            publisher.publish(payload)
        publisher.finish()
        assert publisher.stored == len(payloads)
        publisher.close()
    assert broker.channels.state(name).messages == len(payloads)


def test_closes(broker: BrokerStation) -> None:
    """After it is closed, a publisher cannot publish."""
    with connect(broker.peer) as connection:
        publisher = publisherOf(connection, broker.channel())
        publisher.close()
        publisher.publish(b"x")
        with pytest.raises(ApiError, match="was not stored: stan: invalid publish request"):
            publisher.finish()


def test_noCluster(broker: BrokerStation, station: Station) -> None:
    """A cluster that is not there is an error that names it."""
    for connection, clusterId in ((broker.connection, "other"), (station.connection, "x")):
        with pytest.raises(
            ApiError, match=f"no responders for _STAN.discover.{clusterId}: there is"
        ):
            publisherOf(connection, clusterId=clusterId)


def test_refusedMessage(startServer: StartServer) -> None:
    """The service's refusal is the error."""
    text = "streaming { store_limits { max_channels: 1 } }"
    server = startServer(OURS_FAST, text)
    with connect(BrokerStation(server).peer) as connection:
        publisher = publisherOf(connection, "a")
        publisher.publish(b"x")
        publisher.finish()
        publisher = publisherOf(connection, "b")
        publisher.publish(b"x")
        expected = "channel b: a message was not stored: too many channels"
        with pytest.raises(ApiError, match=expected):
            publisher.finish()


def test_tooLarge(broker: BrokerStation) -> None:
    """A message that the server would not take is refused before it is sent."""
    publisher = publisherOf(broker.connection, broker.channel())
    with pytest.raises(DataSourceError, match=r"has 10486\d\d bytes with its envelope"):
        publisher.publish(b"x" * 1_048_576)
    publisher.close()


class Scripted:
    """A connection whose other side follows a script."""

    def __init__(self, *messages: tuple[bytes, bytes, bytes]) -> None:
        self.info = {"max_payload": 1000}
        self.messages = list(messages)
        self.published: list[str] = []
        self.answer: bytes = ConnectResponse(
            pubPrefix="_STAN.pub.c", closeRequests="_STAN.close.c"
        ).SerializeToString()

    def inbox(self, name: str) -> bytes:
        return b"I." + name.encode()

    def request(self, subject: str, payload: bytes) -> bytes:
        return self.answer

    def composed(
        self, subject: bytes, payload: bytes, headers: bytes, reply: bytes
    ) -> tuple[bytes, list[bytes]]:
        self.messages = [(reply if a == b"ACKS" else a, b, c) for a, b, c in self.messages]
        return reply, []

    def send(self, *pieces: bytes) -> None:
        """Nothing goes out."""

    def publish(self, subject: str, payload: bytes) -> None:
        self.published.append(subject)

    def anyMessage(self, deadline: float | None = None) -> tuple[bytes, bytes, int, bytes]:
        if not self.messages:
            raise TimedOut("silence")
        subject, reply, body = self.messages.pop(0)
        return subject, reply, 0, body


def scripted(*messages: tuple[bytes, bytes, bytes]) -> tuple[ChannelPublisher, Scripted]:
    """A publisher with one message on its way."""
    connection = Scripted(*messages)
    publisher = publisherOf(connection)  # type: ignore[arg-type]
    publisher.publish(b"x")
    return publisher, connection


def test_heartbeats() -> None:
    """Heartbeats are answered, and unrelated messages are ignored."""
    publisher, connection = scripted(
        (b"I.heartbeats", b"HB.1", b""),
        (b"I.7", b"", b"?"),
        (b"ACKS", b"", PubAck(guid="1").SerializeToString()),
    )
    publisher.finish()
    assert (connection.published, publisher.stored) == (["HB.1"], 1)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"", "NATS Streaming is not there any more"),
        (b"\x0a", "the answer is malformed"),
        (PubAck(guid="7").SerializeToString(), "another message was acknowledged"),
        (
            PubAck(guid="1", error="stan: no").SerializeToString(),
            "a message was not stored: stan: no",
        ),
    ],
)
def test_notStored(answer: bytes, text: str) -> None:
    """A reply that does not acknowledge the message does not count as an acknowledgement."""
    publisher, _ = scripted((b"ACKS", b"", answer))
    with pytest.raises(ApiError, match=text):
        publisher.finish()
    assert publisher.stored == 0


def test_silence() -> None:
    """If no acknowledgement comes, there is an error with the number of missing ones."""
    publisher, _ = scripted()
    with pytest.raises(TimedOut, match="1 messages were not acknowledged"):
        publisher.finish()


def test_otherAnswers() -> None:
    """If the cluster refuses the client, or answers malformed, that is an error."""
    refused = ConnectResponse(error="stan: no").SerializeToString()
    for answer, text in ((refused, "refuses: stan: no"), (b"\x0a", "malformed")):
        connection = Scripted()
        connection.answer = answer
        with pytest.raises(ApiError, match=text):
            publisherOf(connection)  # type: ignore[arg-type]
