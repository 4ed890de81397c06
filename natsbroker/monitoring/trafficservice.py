"""
Events about traffic and interest, published as JSON in one account every few seconds, and stored
in a channel if one is configured::

    $NB.EVENT.TRAFFIC.<server id>       rows of traffic since the last event
    $NB.EVENT.INTEREST.<server id>      rows of interest, local and of other clusters

Rows that do not fit into one message come in several, numbered by C{part} of C{parts}. Without a
subscriber and without a channel no event is made.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from zope.interface import implementer

from natsbroker.interfaces import IBrokerHost, IInterestWatcher, IMessageBus
from natsbroker.monitoring.formats import decoded
from natsbroker.monitoring.subjecttraffic import prefixOf
from natsbroker.monitoring.traffic import Row, TrafficModel
from natsbroker.wire.instants import instant

_log = Logger(namespace="natsbroker.monitoring")

#: The prefixes of the subjects.
TRAFFIC = b"$NB.EVENT.TRAFFIC."
INTEREST = b"$NB.EVENT.INTEREST."

_TYPE = "io.natsbroker.event.v1."

#: The bytes of the rows in one message, if C{max_payload} allows it.
_LARGEST = 1 << 18


@implementer(IInterestWatcher)
class InterestByPrefix:
    """
    The interest of an account's subscriptions by subject prefix. Messages cost no time.

    @ivar patterns: by prefix the number of different patterns, with their queue groups.
    """

    def __init__(self, bus: IMessageBus, depth: int) -> None:
        self.patterns: Counter[bytes] = Counter()
        self._depth = depth
        self.stop: Callable[[], None] = bus.watchInterest(self)

    def interestGained(self, pattern: bytes, queue: bytes, weight: int) -> None:
        self.patterns[prefixOf(pattern, self._depth)] += 1

    def interestWeightChanged(self, pattern: bytes, queue: bytes, weight: int) -> None:
        """
        Weights are not counted.
        """

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
        store: Callable[[bytes], object] | None = None,
        closed: Callable[[], object] = lambda: None,
    ) -> None:
        """
        @param bus: of the account that receives the events; C{None} for none.
        @param closed: called after the last event.
        """
        self._host = host
        self._bus = bus
        self._interval = interval
        self._depth = depth
        self._most = most
        self._store = store
        self._closed = closed
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
        self._closed()
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
        found = rows() if isHeard or self._store is not None or kind == "traffic" else []
        if not isHeard and self._store is None:
            return
        pieces = list(_pieces(found, min(_LARGEST, int(self._host.settings.max_payload) // 2)))
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
            if self._store is not None:
                self._store(text)

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
                row = {"account": account, "peer_kind": "gateway", "peer": name}
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
