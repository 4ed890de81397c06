"""Tests for L{natsbroker.monitoring.metrics}."""

from __future__ import annotations

from typing import Any

import pytest
from zope.interface import implementer

from natsbroker.interfaces import IPublishFilter
from natsbroker.monitoring.answers import complete
from natsbroker.monitoring.metrics import Metrics, MetricSeries, loadClient
from natsbroker.runtime.observers import PluginCalls
from natsbroker.wire.values import Message
from tests.conftest import FlushLoggedErrors
from tests.jetstream.figurestage import FigureStage
from tests.monitoring.staging import Stage
from tests.server.support import Host


def metricsOf(stage: Stage, jetstream: Any = None) -> Metrics:
    """
    The page of a broker.
    """
    stage.figures = jetstream
    return stage.model.metrics


def seriesOf(metrics: Metrics) -> dict[str, MetricSeries]:
    """
    All metrics by name.
    """
    return {each.name: each for each in complete(metrics.series())}


class TestSeries:
    """The samples."""

    def test_clients(self) -> None:
        """Connections and traffic are counted, in all and by account."""
        stage = Stage()
        stage.client("a@A").ask(b"SUB foo 1\r\nPUB foo 2\r\nhi\r\n")
        series = seriesOf(metricsOf(stage))
        assert series["connections"].samples == [((), 1)]
        assert series["client_messages"].samples == [(("in",), 1), (("out",), 1)]
        assert series["client_bytes"].samples == [(("in",), 2), (("out",), 2)]
        messages = dict(series["account_messages"].samples)
        assert messages["A", "client", "in"] == messages["A", "client", "out"] == 1
        assert messages["B", "client", "in"] == messages["A", "leaf", "in"] == 0
        assert dict(series["account_connections"].samples)["A", "client"] == 1

    def test_interest(self) -> None:
        """Subscriptions and remembered answers are counted."""
        stage = Stage()
        client = stage.client("a@A")
        client.ask(b"SUB foo 1\r\nPUB foo 0\r\n\r\nPUB foo 0\r\n\r\n")
        series = seriesOf(metricsOf(stage))
        assert series["subscriptions"].samples == [((), 1)]
        matches = dict(series["matches"].samples)
        assert matches["computed",] >= 1

    def test_leafnodes(self) -> None:
        """The traffic of leafnodes is that of their account, and not of its clients."""
        stage = Stage()
        page = stage.model.accstatz
        page.countLeafnodes = lambda name: 1 if name == "B" else 0
        page.leafTraffic = lambda name: (1, 10, 2, 20) if name == "B" else (0, 0, 0, 0)
        series = seriesOf(metricsOf(stage))
        size = dict(series["account_bytes"].samples)
        assert (size["B", "leaf", "in"], size["B", "leaf", "out"]) == (10, 20)
        assert size["B", "client", "in"] == 0

    def test_jetStream(self) -> None:
        """Streams and consumers are shown with what lies before them."""
        stage = FigureStage()
        config = {"name": "one", "ack_policy": "explicit"}
        stage.ask("CONSUMER.CREATE.S.one", {"stream_name": "S", "config": config})
        series = seriesOf(metricsOf(Stage(), stage.figures))
        assert series["stream_messages"].samples == [(("A", "S"), 2)]
        assert series["stream_last_sequence"].samples == [(("A", "S"), 2)]
        assert series["consumer_pending"].samples == [(("A", "S", "one"), 2)]
        assert series["consumer_ack_pending"].samples == [(("A", "S", "one"), 0)]


class Ears:
    """
    A link with something to send.
    """

    def __init__(self, pending: int, roundTrip: float, remote: str) -> None:
        self.outbox = self
        self.pending = pending
        self.roundTrip = roundTrip
        self.remote = remote


class Registry:
    """
    Links of one kind: two to one peer, one to another, and one whose peer is not known yet.
    """

    traffic = (1, 2, 3, 4)
    slow = stale = 0

    def everyone(self) -> list[Ears]:
        """The links."""
        return [Ears(5, 0.25, "s2"), Ears(7, 0.5, "s2"), Ears(0, 0.1, "s3"), Ears(0, 0.0, "")]


