"""
Tests for L{natsbroker.monitoring.rows}; keys and order are compared with nats-server elsewhere.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from natsbroker.monitoring.answers import complete
from natsbroker.monitoring.queries import BadQuery
from natsbroker.monitoring.rows import (
    askedFor,
    durations,
    peerMembers,
    subscriptionMembers,
    subscriptionRow,
    trafficMembers,
)

FACTS: Any = SimpleNamespace(
    host="10.0.0.1", port=7222, started=0.0, lastActivity=0.0, roundTrip=0.001
)


class TestConnection:
    """The members that describe a peer and its traffic, in nats-server's order."""

    def test_peerMembers(self) -> None:
        """The address comes before the times."""
        assert list(peerMembers(FACTS).items()) == [
            ("ip", "10.0.0.1"),
            ("port", 7222),
            ("start", "1970-01-01T00:00:00Z"),
            ("last_activity", "1970-01-01T00:00:00Z"),
        ]

    def test_durations(self) -> None:
        """The round trip is shown in milliseconds, uptime and idle time in whole seconds."""
        assert list(durations(FACTS, 61.0).items()) == [
            ("rtt", "1ms"),
            ("uptime", "1m1s"),
            ("idle", "1m1s"),
        ]

    def test_trafficMembers(self) -> None:
        """Messages come before bytes."""
        assert list(trafficMembers((2, 3, 4, 5), 6).items()) == [
            ("in_msgs", 2),
            ("out_msgs", 4),
            ("in_bytes", 3),
            ("out_bytes", 5),
            ("subscriptions", 6),
        ]


class TestAskedFor:
    """The parameter C{subs}."""

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
    def test_values(self, value: str | None, asked: tuple[bool, bool]) -> None:
        """The parameter selects subscriptions by subject, in detail, or none."""
        assert askedFor({} if value is None else {"subs": value}) == asked

    def test_otherTextIsRefused(self) -> None:
        """Text that is neither C{detail} nor a boolean is refused."""
        with pytest.raises(BadQuery):
            askedFor({"subs": "some"})


class TestSubscriptionRow:
    """One subscription in detail."""

    def test_allMembers(self) -> None:
        """Members stand in nats-server's order; invalid UTF-8 is replaced."""
        assert list(subscriptionRow(b"foo.\xff", b"q", b"s1", 3, 7, 9, "A").items()) == [
            ("account", "A"),
            ("account_tag", "A"),
            ("subject", "foo.\ufffd"),
            ("qgroup", "q"),
            ("sid", "s1"),
            ("msgs", 3),
            ("max", 9),
            ("cid", 7),
        ]

    def test_absentMembers(self) -> None:
        """A row has no members for an empty queue group, no maximum and no account."""
        assert list(subscriptionRow(b"foo", b"", b"", 0, 0)) == ["subject", "sid", "msgs", "cid"]


class TestSubscriptionMembers:
    """The list of a connection's subscriptions."""

    def test_subjects(self) -> None:
        """Subjects are listed under nats-server's key."""
        steps = subscriptionMembers([(3, "foo"), (3, "bar")], 2)
        assert complete(steps) == {"subscriptions_list": ["foo", "bar"]}

    def test_details(self) -> None:
        """Details have a key of their own."""
        row = {"subject": "foo", "sid": "1"}
        assert complete(subscriptionMembers([(3, row)], 1, isDetailed=True)) == {
            "subscriptions_list_detail": [row]
        }

    def test_boundedInBytes(self) -> None:
        """The list ends at its limit of bytes, and the row reports that."""
        quarter = 128 << 10
        row = complete(subscriptionMembers([(quarter, "x")] * 5, 5))
        assert row == {"subscriptions_list": ["x"] * 4, "truncated": True}
        assert "truncated" not in complete(subscriptionMembers([(quarter, "x")] * 4, 4))

    def test_fewerListedThanTotal(self) -> None:
        """A list that is shorter than the number of subscriptions is marked too."""
        assert complete(subscriptionMembers([(3, "foo")], 2))["truncated"] is True

    def test_pausesEvery256(self) -> None:
        """A listing of subscriptions pauses every 256 of them."""
        assert len(list(subscriptionMembers([(1, "x")] * 700, 700))) == 2
