"""
Direct get is answered as nats-server answers it, byte for byte.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.interop.jetstream.asking import STORAGE
from tests.interop.plainclients import Client
from tests.interop.servers import OURS_FAST, REAL, Flavour, Server

_GET = "$JS.API.DIRECT.GET.S"
_PAST = "2020-01-01T00:00:00Z"
_FUTURE = "2090-01-01T00:00:00Z"
_REQUESTS: list[Any] = [
    b"",
    b"{",
    b"[]",
    {"seq": 0},
    {"seq": 2},
    {"seq": 2, "no_hdr": True},
    {"seq": 9},
    {"seq": 1, "next_by_subj": "s.b"},
    {"next_by_subj": "zz"},
    {"last_by_subj": "s.*"},
    {"last_by_subj": "a..b"},
    {"start_time": _PAST, "next_by_subj": "s.c"},
    {"start_time": _FUTURE},
    {"seq": 1, "last_by_subj": "s.a"},
    {"batch": 2},
    {"batch": 2, "seq": 1},
    {"batch": 10, "seq": 5},
    {"batch": 10, "seq": 9},
    {"batch": 3, "seq": 2, "next_by_subj": "s.a"},
    {"batch": 3, "seq": 2, "no_hdr": True},
    {"batch": 6, "seq": 1, "max_bytes": 4},
    {"batch": 6, "seq": 1, "max_bytes": 5},
    {"batch": 6, "seq": 1, "max_bytes": 26},
    {"batch": 6, "seq": 1, "max_bytes": 27},
    {"batch": 2, "start_time": _FUTURE},
    {"batch": -1, "seq": 3},
    {"batch": 2, "last_by_subj": "s.a"},
    {"multi_last": ["s.*"]},
    {"multi_last": ["s.a", "s.b"], "batch": 1},
    {"multi_last": ["s.*"], "seq": 5},
    {"multi_last": ["s.*"], "seq": 7},
    {"multi_last": ["s.*"], "up_to_seq": 3},
    {"multi_last": ["s.*"], "up_to_seq": 30},
    {"multi_last": ["zz"]},
    {"multi_last": ["s.*"], "up_to_time": _PAST},
    {"multi_last": ["s.*"], "up_to_time": _FUTURE},
    {"multi_last": ["s.*"], "up_to_seq": 1, "up_to_time": _FUTURE},
    {"multi_last": ["s.*", "s.a"], "no_hdr": True},
    {"multi_last": ["s.*"], "max_bytes": 5},
    {"seq": 1, "zork": 1},
]
_LAST: list[tuple[str, Any]] = [
    ("s.a", b""),
    ("s.zz", b""),
    ("s.a", b"{}"),
    ("s.a", {"no_hdr": True}),
    ("s.a", {"seq": 1}),
    ("s.a", b"x"),
]


def _isLast(body: Any, block: bytes) -> bool:
    isOne = not isinstance(body, dict) or not (body.keys() & {"batch", "multi_last"})
    return isOne or block.startswith(b"NATS/1.0 ")


def _ask(client: Client, inbox: bytes, subject: str, body: Any) -> list[tuple[bytes, bytes]]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    client.publish(subject.encode(), data, b"_INBOX.d")
    answer: list[tuple[bytes, bytes]] = []
    while not answer or not _isLast(body, answer[-1][0]):
        ((_, block, payload),) = client.messages(inbox, 1)
        answer.append((re.sub(rb"Time-Stamp: [0-9TZ:.-]+", b"Time-Stamp: T", block), payload))
    return answer


def _answers(flavour: Flavour, directory: Path) -> list[list[tuple[bytes, bytes]]]:
    directory.mkdir()
    server = Server(flavour, directory, STORAGE).start()
    client = Client(server)
    inbox = client.subscribe(b"_INBOX.d")
    made = client.subscribe(b"_INBOX.made")
    config = {"name": "S", "subjects": ["s.>"], "allow_direct": True, "storage": "memory"}
    client.publish(b"$JS.API.STREAM.CREATE.S", json.dumps(config).encode(), b"_INBOX.made")
    client.take(made, 1)
    for place, subject in enumerate([b"s.a", b"s.b", b"s.a", b"s.c", b"s.b", b"s.a"]):
        headers = b"NATS/1.0\r\nX: y\r\n\r\n" if place == 1 else b""
        client.publish(subject, b"%d" % place, b"_INBOX.made", headers)
    client.take(made, 6)
    answers = [_ask(client, inbox, _GET, request) for request in _REQUESTS]
    answers += [_ask(client, inbox, f"{_GET}.{subject}", request) for subject, request in _LAST]
    client.close()
    server.stop()
    return answers


def test_sameAnswers(tmp_path: Path) -> None:
    """Each direct get has the same answer from both servers."""
    theirs = _answers(REAL, tmp_path / "theirs")
    ours = _answers(OURS_FAST, tmp_path / "ours")
    asked = [*_REQUESTS, *_LAST]
    for request, one, other in zip(asked, ours, theirs, strict=True):
        assert one == other, request
