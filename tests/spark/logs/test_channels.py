"""
A broker's answers about channels.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from natsbroker.spark.errors import ApiError, OptionError
from natsbroker.spark.logs.apis import NO_CHANNEL, ChannelApi, checkedChannel, nanoseconds
from tests.spark.support import BrokerStation, Station


@pytest.mark.parametrize("name", ["orders", "orders.eu", "orders.*", "orders.>", ">", "ä.b"])
def test_names(name: str) -> None:
    """Names and patterns of channels are accepted."""
    assert checkedChannel(name) == name


@pytest.mark.parametrize("name", ["", ".", "a..b", "a b", "a/b", "a\nb", "a\tb"])
def test_noNames(name: str) -> None:
    """A text that would change the request's subject is refused as a channel name."""
    with pytest.raises(OptionError, match="no channel can be called"):
        checkedChannel(name)


@pytest.mark.parametrize("clusterId", ["", "a b", "a.*", ">", "a\r\nPUB x", "a/b"])
def test_noClusters(clusterId: str, broker: BrokerStation) -> None:
    """A text that is no cluster id cannot lead a request elsewhere."""
    with pytest.raises(OptionError, match="no cluster can have the id"):
        ChannelApi(broker.connection, clusterId)


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T01:00:01.5+01:00", 1_500_000_000),
        ("2026-11-20T08:00:00.123456789Z", 1_795_161_600_123_456_789),
        ("1969-12-31T23:59:59.25+00:00", -750_000_000),
    ],
)
def test_nanoseconds(time: str, expected: int) -> None:
    """A time keeps its nine digits."""
    assert nanoseconds(time) == expected


def test_nanosecondsOfOthers() -> None:
    """A text that is no time gives none."""
    with pytest.raises(ValueError):
        nanoseconds("yesterday")


class TestState:
    """The state of a channel."""

    def test_filled(self, broker: BrokerStation) -> None:
        """
        The state has the sequences, the number of messages, and an identity that tells the channel
        from others of its name.
        """
        name = broker.channel([b"one", b"two"])
        state = broker.channels.state(name)
        assert (state.first, state.stop, state.messages) == (1, 3, 2)
        assert (len(state.created), state.isDirect, state.size > 6) == (16, True, True)

    def test_missing(self, broker: BrokerStation) -> None:
        """A missing channel is an error that names it."""
        with pytest.raises(ApiError, match="channel nobody: there is no channel nobody") as caught:
            broker.channels.state("nobody")
        assert caught.value.code == NO_CHANNEL

    def test_otherCluster(self, broker: BrokerStation) -> None:
        """A cluster that is not there is an error that names it."""
        with pytest.raises(ApiError, match="cluster id elsewhere there, or not for this account"):
            ChannelApi(broker.connection, "elsewhere").state("x")

    def test_natsServer(self, station: Station) -> None:
        """A server without channels is refused with the reason."""
        with pytest.raises(ApiError, match="no broker of ours serves NATS Streaming"):
            ChannelApi(station.connection, "test-cluster").names(["a.*"])


class TestNames:
    """Which channels there are."""

    def test_patterns(self, broker: BrokerStation) -> None:
        """
        Patterns are replaced by the matching channels, sorted. Names stay, even of missing
        channels.
        """
        for name in ("p.b", "p.a", "p.a.x"):
            broker.channel([b"x"], name)
        assert broker.channels.names(["p.*"]) == ("p.a", "p.b")
        assert broker.channels.names(["q", "p.>", "p.a"]) == ("q", "p.a", "p.a.x", "p.b")
        assert broker.channels.names(["none.*"]) == ()

    def test_pages(self, broker: BrokerStation, monkeypatch: pytest.MonkeyPatch) -> None:
        """Names come in any number of pages."""
        asked: list[Any] = []

        def request(subject: str, payload: bytes) -> bytes:
            asked.append(json.loads(payload)["after"])
            answer = {"": ["a", "b"], "b": ["c"]}[asked[-1]]
            return json.dumps({"names": answer, "more": asked[-1] == ""}).encode()

        monkeypatch.setattr(broker.connection, "request", request)
        assert broker.channels.names(["*"]) == ("a", "b", "c")
        assert asked == ["", "b"]


class TestFirstSince:
    """Places in time."""

    def test_sequence(self, broker: BrokerStation) -> None:
        """The first message at or after a time is found, or none."""
        name = broker.channel([b"x"])
        time.sleep(0.01)
        between = time.time_ns()
        time.sleep(0.01)
        broker.fill(name, [b"y"])
        text = f"1970-01-01T00:00:{between // 10**9 % 60:02}Z"
        assert broker.channels.firstSince(name, text) == 1
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(between // 10**9))
        assert broker.channels.firstSince(name, f"{stamp}.{between % 10**9:09}Z") == 2
        assert broker.channels.firstSince(name, "2100-01-01T00:00:00Z") is None


@pytest.mark.parametrize(
    "answer", [b"", b"[1]", b"{}", b'{"last": "x"}', b'{"error": {"err_code": "x"}}']
)
def test_invalidAnswer(
    answer: bytes, broker: BrokerStation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An invalid answer is an error that names the channel."""
    monkeypatch.setattr(broker.connection, "request", lambda subject, payload: answer)
    for ask in (
        lambda: broker.channels.state("c"),
        lambda: broker.channels.firstSince("c", "1970-01-01T00:00:00Z"),
    ):
        with pytest.raises(ApiError, match="channel c: "):
            ask()
    with pytest.raises(ApiError, match="channel"):
        broker.channels.names(["a.*"])


@pytest.mark.parametrize(("offered", "expected"), [(1, 1), (7, 1), (None, 1), ("x", 1), (0, 1)])
def test_version(offered: object, expected: int, broker: BrokerStation) -> None:
    """Frames are requested in the newest version that the broker and the client know."""
    assert broker.connection.info["nb_export"] == 1
    info = dict(broker.connection.info)
    try:
        broker.connection.info["nb_export"] = offered
        assert broker.channels.version == expected
    finally:
        broker.connection.info = info
