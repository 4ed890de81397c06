"""
Messages that a stream stores by itself, compared with nats-server: each is republished with its
headers, and both servers work at the same time.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.jetstream.asking import STORAGE
from tests.interop.plainclients import Client
from tests.interop.servers import OURS_FAST, REAL, Server

_TIME = re.compile(rb"Time-Stamp: [0-9TZ:.-]+")


class Watched:
    """A server, and the messages that its streams store."""

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
        messages = self.client.messages(self._copies, count)
        return [(_TIME.sub(b"", headers), body) for _, headers, body in messages]

    def state(self, name: str, done: Callable[[Any], bool]) -> Any:
        """
        The state of a stream once it is the expected one, or the last state after five seconds.
        """
        deadline = time.monotonic() + 5
        while not done(state := self.ask(f"STREAM.INFO.{name}", {})["state"]):
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        return state

    def delete(self, name: str) -> None:
        """Delete a stream that would continue to store messages."""
        self.ask(f"STREAM.DELETE.{name}", {})
        self.client.flush()
        self.client.got[self._copies].clear()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Watched]]:
    """nats-server and natsbroker."""
    place: Path = tmp_path_factory.mktemp("ends")
    servers = []
    for flavour in (REAL, OURS_FAST):
        directory = place / flavour.name
        directory.mkdir()
        servers.append(Server(flavour, directory, STORAGE))
    try:
        for server in servers:
            server.start()
        yield [Watched(server) for server in servers]
    finally:
        for server in servers:
            server.stop()


def test_markers(pair: list[Watched]) -> None:
    """
    Delete markers after C{max_age} and after a time to live are the same messages in the same
    order.
    """
    made, acknowledged = [], []
    for watched in pair:
        config = {"subject_delete_marker_ttl": 1_000_000_000, "allow_direct": True}
        made += [
            watched.make("D", max_age=1_000_000_000, **config),
            watched.make("E", storage="memory", max_msgs_per_subject=5, **config),
        ]
        acknowledged += [
            [
                watched.publish("D.a", b"1"),
                watched.publish("D.b", b"2", A="b"),
                watched.publish("D.a", b"3", Nats_TTL="never"),
                watched.publish("D.c", b"4", KV_Operation="PURGE"),
                watched.publish("D.a", b"5"),
                watched.publish("E.a", b"1", Nats_TTL="1s", A="b"),
                watched.publish("E.b", b"1"),
                watched.publish("E.b", b"2", Nats_TTL="1s"),
            ]
        ]
    assert made[:2] == made[2:]
    assert acknowledged[0] == acknowledged[1]
    copies = []
    # Ours first, since its timer is the earlier one and a marker goes after a second.
    for watched in reversed(pair):
        copies.append(sorted(watched.stored(10)))
        # Messages of one age may leave in several passes of the server's timer.
        state = watched.state("D", lambda state: state["messages"] <= 2)
        assert (state["last_seq"], state["messages"]) == (6, 2)
    ours, theirs = copies
    assert ours == theirs
    assert sum(b"Marker-Reason: MaxAge" in headers for headers, _ in ours) == 2


_EVERY = {"Nats_Schedule": "@every 1s", "Nats_Schedule_Target": "C.target"}


def _nextIsLater(headers: bytes) -> bytes:
    """The header block with the offset of the next message instead of its time."""
    return re.sub(rb"(Schedule-Next: )[-0-9]+T[:0-9]+", rb"\1", headers)


def test_schedules(pair: list[Watched]) -> None:
    """Scheduled messages have the same refusals, and each schedule stores the same messages."""
    made, acknowledged = [], []
    cron = {"Nats_Schedule": "*/1 * * * * *", "Nats_Schedule_Time_Zone": "Asia/Kolkata"}
    for watched in pair:
        made.append(watched.make("C", allow_msg_schedules=True, allow_msg_ttl=True))
        acknowledged.append(
            [
                watched.publish("C.source", b"from the source", A="b", Nats_Msg_Id="1"),
                watched.publish("C.1", b"1", **_EVERY, A="b", Nats_Schedule_TTL="1h"),
                watched.publish("C.2", b"2", **{**_EVERY, **cron}, Nats_Schedule_Source="C.source"),
                watched.publish(
                    "C.3", b"3", **_EVERY | {"Nats_Schedule": "@at 2009-11-10T23:00:00Z"}
                ),
                watched.publish("C.4", b"4", **_EVERY | {"Nats_Schedule_Target": "C.4"}),
                watched.publish("C.5", b"5", **_EVERY, Nats_Schedule_Rollup="all"),
                watched.publish("C.6", b"6", **_EVERY | cron, Nats_Schedule_TTL="zork"),
                watched.publish("C.7", b"7", Nats_Schedule="* * * * *"),
                watched.publish("C.8", b"8", Nats_Schedule_Time_Zone="Mars"),
                watched.publish("C.9", b"9", Nats_Scheduler="C.1"),
                watched.publish("C.9", b"9", Nats_Scheduler="C.source", Nats_Schedule_Next="purge"),
                watched.publish("C.9", b"9", Nats_Scheduler="C.none", Nats_Schedule_Next="purge"),
            ]
        )
    assert made[0] == made[1]
    assert acknowledged[0] == acknowledged[1]
    theirs, ours = ({(_nextIsLater(h), b) for h, b in watched.stored(11)} for watched in pair)
    for watched in pair:
        watched.delete("C")
    last = re.compile(rb"(Nats-Sequence|Last-Sequence): [0-9]+")
    theirs, ours = ({(last.sub(b"", h), b) for h, b in pairs} for pairs in (theirs, ours))
    assert ours == theirs


def test_counters(pair: list[Watched]) -> None:
    """Counters that are merged from two sources have the same totals and headers."""
    for watched in pair:
        for name in ("X", "Y"):
            watched.make(name, allow_msg_counter=True, republish=None)
            watched.publish(f"{name}.a", Nats_Incr="5")
            watched.publish(f"{name}.a", Nats_Incr="-2")
        transform = {"src": "Y.*", "dest": "Z.{{wildcard(1)}}"}
        sources = [
            {"name": "X", "subject_transforms": [{"src": "X.*", "dest": "Z.{{wildcard(1)}}"}]},
            {"name": "Y", "subject_transforms": [transform]},
        ]
        config = watched.make("Z", allow_msg_counter=True, sources=sources[:1])
        assert config is not None
    stored = [watched.stored(2) for watched in pair]
    for number, watched in enumerate(pair):
        watched.publish("Z.a", Nats_Incr="100")
        update = {"name": "Z", "subjects": ["Z.>"], "allow_msg_counter": True, "sources": sources}
        watched.ask("STREAM.UPDATE.Z", {**update, "republish": {"src": ">", "dest": "copy.>"}})
        stored[number] += watched.stored(3)
    origin = re.compile(rb"(Stream-Source: [^\r]* [XY]\.a)[^\r]*")
    theirs, ours = ([(origin.sub(rb"\1", h), b) for h, b in record] for record in stored)
    assert ours == theirs
    assert ours[-1][1] == b'{"val":"106"}'
