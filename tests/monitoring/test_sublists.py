"""Tests for L{natsbroker.monitoring.sublists}."""

from __future__ import annotations

from natsbroker.monitoring.sublists import sublistFigures
from tests.monitoring.staging import Stage


def test_figures() -> None:
    """Questions to the router and remembered answers are counted."""
    stage = Stage()
    wire = stage.client("a@A")
    wire.ask(b"SUB foo 1\r\nSUB bar 2\r\n")
    matcher = stage.world.accounts["A"].matcher
    for _ in range(4):
        matcher.match(b"foo")
    assert sublistFigures([stage.world.accounts["A"]]) == {
        "num_subscriptions": 2,
        "num_cache": 1,
        "num_matches": 4,
        "cache_hit_rate": 0.75,
    }


def test_together() -> None:
    """The figures of several accounts are added up, the rate is that of all."""
    stage = Stage()
    for name, count in (("A", 1), ("B", 3)):
        stage.client(f"x@{name}").ask(b"SUB foo 1\r\n")
        for _ in range(count):
            stage.world.accounts[name].matcher.match(b"foo")
    figures = sublistFigures([stage.world.accounts["A"], stage.world.accounts["B"]])
    assert figures["num_subscriptions"] == 2
    assert figures["num_matches"] == 4
    assert figures["cache_hit_rate"] == 0.5


def test_nothingAsked() -> None:
    """Without a question the rate is zero."""
    assert sublistFigures([])["cache_hit_rate"] == 0
