"""
One document from the documents of all workers for the same monitoring page, by nats-server's keys,
and one set of metrics from theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from natsbroker.interfaces.records import Histogram
from natsbroker.monitoring.formats import number
from natsbroker.monitoring.metrics import MetricSeries

Document = dict[str, Any]

Rule = Callable[[Sequence[Any], Sequence[Document]], Any]
"""Makes one value of those of several workers, from whose documents they are."""


def _added(values: Sequence[Any], documents: Sequence[Document]) -> Any:
    """The sum of values that are separate at each worker. Lists are joined."""
    if isinstance(values[0], list):
        return [row for rows in values for row in rows]
    return number(round(sum(values), 6))


def _united(values: Sequence[Any], documents: Sequence[Document]) -> Any:
    """The union of values that several workers may share. Of numbers it is the largest."""
    if isinstance(values[0], list):
        return list(dict.fromkeys(name for names in values for name in names))
    return max(values)


def _first(values: Sequence[Any], documents: Sequence[Document]) -> Any:
    return values[0]


def _longest(values: Sequence[Any], documents: Sequence[Document]) -> Any:
    return max(values, key=len)


def _lowest(values: Sequence[Any], documents: Sequence[Document]) -> Any:
    return min(values)


def _weighted(weight: str) -> Rule:
    """
    @param weight: the key of the number by which the averages are weighted.
    """

    def average(values: Sequence[float], documents: Sequence[Document]) -> float:
        weights = [document[weight] for document in documents]
        products = sum(value * count for value, count in zip(values, weights, strict=True))
        return number(products / sum(weights)) if sum(weights) else 0

    return average


def _identified(name: str, key: str) -> Rule:
    """
    Rows with the same name, merged to one row.

    @param name: the key of the name in a row.
    @param key: the key of the list.
    """

    def merge(values: Sequence[list[Document]], documents: Sequence[Document]) -> list[Document]:
        parts: dict[Any, list[Document]] = {}
        for rows in values:
            for row in rows:
                parts.setdefault(row[name], []).append(row)
        return [merged(rows, key) for rows in parts.values()]

    return merge


def _listsByName(values: Sequence[Document], documents: Sequence[Document]) -> Document:
    lists: Document = {}
    for value in values:
        for name, rows in value.items():
            lists[name] = [*lists.get(name, ()), *rows]
    return lists


_ADDED = """
bytes client_cnt client_connections clients connections conns consumers consumers_leader count cpu
errors gateways gomaxprocs ha_assets in_bytes in_client_bytes in_client_msgs in_msgs inflight
leafnode_cnt leafnode_connections leafnodes leafs mem memory messages msgs num_cache
num_connections num_inserts num_matches num_removes num_routes num_subscriptions out_bytes
out_client_bytes out_client_msgs out_msgs reactor.held reactor.seconds remotes reserved_memory
reserved_storage routes slow_consumers stale_connections stalled_clients storage stream_detail
streams streams_leader sub_cnt subscriptions subscriptions_list total total_conns total_connections
"""

_rowsOfAccounts = _identified("name", "accounts")


def _ofAccounts(values: Sequence[Any], documents: Sequence[Document]) -> Any:
    """The number of accounts, their names, or the rows that a gateway has for them."""
    lists = [value for value in values if isinstance(value, list)]
    hasRows = any(isinstance(row, dict) for rows in lists for row in rows)
    return (_rowsOfAccounts if hasRows else _united)(values, documents)


_UNITED = """
active_accounts complete config_load_time jetstream_enabled level max_fanout now
reactor.longest jsz.total account_details.reserved_memory account_details.reserved_storage
accounts.no_interest_count accounts.num_subs accounts.num_queue_subs accounts.switches
accounts.last_switch
"""

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_ADDED.split(), _added),
    **dict.fromkeys(_UNITED.split(), _united),
    "accounts": _ofAccounts,
    "accounts.subscriptions_list": _longest,
    "start": _lowest,
    "avg_fanout": _weighted("num_cache"),
    "cache_hit_rate": _weighted("num_matches"),
    "account_details": _identified("name", "account_details"),
    "account_statz": _identified("acc", "account_statz"),
    "inbound_gateways": _listsByName,
}
"""
The rules of keys, on any page or, behind the name of a page or a list and a dot, there only. Values
of other keys are settings and descriptions, alike in all workers: the first one's is shown.
"""


def merged(documents: Sequence[Document], place: str = "") -> Document:
    """
    One document from several with the same keys.

    @param place: the name of the page, or the key of the documents.
    """
    document: Document = {}
    for one in documents:
        for key in one:
            if key not in document:
                having = [other for other in documents if other.get(key) is not None] or [one]
                document[key] = _member(place, key, having)
    return document


def _member(place: str, key: str, documents: Sequence[Document]) -> Any:
    values = [document[key] for document in documents]
    rule = RULES.get(f"{place}.{key}") or RULES.get(key)
    if isinstance(values[0], dict) and rule is not _listsByName:
        return merged(values, key)
    return (rule or _first)(values, documents)


SERIES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "link_rtt_seconds": max,
    "plugin_info": max,
    "scrub_last_pass_time_seconds": min,
    "scrub_position_ratio": min,
    "start_time_seconds": min,
}
"""The rules of metrics; the samples of others are added up."""


def mergedSeries(parts: Sequence[Sequence[MetricSeries]]) -> list[MetricSeries]:
    """Metrics of several workers, each with the samples of all."""
    families: dict[str, list[MetricSeries]] = {}
    for part in parts:
        for series in part:
            families.setdefault(series.name, []).append(series)
    return [_family(family) for family in families.values()]


def _family(family: Sequence[MetricSeries]) -> MetricSeries:
    first = family[0]
    rule = SERIES.get(first.name, sum)
    samples: dict[tuple[str, ...], list[float]] = {}
    histograms: dict[tuple[str, ...], list[Histogram]] = {}
    for series in family:
        for labels, value in series.samples:
            samples.setdefault(labels, []).append(value)
        for labels, histogram in series.histograms:
            histograms.setdefault(labels, []).append(histogram)
    return MetricSeries(
        first.name,
        first.text,
        first.labels,
        first.isCounter,
        [(labels, rule(values)) for labels, values in samples.items()],
        [(labels, _histogram(parts)) for labels, parts in histograms.items()],
    )


def _histogram(parts: Sequence[Histogram]) -> Histogram:
    counts = [sum(column) for column in zip(*(part.counts for part in parts), strict=True)]
    return Histogram(parts[0].bounds, counts, sum(part.total for part in parts))
