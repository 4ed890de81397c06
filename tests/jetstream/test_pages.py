"""
JetStream on the pages of its broker.
"""

from __future__ import annotations

from typing import Any

from natsbroker.monitoring.answers import complete
from tests.jetstream.figurestage import FigureStage
from tests.monitoring.staging import Stage


def metricNames(stage: Stage) -> set[str]:
    """The names of a broker's metrics."""
    return {series.name for series in complete(stage.model.metrics.series())}


def test_shown() -> None:
    """The pages of the broker show JetStream's figures."""
    stage, shown = Stage(), FigureStage()
    stage.figures = shown.figures
    assert stage.page("/jsz")["streams"] == 1
    assert stage.page("/varz")["jetstream"]["stats"]["accounts"] == 2
    accounts = {name: stage.page("/accountz", acc=name) for name in ("A", "$G")}
    enabled = {name: page["account_detail"]["jetstream_enabled"] for name, page in accounts.items()}
    assert enabled == {"A": True, "$G": False}
    assert {"stream_messages", "consumer_pending"} <= metricNames(stage)
    shown.isRunning = False
    assert stage.answer("/healthz").status == 503


def test_store() -> None:
    """The pages show the file store of streams while it is open."""
    stage, store = Stage(), object()
    find: Any = stage.model.stores["jetstream"]
    assert find() is None
    stage.figures = FigureStage().figures
    stage.figures.store = lambda: store
    assert find() is store


def test_without() -> None:
    """A broker without JetStream shows empty figures and is healthy."""
    stage = Stage()
    assert stage.page("/varz")["jetstream"] == {}
    assert not stage.page("/accountz", acc="A")["account_detail"]["jetstream_enabled"]
    assert stage.answer("/healthz").status == 200
