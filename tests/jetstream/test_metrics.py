"""
Metrics of streams and consumers.
"""

from __future__ import annotations

from natsbroker.jetstream.jsz import accountsOf
from natsbroker.jetstream.metrics import jetStreamSeries
from natsbroker.monitoring.answers import complete
from tests.jetstream.figurestage import FigureStage


def test_figures() -> None:
    """Metrics show the messages of streams, and the pending messages of consumers."""
    stage = FigureStage()
    config = {"name": "one", "ack_policy": "explicit"}
    stage.ask("CONSUMER.CREATE.S.one", {"stream_name": "S", "config": config})
    metrics = complete(jetStreamSeries(accountsOf(stage.figures)))
    series = {metric.name: metric for metric in metrics}
    assert series["stream_messages"].samples == [(("A", "S"), 2)]
    assert series["stream_last_sequence"].samples == [(("A", "S"), 2)]
    assert series["consumer_pending"].samples == [(("A", "S", "one"), 2)]
    assert series["consumer_ack_pending"].samples == [(("A", "S", "one"), 0)]
