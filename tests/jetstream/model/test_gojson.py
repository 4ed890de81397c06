"""
Answers as Go writes them.
"""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from natsbroker.jetstream.model.gojson import (
    EncodedDocument,
    EncodedList,
    EncodedNumbers,
    EncodedObject,
    encode,
    goQuoted,
)
from natsbroker.wire.timestamps import Timestamp

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(_VALUES)
def test_writes(value: object) -> None:
    """An encoded value decodes to itself, and has no special characters of HTML."""
    text = encode(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029") & set(text.decode())


def test_escapes() -> None:
    """Go escapes the characters of HTML and two line ends. Others stay as they are."""
    assert encode({"a": "<&>\u2028é\x7f\x01\n\b"}) == (
        b'{"a":"\\u003c\\u0026\\u003e\\u2028' + "é\x7f".encode() + b'\\u0001\\n\\b"}'
    )


def test_quoted() -> None:
    """Text is quoted as Go quotes it."""
    assert goQuoted('a"\\\n\x01\x7f\u200b\U0001f600é') == (
        '"a\\"\\\\\\n\\x01\\x7f\\u200b\U0001f600é"'
    )
    assert goQuoted(b"\xff\xc3\xa9") == '"\\xffé"'
    assert goQuoted("\U000e0001") == '"\\U000e0001"'


def test_encodedObjects() -> None:
    """Objects that were encoded in parts are inserted into the surrounding JSON."""
    first, second, none = EncodedObject(), EncodedObject(), EncodedObject()
    first.add({"a<": 1, "b": [2, "\u2028"]})
    first.add({})
    first.add({"c": {}})
    second.add({"d": "e"})
    expected = b'{"x":{"a\\u003c":1,"b":[2,"\\u2028"],"c":{}},"y":[{},{"d":"e"}]}'
    assert encode({"x": first, "y": [none, second]}) == expected
    assert (bool(first), bool(none)) == (True, False)


def test_encodedNumbers() -> None:
    """Numbers that were encoded range by range are inserted into the surrounding JSON."""
    numbers = EncodedNumbers()
    for gap in (range(3, 5), range(5, 5), range(7, 8)):
        numbers.add(gap)
    assert encode({"x": numbers, "y": EncodedNumbers()}) == b'{"x":[3,4,7],"y":[]}'
    assert len(numbers) == 3


def test_encodedLists() -> None:
    """
    Elements of a list that were encoded piece by piece are inserted into the surrounding JSON.
    """
    elements = EncodedList()
    elements.add(["<", 1])
    elements.add([])
    elements.add([{}])
    assert encode({"x": elements, "y": EncodedList()}) == b'{"x":["\\u003c",1,{}],"y":[]}'
    assert (bool(elements), bool(EncodedList())) == (True, False)


def test_encodedDocuments() -> None:
    """The encoding of a document is kept until another document takes its place."""
    shown: list[object] = []

    def show(document: object) -> dict[str, object]:
        shown.append(document)
        return {"<": document}

    encoded = EncodedDocument(show)
    texts = [encode({"x": encoded.of(document)}) for document in ("a", "a", "b")]
    assert texts == [b'{"x":{"\\u003c":"a"}}'] * 2 + [b'{"x":{"\\u003c":"b"}}']
    assert shown == ["a", "b"]


def test_times() -> None:
    """A timestamp is encoded as a number."""
    assert encode([Timestamp(5, 3600)]) == b"[5]"


def test_surrogates() -> None:
    """A lone surrogate is encoded as U+FFFD, also in a key."""
    assert (
        encode({"\ud800": ["a\udcff", ("<",), None]})
        == '{"\ufffd":["a\ufffd",["\\u003c"],null]}'.encode()
    )
