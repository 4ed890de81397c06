"""
Metrics of the broker as a whole.
"""

from __future__ import annotations

from typing import Any

from zope.interface import implementer

from natsbroker.interfaces import IPublishFilter
from natsbroker.monitoring.answers import complete
from natsbroker.monitoring.metrics import MetricSeries
from natsbroker.runtime.observers import PluginCalls
from natsbroker.system.pages import ServerPages
from natsbroker.wire.values import Message
from tests.conftest import FlushLoggedErrors
from tests.monitoring.staging import Stage
from tests.server.support import Host


def seriesOf(pages: ServerPages) -> dict[str, MetricSeries]:
    """The metrics of a broker by name."""
    return {series.name: series for series in complete(pages.figures.series())}


class TestSeries:
    """The samples."""

    def test_clients(self) -> None:
        """Connections and traffic are counted, in total and by account."""
        stage = Stage()
        stage.client("a@A").ask(b"SUB foo 1\r\nPUB foo 2\r\nhi\r\n")
        series = seriesOf(stage.model)
        assert series["connections"].samples == [((), 1)]
        assert series["client_messages"].samples == [(("in",), 1), (("out",), 1)]
        assert series["client_bytes"].samples == [(("in",), 2), (("out",), 2)]
        messages = dict(series["account_messages"].samples)
        assert messages["A", "client", "in"] == messages["A", "client", "out"] == 1
        assert messages["B", "client", "in"] == messages["A", "leaf", "in"] == 0
        assert dict(series["account_connections"].samples)["A", "client"] == 1

    def test_interest(self) -> None:
        """Subscriptions and remembered matches are counted."""
        stage = Stage()
        client = stage.client("a@A")
        client.ask(b"SUB foo 1\r\nPUB foo 0\r\n\r\nPUB foo 0\r\n\r\n")
        series = seriesOf(stage.model)
        assert series["subscriptions"].samples == [((), 1)]
        matches = dict(series["matches"].samples)
        assert matches["computed",] >= 1

    def test_leafnodes(self) -> None:
        """Traffic of leafnodes counts for their account, and not as traffic of its clients."""
        stage = Stage()
        page = stage.model.accstatz
        page.countLeafnodes = lambda name: 1 if name == "B" else 0
        page.leafTraffic = lambda name: (1, 10, 2, 20) if name == "B" else (0, 0, 0, 0)
        series = seriesOf(stage.model)
        size = dict(series["account_bytes"].samples)
        assert (size["B", "leaf", "in"], size["B", "leaf", "out"]) == (10, 20)
        assert size["B", "client", "in"] == 0


class Ears:
    """A link with a given amount of output."""

    def __init__(self, pending: int, roundTrip: float, remote: str) -> None:
        self.outbox = self
        self.pending = pending
        self.roundTrip = roundTrip
        self.remoteName = remote


class Registry:
    """Links of one kind: two to one peer, one to another, and one to an unknown peer."""

    traffic = (1, 2, 3, 4)
    slow = stale = 0

    def everyone(self) -> list[Ears]:
        """The links."""
        return [Ears(5, 0.25, "s2"), Ears(7, 0.5, "s2"), Ears(0, 0.1, "s3"), Ears(0, 0.0, "")]


class TestLinks:
    """Links by kind."""

    def test_states(self) -> None:
        """The waiting bytes of a peer's links are added up; the longest round trip counts."""
        stage = Stage()
        registry: Any = Registry()
        stage.model.varz.statistics["routes"] = registry
        series = seriesOf(stage.model)
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
    """The parts of the broker, and their behaviour."""

    def test_calls(self) -> None:
        """Calls to authorizers and observers are counted and timed."""
        stage = Stage()
        stage.client("a@A")
        stage.model.figures.plugins = lambda: [("authorizer", "mine"), ("router", "built-in")]
        stage.model.figures.observerCalls = PluginCalls(5, 2, 0.25)
        series = seriesOf(stage.model)
        info = series["plugin_info"].samples
        assert info == [(("authorizer", "mine"), 1), (("router", "built-in"), 1)]
        assert dict(series["plugin_calls"].samples) == {("authorizer",): 1, ("observer",): 5}
        assert dict(series["plugin_failures"].samples)["observer",] == 2
        seconds = dict(series["plugin_seconds"].samples)
        assert (seconds["observer",], seconds["authorizer",] > 0) == (0.25, True)

    def test_failures(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """An exception in an account is counted by its type."""
        host = Host().start()
        host.broker.addFilter("$G", FailingFilter())
        host.client().ask(b"PUB foo 0\r\n\r\nPUB foo 0\r\n\r\n")
        failures = dict(seriesOf(host.broker.monitoring)["plugin_failures"].samples)
        assert failures["filter",] == 2
        assert failures["subscriber",] == failures["watcher",] == failures["router",] == 0
        assert len(flushLoggedErrors(ZeroDivisionError)) == 2


def test_withoutPoller() -> None:
    """A broker without the compiled poller does not show turns."""
    assert "turn_seconds" not in seriesOf(Stage().model)
