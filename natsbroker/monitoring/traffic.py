"""
Rows of traffic since the last report, without members that are zero. Rows with a prefix are exact
sums over published messages; rows without one come from the counters of connections.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from zope.interface import implementer

from natsbroker.advisories import Advisory, ClientDisconnected, GatewayUnwanted
from natsbroker.interfaces import IMessageBus, IObserver
from natsbroker.monitoring.formats import decoded
from natsbroker.monitoring.model import MonitoringModel
from natsbroker.monitoring.subjecttraffic import REST, SubjectTraffic, prefixOf

Row = dict[str, Any]

_SLOW = "Slow Consumer"

#: The kind of peer by the name of the link statistics.
_BOOKS = {"routes": "route", "gateways": "gateway", "leafs": "leaf"}

_COUNTS = ("msgs_in", "bytes_in", "msgs_out", "bytes_out")


@implementer(IObserver)
class TrafficModel:
    def __init__(self, monitoring: MonitoringModel, depth: int, most: int) -> None:
        self._monitoring = monitoring
        self._depth = depth
        self._most = most
        self._subjects = SubjectTraffic(depth, most)
        self._buses: dict[str, IMessageBus] = {}
        self._unwanted: dict[tuple[str, str, bytes], list[int]] = {}
        self._slow: Counter[str] = Counter()
        self._links: dict[tuple[str, str, str, int], tuple[int, ...]] = {}
        self._books: dict[str, int] = {}

    def watch(self, bus: IMessageBus) -> None:
        name = bus.account
        self._buses[name] = bus
        bus.matcher.counterFor = partial(self._subjects.counterOf, name)
        bus.matcher.changed(b">")

    def stop(self) -> None:
        buses, self._buses = self._buses, {}
        for bus in buses.values():
            bus.matcher.counterFor = None
            bus.matcher.changed(b">")

    def observe(self, advisory: Advisory) -> None:
        if isinstance(advisory, GatewayUnwanted):
            key = (advisory.account, advisory.gateway, prefixOf(advisory.subject, self._depth))
            if key not in self._unwanted and len(self._unwanted) >= self._most:
                key = (advisory.account, advisory.gateway, REST)
            counts = self._unwanted.setdefault(key, [0, 0, 0])
            counts[0] += 1
            counts[1] += advisory.size
            counts[2] += advisory.isTold
        elif isinstance(advisory, ClientDisconnected) and advisory.reason.startswith(_SLOW):
            self._slow[advisory.account] += 1

    def take(self) -> list[Row]:
        rows: dict[tuple[str, str, str, str], Counter[str]] = {}

        def row(account: str, kind: str, peer: str, prefix: bytes) -> Counter[str]:
            return rows.setdefault((account, kind, peer, decoded(prefix)), Counter())

        counted, displaced = self._subjects.take()
        for name in displaced or ():
            for bus in self._buses.values() if not name else filter(None, [self._buses.get(name)]):
                bus.matcher.changed(b">")
        for each in counted:
            messages, size, copies, copiedSize = each.figures
            one = row(each.account, "client", "", each.prefix)
            one.update(dict(zip(_COUNTS, (messages, size, copies, copiedSize), strict=True)))
            if not each.isWanted:
                one["no_interest"] += messages
            for gateway in each.gateways:
                one = row(each.account, "gateway", gateway, each.prefix)
                one.update(msgs_out=messages, bytes_out=size)
        unwanted, self._unwanted = self._unwanted, {}
        for (account, gateway, prefix), (messages, size, told) in unwanted.items():
            one = row(account, "gateway", gateway, prefix)
            one.update(msgs_in=messages, bytes_in=size, no_interest=messages, rs_minus_sent=told)
        slow, self._slow = self._slow, Counter()
        for account, count in slow.items():
            row(account, "client", "", b"")["slow_drops"] += count
        for account, kind, peer, counts in self._passed():
            row(account, kind, peer, b"").update(dict(zip(_COUNTS, counts, strict=True)))
        for kind, count in self._cut():
            row("", kind, "", b"")["slow_drops"] += count
        return [_shownRow(key, counts) for key, counts in rows.items() if any(counts.values())]

    def _passed(self) -> Iterator[tuple[str, str, str, tuple[int, ...]]]:
        before, self._links = self._links, {}
        for account, kind, peer, number, counts in self._linkTraffic():
            key = (account, kind, peer, number)
            self._links[key] = counts
            old = before.get(key, (0, 0, 0, 0))
            yield account, kind, peer, tuple(a - b for a, b in zip(counts, old, strict=True))

    def _linkTraffic(self) -> Iterable[tuple[str, str, str, int, tuple[int, ...]]]:
        pages = self._monitoring
        gateways = pages.links["gateway"].gateways
        if gateways is not None:
            for name, link in (*gateways.outbound(), *gateways.inbound()):
                yield "", "gateway", name, link.link.number, link.link.counts
        for route in pages.links["route"].routes():
            yield route.account, "route", route.remote, route.number, route.counts
        for leaf in pages.links["leaf"].leafs:
            yield leaf.account, "leaf", leaf.name, leaf.number, leaf.counts

    def _cut(self) -> Iterator[tuple[str, int]]:
        for name, kind in _BOOKS.items():
            book = self._monitoring.varz.statistics.get(name)
            if book is not None:
                before, self._books[name] = self._books.get(name, 0), book.slow
                yield kind, book.slow - before


def _shownRow(key: tuple[str, str, str, str], counts: Counter[str]) -> Row:
    account, kind, peer, prefix = key
    row: Row = {"account": account, "peer_kind": kind, "peer": peer, "subject_prefix": prefix}
    row.update((name, count) for name, count in counts.items() if count)
    return row
