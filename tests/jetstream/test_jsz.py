"""Tests for L{natsbroker.jetstream.jsz}; keys are held against nats-server's elsewhere."""

from __future__ import annotations

import pytest

from natsbroker.jetstream.jsz import JszQuery, accountsOf, varzOf
from natsbroker.monitoring.queries import BadQuery
from tests.jetstream.figurestage import FigureStage


class TestPage:
    """The content of the page."""

    def test_disabled(self) -> None:
        """Without JetStream the page says that it is disabled."""
        stage = FigureStage()
        stage.figures = None
        page = stage.page(accounts="1")
        assert (page["disabled"], page["total"], page["streams"]) == (True, 0, 0)
        assert "account_details" not in page

    def test_sums(self) -> None:
        """The sums are those of all accounts."""
        page = FigureStage().page()
        assert [page[key] for key in ("accounts", "streams", "messages", "total")] == [2, 1, 2, 2]
        assert "streams_leader" not in page

    def test_raft(self) -> None:
        """A broker without a cluster leads all of its streams and consumers."""
        page = FigureStage().page(raft="1")
        assert (page["streams_leader"], page["consumers_leader"]) == (1, 0)

    @pytest.mark.parametrize(
        ("query", "names"),
        [
            ({}, []),
            ({"config": "1"}, []),
            ({"accounts": "1"}, ["A", "B"]),
            ({"streams": "1"}, ["A", "B"]),
            ({"consumers": "1"}, ["A", "B"]),
            ({"acc": "B"}, ["B"]),
            ({"acc": "C", "accounts": "1"}, []),
            ({"accounts": "1", "limit": "1"}, ["A"]),
            ({"accounts": "1", "offset": "1"}, ["B"]),
            ({"accounts": "1", "offset": "-1", "limit": "-1"}, ["A", "B"]),
            ({"accounts": "1", "offset": "9"}, []),
        ],
    )
    def test_accounts(self, query: dict[str, str], names: list[str]) -> None:
        """Accounts are shown by name, if they are asked for."""
        assert list(FigureStage().details(**query)) == names

    def test_streams(self) -> None:
        """A stream is shown with its state. An account without streams has no list of streams."""
        details = FigureStage().details(streams="1")
        (stream,) = details["A"]["stream_detail"]
        assert list(stream) == ["name", "created", "cluster", "state"]
        assert (stream["cluster"], stream["state"]["messages"]) == ({"leader": "S1"}, 2)
        assert "stream_detail" not in details["B"]

    def test_config(self) -> None:
        """Configurations are shown if they are asked for."""
        (stream,) = FigureStage().details(streams="1", config="1")["A"]["stream_detail"]
        assert stream["config"]["subjects"] == ["s.>"]

    def test_consumers(self) -> None:
        """Consumers are listed by name. Those of mirrors and sources are listed separately."""
        stage = FigureStage()
        for name, direct in (("two", False), ("one", False), ("origin", True)):
            config = {"name": name, "direct": direct, "ack_policy": "none"}
            config |= {"deliver_subject": "there"} if direct else {}
            stage.ask(f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": config})
        assert set(stage.jetstream.streams["S"].consumers) == {"one", "two", "origin"}
        query = {"consumers": "1", "direct-consumers": "1"}
        (stream,) = stage.details(**query)["A"]["stream_detail"]
        assert [consumer["name"] for consumer in stream["consumer_detail"]] == ["one", "two"]
        assert [consumer["name"] for consumer in stream["direct_consumer_detail"]] == ["origin"]
        assert "config" not in stream["consumer_detail"][0]
        (stream,) = stage.details(**query, config="1")["A"]["stream_detail"]
        assert stream["consumer_detail"][0]["config"]["name"] == "one"
        assert stage.page()["consumers"] == 2


class TestQuery:
    """The parameters."""

    @pytest.mark.parametrize(
        "name",
        [
            "accounts",
            "streams",
            "consumers",
            "direct-consumers",
            "config",
            "leader-only",
            "stream-leader-only",
            "raft",
            "limit",
            "offset",
        ],
    )
    def test_wrongTypes(self, name: str) -> None:
        """A parameter of the wrong type is refused."""
        with pytest.raises(BadQuery, match=f"for '{name}'"):
            JszQuery.fromQuery({name: "x"})


class TestParts:
    """The parts of other pages."""

    def test_varz(self) -> None:
        """
        C{/varz} shows settings, figures and limits of JetStream, and nothing without JetStream.
        """
        assert list(varzOf(FigureStage().figures)) == ["config", "stats", "limits"]
        assert varzOf(None) == {}

    def test_accounts(self) -> None:
        """The accounts that have JetStream are known by name."""
        assert set(accountsOf(FigureStage().figures)) == {"A", "B"}
        assert accountsOf(None) == {}
