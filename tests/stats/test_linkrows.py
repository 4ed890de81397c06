"""Tests for L{natsbroker.stats.linkrows}."""

from __future__ import annotations

from dataclasses import replace

from natsbroker.stats.linkrows import linkRow
from tests.stats.test_gatewayz import FACTS


def test_row() -> None:
    """All that is known, in the real server's order and units."""
    assert list(linkRow(FACTS, "Gateway", 61.0).items()) == [
        ("cid", 7),
        ("kind", "Gateway"),
        ("ip", "10.0.0.1"),
        ("port", 7222),
        ("start", "1970-01-01T00:00:00Z"),
        ("last_activity", "1970-01-01T00:00:00Z"),
        ("rtt", "1ms"),
        ("uptime", "1m1s"),
        ("idle", "1m1s"),
        ("pending_bytes", 1),
        ("in_msgs", 2),
        ("out_msgs", 4),
        ("in_bytes", 3),
        ("out_bytes", 5),
        ("subscriptions", 6),
        ("name", "ID"),
    ]


def test_nameless() -> None:
    """A peer that has not said who it is has no name."""
    assert "name" not in linkRow(replace(FACTS, name=""), "Gateway", 1.0)
