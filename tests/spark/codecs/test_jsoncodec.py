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
            each.name: values(each.type) if not each.nullable else st.none() | values(each.type)
            for each in kind
        }
        return st.fixed_dictionaries(fields)
    if pa.types.is_list(kind):
        return st.lists(st.none() | values(kind.value_type), max_size=3)
    if pa.types.is_map(kind):
        return st.dictionaries(_TEXTS, st.none() | values(kind.item_type), max_size=3).map(
            lambda found: list(found.items())
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
        pairs = [(each.name, written(each.type, value[each.name])) for each in kind]
        return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in pairs) + "}"
    if pa.types.is_list(kind):
        return "[" + ",".join(written(kind.value_type, each) for each in value) + "]"
    if pa.types.is_map(kind):
        pairs = [(key, written(kind.item_type, one)) for key, one in value]
        return "{" + ",".join(f"{json.dumps(key)}:{text}" for key, text in pairs) + "}"
    if isinstance(value, bytes):
        return json.dumps(base64.b64encode(value).decode())
    if isinstance(value, (date, datetime)):
        return json.dumps(value.isoformat())
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def decoded(ddl: str, text: str | bytes, isUnknownBad: bool = True) -> dict[str, Any]:
    """What an object has, as Arrow gives it back."""
    columns = readSchema(ddl)
    row = JSONCodec(columns, isUnknownBad).decode(text.encode() if isinstance(text, str) else text)
    [found] = pa.array([row], pa.struct(list(columns))).to_pylist()
    assert isinstance(found, dict)
    return found


class TestRight:
    """Objects of a schema."""

    @given(structs(types), st.data())
    def test_roundTrip(self, fields: list[Any], data: st.DataObject) -> None:
        """What is written is decoded as the same, whatever the types."""
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
            ("a TIMESTAMP", '{"a": "2026-11-20t12:30:00.123456789+05:30"}', None),
            ("a DATE", '{"a": "2024-02-29"}', date(2024, 2, 29)),
            ("a STRUCT<b: INT>", '{"a": {}}', {"b": None}),
        ],
    )
    def test_spellings(self, ddl: str, text: str, value: Any) -> None:
        """The same value may be written in some ways."""
        if "TIMESTAMP" in ddl:
            value = datetime(2026, 11, 20, 7, 0, 0, 123456, UTC)
        assert decoded(ddl, text) == {"a": value}

    def test_unknown(self) -> None:
        """Keys that the schema has not can be passed over."""
        text = '{"a": {"b": 1, "c": 2}, "d": 3}'
        assert decoded("a STRUCT<b: INT>", text, False) == {"a": {"b": 1}}


