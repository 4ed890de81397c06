"""
JSON as Go reads and writes it. The texts of its errors are in
L{tests.wire.test_shapes}.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.steps import finish
from natsbroker.wire.gojson import (
    EncodedObject,
    JsonEndError,
    JsonNode,
    JsonSyntaxError,
    encode,
    goQuoted,
    read,
    skipSpace,
)

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


def _plain(node: JsonNode) -> object:
    if node.kind == "object":
        return {key: _plain(each) for key, each in node.value}
    if node.kind == "array":
        return [_plain(each) for each in node.value]
    return int(node.value) if node.kind == "number" else node.value


@given(_VALUES, st.booleans(), st.sampled_from(["", " ", "\n\t"]))
def test_reads(value: object, ascii_: bool, space: str) -> None:
    """Whatever another encoder writes is read, with its extent."""
    separators = (f"{space},{space}", f"{space}:{space}")
    text = json.dumps(value, ensure_ascii=ascii_, separators=separators).encode()
    node = finish(read(space.encode() + text + b" x"))
    assert _plain(node) == value
    assert (node.start, node.end) == (len(space), len(space) + len(text))


@given(_VALUES)
def test_writes(value: object) -> None:
    """What is written is the same value, without the characters that HTML knows."""
    text = encode(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029") & set(text.decode())


def test_escapes() -> None:
    """Go escapes the characters of HTML and two line ends; the rest stays as it is."""
    assert encode({"a": "<&>\u2028é\x7f\x01\n\b"}) == (
        b'{"a":"\\u003c\\u0026\\u003e\\u2028' + "é\x7f".encode() + b'\\u0001\\n\\b"}'
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (rb'"\ud83d\ude00"', "\U0001f600"),
        (rb'"\ud83dx\ude00"', "\ufffdx\ufffd"),
        (rb'"\u00e9\/\b\f\"\\"', 'é/\b\f"\\'),
        (b'"a\xff\xfeb"', "a\ufffd\ufffdb"),
        (b'"\xe2\x82"', "\ufffd\ufffd"),
    ],
)
def test_strings(text: bytes, value: str) -> None:
    """Escapes are replaced; what is no character becomes U+FFFD, byte by byte."""
    assert finish(read(text)).value == value


def test_depth() -> None:
    """Nesting is bounded at ten thousand, and costs no stack."""
    assert finish(read(b"[" * 10_000 + b"]" * 10_000)).kind == "array"
    with pytest.raises(JsonSyntaxError, match="exceeded max depth"):
        finish(read(b"[" * 10_001))


@pytest.mark.parametrize("text", [b"", b"[1,", b'{"a"', b'"\\u00', b"-", b"1.", b"tru", b'"\\'])
def test_ends(text: bytes) -> None:
    """A text that ends too early has an error of its own."""
    with pytest.raises(JsonEndError, match="unexpected EOF"):
        finish(read(text))


def test_quoted() -> None:
    """Text is goQuoted as Go quotes it."""
    assert goQuoted('a"\\\n\x01\x7f\u200b\U0001f600é') == (
        '"a\\"\\\\\\n\\x01\\x7f\\u200b\U0001f600é"'
    )
    assert goQuoted(b"\xff\xc3\xa9") == '"\\xffé"'
    assert goQuoted("\U000e0001") == '"\\U000e0001"'


def test_skipSpace() -> None:
    """White space is what JSON calls so."""
    assert skipSpace(b" \t\r\n x") == 5
    assert skipSpace(b"\x0bx") == 0


def test_encodedObjects() -> None:
    """Objects that were encoded piece by piece stand where the value has them, escaped as it is."""
    first, second, none = EncodedObject(), EncodedObject(), EncodedObject()
    first.add({"a<": 1, "b": [2, "\u2028"]})
    first.add({})
    first.add({"c": {}})
    second.add({"d": "e"})
    expected = b'{"x":{"a\\u003c":1,"b":[2,"\\u2028"],"c":{}},"y":[{},{"d":"e"}]}'
    assert encode({"x": first, "y": [none, second]}) == expected
    assert (bool(first), bool(none)) == (True, False)
