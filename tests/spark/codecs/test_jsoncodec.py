"""
Payloads in JSON.
"""

from __future__ import annotations

import base64
import json
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.spark.codecs.datatypes import TIMESTAMP, readSchema
from natsbroker.spark.codecs.jsoncodec import JSONCodec
from natsbroker.spark.codecs.payloads import BadPayload
from natsbroker.spark.errors import OptionError
from tests.spark.codecs.types import structs, types

UTC = timezone.utc

_BITS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
_TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type, as Arrow gives them back."""
    if pa.types.is_struct(kind):
        fields = {
            field.name: values(field.type) if not field.nullable else st.none() | values(field.type)
            for field in kind
        }
        return st.fixed_dictionaries(fields)
    if pa.types.is_list(kind):
        return st.lists(st.none() | values(kind.value_type), max_size=3)
    if pa.types.is_map(kind):
        return st.dictionaries(_TEXTS, st.none() | values(kind.item_type), max_size=3).map(
            lambda mapping: list(mapping.items())
        )
    if pa.types.is_decimal(kind):
        most = 10**kind.precision - 1
        return st.integers(-most, most).map(lambda n: Decimal(f"{n}e-{kind.scale}"))
    if kind in _BITS:
        bits = _BITS[kind]
        return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
    return {
        pa.bool_(): st.booleans(),
        pa.float32(): st.floats(allow_nan=False, allow_infinity=False, width=32),
        pa.float64(): st.floats(allow_nan=False, allow_infinity=False),
        pa.string(): _TEXTS,
        pa.binary(): st.binary(max_size=5),
        pa.date32(): st.dates(),
        TIMESTAMP: st.datetimes(timezones=st.just(UTC)),
        pa.timestamp("us"): st.datetimes(),
    }[kind]


def written(kind: Any, value: Any) -> str:
    """A value as JSON."""
    if value is None:
        return "null"
    if pa.types.is_struct(kind):
        pairs = [(field.name, written(field.type, value[field.name])) for field in kind]
        return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in pairs) + "}"
    if pa.types.is_list(kind):
        return "[" + ",".join(written(kind.value_type, element) for element in value) + "]"
    if pa.types.is_map(kind):
        pairs = [(key, written(kind.item_type, one)) for key, one in value]
        return "{" + ",".join(f"{json.dumps(key)}:{text}" for key, text in pairs) + "}"
    if isinstance(value, bytes):
        return json.dumps(base64.b64encode(value).decode())
    if isinstance(value, (date, datetime)):
        return json.dumps(value.isoformat())
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def decoded(ddl: str, text: str | bytes, isUnknownBad: bool = True) -> dict[str, Any]:
    """The content of an object, as Arrow returns it."""
    columns = readSchema(ddl)
    row = JSONCodec(columns, isUnknownBad).decode(text.encode() if isinstance(text, str) else text)
    [entry] = pa.array([row], pa.struct(list(columns))).to_pylist()
    assert isinstance(entry, dict)
    return entry


class TestRight:
    """Objects of a schema."""

    @given(structs(types), st.data())
    def test_roundTrip(self, fields: list[Any], data: st.DataObject) -> None:
        """A written value is decoded as the same value, for all types."""
        kind = pa.struct(fields)
        value = data.draw(values(kind))
        row = JSONCodec(pa.schema(fields)).decode(written(kind, value).encode())
        assert pa.array([row], kind).to_pylist() == [value]

    @pytest.mark.parametrize(
        ("ddl", "text", "value"),
        [
            ("a INT", "{}", None),
            ("a INT", ' {"a" : null } ', None),
            ("a DOUBLE", '{"a": 7}', 7.0),
            ("a DECIMAL(4, 2)", '{"a": 1.5}', Decimal("1.50")),
            ("a DECIMAL(4, 2)", '{"a": 12.50000}', Decimal("12.50")),
            ("a TIMESTAMP", '{"a": "2026-11-20t12:30:00.123455789+05:30"}', None),
            ("a DATE", '{"a": "2024-02-29"}', date(2024, 2, 29)),
            ("a STRUCT<b: INT>", '{"a": {}}', {"b": None}),
        ],
    )
    def test_spellings(self, ddl: str, text: str, value: Any) -> None:
        """A value may be spelt in several ways."""
        if "TIMESTAMP" in ddl:
            value = datetime(2026, 11, 20, 7, 0, 0, 123456, UTC)
        assert decoded(ddl, text) == {"a": value}

    def test_doubledKeys(self) -> None:
        """Of a key that occurs twice the last one counts."""
        assert decoded("a INT", '{"a": 1, "a": 2}') == {"a": 2}

    def test_deepUnknown(self) -> None:
        """
        A value of an unknown key is bad if it is nested too deeply, even if unknown keys are
        ignored.
        """
        with pytest.raises(BadPayload, match="it is nested too deeply"):
            decoded("a INT", '{"b": ' + "[" * 200_000, False)

    def test_unknown(self) -> None:
        """Keys that the schema has not can be passed over."""
        text = '{"a": {"b": 1, "c": 2}, "d": 3}'
        assert decoded("a STRUCT<b: INT>", text, False) == {"a": {"b": 1}}


WRONG = [
    ("a INT", "", "Input data was truncated"),
    ("a INT", "{} {}", "JSON is malformed: trailing characters"),
    ("a INT", '{"a": 1', "Input data was truncated"),
    ("a INT", b"\xff\xfe{\x00}\x00", "JSON is malformed"),
    ("a INT", b"\xef\xbb\xbf{}", "JSON is malformed"),
    ("a INT", "[1]", "Expected `object`, got `array`"),
    ("a INT", "null", "Expected `object`, got `null`"),
    ("a INT", '{"b": 1}', "Object contains unknown field `b`"),
    ("a STRUCT<b: INT>", '{"a": {"c": 1}}', r"unknown field `c` - at `\$\.a`"),
    ("a INT NOT NULL", "{}", "Object missing required field `a`"),
    ("a STRUCT<b: INT NOT NULL>", '{"a": {"b": null}}', r"got `null` - at `\$\.a\.b`"),
    ("a INT", '{"a": 1.0}', r"Expected `int \| null`, got `float` - at `\$\.a`"),
    ("a INT", '{"a": "1"}', r"Expected `int \| null`, got `str`"),
    ("a INT", '{"a": true}', r"Expected `int \| null`, got `bool`"),
    ("a TINYINT", '{"a": 128}', "Expected `int` <= 127"),
    ("a BIGINT", '{"a": 9223372036854775808}', "Expected `int` <= 9223372036854775807"),
    ("a BIGINT", '{"a": 1' + "0" * 9999 + "}", "Integer value out of range"),
    ("a DOUBLE", '{"a": NaN}', "JSON is malformed"),
    ("a DOUBLE", '{"a": -Infinity}', "JSON is malformed"),
    ("a DOUBLE", '{"a": 1e400}', "Number out of range"),
    ("a DOUBLE", '{"a": 1e99999999999999999999}', "Number out of range"),
    ("a DOUBLE", '{"a": 1' + "0" * 400 + "}", "Number out of range"),
    ("a FLOAT", '{"a": 3.5e38}', "Expected `float` < 3.4"),
    ("a FLOAT", '{"a": -3.5e38}', "Expected `float` > -3.4"),
    ("a DOUBLE", '{"a": true}', r"Expected `float \| null`, got `bool`"),
    ("a DECIMAL(3, 1)", '{"a": 1.25}', r"1.25 is not a DECIMAL\(3, 1\) - at `\$\.a`"),
    ("a DECIMAL(3, 1)", '{"a": 1e-999999999}', r"is not a DECIMAL\(3, 1\)"),
    ("a DECIMAL(5, 2)", '{"a": 1000}', r"1000 is not a DECIMAL\(5, 2\)"),
    ("a DECIMAL(5, 2)", '{"a": 99.995}', r"99.995 is not a DECIMAL\(5, 2\)"),
    ("a DECIMAL(5, 2)", '{"a": 1e999999999}', r"1E\+999999999 is not a DECIMAL\(5, 2\)"),
    ("a DECIMAL(5, 2)", '{"a": 1' + "0" * 9999 + "}", "Integer value out of range"),
    ("a DECIMAL(3, 1)", '{"a": "1.5"}', "Expected a number"),
    ("a STRING", '{"a": 1}', r"Expected `str \| null`, got `int`"),
    ("a STRING", '{"a": "\\ud800"}', "Input data was truncated"),
    ("a MAP<STRING, INT>", '{"a": {"\\ud800": 1}}', "JSON is malformed"),
    ("a MAP<STRING, INT>", '{"a": [1]}', "got `array`"),
    ("a MAP<STRING, INT>", '{"a": {"x": "1"}}', r"got `str` - at `\$\.a\[\.\.\.\]`"),
    ("a ARRAY<INT>", '{"a": {}}', "got `object`"),
    ("a ARRAY<INT>", '{"a": [1, "2"]}', r"got `str` - at `\$\.a\[1\]`"),
    ("a BOOLEAN", '{"a": 1}', r"Expected `bool \| null`, got `int`"),
    ("a BINARY", '{"a": "a"}', "Invalid base64"),
    ("a BINARY", '{"a": "YQ==\\n"}', "Invalid base64"),
    ("a BINARY", '{"a": "é"}', "Invalid base64"),
    ("a DATE", '{"a": "2026-02-29"}', "Invalid RFC3339 encoded date"),
    ("a DATE", '{"a": "20260228"}', "Invalid RFC3339 encoded date"),
    ("a TIMESTAMP", '{"a": "2026-11-20T12:30:00"}', "Expected `datetime` with a timezone"),
    ("a TIMESTAMP", '{"a": "2026-11-20T12:30:60Z"}', "Invalid RFC3339 encoded datetime"),
    ("a TIMESTAMP", '{"a": "2026-11-20T12:30:00+24:00"}', "Invalid RFC3339 encoded datetime"),
    ("a TIMESTAMP", '{"a": 1}', r"Expected `datetime \| null`, got `int`"),
    ("a TIMESTAMP_NTZ", '{"a": "2026-11-20T12:30:00Z"}', "with no timezone"),
    ("a ARRAY<INT>", '{"a": ' + "[" * 200_000, "got `array`"),
]


class TestWrong:
    """Payloads that are no objects of the schema."""

    @pytest.mark.parametrize(("ddl", "text", "error"), WRONG, ids=range(len(WRONG)))
    def test_badPayloads(self, ddl: str, text: str | bytes, error: str) -> None:
        """A payload that is not an object of the schema is bad, with the reason."""
        with pytest.raises(BadPayload, match=error):
            decoded(ddl, text)

    @given(
        structs(types),
        st.binary() | st.from_regex(r"\{(\"[a-z]\":[\[{0-9e.,}\]]*)*\}").map(str.encode),
    )
    def test_anyBytes(self, fields: list[Any], data: bytes) -> None:
        """Random bytes are either bad or decoded to the schema's types."""
        try:
            row = JSONCodec(pa.schema(fields), isUnknownBad=False).decode(data)
        except BadPayload:
            return
        pa.array([row], pa.struct(fields))

    @given(structs(types), st.data())
    def test_otherTypes(self, fields: list[Any], data: st.DataObject) -> None:
        """A value of another type is either bad or converted."""
        kind = data.draw(types)
        text = "{" + json.dumps(fields[0].name) + ":" + written(kind, data.draw(values(kind))) + "}"
        try:
            row = JSONCodec(pa.schema(fields), isUnknownBad=False).decode(text.encode())
        except BadPayload:
            return
        pa.array([row], pa.struct(fields))

    def test_keys(self) -> None:
        """Maps have texts as keys."""
        with pytest.raises(OptionError, match=r"schema: s\.m: the keys of JSON are STRING"):
            JSONCodec(readSchema("s STRUCT<m: MAP<INT, INT>>"))
