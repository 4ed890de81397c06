"""
A nats-server with JetStream for the tests of the data source.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from typing import Any

from natsbroker.spark.errors import ApiError
from natsbroker.spark.logs.apis import ChannelApi, StreamApi
from natsbroker.spark.nats.addresses import ServerAccess, readAddresses
from natsbroker.spark.nats.connection import BlockingConnection, connect
from natsbroker.spark.nats.stan import ChannelPublisher
from natsbroker.wire.headers import Headers
from tests.interop.servers import Server

__all__ = ["BrokerStation", "Station", "Stream"]

#: A broker of ours with NATS Streaming and JetStream.
STREAMING = (
    "streaming { store: lmdb, dir: $DIR/store, store_limits { max_channels: 0 } }\n"
    "jetstream { store_dir: $DIR/js }\n"
)

CONFIG = "jetstream { store_dir: $DIR/js, max_memory_store: 256MB, max_file_store: 256MB }\n"


class Stream:
    """
    One stream.

    @ivar name: what it is called; it takes messages for C{name.>}.
    """

    def __init__(self, connection: BlockingConnection, name: str) -> None:
        self.name = name
        self._connection = connection

    def api(self, call: str, question: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """
        Ask the API, and insist.
        """
        payload = json.dumps(question).encode() if question is not None else b""
        answer = json.loads(self._connection.request(f"$JS.API.STREAM.{call}.{self.name}", payload))
        assert "error" not in answer, answer
        assert isinstance(answer, dict)
        return answer

    def make(self, **config: Any) -> None:
        """Create the stream, or update it."""
        base = {
            "name": self.name,
            "subjects": [f"{self.name}.>"],
            "storage": "memory",
            "allow_direct": True,
        }
        self.api("CREATE", {**base, **config})

    def add(
        self, subject: str, data: bytes, headers: Mapping[str, str] | bytes = b""
    ) -> dict[str, Any]:
        """
        Store a message and have it acknowledged.

        @param subject: what stands behind the stream's name.
        @param headers: as pairs, or a block as it is.
        """
        return self.publish(f"{self.name}.{subject}", data, headers)

    def publish(
        self, subject: str, data: bytes, headers: Mapping[str, str] | bytes = b""
    ) -> dict[str, Any]:
        """Publish to a subject, and return the acknowledgement."""
        block = headers if isinstance(headers, bytes) else Headers(headers).block()
        _, body = self._connection.answer(self._connection.ask(subject, data, block))
        answer = json.loads(body)
        assert "seq" in answer, answer
        assert isinstance(answer, dict)
        return answer

    def isReached(self) -> bool:
        """
        Whether a published message reaches the stream, tested by a message that the stream refuses.
        """
        block = Headers({"Nats-Expected-Stream": "another"}).block()
        try:
            self._connection.answer(self._connection.ask(f"{self.name}.x", b"", block))
        except ApiError:
            return False
        return True

    def fill(self, payloads: Iterable[bytes], subject: str = "x") -> int:
        """
        Store many messages.

        @return: the last sequence.
        """
        replies = [self._connection.ask(f"{self.name}.{subject}", payload) for payload in payloads]
        answers = [json.loads(self._connection.answer(reply)[1]) for reply in replies]
        return int(answers[-1]["seq"])

    def delete(self, *seqs: int) -> None:
        """
        Delete messages.
        """
        for seq in seqs:
            self.api("MSG.DELETE", {"seq": seq, "no_erase": True})


class Station:
    """
    A server, and a connection to it.

    @ivar server: the server.
    @ivar connection: for the test's own requests.
    @ivar streams: the API that is tested.
    """

    _numbers = itertools.count(1)

    def __init__(self, server: Server) -> None:
        self.server = server
        self.connection = connect(self.peer)
        self.streams = StreamApi(self.connection)

    @property
    def url(self) -> str:
        """
        Where clients connect.
        """
        return self.server.url

    @property
    def peer(self) -> ServerAccess:
        """The way to connect."""
        return ServerAccess(readAddresses(self.server.url))

    def stream(self, **config: Any) -> Stream:
        """
        A new stream.
        """
        made = Stream(self.connection, f"S{next(self._numbers)}")
        made.make(**config)
        return made

    def close(self) -> None:
        """
        Stop the server.
        """
        self.connection.close()
        self.server.stop()


class BrokerStation:
    """
    A broker of ours with NATS Streaming, and a connection to it.

    @ivar server: the broker.
    @ivar connection: for the test's own requests.
    @ivar channels: the API that is tested.
    """

    _numbers = itertools.count(1)

    def __init__(self, server: Server) -> None:
        self.server = server
        self.connection = connect(self.peer)
        self.channels = ChannelApi(self.connection, "test-cluster")

    @property
    def url(self) -> str:
        """
        Where clients connect.
        """
        return self.server.url

    @property
    def peer(self) -> ServerAccess:
        """The way to connect."""
        return ServerAccess(readAddresses(self.server.url))

    def channel(self, payloads: Iterable[bytes] = (), name: str = "") -> str:
        """
        A new channel with messages in it.
        """
        name = name or f"c{next(self._numbers)}"
        self.fill(name, payloads)
        return name

    def fill(self, name: str, payloads: Iterable[bytes]) -> None:
        """
        Publish to a channel, and have it acknowledged.
        """
        publisher = ChannelPublisher(self.connection, name, "test-cluster", "_STAN.discover", 1000)
        for payload in payloads:
            publisher.publish(payload)
        publisher.finish()
        publisher.close()

    def stream(self, **config: Any) -> Stream:
        """
        A new stream of JetStream.
        """
        made = Stream(self.connection, f"S{next(self._numbers)}")
        made.make(**config)
        return made

    def close(self) -> None:
        """
        Stop the broker.
        """
        self.connection.close()
        self.server.stop()
