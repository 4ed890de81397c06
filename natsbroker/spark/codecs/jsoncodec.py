"""
Payloads in JSON, strictly by a schema in Spark's language.

Nothing is guessed: a number is no text, C{1.0} is no whole number, and what a type cannot hold is
bad, not null. A payload is one object, in UTF-8.
"""

from __future__ import annotations

import base64
import decimal
import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from datetime import date, datetime
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa

from natsbroker.spark.codecs.datatypes import TIMESTAMP
from natsbroker.spark.codecs.payloads import BadPayload, abbreviated, decimalOf
from natsbroker.spark.errors import OptionError

_Reader = Callable[[Any], Any]

_BITS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.A)
_TIME = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[Tt ](?P<time>\d\d:\d\d:\d\d)(?:\.(?P<part>\d{1,9}))?"
    r"(?P<zone>[Zz]|[+-]\d\d:\d\d)?",
    re.A,
)


class JSONCodec:
    def __init__(self, columns: Any, isUnknownBad: bool = True) -> None:
        """
        @param columns: an Arrow schema; a column that is C{NOT NULL} must be there.
        @param isUnknownBad: whether a key that the schema has not makes an object bad.
        """
        self.columns = columns
        self._isUnknownBad = isUnknownBad
        self._read = self._object(list(columns), "")
        self._decoder = json.JSONDecoder(
            object_pairs_hook=_unique, parse_float=decimal.Decimal, parse_constant=_constant
        )

    def decode(self, data: bytes) -> Mapping[str, Any]:
        try:
            value = self._decoder.decode(data.decode("utf-8"))
        except UnicodeDecodeError:
            raise BadPayload("it is no UTF-8") from None
        except RecursionError:
            raise BadPayload("it is nested too deeply") from None
        except BadPayload:
            raise
        except (ValueError, decimal.DecimalException) as error:
            raise BadPayload(f"it is no JSON: {error}") from None
        found: Mapping[str, Any] = self._read(value)
        return found

    def _object(self, fields: list[Any], place: str) -> _Reader:
        inside = f"{place}." if place else ""
        readers = [
            (each.name, each.nullable, self._reader(each.type, inside + each.name), inside)
            for each in fields
        ]
        names = {each.name for each in fields}
        isStrict = self._isUnknownBad

        def read(value: Any) -> dict[str, Any]:
            if type(value) is not dict:
                raise _wrong(place, value, "an object")
            if isStrict and not value.keys() <= names:
                unknown = next(each for each in value if each not in names)
                raise BadPayload(f"{inside}{abbreviated(unknown)} is not in the schema")
            found = {}
            for name, isNullable, reader, inside_ in readers:
                one = value.get(name)
                if one is not None:
                    found[name] = reader(one)
                elif not isNullable:
                    what = "null" if name in value else "missing"
                    raise BadPayload(f"{inside_}{name} is {what} and NOT NULL")
            return found

        return read

    def _reader(self, kind: Any, place: str) -> _Reader:
        if pa.types.is_struct(kind):
            return self._object(list(kind), place)
        if pa.types.is_list(kind):
            return _array(self._reader(kind.value_type, f"{place}[]"), place)
        if pa.types.is_map(kind):
            if kind.key_type != pa.string():
                raise OptionError(f"schema: {place}: the keys of JSON are STRING")
            return _map(self._reader(kind.item_type, f"{place}{{}}"), place)
        return _leaf(*_leafOf(kind), place)


def _wrong(place: str, value: Any, wanted: str) -> BadPayload:
    kinds = {dict: "an object", list: "an array", bool: "true or false", type(None): "null"}
    what = kinds.get(type(value)) or abbreviated(value)
    return BadPayload(f"{place}: {what} is not {wanted}" if place else f"{what} is not {wanted}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = sorted(key for key, _ in pairs)
        twice = next(one for one, other in pairwise(keys) if one == other)
        raise BadPayload(f"the key {abbreviated(twice)} is there twice")
    return found


def _constant(word: str) -> Any:
    raise BadPayload(f"it is no JSON: {word}")


def _array(item: _Reader, place: str) -> _Reader:
    def read(value: Any) -> list[Any]:
        if type(value) is not list:
            raise _wrong(place, value, "an array")
        return [None if each is None else item(each) for each in value]

    return read


def _map(item: _Reader, place: str) -> _Reader:
    text = _leaf(*_LEAVES[pa.string()], place)

    def read(value: Any) -> list[tuple[str, Any]]:
        if type(value) is not dict:
            raise _wrong(place, value, "an object")
        return [(text(key), None if each is None else item(each)) for key, each in value.items()]

    return read


def _leaf(types: tuple[type, ...], wanted: str, convert: _Reader, place: str) -> _Reader:
    """
    @param types: those that C{json} makes of what is right.
    @param convert: raises L{BadPayload}, or another C{ValueError} for what is not as it is wanted.
    """

    def read(value: Any) -> Any:
        if type(value) in types:
            try:
                return convert(value)
            except BadPayload as error:
                raise BadPayload(f"{place}: {error}") from None
            except ValueError:
                pass  # As what is of another type.
        raise _wrong(place, value, wanted)

    return read


def _leafOf(kind: Any) -> tuple[tuple[type, ...], str, _Reader]:
    if kind in _BITS:
        return (int,), "a whole number", partial(_whole, _BITS[kind])
    if pa.types.is_decimal(kind):
        return _NUMBERS, "a number", partial(decimalOf, kind.precision, kind.scale)
    return _LEAVES[kind]


def _whole(bits: int, value: int) -> int:
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise BadPayload(f"{abbreviated(value)} is beyond {bits} bits")
    return value


def _fraction(word: str, value: Any) -> float:
    try:
        found = float(value)
        if word == "FLOAT":
            struct.pack("<f", found)
    except OverflowError:
        found = math.inf
    if math.isinf(found):
        raise BadPayload(f"{abbreviated(value)} is beyond {word}")
    return found


def _text(value: str) -> str:
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise BadPayload("half a surrogate is no text") from None
    return value


def _day(value: str) -> date:
    if _DAY.fullmatch(value) is None:
        raise ValueError
    return date.fromisoformat(value)


def _moment(hasZone: bool, value: str) -> datetime:
    found = _TIME.fullmatch(value)
    if found is None or bool(found["zone"]) != hasZone:
        raise ValueError
    zone = (found["zone"] or "").upper().replace("Z", "+00:00")
    part = (found["part"] or "")[:6].ljust(6, "0")
    return datetime.fromisoformat(f"{found['day']}T{found['time']}.{part}{zone}")


_NUMBERS = (int, decimal.Decimal)
_ZONED = "a time such as '2026-11-20T12:30:00Z'"
_LOCAL = "a time such as '2026-11-20T12:30:00', without a zone"

_LEAVES: dict[Any, tuple[tuple[type, ...], str, _Reader]] = {
    pa.bool_(): ((bool,), "true or false", bool),
    pa.float32(): (_NUMBERS, "a number", partial(_fraction, "FLOAT")),
    pa.float64(): (_NUMBERS, "a number", partial(_fraction, "DOUBLE")),
    pa.string(): ((str,), "a text", _text),
    pa.binary(): ((str,), "a text in base64", partial(base64.b64decode, validate=True)),
    pa.date32(): ((str,), "a day such as '2026-11-20'", _day),
    TIMESTAMP: ((str,), _ZONED, partial(_moment, True)),
    pa.timestamp("us"): ((str,), _LOCAL, partial(_moment, False)),
}
