"""Tests for L{natsbroker.system.accstatz}."""

from __future__ import annotations

from typing import Any

from tests.monitoring.staging import Stage


def rowsOf(stage: Stage, **query: str) -> dict[str, Any]:
    """
    The rows of the page, by account.
    """
    return {row["acc"]: row for row in stage.page("/accstatz", **query)["account_statz"]}


class TestPage:
    """The content of the page."""

    def test_usedAccounts(self) -> None:
        """Accounts with connections are listed; the others only if the request wants them."""
        stage = Stage()
        stage.client("a@A")
        assert list(rowsOf(stage)) == ["A"]
        assert list(rowsOf(stage, unused="1")) == ["$G", "$SYS", "A", "B"]

    def test_wrongType(self) -> None:
        """A parameter of the wrong type is refused."""
        assert "'unused'" in Stage().refusal("/accstatz", unused="x")

    def test_traffic(self) -> None:
        """Traffic counts for its account, also that of closed connections."""
        stage = Stage()
        first = stage.client("a@A")
        first.ask(b"SUB foo 1\r\nPUB foo 2\r\nhi\r\n")
        stage.client("b@B").ask(b"PUB foo 3\r\nhey\r\n")
        first.transport.hangUp()
        stage.world.settle()
        second = stage.client("c@A")
        second.ask(b"PUB foo 4\r\nhiho\r\n")
        rows = rowsOf(stage)
        nothing = {"msgs": 0, "bytes": 0}
        links = {"gateways": nothing, "routes": nothing, "leafs": nothing}
        assert rows["A"]["received"] == {"msgs": 2, "bytes": 6, **links}
        assert rows["A"]["sent"] == {"msgs": 1, "bytes": 2, **links}
        assert rows["B"]["received"] == {"msgs": 1, "bytes": 3, **links}
        assert (rows["A"]["conns"], rows["A"]["total_conns"]) == (1, 1)

    def test_leafnodes(self) -> None:
        """Leafnodes count as connections, and their traffic with that of clients."""
        stage = Stage()
        page = stage.model.accstatz
        page.countLeafnodes = lambda name: 2 if name == "B" else 0
        page.leafTraffic = lambda name: (1, 10, 2, 20) if name == "B" else (0, 0, 0, 0)
        row = rowsOf(stage)["B"]
        assert (row["conns"], row["leafnodes"], row["total_conns"]) == (0, 2, 2)
        assert (row["received"]["msgs"], row["received"]["leafs"]) == (1, {"msgs": 1, "bytes": 10})
        assert (row["sent"]["bytes"], row["sent"]["leafs"]) == (20, {"msgs": 2, "bytes": 20})
