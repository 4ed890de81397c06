"""
Copies of stored messages are those that nats-server publishes, byte for byte.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.interop.jetstream.asking import STORAGE
from tests.interop.plainclients import Client
from tests.interop.servers import OURS_FAST, REAL, Flavour, Server

_REPUBLISHED = [
    {"src": "s.*.k", "dest": "r.{{wildcard(1)}}"},
    {"src": ">", "dest": "r.>", "headers_only": True},
    {"src": "", "dest": "r.>"},
]


def _copies(flavour: Flavour, directory: Path, republish: Any) -> list[tuple[bytes, bytes]]:
    directory.mkdir()
    server = Server(flavour, directory, STORAGE).start()
    client = Client(server)
    answers = client.subscribe(b"_INBOX.a")
    copies = client.subscribe(b"r.>")
    config = {"name": "S", "subjects": ["s.>"], "republish": republish}
    client.publish(b"$JS.API.STREAM.CREATE.S", json.dumps(config).encode(), b"_INBOX.a")
    client.take(answers, 1)
    block = b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n"
    for subject, headers in [
        (b"s.a.k", block),
        (b"s.b.k", b""),
        (b"s.a.j", b""),
        (b"s.a.k", block),
        (b"s.a.k", b""),
    ]:
        client.publish(subject, b"body", b"_INBOX.a", headers)
    client.take(answers, 5)
    client.flush()
    messages = client.messages(copies, len(client.got[copies]))
    client.close()
    server.stop()
    time = rb"Time-Stamp: [0-9TZ:.-]+"
    return [(re.sub(time, b"Time-Stamp: T", headers), body) for _, headers, body in messages]


@pytest.mark.parametrize("republish", _REPUBLISHED)
def test_sameCopies(tmp_path: Path, republish: Any) -> None:
    """Headers and bodies of republished messages are the same."""
    theirs = _copies(REAL, tmp_path / "theirs", republish)
    assert len(theirs) >= 3
    assert _copies(OURS_FAST, tmp_path / "ours", republish) == theirs
