"""
Tests for L{natsbroker.config.language.numbers}.
"""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from natsbroker.config.language.numbers import booleanFrom, datetimeFrom, floatFrom, integerFrom

SIZES = [
    ("0", 0),
    ("-17", -17),
    ("007", 7),
    ("1k", 1000),
    ("1K", 1000),
    ("1kb", 1024),
    ("1Ki", 1024),
    ("1KiB", 1024),
    ("-2m", -2_000_000),
    ("2MB", 2 * 1024**2),
    ("3g", 3 * 1000**3),
    ("3gi", 3 * 1024**3),
    ("4t", 4 * 1000**4),
    ("4tib", 4 * 1024**4),
    ("5p", 5 * 1000**5),
    ("5pb", 5 * 1024**5),
    ("6e", 6 * 1000**6),
    ("6EB", 6 * 1024**6),
    ("9223372036854775807", 2**63 - 1),
    ("-9223372036854775808", -(2**63)),
]


@pytest.mark.parametrize(("text", "value"), SIZES)
def test_sizes(text: str, value: int) -> None:
    """Letters alone are powers of 1000, letters with b, i or ib powers of 1024."""
    assert integerFrom(text) == value


@pytest.mark.parametrize("text", ["9223372036854775808", "10e", "8eb", "1" * 5000])
def test_outOfRange(text: str) -> None:
    """What does not fit into 64 bits is an error."""
    with pytest.raises(ValueError, match="out of the range"):
        integerFrom(text)


@pytest.mark.parametrize("text", ["1kbi", "1kk", "", "-", "\u0663", "1\u0663"])
def test_notAnInteger(text: str) -> None:
    """Unknown units and digits of other scripts are errors."""
    with pytest.raises(ValueError, match="expected integer"):
        integerFrom(text)


@pytest.mark.parametrize(("text", "value"), [("1.5", 1.5), ("-0.25", -0.25), ("00.10", 0.1)])
def test_floats(text: str, value: float) -> None:
    """A decimal fraction is a float."""
    assert floatFrom(text) == value


def test_badFloats() -> None:
    """A float that is too large, or has other digits, is an error."""
    with pytest.raises(ValueError, match="out of the range"):
        floatFrom("1" * 400 + ".0")
    with pytest.raises(ValueError, match="expected float"):
        floatFrom("1.\u0663")


def test_datetime() -> None:
    """A date is in UTC."""
    expected = datetime(2020, 2, 29, 23, 59, 58, tzinfo=timezone.utc)
    assert datetimeFrom("2020-02-29T23:59:58Z") == expected


@pytest.mark.parametrize(
    "text", ["2021-02-29T00:00:00Z", "2020-01-01T24:00:00Z", "2020-01-0\u0661T00:00:00Z"]
)
def test_impossibleDatetime(text: str) -> None:
    """A day or an hour that does not exist is an error."""
    with pytest.raises(ValueError, match="expected Zulu formatted DateTime"):
        datetimeFrom(text)


@pytest.mark.parametrize("text", ["true", "YES", "On", "false", "No", "OFF"])
def test_booleans(text: str) -> None:
    """Three words say yes and three say no, in any case."""
    assert booleanFrom(text) is (text.lower() in ("true", "yes", "on"))