WRONG = [
    ("a INT", "", "it is no JSON: Expecting value"),
    ("a INT", "{} {}", "it is no JSON: Extra data"),
    ("a INT", '{"a": 1', "it is no JSON"),
    ("a INT", b"\xff\xfe{\x00}\x00", "it is no UTF-8"),
    ("a INT", b"\xef\xbb\xbf{}", "it is no JSON"),
    ("a INT", "[1]", "an array is not an object"),
    ("a INT", "null", "null is not an object"),
    ("a INT", '{"a": 1, "a": 2}', "the key 'a' is there twice"),
    ("a MAP<STRING, INT>", '{"a": {"x": 1, "x": 1}}', "the key 'x' is there twice"),
    ("a INT", '{"b": 1}', "'b' is not in the schema"),
    ("a STRUCT<b: INT>", '{"a": {"c": 1}}', "a.'c' is not in the schema"),
    ("a INT NOT NULL", "{}", "a is missing and NOT NULL"),
    ("a STRUCT<b: INT NOT NULL>", '{"a": {"b": null}}', "a.b is null and NOT NULL"),
    ("a INT", '{"a": 1.0}', "a: 1.0 is not a whole number"),
    ("a INT", '{"a": "1"}', "a: '1' is not a whole number"),
    ("a INT", '{"a": true}', "a: true or false is not a whole number"),
    ("a TINYINT", '{"a": 128}', "a: 128 is beyond 8 bits"),
    ("a BIGINT", '{"a": 9223372036854775808}', "a: 9223372036854775808 is beyond 64 bits"),
    ("a BIGINT", '{"a": 1' + "0" * 9999 + "}", "a: |it is no JSON"),
    ("a DOUBLE", '{"a": NaN}', "it is no JSON: NaN"),
    ("a DOUBLE", '{"a": -Infinity}', "it is no JSON: -Infinity"),
    ("a DOUBLE", '{"a": 1e400}', r"a: 1E\+400 is beyond DOUBLE"),
    ("a DOUBLE", '{"a": 1e99999999999999999999}', "a: .* is beyond DOUBLE|it is no JSON"),
    ("a DOUBLE", '{"a": 1' + "0" * 400 + "}", "a: a number of 1329 bits is beyond DOUBLE"),
    ("a FLOAT", '{"a": 3.5e38}', r"a: 3.5E\+38 is beyond FLOAT"),
    ("a DOUBLE", '{"a": true}', "a: true or false is not a number"),
    ("a DECIMAL(3, 1)", '{"a": 1.25}', r"a: 1.25 is no DECIMAL\(3, 1\)"),
    ("a DECIMAL(3, 1)", '{"a": "1.5"}', "a: '1.5' is not a number"),
    ("a STRING", '{"a": 1}', "a: 1 is not a text"),
    ("a STRING", '{"a": "\\ud800"}', "a: half a surrogate is no text"),
    ("a MAP<STRING, INT>", '{"a": {"\\ud800": 1}}', "a: half a surrogate is no text"),
    ("a MAP<STRING, INT>", '{"a": [1]}', "a: an array is not an object"),
    ("a MAP<STRING, INT>", '{"a": {"x": "1"}}', r"a\{\}: '1' is not a whole number"),
    ("a ARRAY<INT>", '{"a": {}}', "a: an object is not an array"),
    ("a ARRAY<INT>", '{"a": [1, "2"]}', r"a\[\]: '2' is not a whole number"),
    ("a BOOLEAN", '{"a": 1}', "a: 1 is not true or false"),
    ("a BINARY", '{"a": "a"}', "a: 'a' is not a text in base64"),
    ("a BINARY", '{"a": "YQ==\\n"}', "is not a text in base64"),
    ("a BINARY", '{"a": "é"}', "is not a text in base64"),
    ("a DATE", '{"a": "2026-02-29"}', "is not a day such as"),
    ("a DATE", '{"a": "20260228"}', "is not a day such as"),
    ("a TIMESTAMP", '{"a": "2026-11-20T12:30:00"}', "is not a time such as '2026-11-20T12:30:00Z'"),
    ("a TIMESTAMP", '{"a": "2026-11-20T12:30:60Z"}', "is not a time such as"),
    ("a TIMESTAMP", '{"a": "2026-11-20T12:30:00+24:00"}', "is not a time such as"),
    ("a TIMESTAMP", '{"a": 1}', "a: 1 is not a time such as"),
    ("a TIMESTAMP_NTZ", '{"a": "2026-11-20T12:30:00Z"}', "without a zone"),
    ("a ARRAY<INT>", '{"a": ' + "[" * 200_000, "it is nested too deeply"),
]


class TestWrong:
    """What is none."""

    @pytest.mark.parametrize(("ddl", "text", "error"), WRONG, ids=range(len(WRONG)))
    def test_badPayloads(self, ddl: str, text: str | bytes, error: str) -> None:
        """It is bad, with what is wrong."""
        with pytest.raises(BadPayload, match=error):
            decoded(ddl, text)

    @given(
        structs(types),
        st.binary() | st.from_regex(r"\{(\"[a-z]\":[\[{0-9e.,}\]]*)*\}").map(str.encode),
    )
    def test_anything(self, fields: list[Any], data: bytes) -> None:
        """Whatever the bytes, they are bad or of the schema's types."""
        try:
            row = JSONCodec(pa.schema(fields), isUnknownBad=False).decode(data)
        except BadPayload:
            return
        pa.array([row], pa.struct(fields))

    @given(structs(types), st.data())
    def test_otherTypes(self, fields: list[Any], data: st.DataObject) -> None:
        """Values of other types are bad, or are taken as what they are."""
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
