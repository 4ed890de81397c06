"""
Times as Go writes them.
"""

from __future__ import annotations

import pytest

from natsbroker.jetstream.model.timestamps import ZERO_TIME, Timestamp, formatTime


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
    """A time has no zeros at the end of its fraction and keeps its offset."""
    assert formatTime(time) == text


def test_offsetIsNoPartOfTheInstant() -> None:
    """The same instant in two offsets is equal."""
    assert Timestamp(5, 3600) == Timestamp(5) == 5
    assert hash(Timestamp(5, 3600)) == hash(5)


def test_repr() -> None:
    """A failing test shows the time in words."""
    assert repr(Timestamp(0)) == "Timestamp(1970-01-01T00:00:00Z)"
