"""
Events about traffic and interest, published as JSON in one account every few seconds, and stored
in a channel if one is configured::

    $NB.EVENT.TRAFFIC.<server id>       rows of traffic since the last event
    $NB.EVENT.INTEREST.<server id>      rows of interest, local and of other clusters

Rows that do not fit into one message come in several, numbered by C{part} of C{parts}. Without a
subscriber and without a channel no event is made::

    services { traffic { interval: "10s", depth: 2, top: 1000, channel: "NB_EVENTS" } }

Rows are of what came since the last event, without members that are zero. Rows with a prefix are
exact sums over published messages; rows without one come from the counters of connections.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from twisted.application.service import IService, Service
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from zope.interface import implementer

from natsbroker.advisories import Advisory, ClientDisconnected, GatewayUnwanted
from natsbroker.interfaces import (
    IBrokerHost,
    IBrokerService,
    IInterestWatcher,
    IMessageBus,
    IObserver,
    IOptionsCheck,
)
from natsbroker.runtime.pluginoptions import PluginOptionError, refuseOthers
from natsbroker.services.subjecttraffic import REST, SubjectTraffic, prefixOf
from natsbroker.streaming.channelwriter import ChannelWriter
from natsbroker.system.pages import ServerPages
from natsbroker.wire.durations import secondsFrom
from natsbroker.wire.instants import instant
from natsbroker.wire.text import decoded, encoded

_KNOWN = ("account", "channel", "depth", "interval", "top")

#: The ranges of the numbers. Rows are made in one step of the reactor, so C{top} is bounded.
_INTERVAL = (0.1, 3600.0)
_DEPTH = (1, 16)
_TOP = (1, 20_000)


@implementer(IBrokerService, IOptionsCheck)
class TrafficPlugin:
    name = "traffic"

    def checkOptions(self, section: Mapping[str, Any], settings: Any) -> None:
        refuseOthers(section, *_KNOWN)
        _numbersIn(section)
        if section.get("channel") is not None and settings.streaming is None:
            raise PluginOptionError("channel", "channel needs a streaming block")

    def makeService(self, host: IBrokerHost, section: Mapping[str, Any]) -> IService:
        self.checkOptions(section, host.settings)
        writer = _writerFrom(host, section.get("channel"))
        bus = _busFrom(host, section.get("account"))
        service: IService = TrafficService(host, bus, *_numbersIn(section), writer)
        return service


READY_MADE = (TrafficPlugin(),)


def _busFrom(host: IBrokerHost, name: object) -> Any:
    settings = host.settings
    if name is None:
        return None if settings.no_system_account else host.bus(settings.system_account)
    try:
        return host.bus(str(name))
    except KeyError:
        raise PluginOptionError("account", f"there is no account {name}") from None


def _writerFrom(host: IBrokerHost, channel: object) -> ChannelWriter | None:
    if channel is None:
        return None
    streaming = host.settings.streaming
    bus, prefix = host.bus(streaming.account), streaming.discover_prefix
    return ChannelWriter(bus, host.reactor, str(channel), streaming.cluster_id, prefix)


def _numbersIn(section: Mapping[str, Any]) -> tuple[float, int, int]:
    return (
        _intervalFrom(section.get("interval", 10)),
        _countFrom("depth", section.get("depth", 2), *_DEPTH),
        _countFrom("top", section.get("top", 1000), *_TOP),
    )


def _intervalFrom(value: object) -> float:
    try:
        seconds = secondsFrom(value) if isinstance(value, str) else float(str(value))
    except ValueError:
        seconds = -1.0
    low, high = _INTERVAL
    if isinstance(value, bool) or not low <= seconds <= high:
        raise PluginOptionError("interval", f"interval must be {low:g} to {high:g} seconds")
    return seconds


def _countFrom(name: str, value: object, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise PluginOptionError(name, f"{name} must be a number from {low} to {high}")
    return value


Row = dict[str, Any]

_SLOW = "Slow Consumer"

#: The kind of peer by the name of the link statistics.
_BOOKS = {"routes": "route", "gateways": "gateway", "leafs": "leaf"}

_COUNTS = ("msgs_in", "bytes_in", "msgs_out", "bytes_out")


@implementer(IObserver)
class TrafficModel:
    def __init__(self, monitoring: ServerPages, depth: int, most: int) -> None:
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
        for traffic in counted:
            messages, size, copies, copiedSize = traffic.figures
            one = row(traffic.account, "client", "", traffic.prefix)
            one.update(dict(zip(_COUNTS, (messages, size, copies, copiedSize), strict=True)))
            if not traffic.isWanted:
                one["no_interest"] += messages
            for gateway in traffic.gateways:
                one = row(traffic.account, "gateway", gateway, traffic.prefix)
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
            yield route.account, "route", route.remoteName, route.number, route.counts
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


_log = Logger(namespace="natsbroker.monitoring")

#: The prefixes of the subjects.
TRAFFIC = b"$NB.EVENT.TRAFFIC."
INTEREST = b"$NB.EVENT.INTEREST."

_TYPE = "io.natsbroker.event.v1."

#: The bytes of the rows in one message, if C{max_payload} allows it.
_LARGEST = 1 << 18


@implementer(IInterestWatcher)
class InterestByPrefix:
    """Interest by subject prefix, at no cost for messages; C{patterns} counts different ones."""

    def __init__(self, bus: IMessageBus, depth: int) -> None:
        self.patterns: Counter[bytes] = Counter()
        self._depth = depth
        self.stop: Callable[[], None] = bus.watchInterest(self)

    def interestGained(self, pattern: bytes, queue: bytes, weight: int) -> None:
        self.patterns[prefixOf(pattern, self._depth)] += 1

    def interestWeightChanged(self, pattern: bytes, queue: bytes, weight: int) -> None:
        """Weights are not counted."""

    def interestLost(self, pattern: bytes, queue: bytes) -> None:
        prefix = prefixOf(pattern, self._depth)
        self.patterns[prefix] -= 1
        if self.patterns[prefix] <= 0:
            del self.patterns[prefix]


class TrafficService(Service):
    def __init__(
        self,
        host: IBrokerHost,
        bus: IMessageBus | None,
        interval: float,
        depth: int,
        most: int,
        writer: ChannelWriter | None = None,
    ) -> None:
        self._host = host
        self._bus = bus
        self._interval = interval
        self._depth = depth
        self._most = most
        self._writer = writer
        self._model: TrafficModel | None = None
        self._interests: dict[str, InterestByPrefix] = {}
        self._end: Callable[[], None] = lambda: None
        self._before = 0.0
        self._loop = LoopingCall(self._tick)
        self._loop.clock = host.reactor

    def startService(self) -> None:
        super().startService()  # type: ignore[no-untyped-call]
        self._before = self._host.reactor.seconds()
        self._model = TrafficModel(self._host.monitoring, self._depth, self._most)
        self._end = self._host.observe(self._model)
        self._host.watchAccounts(self._watch)
        self._loop.start(self._interval, now=False).addErrback(self._failed)

    def _watch(self, bus: IMessageBus) -> None:
        if self._model is not None:
            self._forget(bus.account)
            self._model.watch(bus)
            self._interests[bus.account] = InterestByPrefix(bus, self._depth)

    def _forget(self, account: str) -> None:
        counted = self._interests.pop(account, None)
        if counted is not None:
            counted.stop()

    def stopService(self) -> Deferred[None] | None:
        if self._loop.running:
            self._loop.stop()
        model, self._model = self._model, None
        if model is not None:
            model.stop()
        self._end()
        for name in list(self._interests):
            self._forget(name)
        if self._writer is not None:
            self._writer.close()
        stopping: Deferred[None] | None = super().stopService()  # type: ignore[no-untyped-call]
        return stopping

    def _failed(self, failure: Any) -> None:
        _log.failure("Traffic events have ended", failure)

    def _tick(self) -> None:
        if self._model is None:
            return
        now = self._host.reactor.seconds()
        seconds, self._before = now - self._before, now
        self._publish(TRAFFIC, "traffic", now, seconds, self._model.take)
        self._publish(INTEREST, "interest", now, seconds, lambda: list(self._interest()))

    def _publish(
        self, prefix: bytes, kind: str, now: float, seconds: float, rows: Callable[[], list[Row]]
    ) -> None:
        server = self._host.describe()
        subject = prefix + server["id"].encode()
        isHeard = self._bus is not None and self._bus.hasInterest(subject)
        # The rows of traffic are taken in any case: an event covers one interval.
        isWanted = isHeard or self._writer is not None
        listed = rows() if isWanted or kind == "traffic" else []
        if not isWanted:
            return
        pieces = list(_pieces(listed, min(_LARGEST, int(self._host.settings.max_payload) // 2)))
        for part, piece in enumerate(pieces):
            event = {
                "type": _TYPE + kind,
                "timestamp": instant(now),
                "seconds": round(seconds, 3),
                "server": {name: server[name] for name in ("id", "name")},
                "cluster": self._cluster,
                "part": part,
                "parts": len(pieces),
            }
            head = json.dumps(event)[:-1]
            text = f'{head}, "rows": [{",".join(piece)}]}}'.encode()
            if isHeard and self._bus is not None:
                self._bus.publishInternal(subject, text)
            if self._writer is not None:
                self._writer.write(text)

    @property
    def _cluster(self) -> str:
        settings = self._host.settings
        gateway, cluster = settings.gateway, settings.cluster
        return str((gateway and gateway.name) or (cluster and cluster.name) or "")

    def _interest(self) -> Iterator[Row]:
        for account, counted in self._interests.items():
            for prefix, count in counted.patterns.most_common(self._most):
                row = {"account": account, "peer_kind": "client", "peer": ""}
                yield {**row, "subject_prefix": decoded(prefix), "patterns": count}
        gateways = self._host.monitoring.links["gateway"].gateways
        for name, link in () if gateways is None else gateways.outbound():
            for account, figures in link.accounts().items():
                shown = encoded(account).decode()
                row = {"account": shown, "peer_kind": "gateway", "peer": name}
                refused = int(figures.get("no_interest", 0))
                yield {**row, "mode": str(figures["mode"]), "refused": refused}
                prefixes = {
                    prefixOf(pattern, self._depth): None
                    for _, (pattern, _) in zip(
                        range(self._most), link.interests(account), strict=False
                    )
                }
                for prefix in prefixes:
                    yield {**row, "subject_prefix": decoded(prefix)}


def _pieces(rows: list[Row], largest: int) -> Iterator[list[str]]:
    piece: list[str] = []
    size = 0
    for row in rows:
        text = json.dumps(row)
        if piece and size + len(text) > largest:
            yield piece
            piece, size = [], 0
        piece.append(text)
        size += len(text) + 1
    yield piece
