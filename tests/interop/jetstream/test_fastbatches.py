"""
Fast batches, which natsbroker answers with the same messages as nats-server.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.interop.jetstream.asking import STORAGE
from tests.interop.plainclients import Client
from tests.interop.servers import OURS_FAST, REAL, Flavour, Server

_MESSAGES: list[tuple[str, int, int, dict[str, str]]] = [
    ("a.2.fail", 1, 0, {}),
    ("a.2.fail", 2, 1, {"Nats-Msg-Id": "1"}),
    ("a.2.fail", 3, 1, {"Nats-Msg-Id": "1"}),
    ("a.2.fail", 3, 4, {}),
    ("a.2.fail", 4, 1, {}),
    ("a.2.fail", 5, 2, {}),
    ("a.2.fail", 6, 1, {}),
    ("b.3.ok", 1, 0, {}),
    ("b.3.ok", 4, 1, {}),
    ("b.3.ok", 6, 4, {}),
    ("b.3.ok", 7, 1, {"Nats-Expected-Last-Sequence": "99"}),
    ("b.3.ok", 8, 1, {}),
    ("b.3.ok", 9, 3, {}),
    ("c.5.fail", 1, 0, {}),
    ("c.5.fail", 3, 1, {}),
    ("d.5.fail", 1, 0, {}),
    ("d.5.fail", 2, 1, {"Nats-TTL": "1s"}),
    ("e.5.fail", 1, 0, {"Nats-Expected-Stream": "zork"}),
    ("f.5.fail", 1, 2, {"Nats-Msg-Id": "1"}),
    ("g.5.fail", 1, 2, {}),
    ("h.5.zork", 1, 0, {}),
    ("i.5.ok", 2, 0, {}),
    ("j" * 65 + ".5.ok", 1, 0, {}),
    ("k.7.ok", 1, 0, {}),
    ("l.7.ok", 1, 0, {}),
    ("l.7.ok", 2, 1, {}),
    ("l.7.ok", 3, 1, {}),
    ("l.7.ok", 4, 1, {}),
    ("l.7.ok", 5, 2, {"Nats-Expected-Last-Subject-Sequence": "1"}),
]


def _answers(flavour: Flavour, directory: Path) -> list[Any]:
    directory.mkdir()
    server = Server(flavour, directory, STORAGE).start()
    try:
        client = Client(server)
        answers = client.subscribe(b"_INBOX.>")
        for name, config in (("F", {"allow_batched": True}), ("G", {})):
            body = {"name": name, "subjects": [f"{name}.>"], **config}
            client.publish(
                f"$JS.API.STREAM.CREATE.{name}".encode(), json.dumps(body).encode(), b"_INBOX.a"
            )
        client.take(answers, 2)
        client.publish(b"G.x", b"", b"_INBOX.z.5.ok.1.0.$FI")
        documents = [json.loads(client.take(answers, 1)[0])]
        for batch, number, operation, headers in _MESSAGES:
            lines = [f"{name}: {value}" for name, value in headers.items()]
            block = "\r\n".join(["NATS/1.0", *lines, "", ""]).encode() if lines else b""
            reply = f"_INBOX.{batch}.{number}.{operation}.$FI".encode()
            client.publish(b"F.x", b"body", reply, block)
        client.publish(b"F.x", b"", b"_INBOX.last")
        while set(documents[-1]) != {"stream", "seq"}:
            documents.append(json.loads(client.take(answers, 1)[0]))
        client.close()
    finally:
        server.stop()
    return documents


def test_sameAnswers(tmp_path: Path) -> None:
    """Acknowledgements, gaps, errors and commits of fast batches come in the same order."""
    theirs = _answers(REAL, tmp_path / "theirs")
    assert len(theirs) > 30
    assert _answers(OURS_FAST, tmp_path / "ours") == theirs
