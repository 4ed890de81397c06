"""The page C{/metrics}; the first scrape loads prometheus-client (extra C{metrics})."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from types import ModuleType
from typing import Any

from natsbroker.interfaces.records import Histogram
from natsbroker.monitoring.answers import PAUSE, Answer, Pause, textAnswer
from natsbroker.monitoring.queries import Query

_MISSING = "/metrics needs prometheus-client: pip install 'natsbroker[metrics]'\n"
_UNAVAILABLE = 501


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


#: Makes the metrics of a service.
Contribution = Callable[[], Generator[Pause, None, list[MetricSeries]]]


class Metrics:
    def __init__(self, load: Callable[[], ModuleType | None] | None = None) -> None:
        """C{load} gives prometheus-client, or C{None} where it is not installed."""
        self._load = load or loadClient
        self.contributions: list[Contribution] = []

    def __call__(self, query: Query) -> Answer:
        client = self._load()
        if client is None:
            return textAnswer(_UNAVAILABLE, _MISSING)
        return Answer(200, client.CONTENT_TYPE_LATEST, self._body(client), isLong=True)

    def _body(self, client: ModuleType) -> Iterator[Any]:
        series = yield from self.series()
        for metric in series:
            yield client.generate_latest(_Collected(client, metric))
            yield PAUSE

    def series(self) -> Generator[Pause, None, list[MetricSeries]]:
        series: list[MetricSeries] = []
        for contribute in self.contributions:
            series += yield from contribute()
        return series


class _Collected:
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
        for labels, histogram in series.histograms:
            family.add_metric(labels, _buckets(histogram), histogram.total)
        yield family


def _buckets(histogram: Histogram) -> list[tuple[str, int]]:
    """Each bound as text, and how many values are not above it."""
    names = [*map(str, histogram.bounds), "+Inf"]
    return list(zip(names, accumulate(histogram.counts), strict=True))


def loadClient() -> ModuleType | None:
    """prometheus-client; C{None} if it is not installed."""
    try:
        import prometheus_client
    except ImportError:
        return None
    module: ModuleType = prometheus_client
    return module
