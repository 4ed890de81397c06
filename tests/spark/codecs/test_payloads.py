"""
What decoders have in common.
"""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.spark.codecs.payloads import (
    BadPayload,
    abbreviated,
    decimalOf,
)


@given(st.integers(1, 38), st.data())
def test_decimals(precision: int, data: st.DataObject) -> None:
    """A decimal within the precision is taken as it is, however it is written."""
    scale = data.draw(st.integers(0, precision))
    number = data.draw(st.integers(1 - 10**precision, 10**precision - 1))
    value = Decimal(f"{number}e-{scale}")
    assert decimalOf(precision, scale, value) == value
    padded = Decimal(f"{number}000e-{scale + 3}")
    assert decimalOf(precision, scale, padded).as_tuple().exponent == -scale


@pytest.mark.parametrize("text", ["1000", "0.001", "99.995", "1e999999999", "1e-999999999", "NaN"])
def test_noDecimals(text: str) -> None:
    """Nothing is rounded."""
    with pytest.raises(BadPayload, match=r"^\S+ is no DECIMAL\(5, 2\)"):
        decimalOf(5, 2, Decimal(text))


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
