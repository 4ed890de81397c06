"""
Tests of L{natsbroker.auth.presence}.
"""

from __future__ import annotations

import math
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from natsbroker.auth.presence import isFrom, validUntil


def at(text: str, zone: str = "UTC") -> float:
    """
    A moment.
    """
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


class TestSources:
    """Where somebody comes from."""

    @pytest.mark.parametrize(
        ("host", "sources", "inside"),
        [
            ("1.2.3.4", [], True),
            ("", [], True),
            ("10.1.2.3", ["10.0.0.0/8"], True),
            ("11.1.2.3", ["10.0.0.0/8"], False),
            ("11.1.2.3", ["10.0.0.0/8", "11.1.2.3/32"], True),
            ("::1", ["10.0.0.0/8"], False),
            ("::1", ["::1/128"], True),
            ("::ffff:10.1.2.3", ["10.0.0.0/8"], True),
            ("::ffff:11.1.2.3", ["10.0.0.0/8"], False),
            ("1.2.3.4", ["0.0.0.0/0"], True),
            ("", ["0.0.0.0/0"], False),
            ("localhost", ["0.0.0.0/0"], False),
            ("/run/socket", ["0.0.0.0/0", "::/0"], False),
            ("10.1.2.3", ["nonsense"], False),
        ],
    )
    def test_isFrom(self, host: str, sources: list[str], inside: bool) -> None:
        """An address lies in a network or not; what is no address lies in none."""
        assert isFrom(host, sources) is inside


class TestTimes:
    """The times of a day."""

    @pytest.mark.parametrize(
        ("times", "now", "until"),
        [
            ([("08:00:00", "16:00:00")], "2026-03-05T12:00:00", "2026-03-05T16:00:00"),
            ([("08:00:00", "16:00:00")], "2026-03-05T08:00:00", "2026-03-05T16:00:00"),
            ([("08:00:00", "16:00:00")], "2026-03-05T07:59:59", None),
            ([("08:00:00", "16:00:00")], "2026-03-05T16:00:00", None),
            ([("22:00:00", "06:00:00")], "2026-03-05T23:30:00", "2026-03-06T06:00:00"),
            ([("22:00:00", "06:00:00")], "2026-03-05T05:00:00", "2026-03-05T06:00:00"),
            ([("22:00:00", "06:00:00")], "2026-03-05T06:00:00", None),
            ([("22:00:00", "06:00:00")], "2026-03-05T21:59:59", None),
            ([("22:00:00", "06:00:00")], "2026-12-31T22:00:00", "2027-01-01T06:00:00"),
            ([("12:00:00", "12:00:00")], "2026-03-05T12:00:00", None),
            (
                [("08:00:00", "10:00:00"), ("09:00:00", "18:00:00")],
                "2026-03-05T09:30:00",
                "2026-03-05T18:00:00",
            ),
            (
                [("08:00:00", "10:00:00"), ("12:00:00", "18:00:00")],
                "2026-03-05T11:00:00",
                None,
            ),
        ],
    )
    def test_validUntil(self, times: list[tuple[str, str]], now: str, until: str | None) -> None:
        """A moment lies in a range of the day or not; ranges go on over midnight (cfa988ab3)."""
        expected = -math.inf if until is None else at(until)
        assert validUntil(times, "UTC", at(now)) == expected

    def test_always(self) -> None:
        """Without times it is always."""
        assert validUntil([], "", 0.0) == math.inf

    def test_zone(self) -> None:
        """Times are meant in their zone."""
        times = [("08:00:00", "16:00:00")]
        assert validUntil(times, "Asia/Tokyo", at("2026-03-05T00:00:00")) == at(
            "2026-03-05T16:00:00", "Asia/Tokyo"
        )
        assert validUntil(times, "Asia/Tokyo", at("2026-03-05T12:00:00")) == -math.inf

    def test_summertime(self) -> None:
        """A day of 23 hours ends an hour sooner."""
        now = at("2026-03-28T22:30:00", "Europe/Berlin")
        until = validUntil([("22:00:00", "06:00:00")], "Europe/Berlin", now)
        assert until - now == 6.5 * 3600

    def test_machinesZone(self) -> None:
        """Without a zone the machine's holds."""
        now = datetime(2026, 3, 5, 12, 0, 0).timestamp()
        assert validUntil([("08:00:00", "16:00:00")], "", now) == now + 4 * 3600

    @pytest.mark.parametrize(
        ("times", "zone", "now"),
        [
            ([("x", "16:00:00")], "UTC", 0.0),
            ([("08:00:00", "16:00:00")], "Nowhere", 0.0),
            ([("08:00:00", "16:00:00")], "UTC", 1e20),
            ([("22:00:00", "06:00:00")], "UTC", math.inf),
        ],
    )
    def test_nonsense(self, times: list[tuple[str, str]], zone: str, now: float) -> None:
        """What cannot be understood is not now."""
        assert validUntil(times, zone, now) == -math.inf
