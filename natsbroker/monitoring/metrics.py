"""
The page C{/metrics} for Prometheus, with prometheus-client, which the extra C{metrics} installs. A
broker loads it with the first scrape.

Streams and consumers are gone through a few at a time. What a scrape shows of a consumer is what
the broker knows at that moment: nothing is read from a store.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from types import ModuleType
from typing import Any

from natsbroker.accounts.accstatz import Accstatz
from natsbroker.accounts.core import FAILING
from natsbroker.accounts.subsz import sublistFigures
from natsbroker.interfaces.records import Histogram
from natsbroker.jetstream.jsz import accountsOf
from natsbroker.monitoring.answers import PAUSE, Answer, Pause, textAnswer
from natsbroker.monitoring.queries import Query
from natsbroker.monitoring.state import BrokerState
from natsbroker.monitoring.varz import Varz
from natsbroker.runtime.observers import PluginCalls

_MISSING = "/metrics needs prometheus-client: pip install 'natsbroker[metrics]'\n"
_UNAVAILABLE = 501

#: How many consumers are gone through in one step.
_STEP = 64


@dataclass
class MetricSeries:
    """
    The samples of one metric.

    @ivar labels: the names of the labels.
    @ivar samples: the values of the labels and of the metric.
    @ivar histograms: in place of samples.
    """

    name: str
    text: str
    labels: tuple[str, ...] = ()
    isCounter: bool = False
    samples: list[tuple[tuple[str, ...], float]] = field(default_factory=list)
    histograms: list[tuple[tuple[str, ...], Histogram]] = field(default_factory=list)

    def add(self, value: float, *labels: str) -> None:
        self.samples.append((labels, value))


#: The members of L{Histogram}.
TurnLengths = tuple[Sequence[float], Sequence[int], float]

#: Makes the metrics of a service.
Contribution = Callable[[], Generator[Pause, None, list[MetricSeries]]]


class Metrics:
    """
    @ivar contributions: the metrics of services, each made in small steps.
    @ivar turnLengths: gives L{natsbroker.connections.poller.SocketPoller.turnLengths}; C{None}
        without a poller.
    @ivar plugins: gives kind and name of each plugin that is in use.
    @ivar observerCalls: the calls into observers.
    """

    def __init__(
        self,
        state: BrokerState,
        varz: Varz,
        accstatz: Accstatz,
        jetstream: Callable[[], Any],
        load: Callable[[], ModuleType | None] | None = None,
    ) -> None:
        """
        @param jetstream: gives L{natsbroker.jetstream.figures.JetStreamFigures}, or C{None}.
        @param load: gives prometheus-client, or C{None} where it is not installed.
        """
        self._state = state
        self._varz = varz
        self._accstatz = accstatz
        self._jetstream = jetstream
        self._load = load or loadClient
        self.contributions: list[Contribution] = []
        self.turnLengths: Callable[[], TurnLengths | None] = lambda: None
        self.plugins: Callable[[], Iterable[tuple[str, str]]] = tuple
        self.observerCalls = PluginCalls()

    def __call__(self, query: Query) -> Answer:
        client = self._load()
        if client is None:
            return textAnswer(_UNAVAILABLE, _MISSING)
        return Answer(200, client.CONTENT_TYPE_LATEST, self._body(client), isLong=True)

    def _body(self, client: ModuleType) -> Iterator[Any]:
        series = yield from self.series()
        for each in series:
            yield client.generate_latest(_Collected(client, each))
            yield PAUSE

    def series(self) -> Generator[Pause, None, list[MetricSeries]]:
        """
        @return: all metrics, with their samples.
        """
        found = list(self._process())
        traffic = yield from self._varz.traffic()
        found += self._connections(traffic)
        rows = yield from self._accstatz.rows(None, True)
        found += _accounts(rows)
        found += yield from self._interest()
        found += self._links()
        found += self._turns()
        found += self._plugins()
        found += yield from _jetStream(accountsOf(self._jetstream()))
        for each in self.contributions:
            found += yield from each()
        return found

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
        cached = MetricSeries("match_cache_entries", "Remembered answers to: who receives it?")
        cached.add(figures["num_cache"])
        matches = MetricSeries("matches", "Look-ups of receivers.", ("answer",), True)
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
            pending.add(sum(each.outbox.pending for each in links), kind)
            longest: dict[str, float] = {}
            for each in links:
                if each.remote:
                    longest[each.remote] = max(longest.get(each.remote, 0.0), each.roundTrip)
            for peer, seconds in longest.items():
                trip.add(seconds, kind, peer)
        return number, pending, trip

    def _turns(self) -> Iterable[MetricSeries]:
        lengths = self.turnLengths()
        if lengths is not None:
            text = "How long the broker was busy with what connections had ready at a time."
            yield MetricSeries("turn_seconds", text, histograms=[((), Histogram(*lengths))])

    def _plugins(self) -> Iterable[MetricSeries]:
        info = MetricSeries("plugin_info", "What the broker consists of.", ("kind", "name"))
        for kind, name in self.plugins():
            info.add(1, kind, name)
        labels = ("kind",)
        number = MetricSeries("plugin_calls", "Calls that have begun.", labels, True)
        text = "How long these calls took until they were answered."
        seconds = MetricSeries("plugin_seconds", text, labels, True)
        failures = MetricSeries("plugin_failures", "Calls that raised.", labels, True)
        calls = {"authorizer": self._state.context.logins, "observer": self.observerCalls}
        for kind, each in calls.items():
            number.add(each.number, kind)
            seconds.add(each.seconds, kind)
            failures.add(each.failures, kind)
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


def _jetStream(accounts: Mapping[str, Any]) -> Generator[Pause, None, list[MetricSeries]]:
    """
    @param accounts: L{natsbroker.jetstream.account.JetStreamAccount} by name.
    """
    labels = ("account", "stream")
    messages = MetricSeries("stream_messages", "Messages in a stream.", labels)
    size = MetricSeries("stream_bytes", "Bytes of these messages.", labels)
    last = MetricSeries("stream_last_sequence", "The sequence of the last message.", labels)
    names = (*labels, "consumer")
    consumers = {
        "num_pending": MetricSeries("consumer_pending", "Messages to deliver.", names),
        "num_ack_pending": MetricSeries("consumer_ack_pending", "Not acknowledged yet.", names),
        "num_redelivered": MetricSeries("consumer_redelivered", "Delivered again.", names),
        "num_waiting": MetricSeries("consumer_waiting", "Pull requests that wait.", names),
    }
    number = 0
    for name, account in list(accounts.items()):
        for stream in list(account.streams.values()):
            messages.add(stream.messages, name, stream.name)
            size.add(stream.size, name, stream.name)
            last.add(stream.last, name, stream.name)
            for consumer in list(stream.consumers.values()):
                shown = consumer.info()
                for key, series in consumers.items():
                    series.add(shown[key], name, stream.name, consumer.name)
                number += 1
                if number % _STEP == 0:
                    yield PAUSE
            yield PAUSE
    return [messages, size, last, *consumers.values()]


class _Collected:
    """One metric, as prometheus-client collects it."""

    def __init__(self, client: ModuleType, series: MetricSeries) -> None:
        self._client = client
        self._series = series

    def collect(self) -> Iterator[Any]:
        series, metrics = self._series, self._client.metrics_core
        kind = metrics.CounterMetricFamily if series.isCounter else metrics.GaugeMetricFamily
        if series.histograms:
            kind = metrics.HistogramMetricFamily
        family = kind(f"natsbroker_{series.name}", series.text, labels=series.labels)
        for labels, value in series.samples:
            family.add_metric(labels, value)
        for labels, each in series.histograms:
            family.add_metric(labels, _buckets(each), each.total)
        yield family


def _buckets(histogram: Histogram) -> list[tuple[str, int]]:
    """
    @return: each bound as text, and how many values are not above it.
    """
    names = [*map(str, histogram.bounds), "+Inf"]
    return list(zip(names, accumulate(histogram.counts), strict=True))


def loadClient() -> ModuleType | None:
    """
    @return: prometheus-client; C{None} if it is not installed.
    """
    try:
        import prometheus_client
    except ImportError:
        return None
    module: ModuleType = prometheus_client
    return module
