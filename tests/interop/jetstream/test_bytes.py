"""
Subjects, headers and names that are not UTF-8, compared with nats-server: the answers are the same,
from memory and from files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.jetstream.asking import STORAGE, wordless
from tests.interop.plainclients import Client
from tests.interop.servers import OURS_FAST, REAL, Server

_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


ODD = [b"\xff\xfe", b"\xed\xa0\x80", b"\xe2\x82", b"a\xc0b", b"\xf0\x9f\x98.\x80"]

REQUESTS: list[tuple[bytes, bytes]] = [
    (b"STREAM.INFO.S", b'{"subjects_filter":">"}'),
    (b"STREAM.INFO.S", b'{"subjects_filter":"s.\xff\xfe"}'),
    *((b"STREAM.MSG.GET.S", b'{"seq":%d}' % number) for number in range(1, len(ODD) + 1)),
    (b"STREAM.MSG.GET.S", b'{"last_by_subj":"s.\xff\xfe"}'),
    (b"STREAM.MSG.GET.S", rb'{"last_by_subj":"s.\ud800"}'),
    (b"STREAM.NAMES", b'{"subject":"s.\xff"}'),
    (b"CONSUMER.CREATE.S.c", rb'{"stream_name":"S","config":{"name":"c","description":"\udc00"}}'),
    (
        b"CONSUMER.CREATE.S.d.s.\xff",
        b'{"stream_name":"S","config":{"name":"d","filter_subject":"s.\xff"}}',
    ),
    (b"CONSUMER.INFO.S.c\xff", b""),
    (b"CONSUMER.DELETE.S.c\xff", b""),
    (b"CONSUMER.PAUSE.S.c", b'{"pause_until":"\xff"}'),
    (b"STREAM.CREATE.T\xff", b'{"name":"T\xff"}'),
    (b"STREAM.INFO.T\xff", b""),
    (b"STREAM.DELETE.T\xff", b""),
    (b"STREAM.PURGE.S", b'{"filter":"s.\xff"}'),
]


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Client]]:
    """A client of nats-server, and one of natsbroker."""
    place: Path = tmp_path_factory.mktemp("bytes")
    servers = []
    for flavour in (REAL, OURS_FAST):
        directory = place / flavour.name
        directory.mkdir()
        servers.append(Server(flavour, directory, STORAGE))
    try:
        yield [Client(server.start()) for server in servers]
    finally:
        for server in servers:
            server.stop()


def _answers(client: Client, storage: str) -> list[Any]:
    inbox = client.subscribe(b"_INBOX.\xff.*")

    def ask(subject: bytes, body: bytes) -> Any:
        client.publish(b"$JS.API." + subject, body, b"_INBOX.\xff.1")
        return json.loads(_TIME.sub("", client.take(inbox, 1)[0].decode("utf-8")))

    config = {"name": "S", "subjects": ["s.>"], "storage": storage}
    ask(b"STREAM.CREATE.S", json.dumps(config).encode())
    for odd in ODD:
        client.publish(b"s." + odd, b"x", b"_INBOX.\xff.1")
        client.take(inbox, 1)
    try:
        answers = [ask(*request) for request in REQUESTS]
    finally:
        ask(b"STREAM.DELETE.S", b"")
    return answers


@pytest.mark.parametrize("storage", ["memory", "file"])
def test_answers(clients: list[Client], storage: str) -> None:
    """Each request is answered, and each byte that is not UTF-8 is U+FFFD in the answer."""
    real, ours = (_answers(client, storage) for client in clients)
    for request, expected, answer in zip(REQUESTS, real, ours, strict=True):
        assert _essence(answer) == _essence(expected), request
    assert list(ours[0]["state"]["subjects"])[:1] == ["s.a\ufffdb"]


STATUSES = [
    b"NATS/1.0 503\r\nA: b\r\n\r\n",
    b"NATS/1.0 100 FlowControl Request\r\n\r\n",
    b"NATS/1.0 409 Consumer Deleted\r\nNats-Msg-Id: z\r\n\r\n",
    b"NATS/1.0X\r\n\r\n",
    b"NATS/1.0  \r\nA: b\r\n\r\n",
    b"NATS/1.0 503\nA: b\r\n\r\n",
    b"NATS/1.0\r\n\r\n",
    b"NATS/1.0\nA: b\n\n",
    b"nats/1.0 503\r\nA: b\r\n\r\n",
    b"A: b\r\n\r\n",
    b"garbage",
    b"NATS/1.0 1\r\nNats-Batch-Id: u\r\nNats-Batch-Sequence: 1\r\nNats-Batch-Commit: 1\r\n\r\n",
]
"""Header blocks, most of them with a status."""


def _statuses(client: Client, storage: str) -> list[Any]:
    """The stored and delivered header blocks of some messages, and the size of the stream."""
    inbox = client.subscribe(b"_INBOX.s.*")

    def ask(subject: bytes, body: bytes, headers: bytes = b"") -> Any:
        client.publish(subject, body, b"_INBOX.s.1", headers)
        return json.loads(client.take(inbox, 1)[0])

    config = {"name": "S", "subjects": ["s.>"], "storage": storage, "allow_atomic": True}
    ask(b"$JS.API.STREAM.CREATE.S", json.dumps(config).encode())
    delivered = client.subscribe(b"d")
    push = {"deliver_subject": "d", "ack_policy": "none"}
    body = json.dumps({"stream_name": "S", "config": push}).encode()
    ask(b"$JS.API.CONSUMER.CREATE.S", body)
    for block in STATUSES:
        ask(b"s.x", b"p", block)
    client.waitFor(delivered, len(STATUSES))
    state = ask(b"$JS.API.STREAM.INFO.S", b"")["state"]
    ask(b"$JS.API.STREAM.DELETE.S", b"")
    return [state["bytes"], *(headers for _, headers, _ in client.got[delivered])]


@pytest.mark.parametrize("storage", ["memory", "file"])
def test_statuses(clients: list[Client], storage: str) -> None:
    """A publisher cannot have a stream send statuses in the broker's name."""
    real, ours = (_statuses(client, storage) for client in clients)
    assert ours == real
    assert b"NATS/1.0\r\nA: b\r\n\r\n" in ours


def _essence(answer: dict[str, Any]) -> Any:
    if "error" in answer:
        return wordless(answer["error"])
    state = answer.get("state", {}).get("subjects")
    return state or answer.get("message") or answer.get("streams") or sorted(answer)
