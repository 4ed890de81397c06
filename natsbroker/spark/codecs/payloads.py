"""
What decoders of payloads have in common.
"""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone
from typing import Any, Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LOCAL_EPOCH = datetime(1970, 1, 1)
_FIRST_DAY = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)

#: Exact, or an error.
_EXACT = decimal.Context(
    prec=38, traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow]
)


class BadPayload(ValueError):
    """
    Bytes that are no value of a schema.
    """


class Codec(Protocol):
    """
    Reads payloads of one schema.

    @ivar columns: the columns of what it reads, an Arrow schema.
    """

    columns: Any

    def decode(self, data: bytes) -> Mapping[str, Any]:
        """
        Read one payload.

        @return: the values by the names of the columns; those that are missing are null.
        """


def checkedLong(value: int, place: str) -> int:
    if not -(1 << 63) <= value < 1 << 63:
        raise BadPayload(f"{place}: {abbreviated(value)} is beyond 64 bits")
    return value


def decimalOf(value: int | decimal.Decimal, precision: int, scale: int, place: str) -> Any:
    try:
        exponent = decimal.Decimal((0, (1,), -scale))
        found = decimal.Decimal(value).quantize(exponent, context=_EXACT)
    except decimal.DecimalException:
        found = None
    if found is None or not found.is_finite() or len(found.as_tuple().digits) > precision:
        raise BadPayload(f"{place}: {abbreviated(value)} is no DECIMAL({precision}, {scale})")
    return found


def daysOf(value: date) -> int:
    return value.toordinal() - _FIRST_DAY


def microsOf(value: datetime) -> int:
    """
    Microseconds since 1970; where no zone is given, of the clock on the wall.
    """
    epoch = _EPOCH if value.tzinfo is not None else _LOCAL_EPOCH
    return (value - epoch) // _MICROSECOND


def abbreviated(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
