"""The metrics of stores that count what they do."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any

from natsbroker.interfaces import IMeasuredStore
from natsbroker.interfaces.records import ScrubFigures, StoreFigures
from natsbroker.monitoring.answers import PAUSE, Pause
from natsbroker.monitoring.metrics import MetricSeries

_LABELS = ("store",)

_HISTOGRAMS = {
    "store_commit_seconds": ("How long group commits took.", "commits"),
    "store_sync_seconds": ("How long writes waited for the medium.", "syncs"),
    "store_commit_records": ("Records of a group commit.", "records"),
    "store_commit_bytes": ("Bytes of these records.", "sizes"),
}

_DAMAGE = {
    "store_damaged_records": ("Records that are known to be damaged.", "damagedRecords"),
    "store_damaged_values": ("Values of state that were found damaged.", "damagedValues"),
}


def storeSeries(
    stores: Mapping[str, Callable[[], Any]],
) -> Generator[Pause, None, list[MetricSeries]]:
    """
    The metrics of stores. C{stores} are by purpose, and return C{None} while they are not open.
    """
    opened = {name: find() for name, find in stores.items()}
    yield PAUSE
    figures = {
        name: store.figures() for name, store in opened.items() if IMeasuredStore.providedBy(store)
    }
    return [*_series(figures), *_scrubSeries(figures)] if figures else []


def _series(figures: Mapping[str, StoreFigures]) -> Iterable[MetricSeries]:
    for name, (text, member) in _HISTOGRAMS.items():
        yield MetricSeries(
            name,
            text,
            _LABELS,
            histograms=[((store,), getattr(row, member)) for store, row in figures.items()],
        )
    for name, (text, member) in _DAMAGE.items():
        series = MetricSeries(name, text, _LABELS)
        for store, row in figures.items():
            series.add(getattr(row, member), store)
        yield series


def _scrubSeries(figures: Mapping[str, StoreFigures]) -> Iterable[MetricSeries]:
    scrubbed: dict[str, ScrubFigures] = {
        name: row.scrub for name, row in figures.items() if row.scrub is not None
    }
    text = "Records that were read in order to find damage."
    records = MetricSeries("scrub_records", text, _LABELS, isCounter=True)
    passes = MetricSeries("scrub_passes", "Passes through a whole store.", _LABELS, isCounter=True)
    text = "The part of the store that the pass underway has read."
    position = MetricSeries("scrub_position_ratio", text, _LABELS)
    text = "When the last whole pass ended; 0 for never."
    ended = MetricSeries("scrub_last_pass_time_seconds", text, _LABELS)
    for name, scrub in scrubbed.items():
        records.add(scrub.records, name)
        passes.add(scrub.passes, name)
        position.add(scrub.position, name)
        ended.add(scrub.ended, name)
    if scrubbed:
        yield from (records, passes, position, ended)
