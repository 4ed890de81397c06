"""The metrics of the whole broker: process, connections, accounts, links and plugins."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

from natsbroker.accounts.core import FAILING
from natsbroker.clients.state import BrokerState
from natsbroker.interfaces.records import Histogram
from natsbroker.monitoring.answers import Pause
from natsbroker.monitoring.metrics import MetricSeries
from natsbroker.runtime.observers import PluginCalls
from natsbroker.system.accstatz import Accstatz
from natsbroker.system.subsz import sublistFigures
from natsbroker.system.varz import Varz

#: The members of L{Histogram}.
TurnLengths = tuple[Sequence[float], Sequence[int], float]


class ServerMetrics:
    """
    @ivar turnLengths: gives L{natsbroker.connections.poller.SocketPoller.turnLengths}; C{None}
        without a poller.
    @ivar plugins: gives kind and name of each plugin that is in use.
    @ivar observerCalls: the calls into observers.
    """

    def __init__(self, state: BrokerState, varz: Varz, accstatz: Accstatz) -> None:
        self._state = state
        self._varz = varz
        self._accstatz = accstatz
        self.turnLengths: Callable[[], TurnLengths | None] = lambda: None
        self.plugins: Callable[[], Iterable[tuple[str, str]]] = tuple
        self.observerCalls = PluginCalls()

    def series(self) -> Generator[Pause, None, list[MetricSeries]]:
        series = list(self._process())
        traffic = yield from self._varz.traffic()
        series += self._connections(traffic)
        rows = yield from self._accstatz.rows(None, True)
        series += _accounts(rows)
        series += yield from self._interest()
        series += self._links()
        series += self._turns()
        series += self._plugins()
        return series

    def _process(self) -> Iterable[MetricSeries]:
        state = self._state
        memory = MetricSeries("memory_bytes", "Resident memory of the broker.")
        memory.add(state.process.memory())
        started = MetricSeries("start_time_seconds", "When the broker was started.")
        started.add(state.startTime)
        return memory, started

    def _connections(self, traffic: list[int]) -> Iterable[MetricSeries]:
        connections = self._state.context.connections
        now = MetricSeries("connections", "Open client connections.")
        now.add(len(connections))
        every = MetricSeries("client_connections", "Client connections so far.", isCounter=True)
        every.add(connections.total)
        text = "Client connections closed because they read too slowly."
        slow = MetricSeries("slow_consumers", text, ("reason",), isCounter=True)
        for reason, count in sorted(connections.slow.items()):
            slow.add(count, reason)
        labels = ("direction",)
        messages = MetricSeries("client_messages", "Messages of all clients.", labels, True)
        size = MetricSeries("client_bytes", "Bytes of these messages.", labels, True)
        for direction, place in (("in", 0), ("out", 2)):
            messages.add(traffic[place], direction)
            size.add(traffic[place + 1], direction)
        return now, every, slow, messages, size

    def _interest(self) -> Generator[Pause, None, Iterable[MetricSeries]]:
        figures = yield from sublistFigures(self._state.accounts)
        interest = MetricSeries("subscriptions", "Subscriptions in all accounts.")
        interest.add(figures["num_subscriptions"])
        cached = MetricSeries("match_cache_entries", "Cached lists of receivers.")
        cached.add(figures["num_cache"])
        matches = MetricSeries(
            "matches", "Look-ups of receivers, in the cache or not.", ("answer",), True
        )
        hits = round(figures["num_matches"] * figures["cache_hit_rate"])
        matches.add(hits, "remembered")
        matches.add(figures["num_matches"] - hits, "computed")
        return interest, cached, matches

    def _links(self) -> Iterable[MetricSeries]:
        labels = ("kind", "direction")
        messages = MetricSeries("link_messages", "Messages over links.", labels, True)
        size = MetricSeries("link_bytes", "Bytes of these messages.", labels, True)
        for kind, statistics in self._varz.statistics.items():
            for direction, place in (("in", 0), ("out", 2)):
                messages.add(statistics.traffic[place], kind, direction)
                size.add(statistics.traffic[place + 1], kind, direction)
        return messages, size, *self._linkStates()

    def _linkStates(self) -> Iterable[MetricSeries]:
        number = MetricSeries("links", "Open links.", ("kind",))
        pending = MetricSeries("link_pending_bytes", "Bytes that wait to be sent.", ("kind",))
        text = "The round trip to a peer, the longest of its links."
        trip = MetricSeries("link_rtt_seconds", text, ("kind", "peer"))
        for kind, registry in self._varz.statistics.items():
            links = list(registry.everyone())
            number.add(len(links), kind)
            pending.add(sum(link.outbox.pending for link in links), kind)
            longest: dict[str, float] = {}
            for link in links:
                if link.remoteName:
                    longest[link.remoteName] = max(
                        longest.get(link.remoteName, 0.0), link.roundTrip
                    )
            for peer, seconds in longest.items():
                trip.add(seconds, kind, peer)
        return number, pending, trip

    def _turns(self) -> Iterable[MetricSeries]:
        lengths = self.turnLengths()
        if lengths is not None:
            text = "The time that the broker worked on the connections that were ready at once."
            yield MetricSeries("turn_seconds", text, histograms=[((), Histogram(*lengths))])

    def _plugins(self) -> Iterable[MetricSeries]:
        info = MetricSeries("plugin_info", "The parts of the broker.", ("kind", "name"))
        for kind, name in self.plugins():
            info.add(1, kind, name)
        labels = ("kind",)
        number = MetricSeries("plugin_calls", "Calls that have begun.", labels, True)
        text = "How long these calls took until they were answered."
        seconds = MetricSeries("plugin_seconds", text, labels, True)
        failures = MetricSeries("plugin_failures", "Calls that raised.", labels, True)
        calls = {"authorizer": self._state.context.logins, "observer": self.observerCalls}
        for kind, call in calls.items():
            number.add(call.number, kind)
            seconds.add(call.seconds, kind)
            failures.add(call.failures, kind)
        for kind in FAILING:
            failures.add(self._state.context.accounts.failures[kind], kind)
        return info, number, seconds, failures


def _accounts(rows: Iterable[Mapping[str, Any]]) -> Iterable[MetricSeries]:
    connections = MetricSeries("account_connections", "Connections.", ("account", "kind"))
    labels = ("account", "kind", "direction")
    messages = MetricSeries("account_messages", "Messages of an account.", labels, True)
    size = MetricSeries("account_bytes", "Bytes of these messages.", labels, True)
    for row in rows:
        name = row["acc"]
        connections.add(row["conns"], name, "client")
        connections.add(row["leafnodes"], name, "leaf")
        for key, direction in (("received", "in"), ("sent", "out")):
            every, leafs = row[key], row[key]["leafs"]
            messages.add(every["msgs"] - leafs["msgs"], name, "client", direction)
            messages.add(leafs["msgs"], name, "leaf", direction)
            size.add(every["bytes"] - leafs["bytes"], name, "client", direction)
            size.add(leafs["bytes"], name, "leaf", direction)
    return connections, messages, size
