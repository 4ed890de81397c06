"""Tests for L{natsbroker.stats.subscribed}."""

from __future__ import annotations

from natsbroker.stats.answers import complete
from natsbroker.stats.subscribed import subscribed


def test_subjects() -> None:
    """Subjects are listed under nats-server's key."""
    steps = subscribed([(3, "foo"), (3, "bar")], 2)
    assert complete(steps) == {"subscriptions_list": ["foo", "bar"]}


def test_detailed() -> None:
    """What is shown in detail stands under a key of its own."""
    row = {"subject": "foo", "sid": "1"}
    assert complete(subscribed([(3, row)], 1, isDetailed=True)) == {
        "subscriptions_list_detail": [row]
    }


def test_bounded() -> None:
    """What is too much is left out, and the row says so."""
    quarter = 128 << 10
    row = complete(subscribed([(quarter, "x")] * 5, 5))
    assert row == {"subscriptions_list": ["x"] * 4, "truncated": True}
    assert "truncated" not in complete(subscribed([(quarter, "x")] * 4, 4))


def test_missing() -> None:
    """Where fewer are told than there are, the row says so too."""
    assert complete(subscribed([(3, "foo")], 2))["truncated"] is True


def test_steps() -> None:
    """Others may do something every 256 subscriptions."""
    assert len(list(subscribed([(1, "x")] * 700, 700))) == 2
