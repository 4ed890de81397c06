"""Tests for L{natsbroker.jetstream.health}."""

from __future__ import annotations

import pytest

from tests.jetstream.figurestage import FigureStage

OK = (200, {"status": "ok"})


class TestCheck:
    """Whether JetStream is well."""

    def test_disabled(self) -> None:
        """Without JetStream, no check is made."""
        stage = FigureStage()
        stage.figures = None
        assert stage.health(account="A", stream="NO") == OK

    def test_notRunning(self) -> None:
        """JetStream that is configured but not running is unhealthy."""
        stage = FigureStage()
        stage.isRunning = False
        text = "JetStream not enabled (10076)"
        assert stage.health(js_enabled_only="1") == (503, {"status": "unavailable", "error": text})

    def test_trouble(self) -> None:
        """
        A store that accepts no writes is a problem, except for a probe that only asks whether
        JetStream is enabled.
        """
        stage = FigureStage()
        assert stage.figures is not None
        stage.figures.trouble = lambda: "the database cannot be reached"
        text = "JetStream cannot store anything: the database cannot be reached"
        assert stage.health() == (503, {"status": "unavailable", "error": text})
        assert stage.health(js_server_only="1")[0] == 503
        assert stage.health(js_enabled_only="1") == OK

    @pytest.mark.parametrize(
        ("account", "stream", "consumer", "error"),
        [
            ("A", "", "", ""),
            ("A", "S", "", ""),
            ("A", "S", "one", ""),
            ("C", "", "", 'JetStream account "C" not found'),
            ("B", "S", "", 'JetStream account "B" not found'),
            ("A", "NO", "", 'JetStream stream "NO" not found on account "A"'),
            (
                "A",
                "S",
                "no",
                'JetStream consumer "no" not found for stream "S" on account "A"',
            ),
        ],
    )
    def test_missing(self, account: str, stream: str, consumer: str, error: str) -> None:
        """A health check for a stream or consumer that does not exist fails."""
        stage = FigureStage()
        config = {"name": "one", "ack_policy": "none"}
        stage.ask("CONSUMER.CREATE.S.one", {"stream_name": "S", "config": config})
        query = {"account": account, "stream": stream, "consumer": consumer}
        expected = (404, {"status": "unavailable", "error": error}) if error else OK
        assert stage.health(**query) == expected

    @pytest.mark.parametrize("only", ["js_enabled_only", "js_server_only"])
    def test_serverOnly(self, only: str) -> None:
        """A health check of the server only ignores streams and accounts."""
        assert FigureStage().health(account="NO", **{only: "1"}) == OK

    def test_damaged(self) -> None:
        """A damaged stream is a problem, unless the probe asks about another one."""
        stage = FigureStage()
        stage.jetstream.damaged.note("A", "D", "broken")
        text = "JetStream stream 'A > D' could not be recovered"
        problem = (503, {"status": "unavailable", "error": text})
        assert stage.health() == problem
        assert stage.health(account="A", stream="D") == problem
        assert stage.health(account="A", stream="S") == OK
        assert stage.health(js_server_only="1") == OK

    def test_details(self) -> None:
        """With details, the problem names what is missing."""
        status, document = FigureStage().health(account="A", stream="NO", details="1")
        assert status == 404
        assert document["errors"][0] | {"error": ""} == {
            "type": "STREAM",
            "account": "A",
            "stream": "NO",
            "error": "",
        }
