"""Tests for L{natsbroker.monitoring.storemetrics}."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from zope.interface import directlyProvides

from natsbroker.interfaces import IMeasuredStore
from natsbroker.interfaces.records import Histogram, ScrubFigures, StoreFigures
from natsbroker.monitoring.answers import complete
from natsbroker.monitoring.metrics import MetricSeries
from natsbroker.monitoring.storemetrics import storeSeries
from natsbroker.storage.memory import MemoryStore
from natsbroker.testing.memory import MemoryReactor
from tests.monitoring.staging import Stage


class Measured:
    """
    A store with figures.
    """

    def __init__(self, scrub: ScrubFigures | None) -> None:
        directlyProvides(self, IMeasuredStore)
        self._scrub = scrub

    def figures(self) -> StoreFigures:
        """The figures of the store."""
        return StoreFigures(
            Histogram((0.001, 0.01), (3, 1, 0), 0.02),
            Histogram((0.001, 0.01), (4, 1, 0), 0.015),
            Histogram((1.0,), (2, 2), 10.0),
            Histogram((64.0,), (0, 4), 4000.0),
            damagedRecords=7,
            damagedValues=1,
            scrub=self._scrub,
        )


def seriesOf(**stores: Any) -> dict[str, MetricSeries]:
    """The metrics of stores by name."""
    metrics = complete(storeSeries({name: partial(stores.get, name) for name in stores}))
    return {metric.name: metric for metric in metrics}


def test_figures() -> None:
    """Each store has its histograms and the figures of its damage."""
    series = seriesOf(streaming=Measured(None), jetstream=Measured(ScrubFigures()))
    commits = series["store_commit_seconds"].histograms
    assert [labels for labels, _ in commits] == [("streaming",), ("jetstream",)]
    assert commits[0][1].total == 0.02
    assert series["store_sync_seconds"].histograms[0][1].total == 0.015
    assert series["store_commit_records"].histograms[0][1].total == 10.0
    assert series["store_commit_bytes"].histograms[0][1].total == 4000.0
    assert dict(series["store_damaged_records"].samples) == {("streaming",): 7, ("jetstream",): 7}
    assert dict(series["store_damaged_values"].samples) == {("streaming",): 1, ("jetstream",): 1}


def test_scrubber() -> None:
    """Only a store that verifies its records has metrics of verification."""
    scrubbed = Measured(ScrubFigures(1000, 2, 0.5, 1_795_190_400.0))
    series = seriesOf(streaming=Measured(None), jetstream=scrubbed)
    assert series["scrub_records"].samples == [(("jetstream",), 1000)]
    assert series["scrub_passes"].samples == [(("jetstream",), 2)]
    assert series["scrub_position_ratio"].samples == [(("jetstream",), 0.5)]
    assert series["scrub_last_pass_time_seconds"].samples == [(("jetstream",), 1_795_190_400.0)]
    assert not any(name.startswith("scrub") for name in seriesOf(streaming=Measured(None)))


def test_unmeasured() -> None:
    """A store in memory, and one that is not open, has no metrics."""
    memory = MemoryStore(MemoryReactor(), 0, int)  # type: ignore[no-untyped-call]
    assert seriesOf(streaming=memory, jetstream=None) == {}


def test_scrape() -> None:
    """The metrics page has the histograms of each store."""
    pytest.importorskip("prometheus_client")
    from prometheus_client.parser import text_string_to_metric_families

    model = Stage().model
    for name in ("streaming", "jetstream"):
        model.stores[name] = lambda: Measured(ScrubFigures())
    text = b"".join(model.metrics({}).body).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    records = families["natsbroker_store_commit_records"]
    assert records.type == "histogram"
    samples = {
        (
            sample.name.rpartition("_")[2],
            sample.labels.get("le"),
            sample.labels["store"],
        ): sample.value
        for sample in records.samples
    }
    for store in ("streaming", "jetstream"):
        assert samples["bucket", "1.0", store] == 2
        assert samples["bucket", "+Inf", store] == samples["count", None, store] == 4
        assert samples["sum", None, store] == 10.0
    assert families["natsbroker_scrub_passes"].type == "counter"
