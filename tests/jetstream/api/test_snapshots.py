"""
Requests to copy streams to clients and back.
"""

from __future__ import annotations

import json

import pytest

from tests.jetstream.snapshots.support import CopyStage


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_roundTrip(storage: str) -> None:
    """A stream and its consumers come back as they were."""
    stage = CopyStage()
    stage.fill(storage=storage)
    before = stage.ask("STREAM.INFO.S")["state"]
    stored = stage.stored(stage.jetstream.streams["S"])
    consumer = stage.ask("CONSUMER.INFO.S.C")
    data = stage.copy()
    stage.ask("STREAM.DELETE.S")
    answer = stage.back(data, storage=storage)
    assert list(answer) == ["type", "config", "created", "state", "ts"]
    assert answer["type"] == "io.nats.jetstream.api.v1.stream_create_response"
    assert answer["state"] == before
    assert stage.stored(stage.jetstream.streams["S"]) == stored
    again = stage.ask("CONSUMER.INFO.S.C")
    for key in ("config", "num_ack_pending", "num_pending", "num_redelivered"):
        assert again[key] == consumer[key]
    assert again["delivered"] == {"consumer_seq": 2, "stream_seq": 2}
    assert again["ack_floor"] == {"consumer_seq": 1, "stream_seq": 1}


def test_withoutConsumers() -> None:
    """Consumers can be left out."""
    stage = CopyStage()
    stage.fill()
    data = stage.copy(no_consumers=True)
    stage.ask("STREAM.DELETE.S")
    assert stage.back(data)["state"]["consumer_count"] == 0


def test_advisories() -> None:
    """The beginning and the end of a snapshot and of a restore are published as advisories."""
    stage = CopyStage()
    stage.fill()
    inbox = stage.inbox(b"$JS.EVENT.ADVISORY.STREAM.*.S")
    data = stage.copy()
    stage.ask("STREAM.DELETE.S")
    stage.back(data)
    events = [json.loads(payload) for payload in inbox.payloads]
    kinds = [event["type"].rpartition(".")[2] for event in events]
    assert kinds == [
        "snapshot_create",
        "snapshot_complete",
        "stream_action",
        "restore_create",
        "stream_action",
        "restore_complete",
    ]
    assert events[0]["state"]["messages"] == 5
    assert events[5]["bytes"] == len(data)
    keys = ["type", "id", "timestamp", "stream", "start", "end"]
    assert list(events[1]) == [*keys, "client"]
    assert list(events[5]) == [*keys, "bytes", "client"]


def test_errors() -> None:
    """Requests that cannot be served have nats-server's errors."""
    stage = CopyStage()
    assert stage.failure("STREAM.SNAPSHOT.S") == (400, 10003)
    assert stage.failure("STREAM.SNAPSHOT.S", {"deliver_subject": "d"}) == (404, 10059)
    assert stage.failure("STREAM.RESTORE.S", b"{}") == (400, 10003)
    assert stage.failure("STREAM.RESTORE.S", b"x") == (400, 10025)
    assert stage.failure("STREAM.RESTORE.S", {"config": {"name": "T"}}) == (400, 10056)
    bad = {"config": {"name": "S", "subjects": ["a..b"]}}
    assert stage.failure("STREAM.RESTORE.S", bad) == (500, 10052)
    stage.make()
    assert stage.failure("STREAM.SNAPSHOT.S", {"deliver_subject": "d.*"}) == (400, 10015)
    answer = stage.ask("STREAM.RESTORE.S", {"config": {"name": "S"}})
    assert answer["error"]["err_code"] == 10130
    assert answer["deliver_subject"] == ""
