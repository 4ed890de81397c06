"""
Snapshots that are moved from natsbroker to nats-server, and in the other direction.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.jetstream.asking import STORAGE
from tests.interop.plainclients import Client
from tests.interop.servers import OURS_FAST, REAL, Flavour, Server


class Copier:
    """
    A client that copies streams.
    """

    def __init__(self, server: Server) -> None:
        self.client = Client(server)
        self._inbox = self.client.subscribe(b"_INBOX.copy")

    def ask(self, subject: str, body: bytes = b"") -> bytes:
        """
        @return: the answer to a request.
        """
        self.client.publish(subject.encode(), body, b"_INBOX.copy")
        return self.client.take(self._inbox, 1)[0]

    def api(self, subject: str, body: Any = None) -> Any:
        """
        @return: the answer to a request below C{$JS.API}.
        """
        data = b"" if body is None else json.dumps(body).encode()
        return json.loads(self.ask(f"$JS.API.{subject}", data))

    def fill(self, storage: str) -> None:
        """Create a stream of 120 messages with gaps and headers, and consumers in use."""
        self.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "storage": storage})
        for number in range(120):
            block = b"NATS/1.0\r\nNumber: %d\r\n\r\n" % number if number % 2 else b""
            body = os.urandom(5000) if number % 3 else b""
            self.client.publish(b"s.%d" % (number % 5), body, headers=block)
        for sequence in (1, 7, 8, 60, 120):
            self.api("STREAM.MSG.DELETE.S", {"seq": sequence})
        for name in ("C", "D"):
            config = {"durable_name": name, "ack_policy": "explicit", "ack_wait": 60_000_000_000}
            self.api(f"CONSUMER.DURABLE.CREATE.S.{name}", {"stream_name": "S", "config": config})
        inbox = self.client.subscribe(b"m")
        self.client.publish(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch":10}', b"m")
        messages = self.client.messages(inbox, 10)
        for place in (0, 4):
            self.client.publish(messages[place][0], b"+ACK")
        self.client.publish(messages[1][0], b"-NAK")
        self.client.flush()
        self.client.publish(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch":1}', b"m")
        self.client.messages(inbox, 1)

    def snapshot(self) -> bytes:
        """
        @return: a snapshot of the stream in many chunks.
        """
        inbox = self.client.subscribe(b"d")
        body = {"deliver_subject": "d", "chunk_size": 4096, "window_size": 20_000}
        assert "error" not in self.api("STREAM.SNAPSHOT.S", body)
        data = b""
        while True:
            reply, headers, chunk = self.client.messages(inbox, 1)[0]
            if not chunk:
                assert headers == b"NATS/1.0 204\r\n\r\n"
                return data
            data += chunk
            if reply:
                assert len(chunk) == 4096
                self.client.publish(reply, b"")

    def restore(self, data: bytes, storage: str) -> Any:
        """
        @return: the answer to the end of a restore.
        """
        config = {"name": "S", "subjects": ["s.>"], "storage": storage}
        subject = self.api("STREAM.RESTORE.S", {"config": config})["deliver_subject"]
        for start in range(0, len(data), 30_000):
            assert self.ask(subject, data[start : start + 30_000]) == b""
        return json.loads(self.ask(subject, b""))

    def state(self) -> list[Any]:
        """
        @return: all messages, and the state of the stream and its consumers.
        """
        info = self.api("STREAM.INFO.S", {"deleted_details": True})["state"]
        del info["last_ts"]  # An archive does not have the time of a last message that is deleted.
        messages = [
            self.api("STREAM.MSG.GET.S", {"seq": sequence}).get("message")
            for sequence in range(info["last_seq"] + 1)
        ]
        consumers = self.api("CONSUMER.LIST.S")["consumers"]
        kept = ("name", "config", "num_ack_pending", "num_redelivered", "num_pending")
        shown = [[consumer[key] for key in kept] for consumer in consumers]
        positions = [
            consumer[place][key]
            for consumer in consumers
            for place in ("delivered", "ack_floor")
            for key in ("consumer_seq", "stream_seq")
        ]
        return [info, messages, shown, positions]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[dict[str, Copier]]:
    """A client of nats-server, and one of natsbroker."""
    started = {}
    for flavour in (REAL, OURS_FAST):
        directory = tmp_path / flavour.name
        directory.mkdir()
        started[flavour.name] = Server(flavour, directory, STORAGE).start()
    yield {name: Copier(server) for name, server in started.items()}
    for server in started.values():
        server.stop()


@pytest.mark.parametrize("storage", ["file", "memory"])
@pytest.mark.parametrize(("origin", "target"), [(REAL, OURS_FAST), (OURS_FAST, REAL)])
def test_copied(servers: dict[str, Copier], origin: Flavour, target: Flavour, storage: str) -> None:
    """A stream restored on the other server has the messages and consumers of the original."""
    source, copy = servers[origin.name], servers[target.name]
    source.fill(storage)
    expected = source.state()
    answer = copy.restore(source.snapshot(), storage)
    assert "error" not in answer, answer
    assert copy.state() == expected
