"""Tests for L{natsbroker.monitoring.formats}."""

from __future__ import annotations

import pytest

from natsbroker.monitoring.formats import (
    nanoseconds,
    number,
    roundTrip,
    uptime,
)


def test_nanoseconds() -> None:
    """A duration in JSON is a whole number of nanoseconds."""
    assert nanoseconds(120.0) == 120_000_000_000
    assert nanoseconds(0.1) == 100_000_000


def test_number() -> None:
    """A whole number has no point."""
    assert repr(number(2.0)) == "2"
    assert repr(number(1.5)) == "1.5"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0s"),
        (0.9, "0s"),
        (59.9, "59s"),
        (60, "1m0s"),
        (3_599, "59m59s"),
        (3_600, "1h0m0s"),
        (86_400, "1d0h0m0s"),
        (31_536_000 + 86_400 + 3_661, "1y1d1h1m1s"),
    ],
)
def test_uptime(seconds: float, text: str) -> None:
    """An uptime begins with its first unit that is not zero, and names all smaller ones."""
    assert uptime(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0s"), (845.7e-6, "845µs"), (999.9e-9, "1µs"), (1.5e-3, "1.5ms")],
)
def test_roundTrip(seconds: float, text: str) -> None:
    """A round trip below a millisecond is cut to whole microseconds."""
    assert roundTrip(seconds) == text
