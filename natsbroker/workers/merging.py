"""One document from those that workers give for the same monitoring page, by nats-server's keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Any

from natsbroker.wire.durations import secondsFrom

Document = dict[str, Any]

_NUMBERS = """
bytes client_cnt clients connections conns consumers consumers_leader cpu errors gateways
in_bytes in_client_bytes in_client_msgs in_msgs inflight leafnode_cnt leafnodes leafs mem memory
messages msgs num_cache num_connections num_inserts num_matches num_removes num_routes
num_subscriptions out_bytes out_client_bytes out_client_msgs out_msgs remotes reserved_memory
reserved_storage routes slow_consumers stale_connections stalled_clients storage streams
streams_leader sub_cnt subscriptions total total_conns total_connections
"""

SUMMED = frozenset(_NUMBERS.split())
"""Keys whose numbers are those of one worker each."""

AVERAGED = frozenset({"avg_fanout", "cache_hit_rate"})

HIGHEST = frozenset({"max_fanout"})

EARLIEST = frozenset({"start"})
"""Keys of times: the server started with its first worker."""

JOINED = frozenset({"connections", "leafs", "routes", "stream_detail", "subscriptions_list"})
"""Keys of lists whose rows are those of one worker each."""

IDENTIFIED = {"account_details": "name", "account_statz": "acc"}
"""Keys of lists in which a row of one worker is a part of a row, by what names the row."""


def merged(documents: Sequence[Document]) -> Document:
    """
    One document of several with the same keys. What no table above names is alike in all of them;
    the first one's counts.
    """
    document: Document = {}
    for one in documents:
        for key in one:
            if key not in document:
                values = [other[key] for other in documents if key in other]
                document[key] = _member(key, values)
    return document


def _member(key: str, values: Sequence[Any]) -> Any:
    first = values[0]
    if isinstance(first, dict):
        return merged(values)
    if isinstance(first, list):
        return _list(key, values)
    if isinstance(first, int | float) and not isinstance(first, bool):
        if key in SUMMED:
            return sum(values)
        if key in AVERAGED:
            return sum(values) / len(values)
        if key in HIGHEST:
            return max(values)
    return min(values) if key in EARLIEST else first


def _list(key: str, lists: Sequence[list[Any]]) -> list[Any]:
    if key in JOINED:
        return [row for rows in lists for row in rows]
    name = IDENTIFIED.get(key)
    if name is None:
        return lists[0]
    parts: dict[Any, list[Document]] = {}
    for rows in lists:
        for row in rows:
            parts.setdefault(row[name], []).append(row)
    return [merged(rows) for rows in parts.values()]


def withNumbers(documents: Mapping[int, Document], key: str) -> list[Document]:
    """Documents whose rows in C{key} say which C{worker} they are from."""
    return [
        {**document, key: [{**row, "worker": number} for row in document.get(key, ())]}
        for number, document in documents.items()
    ]


def paged(document: Document, key: str, rows: Sequence[Any], offset: int, limit: int) -> Document:
    """A document with some of its rows, as a page of a list."""
    return {**document, "offset": offset, "limit": limit, key: rows[offset : offset + limit]}


def _instant(row: Document, key: str) -> str:
    """A time of nats-server, which drops zeros at the end of a fraction, for comparisons."""
    return str(row.get(key, "")).rstrip("Z")


class _Later(str):
    """A text that stands before smaller ones."""

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)


ORDERS: Mapping[str, Callable[[Document], Any]] = {
    "cid": lambda row: row["cid"],
    "start": lambda row: row["cid"],
    "subs": lambda row: -row["subscriptions"],
    "pending": lambda row: -row["pending_bytes"],
    "msgs_to": lambda row: -row["out_msgs"],
    "msgs_from": lambda row: -row["in_msgs"],
    "bytes_to": lambda row: -row["out_bytes"],
    "bytes_from": lambda row: -row["in_bytes"],
    "last": lambda row: _Later(_instant(row, "last_activity")),
    "idle": lambda row: _instant(row, "last_activity"),
    "uptime": lambda row: _Later(_instant(row, "start")),
    "stop": lambda row: _Later(_instant(row, "stop")),
    "reason": lambda row: row.get("reason", ""),
    "rtt": lambda row: -secondsFrom(row.get("rtt") or "0s"),
}
"""The orders of C{/connz} by the members of its rows; what is smaller stands first."""


def mergedConnections(
    documents: Mapping[int, Document], sort: str, offset: int, limit: int
) -> Document:
    """
    The page C{/connz} of all workers.

    @param documents: pages from the first connection on, by the worker's number.
    """
    numbered = withNumbers(documents, "connections")
    rows = merge(*(document["connections"] for document in numbered), key=ORDERS[sort])
    chosen = list(islice(rows, offset, offset + limit))
    head = merged([{**document, "connections": []} for document in numbered])
    counts = {"num_connections": len(chosen), "offset": offset, "limit": limit}
    return {**head, **counts, "connections": chosen}


def mergedSeries(texts: Sequence[str]) -> str:
    """
    One text of Prometheus' format from several, in which samples of the same name and labels are
    added up.
    """
    lines: dict[str, str] = {}
    sums: dict[str, float] = {}
    for text in texts:
        for line in text.splitlines():
            if line.startswith("#") or not line:
                lines.setdefault(line, line)
                continue
            series, _, value = line.rpartition(" ")
            lines.setdefault(series, "")
            sums[series] = sums.get(series, 0.0) + float(value)
    shown = (line or f"{series} {sums[series]!r}" for series, line in lines.items())
    return "".join(f"{line}\n" for line in shown)
