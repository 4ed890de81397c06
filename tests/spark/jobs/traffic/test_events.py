"""
Reading the broker's own events.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from natsbroker.spark.jobs.traffic.totals import COUNTS, readEvent
from tests.spark.eventlogs import BEGIN, event, traffic


def test_reads() -> None:
    """The fields of an event."""
    record = readEvent(event("traffic", 5, [traffic("A", "x", msgs_in=3)], cluster="eu"))
    assert (record.kind, record.time, record.seconds) == ("traffic", (BEGIN + 5) * 10**9, 10.0)
    assert (record.server, record.cluster) == ("N1", "eu")
    (row,) = record.rows
    assert row.who == ("A", "client", "", "x")
    assert dict(zip(COUNTS, row.counts, strict=True)) == {**dict.fromkeys(COUNTS, 0), "msgs_in": 3}


RIGHT = json.loads(event("traffic", 0, [traffic("A", "x", msgs_in=1)]))


@pytest.mark.parametrize(
    "change",
    [
        {"type": "io.nats.server.advisory.v1.client_connect"},
        {"type": 7},
        {"timestamp": "yesterday"},
        {"timestamp": None},
        {"seconds": "many"},
        {"seconds": -1},
        {"seconds": float("nan")},
        {"server": "N1"},
        {"server": {"id": 7}},
        {"cluster": None},
        {"rows": None},
        {"rows": ["x"]},
        {"rows": [traffic("A", "x", msgs_in=-1)]},
        {"rows": [traffic("A", "x", msgs_in=1 << 62)]},
        {"rows": [{**traffic("A", "x"), "bytes_in": 1.5}]},
        {"rows": [{**traffic("A", "x"), "bytes_in": True}]},
        {"rows": [{"account": 7}]},
    ],
)
def test_invalidEvent(change: dict[str, Any]) -> None:
    """An invalid event is passed over."""
    readEvent(json.dumps(RIGHT).encode())
    with pytest.raises(ValueError, match=r"not an? .*event"):
        readEvent(json.dumps({**RIGHT, **change}).encode())


@pytest.mark.parametrize("data", [b"", b"x", b"[]", b"7", b"\xff", b"[" * 100_000])
def test_noObject(data: bytes) -> None:
    """A line that is no object is no event."""
    with pytest.raises(ValueError, match=r"not an? .*event"):
        readEvent(data)
