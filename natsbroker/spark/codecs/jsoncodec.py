"""
Payloads in JSON, strictly by a schema in Spark's language.

Nothing is guessed: a number is no text, C{1.0} is no whole number, and what a type cannot hold is
bad, not null. A payload is one object, in UTF-8. msgspec reads it by types that are made of the
schema; of a key that is there twice it takes the last one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from types import GenericAlias
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from natsbroker.spark.codecs.datatypes import TIMESTAMP
from natsbroker.spark.codecs.payloads import BadPayload
from natsbroker.spark.errors import OptionError

_BITS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}

#: Between this and infinity, numbers are nearer to the largest C{FLOAT} than to what follows it.
_LARGEST = 3.4028235677973366e38

_TYPES: dict[Any, Any] = {
    **{
        kind: Annotated[int, msgspec.Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)]
        for kind, bits in _BITS.items()
    },
    pa.bool_(): bool,
    pa.float32(): Annotated[float, msgspec.Meta(gt=-_LARGEST, lt=_LARGEST)],
    pa.float64(): float,
    pa.string(): str,
    pa.binary(): bytes,
    pa.date32(): date,
    TIMESTAMP: Annotated[datetime, msgspec.Meta(tz=True)],
    pa.timestamp("us"): Annotated[datetime, msgspec.Meta(tz=False)],
}

#: What Arrow takes as it is.
_KEPT = (bytes, date, datetime, Decimal)


class _Digits(Decimal):
    """
    A number of a column of C{DECIMAL}, each of which has a subclass.

    Arrow is not given others: version 26 ends the process for C{1E-999999999}.
    """

    kind: Any


class JSONCodec:
    def __init__(self, columns: Any, isUnknownBad: bool = True) -> None:
        """
        @param columns: an Arrow schema; a column that is C{NOT NULL} must be there.
        @param isUnknownBad: whether a key that the schema has not makes an object bad.
        """
        self.columns = columns
        kind = _typeOf(pa.struct(list(columns)), "", isUnknownBad)
        self._decoder = msgspec.json.Decoder(kind, dec_hook=_digits, float_hook=Decimal)

    def decode(self, data: bytes) -> Mapping[str, Any]:
        try:
            value = self._decoder.decode(data)
        except RecursionError:
            raise BadPayload("it is nested too deeply") from None
        except (msgspec.MsgspecError, ValueError) as error:
            raise BadPayload(str(error)) from None
        found: Mapping[str, Any] = msgspec.to_builtins(value, builtin_types=_KEPT, enc_hook=Decimal)
        return found


def _typeOf(kind: Any, place: str, isStrict: bool) -> Any:
    if pa.types.is_struct(kind):
        inside = f"{place}." if place else ""
        fields: list[Any] = []
        for number, each in enumerate(kind):
            inner = _typeOf(each.type, inside + each.name, isStrict)
            name = f"field{number}"
            fields.append((name, inner | None, None) if each.nullable else (name, inner))
        names = {f"field{number}": each.name for number, each in enumerate(kind)}
        return msgspec.defstruct(
            "Object", fields, rename=names, forbid_unknown_fields=isStrict, kw_only=True
        )
    if pa.types.is_list(kind):
        item = _typeOf(kind.value_type, f"{place}[]", isStrict)
        return GenericAlias(list, (item | None,))
    if pa.types.is_map(kind):
        if kind.key_type != pa.string():
            raise OptionError(f"schema: {place}: the keys of JSON are STRING")
        item = _typeOf(kind.item_type, f"{place}{{}}", isStrict)
        return GenericAlias(dict, (str, item | None))
    if pa.types.is_decimal(kind):
        return type("Number", (_Digits,), {"kind": kind})
    return _TYPES[kind]


def _digits(kind: type[_Digits], value: Any) -> _Digits:
    if type(value) is not int and type(value) is not Decimal:
        raise ValueError("Expected a number")
    number, precision, scale = Decimal(value), kind.kind.precision, kind.kind.scale
    exact = Context(prec=precision, traps=[Inexact, InvalidOperation])
    try:
        return kind(number.quantize(Decimal((0, (1,), -scale)), context=exact))
    except DecimalException:
        raise BadPayload(f"{str(number)[:80]} is no DECIMAL({precision}, {scale})") from None
