"""
Times as Go writes them.
"""

from __future__ import annotations

import pytest

from natsbroker.wire.timestamps import ZERO_TIME, Timestamp, formatTime, parseTime


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_795_192_366_320_603_760, "2026-11-20T16:32:46.32060376Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (ZERO_TIME, "0001-01-01T00:00:00Z"),
        (Timestamp(0, 7200), "1970-01-01T02:00:00+02:00"),
        (Timestamp(500_000_000, -12600), "1969-12-31T20:30:00.5-03:30"),
    ],
)
def test_formatTime(time: int, text: str) -> None:
    """A time is written without trailing zeros in its fraction, and keeps its offset."""
    assert formatTime(time) == text


def test_offsetIsNoPartOfTheInstant() -> None:
    """Times of the same instant in two offsets are equal."""
    assert Timestamp(5, 3600) == Timestamp(5) == 5
    assert hash(Timestamp(5, 3600)) == hash(5)


def test_repr() -> None:
    """The representation of a time is readable."""
    assert repr(Timestamp(0)) == "Timestamp(1970-01-01T00:00:00Z)"


@pytest.mark.parametrize(
    ("text", "nanoseconds", "offset"),
    [
        ("1970-01-01T00:00:00Z", 0, 0),
        ("1970-01-01T02:00:00+02:00", 0, 7200),
        ("1969-12-31T20:30:00.5-03:30", 500_000_000, -12600),
        ("1970-01-01T1:00:00,1234567891Z", 3_600_123_456_789, 0),
        ("0001-01-01T00:00:00Z", ZERO_TIME, 0),
        ("0000-02-29T00:00:00Z", ZERO_TIME - 307 * 86_400_000_000_000, 0),
    ],
)
def test_parseTime(text: str, nanoseconds: int, offset: int) -> None:
    """A time is read with its offset, and written again unchanged."""
    time = parseTime(text)
    assert (int(time), time.offset) == (nanoseconds, offset)
    assert parseTime(formatTime(time)) == time


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("zork", "'zork' is not a time"),
        ("2024-01-01 00:00:00Z", "is not a time"),
        ("2024-01-01T00:00:00", "is not a time"),
        ("2024-01-01T00:00:00Z!", "is not a time"),
        ("2024-01-01T00:00:00.Z", "is not a time"),
        ("2024-01-01T00:00:00x01:00", "is not a time"),
        ("2024-01-01T00:00:00+01:61", "is not a time"),
        ("2024-01-01T00:00:00+25:00", "is not a time"),
        ("2024-00-01T00:00:00Z", "month"),
        ("2023-02-29T00:00:00Z", "day"),
        ("2024-01-01T24:00:00Z", "hour"),
        ("2024-01-01T00:60:00Z", "minute"),
        ("2024-01-01T00:00:60Z", "second"),
    ],
)
def test_noTime(text: str, problem: str) -> None:
    """A text that is not a time is refused with the reason."""
    with pytest.raises(ValueError, match=problem):
        parseTime(text)
