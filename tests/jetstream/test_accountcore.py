"""
The common part of an account's streams and consumers.
"""

from __future__ import annotations

import json

from tests.jetstream.support import Stage


def test_advisory() -> None:
    """An advisory begins with its type, an id and the time, and ends with the domain."""
    stage = Stage()
    stage.jetstream.domain = "hub"
    inbox = stage.inbox(b"$JS.EVENT.>")
    stage.jetstream.advise("ADVISORY.X", "advisory.v1.x", lambda: {"subject": "s", "kind": "k"})
    (message,) = inbox.got
    event = json.loads(message.payload)
    assert message.subject == b"$JS.EVENT.ADVISORY.X"
    assert list(event) == ["type", "id", "timestamp", "subject", "kind", "domain"]
    assert event["type"] == "io.nats.jetstream.advisory.v1.x"
    assert len(event["id"]) == 22
    assert event["timestamp"] == "2023-11-14T22:13:20Z"
