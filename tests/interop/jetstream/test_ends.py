"""
What a stream stores by itself, beside nats-server: each message is republished with its headers,
and both servers work at the same time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.jetstream.asking import STORAGE
from tests.interop.plainclients import Client
from tests.interop.servers import OURS_FAST, REAL, Server

_TIME = re.compile(rb"Time-Stamp: [0-9TZ:.-]+")


class Watched:
    """
    A server, and what its streams store.
    """

    def __init__(self, server: Server) -> None:
        self.client = Client(server)
        self._answers = self.client.subscribe(b"_INBOX.a")
        self._copies = self.client.subscribe(b"copy.>")

    def make(self, name: str, **config: Any) -> Any:
        """The configuration of a new stream whose subjects begin with its name."""
        config = {
            "name": name,
            "subjects": [f"{name}.>"],
            "republish": {"src": ">", "dest": "copy.>"},
            **config,
        }
        return self.ask(f"STREAM.CREATE.{name}", config).get("config")

    def ask(self, subject: str, body: Any) -> Any:
        """The answer to a request below C{$JS.API}."""
        self.client.publish(f"$JS.API.{subject}".encode(), json.dumps(body).encode(), b"_INBOX.a")
        return json.loads(self.client.take(self._answers, 1)[0])

    def publish(self, subject: str, body: bytes = b"", **headers: str) -> Any:
        """The acknowledgement of a message."""
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        block = "\r\n".join(["NATS/1.0", *lines, "", ""]).encode() if lines else b""
        self.client.publish(subject.encode(), body, b"_INBOX.a", block)
        return json.loads(self.client.take(self._answers, 1)[0])

    def stored(self, count: int) -> list[tuple[bytes, bytes]]:
        """The headers and bodies of the next messages that were stored."""
        found = self.client.messages(self._copies, count)
        return [(_TIME.sub(b"", headers), body) for _, headers, body in found]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Watched]]:
    """nats-server, and natsbroker."""
    place: Path = tmp_path_factory.mktemp("ends")
    servers = []
    for flavour in (REAL, OURS_FAST):
        directory = place / flavour.name
        directory.mkdir()
        servers.append(Server(flavour, directory, STORAGE))
    try:
        for each in servers:
            each.start()
        yield [Watched(each) for each in servers]
    finally:
        for each in servers:
            each.stop()


def test_markers(pair: list[Watched]) -> None:
    """Delete markers after C{max_age} and a time to live: the same messages in the same order."""
    made, acknowledged = [], []
    for each in pair:
        config = {"subject_delete_marker_ttl": 1_000_000_000, "allow_direct": True}
        made += [
            each.make("D", max_age=1_000_000_000, **config),
            each.make("E", storage="memory", max_msgs_per_subject=5, **config),
        ]
        acknowledged += [
            [
                each.publish("D.a", b"1"),
                each.publish("D.b", b"2", A="b"),
                each.publish("D.a", b"3", Nats_TTL="never"),
                each.publish("D.c", b"4", KV_Operation="PURGE"),
                each.publish("D.a", b"5"),
                each.publish("E.a", b"1", Nats_TTL="1s", A="b"),
                each.publish("E.b", b"1"),
                each.publish("E.b", b"2", Nats_TTL="1s"),
            ]
        ]
    assert made[:2] == made[2:]
    assert acknowledged[0] == acknowledged[1]
    theirs, ours = (sorted(each.stored(10)) for each in pair)
    assert ours == theirs
    assert sum(b"Marker-Reason: MaxAge" in headers for headers, _ in ours) == 2
    states = [each.ask("STREAM.INFO.D", {})["state"] for each in pair]
    assert [(state["last_seq"], state["messages"]) for state in states] == [(6, 2), (6, 2)]
