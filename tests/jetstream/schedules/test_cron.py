"""
Cron patterns.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.jetstream.schedules.cron import SECOND, CronPattern


def _after(pattern: str, time: str, zone: str = "UTC") -> str:
    since = datetime.fromisoformat(time).replace(tzinfo=ZoneInfo(zone))
    moment = CronPattern(pattern, ZoneInfo(zone)).after(int(since.timestamp()) * SECOND)
    return datetime.fromtimestamp(moment // SECOND, ZoneInfo(zone)).isoformat()[:19]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("* * * * * *", "2024-02-27T10:20:31"),
        ("? ? ? ? ? ?", "2024-02-27T10:20:31"),
        ("0 * * * * *", "2024-02-27T10:21:00"),
        ("30 20 10 * * *", "2024-02-28T10:20:30"),
        ("*/15 * * * * *", "2024-02-27T10:20:45"),
        ("31/20 * * * * *", "2024-02-27T10:20:31"),
        ("0 0 9-17/4 * * *", "2024-02-27T13:00:00"),
        ("0 0 0 29 2 *", "2024-02-29T00:00:00"),
        ("0 0 0 1 1 *", "2025-01-01T00:00:00"),
        ("0 0 0 * * 0", "2024-03-03T00:00:00"),
        ("0 0 0 * JAN-Feb,sep mon", "2024-09-02T00:00:00"),
        ("0 30 4 1,15 * fri", "2024-03-01T04:30:00"),
        ("0 30 4 20 * fri", "2024-03-01T04:30:00"),
        ("0 30 4 5 * */2", "2024-02-29T04:30:00"),
        ("0 30 4 */2 * 5", "2024-02-29T04:30:00"),
        ("5,,7 * * * * *", "2024-02-27T10:21:05"),
        ("+5 * * * * *", "2024-02-27T10:21:05"),
        ("*-7 * * * * *", "2024-02-27T10:20:31"),
    ],
)
def test_after(pattern: str, expected: str) -> None:
    """
    The next time of a pattern is found. If both kinds of days are limited, one match is enough.
    """
    assert _after(pattern, "2024-02-27T10:20:30") == expected


@pytest.mark.parametrize(
    "pattern",
    [
        "* * * * *",
        "* * * * * * *",
        "",
        "60 * * * * *",
        "* * 24 * * *",
        "* * * 0 * *",
        "* * * * 13 *",
        "* * * * * 7",
        "5-3 * * * * *",
        "1-2-3 * * * * *",
        "*/0 * * * * *",
        "1/2/3 * * * * *",
        "-5 * * * * *",
        "a * * * * *",
        "mon * * * * *",
        ", * * * * *",
        "1_0 * * * * *",
        "\u0661 * * * * *",
    ],
)
def test_invalid(pattern: str) -> None:
    """Text that is no cron pattern is refused."""
    with pytest.raises(ValueError, match=r"."):
        CronPattern(pattern)


def test_never() -> None:
    """A pattern that matches no day has no next time."""
    with pytest.raises(ValueError, match="no time"):
        CronPattern("0 0 0 30 2 *").after(0)


@pytest.mark.parametrize(
    ("pattern", "time", "expected"),
    [
        ("0 30 2 * * *", "2024-03-30T12:00:00", "2024-04-01T02:30:00"),
        ("0 0 3 * * *", "2024-03-30T12:00:00", "2024-03-31T03:00:00"),
        ("0 0 0 * * *", "2024-03-31T12:00:00", "2024-04-01T00:00:00"),
    ],
)
def test_clockGoesForward(pattern: str, time: str, expected: str) -> None:
    """A local time that is skipped when the clock goes forward does not match."""
    assert _after(pattern, time, "Europe/Amsterdam") == expected


def test_clockGoesBack() -> None:
    """A local time that comes twice when the clock goes back matches twice."""
    cron = CronPattern("0 30 2 * * *", ZoneInfo("Europe/Amsterdam"))
    since = datetime(2024, 10, 27, tzinfo=ZoneInfo("Europe/Amsterdam"))
    first = cron.after(int(since.timestamp()) * SECOND)
    assert cron.after(first) - first == 3600 * SECOND


@given(
    st.integers(0, 4_000_000_000),
    st.sampled_from(["*/7 * * * * *", "0 */9 * * * *", "0 0 5 * * 1-3", "0 0 0 31 * *"]),
    st.sampled_from(["UTC", "Asia/Kolkata", "America/New_York", "Australia/Lord_Howe"]),
)
def test_following(seconds: int, pattern: str, zone: str) -> None:
    """The next time matches, and no earlier time after the given one does."""
    cron = CronPattern(pattern, ZoneInfo(zone))
    moment = cron.after(seconds * SECOND)
    assert moment > seconds * SECOND
    assert cron.after(moment - 1) == moment
    between = datetime.fromtimestamp(seconds, timezone.utc) + timedelta(
        seconds=(moment // SECOND - seconds) // 2
    )
    assert cron.after(int(between.timestamp()) * SECOND - 1) == moment
