"""Tests for L{natsbroker.monitoring.rowparts}."""

from __future__ import annotations

from natsbroker.monitoring.rowparts import ages, passed, whereabouts
from tests.gateways.test_gatewayz import FACTS


def test_whereabouts() -> None:
    """Where a connection comes from, and since when, in the real server's order."""
    assert list(whereabouts(FACTS).items()) == [
        ("ip", "10.0.0.1"),
        ("port", 7222),
        ("start", "1970-01-01T00:00:00Z"),
        ("last_activity", "1970-01-01T00:00:00Z"),
    ]


def test_ages() -> None:
    """Durations are in the real server's order and units."""
    assert list(ages(FACTS, 61.0).items()) == [("rtt", "1ms"), ("uptime", "1m1s"), ("idle", "1m1s")]


def test_passed() -> None:
    """Messages stand before bytes."""
    assert list(passed(FACTS.traffic, 6).items()) == [
        ("in_msgs", 2),
        ("out_msgs", 4),
        ("in_bytes", 3),
        ("out_bytes", 5),
        ("subscriptions", 6),
    ]
