"""
What JSON is decoded into, and nats-server's words for what does not fit.
"""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker.jetstream.model.configjson import STREAM_CONFIG
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.requests import parseStream
from natsbroker.jetstream.model.streamconfig import DiscardPolicy, StreamConfig
from natsbroker.steps import finish
from natsbroker.wire.gojson import JsonError
from natsbroker.wire.shapes import (
    BOOL,
    INT32,
    TIME,
    UINT16,
    UINT64,
    Choice,
    Field,
    ListOf,
    MapOf,
    Optional,
    Shape,
    Struct,
    decode,
    decodeLoosely,
)
from natsbroker.wire.timestamps import Timestamp
from tests.jetstream.model.cases import cases


@pytest.mark.parametrize(("body", "text"), cases("json"))
def test_texts(body: str, text: str) -> None:
    """A body that is no request gets nats-server's text; the rest is decoded."""
    try:
        finish(parseStream(body.encode("latin-1")))
    except JetStreamError as error:
        found = error.description.removeprefix("invalid JSON: ")
        assert found.encode("utf-8", "surrogateescape").decode("utf-8", "replace") == text
    else:
        assert text == ""


def _shape(shape: Shape) -> Struct[dict[str, Any]]:
    return Struct("T", dict, [Field("x", shape)])


@pytest.mark.parametrize(
    ("shape", "text", "value"),
    [
        (UINT16, b"65535", 65535),
        (INT32, b"-2147483648", -2147483648),
        (UINT64, b"18446744073709551615", 18446744073709551615),
        (BOOL, b"true", True),
        (ListOf(BOOL), b"[true,false]", (True, False)),
        (MapOf(INT32), b'{"b":1,"a":2}', {"b": 1, "a": 2}),
        (Optional(INT32), b"null", None),
        (TIME, b'"1970-01-01T01:00:00+01:00"', Timestamp(0)),
        (Choice(DiscardPolicy), b'"new"', DiscardPolicy.NEW),
    ],
)
def test_values(shape: Shape, text: bytes, value: object) -> None:
    """Each type takes its values up to its bounds."""
    assert decode(b'{"x":%b}' % text, _shape(shape)) == {"x": value}


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (UINT16, b"65536"),
        (UINT64, b"-1"),
        (INT32, b"2147483648"),
        (INT32, b"1" * 300),
        (INT32, b"1e2"),
    ],
)
def test_bounds(shape: Shape, text: bytes) -> None:
    """A number beyond the bounds of its type is refused with the number in the text."""
    with pytest.raises(JsonError, match=f"cannot unmarshal number {text.decode()} into Go struct"):
        decode(b'{"x":%b}' % text, _shape(shape))


def test_nullChangesNothing() -> None:
    """A null leaves plain values as they are and empties what can be empty."""
    body = (
        b'{"max_msgs":5,"max_msgs":null,"mirror":{"name":"M"},"mirror":null,'
        b'"subjects":["a"],"subjects":null}'
    )
    assert decode(body, STREAM_CONFIG) == StreamConfig(max_msgs=5)


def test_keyTwice() -> None:
    """Of a key that comes twice the last counts; objects and maps are merged."""
    body = b'{"name":"a","mirror":{"name":"M"},"mirror":{"opt_start_seq":3},"name":"b"}'
    config = decode(body, STREAM_CONFIG)
    assert config.name == "b"
    assert config.mirror is not None
    assert (config.mirror.name, config.mirror.opt_start_seq) == ("M", 3)
    assert decode(b'{"x":{"a":1},"x":{"b":2}}', _shape(MapOf(INT32))) == {"x": {"a": 1, "b": 2}}


def test_severalValues() -> None:
    """Later values of a body overwrite keys of earlier ones, and no value is an empty request."""
    assert decode(b' {"x":1} {"x":2}\n', _shape(INT32)) == {"x": 2}
    assert decode(b"", _shape(INT32)) == {}


def test_loosely() -> None:
    """Where nats-server is not strict, unknown keys pass and errors have no offset."""
    assert decodeLoosely(b'{"y":[{"x":1}],"X":3}', _shape(INT32)) == {"x": 3}
    for text, words in (
        (b'{"x":1', "unexpected end of JSON input"),
        (b"", "unexpected end of JSON input"),
        (b"{}x", "invalid character 'x' after top-level value"),
        (b"{x", "invalid character 'x' looking for beginning of object key string"),
    ):
        with pytest.raises(JsonError) as caught:
            decodeLoosely(text, _shape(INT32))
        assert str(caught.value) == words


def test_toJSON() -> None:
    """Empty values are left out, but for those that are always there; maps are sorted."""
    shape = Struct("T", _Value, [Field("always", INT32, always=True), Field("never", MapOf(INT32))])
    assert shape.toJSON(_Value(0, {})) == {"always": 0}
    assert list(shape.toJSON(_Value(0, {"b": 1, "a": 2}))["never"]) == ["a", "b"]


class _Value:
    def __init__(self, always: int, never: dict[str, int]) -> None:
        self.always = always
        self.never = never
