"""
Tests for L{natsbroker.wire.durations}.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.wire.durations import durationText, nanosecondsFrom, nanosecondsText, secondsFrom

READABLE = [
    ("0", 0),
    ("+0", 0),
    ("1ns", 1),
    ("1us", 1_000),
    ("1\u00b5s", 1_000),
    ("1\u03bcs", 1_000),
    ("1ms", 1_000_000),
    ("10s", 10_000_000_000),
    ("2m", 120_000_000_000),
    ("1h", 3_600_000_000_000),
    ("1h2m3s4ms", 3_723_004_000_000),
    ("1.5h", 5_400_000_000_000),
    (".5s", 500_000_000),
    ("5.s", 5_000_000_000),
    ("-1.5s", -1_500_000_000),
    ("+1s", 1_000_000_000),
    ("1s1s", 2_000_000_000),
    ("0.3333333333333333333h", 1_200_000_000_000 - 1),
]


@pytest.mark.parametrize(("text", "nanoseconds"), READABLE)
def test_readable(text: str, nanoseconds: int) -> None:
    """Numbers with units are added up; a fraction is cut to nanoseconds."""
    assert nanosecondsFrom(text) == nanoseconds


UNREADABLE = [
    ("", 'time: invalid duration ""'),
    ("-", 'time: invalid duration "-"'),
    ("s", 'time: invalid duration "s"'),
    (".s", 'time: invalid duration ".s"'),
    ("10", 'time: missing unit in duration "10"'),
    ("1s5", 'time: missing unit in duration "1s5"'),
    ("1d", 'time: unknown unit "d" in duration "1d"'),
    ("1s-2s", 'time: unknown unit "s-" in duration "1s-2s"'),
    ("9223372037s", 'time: invalid duration "9223372037s"'),
    ("1" * 500 + "s", f'time: invalid duration "{"1" * 20}..."'),
]


@pytest.mark.parametrize(("text", "message"), UNREADABLE)
def test_unreadable(text: str, message: str) -> None:
    """A text that is no duration is refused in Go's words."""
    with pytest.raises(ValueError) as raised:
        nanosecondsFrom(text)
    assert str(raised.value) == message


def test_seconds() -> None:
    """A setting of a duration is in seconds."""
    assert secondsFrom("1m0.25s") == 60.25


WRITTEN = [
    (0, "0s"),
    (1e-9, "1ns"),
    (1.5e-6, "1.5\u00b5s"),
    (0.05, "50ms"),
    (1, "1s"),
    (1.5, "1.5s"),
    (60, "1m0s"),
    (120, "2m0s"),
    (3600, "1h0m0s"),
    (3723.25, "1h2m3.25s"),
    (-120, "-2m0s"),
]


@pytest.mark.parametrize(("seconds", "text"), WRITTEN)
def test_written(seconds: float, text: str) -> None:
    """A duration is written as Go writes it."""
    assert durationText(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (999, "999ns"),
        (1_000, "1µs"),
        (1_500, "1.5µs"),
        (845_000, "845µs"),
        (1_000_000, "1ms"),
        (1_234_567, "1.234567ms"),
        (1_000_000_000, "1s"),
        (60_250_000_000, "1m0.25s"),
        (3_600_000_000_000, "1h0m0s"),
    ],
)
def test_nanosecondsWritten(count: int, text: str) -> None:
    """A duration in nanoseconds is written as Go writes it."""
    assert nanosecondsText(count) == text


@given(st.integers(-(2**43), 2**43))
def test_roundTrip(milliseconds: int) -> None:
    """A written duration is read unchanged."""
    seconds = milliseconds / 1000
    assert nanosecondsFrom(durationText(seconds)) == round(seconds * 1e9)


@given(st.text("0123456789.-+hmsnu\u00b5", max_size=12))
def test_anyText(text: str) -> None:
    """Any text is a duration or raises C{ValueError}."""
    try:
        nanosecondsFrom(text)
    except ValueError as error:
        assert str(error).startswith("time: ")
