"""
The pages under /streaming.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from natsbroker.config.settings.streaming import Streaming
from natsbroker.monitoring.answers import complete
from natsbroker.streaming.pages import limitsOf, openFiles, streamingPages, streamingSeries
from tests.interop.readers import STREAMING, ExpectedAnswer
from tests.monitoring.staging import Stage as MonitoringStage
from tests.streaming.support import Stage


class StagedPages:
    """
    The pages of a staged service.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.broker = MonitoringStage()
        self.broker.model.pages.update(streamingPages(stage.model, self.broker.model.state))

    def page(self, name: str, **query: str) -> Any:
        """A page's document."""
        return self.broker.page(f"/streaming/{name}", **query)

    def refused(self, name: str, **query: str) -> tuple[int, str]:
        """The status and the text of a refused request."""
        answer = self.broker.answer(f"/streaming/{name}", **query)
        return answer.status, b"".join(answer.body).decode()


@pytest.fixture
def pages() -> StagedPages:
    """Two clients, a channel with three messages and a durable subscription, and two without."""
    stage = Stage()
    client = stage.client()
    stage.client("other")
    client.publishMany("foo", [b"1", b"2", b"3"])
    client.subscribe("foo", durableName="d", maxInFlight=2, isAcking=False)
    client.subscribe("bar")
    client.subscribe("empty").close()
    return StagedPages(stage)


def test_serverz(pages: StagedPages) -> None:
    """The page serverz has the service's figures, and those of the process."""
    page = pages.page("serverz")
    files = {"open_fds": page.pop("open_fds"), "max_fds": page.pop("max_fds")}
    assert 0 < files["open_fds"] < files["max_fds"]
    assert page.pop("in_bytes") > 0 and page.pop("out_bytes") > 0
    assert page == {
        "cluster_id": "test-cluster",
        "server_id": "ID",
        "version": "0.25.6",
        "go": "",
        "state": "STANDALONE",
        "now": "2026-11-20T16:00:00Z",
        "start_time": "2026-11-20T16:00:00Z",
        "uptime": "0s",
        "clients": 2,
        "subscriptions": 2,
        "channels": 3,
        "total_msgs": 3,
        "total_bytes": 12,
        "in_msgs": 3,
        "out_msgs": 2,
    }


def test_storez(pages: StagedPages) -> None:
    """The page storez has the limits."""
    assert pages.page("storez") == {
        "cluster_id": "test-cluster",
        "server_id": "ID",
        "now": "2026-11-20T16:00:00Z",
        "type": "MEMORY",
        "limits": {
            "max_channels": 100,
            "max_msgs": 1_000_000,
            "max_bytes": 1_024_000_000,
            "max_age": 0,
            "max_subscriptions": 1000,
            "max_inactivity": 0,
        },
        "total_msgs": 3,
        "total_bytes": 12,
    }


def test_limitsOfChannels() -> None:
    """Channels with limits of their own are shown, with their inherited limits."""
    limits = limitsOf(Streaming(max_age=1.5, channels={"a.*": {"max_msgs": 7}}))
    assert limits["max_age"] == 1_500_000_000
    assert limits["channels"] == {
        "a.*": {
            "max_msgs": 7,
            "max_bytes": 1_024_000_000,
            "max_age": 1_500_000_000,
            "max_subscriptions": 1000,
            "max_inactivity": 0,
        }
    }


def test_clientsz(pages: StagedPages) -> None:
    """Clients are listed by id, with their subscriptions if these are asked for."""
    page = pages.page("clientsz")
    assert [client["id"] for client in page["clients"]] == ["me", "other"]
    assert (page["offset"], page["limit"], page["count"], page["total"]) == (0, 1024, 2, 2)
    assert page["clients"][0]["subs_count"] == 2
    assert "subscriptions" not in page["clients"][0]
    detailed = pages.page("clientsz", subs="1")["clients"]
    assert list(detailed[0]["subscriptions"]) == ["bar", "foo"]
    assert "subscriptions" not in detailed[1]


