"""
Reading the broker's own events.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from natsbroker.spark.errors import ApiError
from natsbroker.spark.jobs.traffic.events import foldEvents, readEvent
from natsbroker.spark.jobs.traffic.totals import TimeWindows, TrafficTotals
from natsbroker.spark.settings import readOptions
from tests.spark.eventlogs import BEGIN, event, traffic
from tests.spark.support import BrokerStation

WINDOWS = TimeWindows(10**10, 10**10, 0)


def test_reads() -> None:
    """The fields of an event."""
    found = readEvent(event("traffic", 5, [traffic("A", "x", msgs_in=3)], cluster="eu"))
    assert (found.kind, found.time, found.seconds) == ("traffic", (BEGIN + 5) * 10**9, 10.0)
    assert (found.server, found.cluster, found.rows[0]["msgs_in"]) == ("N1", "eu", 3)


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
def test_strange(change: dict[str, Any]) -> None:
    """What makes no sense is none."""
    readEvent(json.dumps(RIGHT).encode())
    with pytest.raises(ValueError, match="no event"):
        readEvent(json.dumps({**RIGHT, **change}).encode())


@pytest.mark.parametrize("data", [b"", b"x", b"[]", b"7", b"\xff", b"[" * 100_000])
def test_noObject(data: bytes) -> None:
    """Nor is what is no object at all."""
    with pytest.raises(ValueError, match="no event"):
        readEvent(data)


def test_fold(broker: BrokerStation) -> None:
    """All events of a channel are counted by any number of tasks; others are malformed."""
    events = [event("traffic", n, [traffic("A", "x", msgs_in=n)]) for n in range(40)]
    name = broker.channel([*events[:20], b"strange", *events[20:]])
    told: list[tuple[int, int]] = []
    for tasks in ("1", "20"):
        options = readOptions({"servers": broker.url, "channel": name, "minPartitions": tasks})
        found = foldEvents(
            options,
            partial(TrafficTotals, WINDOWS),
            lambda work, pieces: [work(each) for each in pieces],
            lambda done, end: told.append((done, end)),
        )
        assert (found.events, found.malformed) == (40, 1)
        who = ("A", "client", "", "x")
        assert sum(window[who][0] for window in found.sums.values()) == sum(range(40))
    assert told[0] == told[-1] == (41, 41)
    assert len(told) == 4


def test_missing(broker: BrokerStation) -> None:
    """A channel that is not there is an error."""
    options = readOptions({"servers": broker.url, "channel": "nothing.here"})
    with pytest.raises(ApiError, match=r"nothing\.here"):
        foldEvents(options, partial(TrafficTotals, WINDOWS), lambda work, pieces: [])
