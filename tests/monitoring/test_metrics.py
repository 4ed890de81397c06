"""Tests for L{natsbroker.monitoring.metrics}."""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker.monitoring.metrics import Metrics, loadClient
from tests.jetstream.figurestage import FigureStage
from tests.monitoring.staging import Stage


def metricsOf(stage: Stage, jetstream: Any = None) -> Metrics:
    """
    The page of a broker.
    """
    stage.figures = jetstream
    return stage.model.metrics


class TestHistogram:
    """Metrics with buckets."""

    def test_scrape(self) -> None:
        """A histogram has cumulative buckets, a count and a sum."""
        pytest.importorskip("prometheus_client")
        from prometheus_client.parser import text_string_to_metric_families

        stage = Stage()
        metrics = metricsOf(stage)
        stage.model.figures.turnLengths = lambda: ([0.001, 0.01], [3, 2, 1], 0.5)
        text = b"".join(metrics({}).body).decode()
        families = {family.name: family for family in text_string_to_metric_families(text)}
        turns = families["natsbroker_turn_seconds"]
        assert turns.type == "histogram"
        samples = {(sample.name, sample.labels.get("le")): sample.value for sample in turns.samples}
        assert samples == {
            ("natsbroker_turn_seconds_bucket", "0.001"): 3,
            ("natsbroker_turn_seconds_bucket", "0.01"): 5,
            ("natsbroker_turn_seconds_bucket", "+Inf"): 6,
            ("natsbroker_turn_seconds_count", None): 6,
            ("natsbroker_turn_seconds_sum", None): 0.5,
        }


class TestPage:
    """The page."""

    def test_notInstalled(self) -> None:
        """Without prometheus-client the page names the package to install."""
        answer = Metrics(lambda: None)({})
        assert answer.status == 501
        assert b"natsbroker[metrics]" in b"".join(answer.body)

    def test_scrape(self) -> None:
        """A scrape parses, and has each metric once."""
        pytest.importorskip("prometheus_client")
        from prometheus_client.parser import text_string_to_metric_families

        stage = Stage()
        stage.client("a@A").ask(b"SUB foo 1\r\nPUB foo 2\r\nhi\r\n")
        answer = metricsOf(stage, FigureStage().figures)({})
        assert (answer.status, answer.contentType.partition(";")[0]) == (200, "text/plain")
        text = b"".join(answer.body).decode()
        families = list(text_string_to_metric_families(text))
        names = [family.name for family in families]
        assert len(names) == len(set(names)) >= 15
        assert all(name.startswith("natsbroker_") for name in names)
        samples = {
            (sample.name, *sample.labels.values()): sample.value
            for family in families
            for sample in family.samples
        }
        assert samples["natsbroker_client_messages_total", "in"] == 1
        assert samples["natsbroker_stream_messages", "A", "S"] == 2

    def test_labels(self) -> None:
        """Names with quotes and line ends are escaped."""
        client = pytest.importorskip("prometheus_client")
        from prometheus_client.parser import text_string_to_metric_families

        stage, name = Stage(), 'a"\\\nb'
        stage.world.accounts["A"].name = name
        text = b"".join(metricsOf(stage)({}).body).decode()
        families = list(text_string_to_metric_families(text))
        labels = {
            sample.labels["account"]
            for family in families
            for sample in family.samples
            if "account" in sample.labels
        }
        assert name in labels
        assert loadClient() is client
