"""nats-server and natsbroker map topics to the same subjects, and back."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from natsbroker.wire.mqtt.packets import Publish
from natsbroker.wire.mqtt.reasons import ReasonCode
from tests.interop.mqtt.listeners import MQTTClient, MQTTServer
from tests.interop.servers import ALL, PATIENCE, REAL
from tests.mqtt.test_topics import FILTERS, TOPICS

#: Topics that end the connection on both servers.
REFUSED = ["a b", "a\tb", "a\x7f", "a/\n"]

#: Topics that nats-server takes and natsbroker does not: subjects with control characters, and
#: subjects that have the form of a pattern.
OURS_REFUSES = ["\x01", "a/*", "a/>", "*"]

#: Filters that are refused in SUBACK.
REFUSED_FILTERS = ["a/#/b", "#/a", "a b", "$MQTT/a", "$MQTT/#"]

#: Filters that nats-server grants and natsbroker does not, as they are malformed in MQTT, or would
#: be wildcards of NATS.
OURS_REFUSES_FILTERS = ["a#", "a+", "+a/b", "##", "a/*", ">"]

SUBJECTS = [b"a", b"a.b", b"$SYS.a", b"a/b", b"x/", b"/.a", b"a//b", b"a./.b"]


@pytest.fixture(scope="module", params=ALL, ids=lambda flavour: flavour.name)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MQTTServer]:
    started = MQTTServer(request.param, Path(tmp_path_factory.mktemp("mqtt")))
    started.start()
    yield started
    started.stop()


class Listener:
    """A client of NATS that shows the lines of messages."""

    def __init__(self, server: MQTTServer) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port), PATIENCE)
        self._socket.sendall(b'CONNECT {"headers":true,"verbose":false}\r\n')
        self._rest = b""

    def ask(self, line: bytes) -> list[bytes]:
        """Send a line and give the words of the messages that come before the answer to PING."""
        self._socket.sendall(line + b"PING\r\n")
        while b"PONG\r\n" not in self._rest:
            self._rest += self._socket.recv(1 << 16)
        before, _, self._rest = self._rest.partition(b"PONG\r\n")
        return [row for row in before.split(b"\r\n") if row.startswith((b"MSG", b"HMSG"))]


def test_topics(server: MQTTServer) -> None:
    """The messages of a topic have its subject, and their QoS in a header."""
    listener = Listener(server)
    for topic, subject in TOPICS:
        if topic.startswith("$"):
            continue
        listener.ask(b"SUB %b 1\r\n" % subject)
        client = MQTTClient(server)
        client.connect()
        client.publish(topic)
        client.flush()
        came = listener.ask(b"")
        assert [row.split()[1] for row in came] == [subject], topic
        listener.ask(b"UNSUB 1\r\n")
        client.close()


@pytest.mark.parametrize("topic", REFUSED + OURS_REFUSES)
def test_refusedTopics(server: MQTTServer, topic: str) -> None:
    """A topic without a subject ends the connection."""
    client = MQTTClient(server)
    client.connect()
    client.publish(topic)
    if topic in OURS_REFUSES and server.flavour is REAL:
        client.flush()
    else:
        assert client.receive() is None


def test_filters(server: MQTTServer) -> None:
    """Filters are granted or refused by both servers alike, but for those listed above."""
    client = MQTTClient(server)
    client.connect()
    for text, _ in FILTERS:
        assert client.subscribe(text) == [ReasonCode.SUCCESS], text
    for text in REFUSED_FILTERS:
        assert client.subscribe(text) == [ReasonCode.UNSPECIFIED_ERROR], text
    for text in OURS_REFUSES_FILTERS:
        isGranted = client.subscribe(text) == [ReasonCode.SUCCESS]
        assert isGranted is (server.flavour is REAL), text


def test_deliveries(server: MQTTServer) -> None:
    """The topics of messages of NATS, and what wildcards match."""
    client = MQTTClient(server)
    client.connect()
    client.subscribe("#", "$SYS/a")
    listener = Listener(server)
    for subject in SUBJECTS:
        listener.ask(b"PUB %b 0\r\n\r\n" % subject)
    client.flush()
    topics = [packet.topic for packet in client.packets if isinstance(packet, Publish)]
    assert topics == ["a", "a/b", "$SYS/a", "ab", "x", "/a", "a.b", "a//b"]
