"""Documents of several workers as one."""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker.clients.selection import _RANKS
from natsbroker.workers.merging import ORDERS, merged, mergedConnections, mergedSeries


def test_numbers() -> None:
    """Counts of one worker each are added up, also in parts of a document; settings are not."""
    one = {"connections": 2, "max_payload": 7, "slow_consumer_stats": {"clients": 1}}
    other = {"connections": 3, "max_payload": 7, "slow_consumer_stats": {"clients": 4}}
    assert merged([one, other]) == {
        "connections": 5,
        "max_payload": 7,
        "slow_consumer_stats": {"clients": 5},
    }


def test_averages() -> None:
    """Averages stay averages, maxima maxima, and the first start is the server's."""
    one = {"cache_hit_rate": 0.5, "max_fanout": 3, "start": "2026-01-02T00:00:00Z"}
    other = {"cache_hit_rate": 1.0, "max_fanout": 9, "start": "2026-01-01T00:00:00Z"}
    assert merged([one, other]) == {
        "cache_hit_rate": 0.75,
        "max_fanout": 9,
        "start": "2026-01-01T00:00:00Z",
    }


def test_missing() -> None:
    """A key of one worker alone is in the document, and a truth is no number."""
    assert merged([{"a": True}, {"jetstream": {"x": 1}, "a": True}]) == {
        "a": True,
        "jetstream": {"x": 1},
    }


def test_lists() -> None:
    """Rows are joined, rows of one account merged, and lists of all workers shown once."""
    one = {
        "leafs": [{"id": 1}],
        "accounts": ["A", "B"],
        "account_details": [{"name": "A", "streams": 1, "stream_detail": [{"name": "S"}]}],
    }
    other = {
        "leafs": [{"id": 2}],
        "accounts": ["A", "B"],
        "account_details": [
            {"name": "A", "streams": 2, "stream_detail": [{"name": "T"}]},
            {"name": "B", "streams": 3},
        ],
    }
    assert merged([one, other]) == {
        "leafs": [{"id": 1}, {"id": 2}],
        "accounts": ["A", "B"],
        "account_details": [
            {"name": "A", "streams": 3, "stream_detail": [{"name": "S"}, {"name": "T"}]},
            {"name": "B", "streams": 3},
        ],
    }


def connection(cid: int, **members: Any) -> dict[str, Any]:
    """A row with what the orders look at."""
    row = dict.fromkeys(("subscriptions", "pending_bytes", "in_msgs", "out_msgs"), 0)
    return {**row, "in_bytes": 0, "out_bytes": 0, "cid": cid, "rtt": "1ms", **members}


def page(*rows: dict[str, Any], total: int = 0) -> dict[str, Any]:
    """A worker's page of connections."""
    return {
        "server_id": "S",
        "num_connections": len(rows),
        "total": total or len(rows),
        "offset": 0,
        "limit": 1024,
        "connections": list(rows),
    }


def test_connections() -> None:
    """Rows stand in the order of all workers, say their worker, and are cut to the page."""
    documents = {
        1: page(connection(1), connection(4), total=9),
        2: page(connection(2), connection(3)),
    }
    shown = mergedConnections(documents, "cid", 1, 2)
    assert [(row["cid"], row["worker"]) for row in shown["connections"]] == [(2, 2), (3, 2)]
    assert (shown["total"], shown["num_connections"]) == (11, 2)
    assert (shown["offset"], shown["limit"]) == (1, 2)


ROWS = {
    "subs": ("subscriptions", 5, 3),
    "pending": ("pending_bytes", 5, 3),
    "msgs_to": ("out_msgs", 5, 3),
    "msgs_from": ("in_msgs", 5, 3),
    "bytes_to": ("out_bytes", 5, 3),
    "bytes_from": ("in_bytes", 5, 3),
    "last": ("last_activity", "2026-01-01T00:00:01.5Z", "2026-01-01T00:00:01Z"),
    "idle": ("last_activity", "2026-01-01T00:00:01Z", "2026-01-01T00:00:01.5Z"),
    "uptime": ("start", "2026-01-01T00:00:02Z", "2026-01-01T00:00:01Z"),
    "stop": ("stop", "2026-01-01T00:00:02Z", "2026-01-01T00:00:01Z"),
    "reason": ("reason", "Client Closed", "Stale Connection"),
    "rtt": ("rtt", "2ms", "150µs"),
}
"""A member of rows by the order that looks at it, with a value that stands first and another."""


@pytest.mark.parametrize("sort", ROWS)
def test_order(sort: str) -> None:
    """Rows of two workers stand as those of one would."""
    member, first, second = ROWS[sort]
    documents = {
        1: page(connection(1, **{member: second})),
        2: page(connection(2, **{member: first})),
    }
    shown = mergedConnections(documents, sort, 0, 9)
    assert [row["cid"] for row in shown["connections"]] == [2, 1]


def test_allOrders() -> None:
    """Every order of the page has its counterpart."""
    assert ORDERS.keys() == _RANKS.keys() == {"cid", "start", *ROWS}


def test_series() -> None:
    """Samples of the same name and labels are added up; each comment stands once."""
    one = '# HELP a text\n# TYPE a gauge\na{k="x y"} 1.0\na{k="z"} 2.0\n'
    other = '# HELP a text\n# TYPE a gauge\na{k="x y"} 3.5\n# HELP b text\nb 1.0\n'
    assert mergedSeries([one, other]) == (
        '# HELP a text\n# TYPE a gauge\na{k="x y"} 4.5\na{k="z"} 2.0\n# HELP b text\nb 1.0\n'
    )
