"""Documents and metrics of several workers as one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from natsbroker.interfaces.records import Histogram
from natsbroker.monitoring.metrics import MetricSeries
from natsbroker.workers.merging import RULES, merged, mergedSeries
from tests.server.support import Host


def test_numbers() -> None:
    """Counts are added up, also in parts of a document; settings are not."""
    one = {"connections": 2, "max_payload": 7, "cpu": 0.1, "slow_consumer_stats": {"clients": 1}}
    other = {"connections": 3, "max_payload": 7, "cpu": 0.2, "slow_consumer_stats": {"clients": 4}}
    assert merged([one, other]) == {
        "connections": 5,
        "max_payload": 7,
        "cpu": 0.3,
        "slow_consumer_stats": {"clients": 5},
    }


def test_averages() -> None:
    """Averages are weighted, maxima are the largest, and the start is the earliest."""
    one = {
        "num_matches": 30,
        "cache_hit_rate": 0.5,
        "num_cache": 0,
        "avg_fanout": 0,
        "max_fanout": 3,
        "start": "2026-01-02T00:00:00Z",
    }
    other = {
        "num_matches": 10,
        "cache_hit_rate": 1.0,
        "num_cache": 4,
        "avg_fanout": 2.5,
        "max_fanout": 9,
        "start": "2026-01-01T00:00:00Z",
    }
    assert merged([one, other]) == {
        "num_matches": 40,
        "cache_hit_rate": 0.625,
        "num_cache": 4,
        "avg_fanout": 2.5,
        "max_fanout": 9,
        "start": "2026-01-01T00:00:00Z",
    }
    assert merged([{"num_cache": 0, "avg_fanout": 0}] * 2)["avg_fanout"] == 0


def test_missing() -> None:
    """A key that only one worker has, or has a value for, is in the document."""
    assert merged(
        [{"a": True, "b": None, "c": None}, {"jetstream": {"x": 1}, "a": True, "b": 2}]
    ) == {
        "a": True,
        "b": 2,
        "c": None,
        "jetstream": {"x": 1},
    }


def test_lists() -> None:
    """Rows are joined, rows of one account are merged, and accounts are united."""
    one = {
        "leafs": [{"id": 1}],
        "accounts": ["A", "B"],
        "account_details": [{"name": "A", "streams": 1, "stream_detail": [{"name": "S"}]}],
    }
    other = {
        "leafs": [{"id": 2}],
        "accounts": ["B", "C"],
        "account_details": [
            {"name": "A", "streams": 2, "stream_detail": [{"name": "T"}]},
            {"name": "B", "streams": 3},
        ],
    }
    assert merged([one, other]) == {
        "leafs": [{"id": 1}, {"id": 2}],
        "accounts": ["A", "B", "C"],
        "account_details": [
            {"name": "A", "streams": 3, "stream_detail": [{"name": "S"}, {"name": "T"}]},
            {"name": "B", "streams": 3},
        ],
    }


def test_gateways() -> None:
    """Inbound connections of one cluster become one list."""
    one = {"outbound_gateways": None, "inbound_gateways": {"X": [{"cid": 1}]}}
    other = {
        "outbound_gateways": {"X": {"configured": True}},
        "inbound_gateways": {"X": [{"cid": 2}]},
    }
    assert merged([one, other]) == {
        "outbound_gateways": {"X": {"configured": True}},
        "inbound_gateways": {"X": [{"cid": 1}, {"cid": 2}]},
    }


def test_gatewayAccounts() -> None:
    """Each worker's link to a cluster knows the same of an account: it is one row, and no sum."""

    def page(*rows: dict[str, Any]) -> dict[str, Any]:
        return {"outbound_gateways": {"X": {"configured": True, "accounts": list(rows)}}}

    common = {"name": "A", "interest_mode": "Interest-Only", "subscriptions_list": ["a", "a", "b"]}
    one = page({**common, "num_subs": 3, "num_queue_subs": 1}, {"name": "B", "num_subs": 1})
    other = page({**common, "num_subs": 1, "subscriptions_list": ["a"]}, {"name": "C"})
    assert merged([one, other]) == page(
        {**common, "num_subs": 3, "num_queue_subs": 1},
        {"name": "B", "num_subs": 1},
        {"name": "C"},
    )
    assert merged([page(), page()]) == page()


def test_places() -> None:
    """Reservations are added up over all workers; the limit of an account is not."""
    row = {"name": "A", "reserved_memory": (1 << 64) - 1}
    one = {"reserved_memory": 5, "total": 2, "api": {"total": 3}, "account_details": [row]}
    assert merged([one, one], "jsz") == {
        "reserved_memory": 10,
        "total": 2,
        "api": {"total": 6},
        "account_details": [row],
    }


SETTINGS = """
auth_timeout default_max_consumers http_port https_port limit max_connections max_control_line
max_memory max_payload max_pending max_storage offset ping_interval ping_max port proto
sync_interval tls_timeout write_deadline cores
"""
"""Keys of numbers that are alike in all workers."""


def numbersIn(document: Any, place: str) -> Iterator[tuple[str, str]]:
    """The places and keys of all numbers."""
    for key, value in document.items():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, dict):
                yield from numbersIn(part, key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield place, key


@pytest.mark.parametrize(
    "path", ["varz", "jsz", "accountz", "accstatz", "subsz", "routez", "leafz", "gatewayz"]
)
def test_allNumbers(path: str) -> None:
    """Every number of a page has a rule, or is a setting."""
    host = Host('listen: "127.0.0.1:4222"').start()
    query = {"accounts": "1", "unused": "1", "acc": "$G"}
    answer = host.broker.monitoring.pages[f"/{path}"](query)
    document = json.loads(b"".join(piece for piece in answer.body if isinstance(piece, bytes)))
    for parent, key in numbersIn(document, path):
        if parent != "http_req_stats":
            assert f"{parent}.{key}" in RULES or key in RULES or key in SETTINGS.split(), key


def series(name: str, *values: float, label: str = "x") -> MetricSeries:
    """A metric with one sample for each value."""
    made = MetricSeries(name, "text", ("k",))
    for value in values:
        made.add(value, label)
    return made


def test_series() -> None:
    """Samples with the same labels are added up; the result has the metrics of all workers."""
    parts = [[series("a", 1.0), series("b", 2.0)], [series("a", 3.5), series("a", 1.0, label="y")]]
    shown = mergedSeries(parts)
    assert [(metric.name, metric.samples) for metric in shown] == [
        ("a", [(("x",), 4.5), (("y",), 1.0)]),
        ("b", [(("x",), 2.0)]),
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("start_time_seconds", 3.0),
        ("plugin_info", 5.0),
        ("link_rtt_seconds", 5.0),
        ("connections", 8.0),
    ],
)
def test_seriesRules(name: str, value: float) -> None:
    """Metrics of times and of facts are not added up."""
    [metric] = mergedSeries([[series(name, 5.0)], [series(name, 3.0)]])
    assert metric.samples == [(("x",), value)]


def test_histograms() -> None:
    """Buckets are added up one by one."""
    one = MetricSeries("h", "text", histograms=[((), Histogram((1.0,), (2, 3), 4.0))])
    [metric] = mergedSeries([[one], [one]])
    assert metric.histograms == [((), Histogram((1.0,), [4, 6], 8.0))]
