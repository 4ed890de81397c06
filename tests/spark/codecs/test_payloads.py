"""
What decoders have in common.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.spark.codecs.payloads import (
    BadPayload,
    abbreviated,
    checkedLong,
    daysOf,
    decimalOf,
    microsOf,
)


@given(st.integers(1, 38), st.data())
def test_decimals(precision: int, data: st.DataObject) -> None:
    """A decimal within the precision is taken as it is, however it is written."""
    scale = data.draw(st.integers(0, precision))
    number = data.draw(st.integers(1 - 10**precision, 10**precision - 1))
    value = Decimal(f"{number}e-{scale}")
    assert decimalOf(value, precision, scale, "a") == value
    padded = Decimal(f"{number}000e-{scale + 3}")
    assert decimalOf(padded, precision, scale, "a").as_tuple().exponent == -scale


@pytest.mark.parametrize("text", ["1000", "0.001", "99.995", "1e999999999", "1e-999999999", "NaN"])
def test_noDecimals(text: str) -> None:
    """Nothing is rounded."""
    with pytest.raises(BadPayload, match=r"a: \S+ is no DECIMAL\(5, 2\)"):
        decimalOf(Decimal(text), 5, 2, "a")


def test_longs() -> None:
    """64 bits, and no more."""
    assert checkedLong(-(1 << 63), "a") == -(1 << 63)
    for number in (1 << 63, -(1 << 63) - 1):
        with pytest.raises(BadPayload, match=r"a: -?9223372036854775.* is beyond 64 bits"):
            checkedLong(number, "a")


@given(st.dates(), st.datetimes())
def test_times(day: date, moment: datetime) -> None:
    """Times are counted from 1970 on, without rounding."""
    assert date(1970, 1, 1) + timedelta(days=daysOf(day)) == day
    local = datetime(1970, 1, 1)
    assert local + timedelta(microseconds=microsOf(moment)) == moment
    zone = moment.replace(tzinfo=timezone.utc)
    assert microsOf(zone) == microsOf(moment)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        ("a", "'a'"),
        ("x" * 99, "'" + "x" * 76 + "..."),
        (1 << 999, "a number of 1000 bits"),
    ],
)
def test_shown(value: object, text: str) -> None:
    """Values are shown, not too long."""
    assert abbreviated(value) == text
