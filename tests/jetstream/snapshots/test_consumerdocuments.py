"""
Consumers as documents of a snapshot.
"""

from __future__ import annotations

import json

import pytest

from natsbroker.jetstream.snapshots.archive import InvalidArchive
from natsbroker.jetstream.snapshots.consumerdocuments import consumerDocument, reading
from natsbroker.steps import PIECE, finish
from tests.jetstream.snapshots.support import CopyStage
from tests.jetstream.support import BEGINNING


def test_document() -> None:
    """
    The document of a consumer has its configuration, its positions, and its pending messages with
    times.
    """
    stage = CopyStage()
    stage.fill()
    consumer = stage.jetstream.streams["S"].consumers["C"]
    document = json.loads(consumerDocument(consumer, 6))
    assert document["config"]["durable_name"] == "C"
    assert document["state"] == {
        "delivered": {"consumer_seq": 2, "stream_seq": 2},
        "ack_floor": {"consumer_seq": 1, "stream_seq": 1},
        "pending": {"2": {"Sequence": 2, "Timestamp": BEGINNING}},
    }
    earlier = json.loads(consumerDocument(consumer, 1))["state"]
    assert earlier["delivered"]["stream_seq"] == 1
    assert "pending" not in earlier


def test_state() -> None:
    """
    A state that is read has the due time of each pending message, from ack_wait or the backoff.
    """
    config = {"name": "x", "ack_policy": "explicit", "backoff": [1_000_000_000, 5_000_000_000]}
    state = {
        "delivered": {"consumer_seq": 4, "stream_seq": 9},
        "ack_floor": {"consumer_seq": 1, "stream_seq": 6},
        "pending": {
            "9": {"Sequence": 3, "Timestamp": 2_000_000_000},
            "7": {"Sequence": 2, "Timestamp": 1_000_000_000},
        },
        "redelivered": {"7": 1},
    }
    made, restored = finish(reading("x", json.dumps({"config": config, "state": state}).encode()))
    assert made.backoff == (1_000_000_000, 5_000_000_000)
    assert restored is not None
    assert list(restored.sequences) == [7, 9]
    assert list(restored.firsts) == [2, 3]
    assert list(restored.dues) == [6000, 3000]
    assert restored.counts == {7: 1}
    assert (restored.delivered, restored.deliveredStream, restored.floor) == (4, 9, 1)


def test_unused() -> None:
    """A consumer without deliveries has no state, and begins at its deliver policy."""
    document = b'{"config":{"name":"x","deliver_policy":"last"},"state":{}}'
    assert finish(reading("x", document))[1] is None


@pytest.mark.parametrize(
    "document",
    [
        b"[]",
        b"[" * 2000 + b"]" * 2000,
        b'{"config":{"name":1},"state":{}}',
        b'{"config":{},"state":[]}',
        b'{"config":{},"state":{"delivered":{"consumer_seq":-1}}}',
        b'{"config":{},"state":{"delivered":{"stream_seq":2},"pending":{"x":{}}}}',
        b'{"config":{},"state":{"delivered":{"stream_seq":2},"pending":{"1":2}}}',
    ],
)
def test_damaged(document: bytes) -> None:
    """A document of another form is refused."""
    with pytest.raises(InvalidArchive, match=r'failed to decode consumer "x" state'):
        finish(reading("x", document))


def test_inSteps() -> None:
    """A document with very many filters is read in steps."""
    filters = [f"a.{number}" for number in range(2 * PIECE)]
    document = json.dumps({"config": {"name": "x", "filter_subjects": filters}, "state": {}})
    assert sum(1 for _ in reading("x", document.encode())) >= 3
