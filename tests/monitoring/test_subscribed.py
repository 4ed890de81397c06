"""Tests for L{natsbroker.monitoring.subscribed}."""

from __future__ import annotations

import pytest

from natsbroker.monitoring.answers import complete
from natsbroker.monitoring.queries import BadQuery
from natsbroker.monitoring.subscribed import askedFor, detailed, subscribed


@pytest.mark.parametrize(
    ("value", "asked"),
    [
        (None, (False, False)),
        ("0", (False, False)),
        ("1", (True, False)),
        ("detail", (False, True)),
        ("DETAIL", (False, True)),
    ],
)
def test_askedFor(value: str | None, asked: tuple[bool, bool]) -> None:
    """Subscriptions are shown by subject, in detail or not at all."""
    assert askedFor({} if value is None else {"subs": value}) == asked


def test_askedForNonsense() -> None:
    """Anything else is refused."""
    with pytest.raises(BadQuery):
        askedFor({"subs": "some"})


def test_detail() -> None:
    """All that is known stands in nats-server's order; what there is not is absent."""
    assert list(detailed(b"foo", b"q", b"1", 2, 3, 4).items()) == [
        ("subject", "foo"),
        ("qgroup", "q"),
        ("sid", "1"),
        ("msgs", 2),
        ("max", 4),
        ("cid", 3),
    ]
    assert list(detailed(b"foo", b"", b"", 0, 0)) == ["subject", "sid", "msgs", "cid"]


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