def test_oneClient(pages: StagedPages) -> None:
    """A single client can be requested."""
    page = pages.page("clientsz", client="me", subs="1")
    assert page["id"] == "me" and len(page["subscriptions"]["foo"]) == 1
    assert pages.refused("clientsz", client="none") == (404, "Client none not found")


def test_channelsz(pages: StagedPages) -> None:
    """The page channelsz has names, or with C{subs=1} rows; the list can be paged."""
    page = pages.page("channelsz")
    assert page["names"] == ["bar", "empty", "foo"] and "channels" not in page
    paged = pages.page("channelsz", offset="1", limit="1")
    assert (paged["names"], paged["count"], paged["total"]) == (["empty"], 1, 3)
    assert "names" not in pages.page("channelsz", offset="9")
    rows = pages.page("channelsz", subs="1")["channels"]
    assert [(row["name"], row["msgs"], row["subs_count"]) for row in rows] == [
        ("bar", 0, 1),
        ("empty", 0, 0),
        ("foo", 3, 1),
    ]
    assert "subscriptions" not in rows[1]


@pytest.mark.parametrize("expected", STREAMING, ids=str)
def test_readers(expected: ExpectedAnswer, pages: StagedPages) -> None:
    """The fields that the Prometheus exporter reads exist, with the types that it expects."""
    name, _, query = expected.source.removeprefix("/streaming/").partition("?")
    page = pages.page(name, **dict(parse_qsl(query)))
    assert expected.problems(page) == []


def test_oneChannel(pages: StagedPages) -> None:
    """
    A single channel is shown with its subscriptions, without fields of names that they do not have.
    """
    page = pages.page("channelsz", channel="foo", subs="1")
    [subscription] = page["subscriptions"]
    assert subscription["durable_name"] == "d" and "queue_name" not in subscription
    assert (subscription["last_sent"], subscription["pending_count"]) == (2, 2)
    assert subscription["is_stalled"] is True
    assert "subscriptions" not in pages.page("channelsz", channel="foo")
    assert pages.refused("channelsz", channel="no") == (404, "Channel no not found")


@pytest.mark.parametrize("query", [{"limit": "x"}, {"offset": "-3"}, {"subs": "true"}])
def test_oddParameters(pages: StagedPages, query: dict[str, str]) -> None:
    """A parameter that is not a number is ignored, as by nats-streaming-server."""
    assert pages.page("channelsz", **query)["names"] == ["bar", "empty", "foo"]


def test_isFTActive(pages: StagedPages) -> None:
    """A broker that does not share its store is not shown as the active one."""
    assert pages.refused("isFTActive") == (204, "")


def test_notRunning() -> None:
    """Before the service has started there are no figures."""
    pages = StagedPages(Stage(start=False))
    assert pages.refused("serverz") == (500, "NATS Streaming is not running")


def test_index(pages: StagedPages) -> None:
    """The index page links the pages under /streaming."""
    body = b"".join(pages.broker.answer("/streaming").body)
    assert body.count(b"<a href") == 4 and b'"./streaming/channelsz"' in body


def test_series(pages: StagedPages) -> None:
    """
    Channels have metrics; durable subscriptions have the number of messages that they are behind.
    """
    samples = {
        metric.name: metric.samples for metric in complete(streamingSeries(pages.stage.model))
    }
    assert samples["channel_messages"] == [(("bar",), 0), (("empty",), 0), (("foo",), 3)]
    assert samples["channel_lag"] == [(("bar", "me"), 0), (("foo", "d"), 1)]
    assert samples["channel_ack_pending"] == [(("bar", "me"), 0), (("foo", "d"), 2)]
    assert samples["channel_last_sequence"][-1] == (("foo",), 3)
    assert samples["channel_bytes"][-1] == (("foo",), 12)


def test_seriesBeforeTheStart() -> None:
    """Before the service has started, there are no metrics."""
    series = complete(streamingSeries(Stage(start=False).model))
    assert all(not metric.samples for metric in series)


def test_noDescriptors(tmp_path: Path) -> None:
    """Without /proc, the process still has its limit of descriptors."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert openFiles(str(tmp_path / "no")) == {"max_fds": limit}