class TestLinks:
    """Links by kind."""

    def test_states(self) -> None:
        """The bytes that wait are added; of a peer's links the longest round trip counts."""
        stage = Stage()
        registry: Any = Registry()
        stage.model.varz.statistics["routes"] = registry
        series = seriesOf(metricsOf(stage))
        assert series["links"].samples == [(("routes",), 4)]
        assert series["link_pending_bytes"].samples == [(("routes",), 12)]
        trips = dict(series["link_rtt_seconds"].samples)
        assert trips == {("routes", "s2"): 0.5, ("routes", "s3"): 0.1}


@implementer(IPublishFilter)
class FailingFilter:
    """A filter that raises."""

    def filterMessage(self, message: Message, kind: int) -> Message | None:
        """Raise."""
        raise ZeroDivisionError


class TestPlugins:
    """What the broker consists of, and how it behaves."""

    def test_calls(self) -> None:
        """Calls into authorizers and observers are counted and timed."""
        stage = Stage()
        stage.client("a@A")
        metrics = metricsOf(stage)
        stage.model.figures.plugins = lambda: [("authorizer", "mine"), ("router", "built-in")]
        stage.model.figures.observerCalls = PluginCalls(5, 2, 0.25)
        series = seriesOf(metrics)
        info = series["plugin_info"].samples
        assert info == [(("authorizer", "mine"), 1), (("router", "built-in"), 1)]
        assert dict(series["plugin_calls"].samples) == {("authorizer",): 1, ("observer",): 5}
        assert dict(series["plugin_failures"].samples)["observer",] == 2
        seconds = dict(series["plugin_seconds"].samples)
        assert (seconds["observer",], seconds["authorizer",] > 0) == (0.25, True)

    def test_failures(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """What raises in an account is counted by what it is."""
        host = Host().start()
        host.broker.addFilter("$G", FailingFilter())
        host.client().ask(b"PUB foo 0\r\n\r\nPUB foo 0\r\n\r\n")
        failures = dict(seriesOf(host.broker.monitoring.metrics)["plugin_failures"].samples)
        assert failures["filter",] == 2
        assert failures["subscriber",] == failures["watcher",] == failures["router",] == 0
        assert len(flushLoggedErrors(ZeroDivisionError)) == 2


class TestTurns:
    """The histogram of turns."""

    def test_scrape(self) -> None:
        """Buckets are cumulative, with the number and the sum of all."""
        pytest.importorskip("prometheus_client")
        from prometheus_client.parser import text_string_to_metric_families

        stage = Stage()
        metrics = metricsOf(stage)
        stage.model.figures.turnLengths = lambda: ([0.001, 0.01], [3, 2, 1], 0.5)
        text = b"".join(metrics({}).body).decode()
        families = {each.name: each for each in text_string_to_metric_families(text)}
        turns = families["natsbroker_turn_seconds"]
        assert turns.type == "histogram"
        samples = {(each.name, each.labels.get("le")): each.value for each in turns.samples}
        assert samples == {
            ("natsbroker_turn_seconds_bucket", "0.001"): 3,
            ("natsbroker_turn_seconds_bucket", "0.01"): 5,
            ("natsbroker_turn_seconds_bucket", "+Inf"): 6,
            ("natsbroker_turn_seconds_count", None): 6,
            ("natsbroker_turn_seconds_sum", None): 0.5,
        }

    def test_withoutPoller(self) -> None:
        """A broker without compiled poller does not show turns."""
        assert "turn_seconds" not in seriesOf(metricsOf(Stage()))


class TestPage:
    """The page."""

    def test_notInstalled(self) -> None:
        """Without prometheus-client the page says what is missing."""
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
        names = [each.name for each in families]
        assert len(names) == len(set(names)) >= 15
        assert all(each.startswith("natsbroker_") for each in names)
        samples = {
            (each.name, *each.labels.values()): each.value
            for family in families
            for each in family.samples
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
        found = list(text_string_to_metric_families(text))
        labels = {
            each.labels["account"]
            for family in found
            for each in family.samples
            if "account" in each.labels
        }
        assert name in labels
        assert loadClient() is client
