"""
The broker's own events: what passed, and what is wanted, every few seconds.

They are published in one account as JSON, and stored in a channel where one was given::

    $NB.EVENT.TRAFFIC.<server id>       rows of what passed since the event before
    $NB.EVENT.INTEREST.<server id>      rows of what is subscribed to, here and elsewhere

Promises: rows that are too many for one message come in several, whose C{part} and C{parts} say so;
where nobody listens and nothing is stored, nothing is made.
Must never know: how anything was counted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from natsbroker.interfaces import IBrokerHost, IMessageBus
from natsbroker.monitoring.demand import Demand
from natsbroker.monitoring.formats import shown
from natsbroker.monitoring.subjecttraffic import prefixOf
from natsbroker.monitoring.traffic import Row, TrafficModel
from natsbroker.wire.instants import instant

__all__ = ["INTEREST", "TRAFFIC", "TrafficService"]

_log = Logger(namespace="natsbroker.monitoring")

#: How subjects of events begin.
TRAFFIC = b"$NB.EVENT.TRAFFIC."
INTEREST = b"$NB.EVENT.INTEREST."

_TYPE = "io.natsbroker.event.v1."

#: How large the rows of one message are, in bytes, where C{max_payload} allows it.
_LARGEST = 1 << 18


class TrafficService(Service):
    """
    Counts while it runs.
    """

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
        @param bus: of the account that events are published in; C{None} for none.
        @param interval: how often, in seconds.
        @param depth: how many tokens of subjects are told apart.
        @param most: how many rows with a prefix there are at most.
        @param store: stores an event too.
        @param closed: called when there will be no more.
        """
        self._host = host
        self._bus = bus
        self._interval = interval
        self._depth = depth
        self._most = most
        self._store = store
        self._closed = closed
        self._model: TrafficModel | None = None
        self._demands: dict[str, Demand] = {}
        self._end: Callable[[], None] = lambda: None
        self._before = 0.0
        self._loop = LoopingCall(self._tick)
        self._loop.clock = host.reactor

    def startService(self) -> None:
        """
        Begin to count.
        """
        super().startService()  # type: ignore[no-untyped-call]
        self._before = self._host.reactor.seconds()
        self._model = TrafficModel(self._host.monitoring, self._depth, self._most)
        self._end = self._host.observe(self._model)
        self._host.watchAccounts(self._watch)
        self._loop.start(self._interval, now=False).addErrback(self._failed)

    def _watch(self, bus: IMessageBus) -> None:
        """
        There is an account.
        """
        if self._model is not None:
            self._forget(bus.account)
            self._model.watch(bus)
            self._demands[bus.account] = Demand(bus, self._depth)

    def _forget(self, account: str) -> None:
        demand = self._demands.pop(account, None)
        if demand is not None:
            demand.stop()

    def stopService(self) -> Deferred[None] | None:
        """
        Count no more.
        """
        if self._loop.running:
            self._loop.stop()
        model, self._model = self._model, None
        if model is not None:
            model.stop()
        self._end()
        for name in list(self._demands):
            self._forget(name)
        self._closed()
        stopping: Deferred[None] | None = super().stopService()  # type: ignore[no-untyped-call]
        return stopping

    def _failed(self, failure: Any) -> None:
        _log.failure("No traffic is told of any more", failure)

    def _tick(self) -> None:
        if self._model is None:
            return
        now = self._host.reactor.seconds()
        seconds, self._before = now - self._before, now
        self._tell(TRAFFIC, "traffic", now, seconds, self._model.take)
        self._tell(INTEREST, "interest", now, seconds, lambda: list(self._interest()))

    def _tell(
        self, prefix: bytes, kind: str, now: float, seconds: float, rows: Callable[[], list[Row]]
    ) -> None:
        """
        Publish one kind of event.
        """
        server = self._host.describe()
        subject = prefix + server["id"].encode()
        isHeard = self._bus is not None and self._bus.hasInterest(subject)
        # What was counted is taken in any case: an event tells of one interval.
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
                self._bus.post(subject, text)
            if self._store is not None:
                self._store(text)

    @property
    def _cluster(self) -> str:
        """
        What the gateway, or else the cluster, is called.
        """
        settings = self._host.settings
        gateway, cluster = settings.gateway, settings.cluster
        return str((gateway and gateway.name) or (cluster and cluster.name) or "")

    def _interest(self) -> Iterator[Row]:
        """
        What is subscribed to here, by what patterns begin with, and what is known of others.
        """
        for account, demand in self._demands.items():
            for prefix, count in demand.patterns.most_common(self._most):
                row = {"account": account, "peer_kind": "client", "peer": ""}
                yield {**row, "subject_prefix": shown(prefix), "patterns": count}
        gateways = self._host.monitoring.gatewayz.gateways
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
                    yield {**row, "subject_prefix": shown(prefix)}


def _pieces(rows: list[Row], largest: int) -> Iterator[list[str]]:
    """
    The rows as JSON, so many at a time as fit; once none if there are none.
    """
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
