"""
What decoders of payloads have in common.
"""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from typing import Any, Protocol

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


def decimalOf(precision: int, scale: int, value: int | decimal.Decimal) -> Any:
    try:
        exponent = decimal.Decimal((0, (1,), -scale))
        found = decimal.Decimal(value).quantize(exponent, context=_EXACT)
    except decimal.DecimalException:
        found = None
    if found is None or not found.is_finite() or len(found.as_tuple().digits) > precision:
        raise BadPayload(f"{abbreviated(value)} is no DECIMAL({precision}, {scale})")
    return found


def abbreviated(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
