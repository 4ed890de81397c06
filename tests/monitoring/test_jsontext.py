"""Tests for L{natsbroker.monitoring.jsontext}."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.monitoring.jsontext import compact, indented

#: Text without lone surrogates, which no JSON can carry.
TEXTS = st.text(st.characters(codec="utf-8"))

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(DOCUMENTS)
def test_isJson(document: Any) -> None:
    """Both layouts are JSON for the document."""
    assert json.loads("".join(indented(document))) == document
    assert json.loads(compact(document)) == document


@given(DOCUMENTS)
def test_layout(document: Any) -> None:
    """The indented layout is the usual one with two blanks."""
    text = "".join(indented(document))
    assert _plain(text) == _plain(json.dumps(document, indent=2, ensure_ascii=False))


def _plain(text: str) -> str:
    """
    Have what only one of them escapes escaped in both.
    """
    for code in (*range(0x7F, 0xA0), 0x2028, 0x2029, *b"<>&"):
        text = text.replace(chr(code), f"\\u{code:04x}")
    return text


def test_example() -> None:
    """A document is laid out as Go lays it out."""
    document = {"a": 1, "b": [{"c": True}, {}], "d": {"e": []}, "f": ["x", "y"], "g": None}
    assert "".join(indented(document)) == json.dumps(document, indent=2)
    assert compact(document) == json.dumps(document, separators=(",", ":"))


def test_level() -> None:
    """A part of a document is indented as deep as its place."""
    assert "".join(indented({"a": 1}, 2)) == '{\n      "a": 1\n    }'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("<script>&", '"\\u003cscript\\u003e\\u0026"'),
        ("a\r\n\x1b[31m\x00", '"a\\r\\n\\u001b[31m\\u0000"'),
        ("\u2028\u2029", '"\\u2028\\u2029"'),
        ("\x7f\x9b", '"\\u007f\\u009b"'),
        ("\udcff", '"\\ufffd"'),
        ("µ ä 中", '"µ ä 中"'),
        ('"\\', '"\\"\\\\"'),
        (2.0, "2"),
        (0.5, "0.5"),
        (True, "true"),
        (1 << 64, "18446744073709551616"),
    ],
)
def test_scalars(value: Any, text: str) -> None:
    """Text cannot end a string, begin HTML or move a cursor; whole numbers have no point."""
    assert "".join(indented(value)) == text
    assert compact([value]) == f"[{text}]"


def test_keysAreEscaped() -> None:
    """A key is as harmless as a value."""
    assert compact({'<"': 1}) == '{"\\u003c\\"":1}'


def test_comesInPieces() -> None:
    """A long list is never one piece."""
    pieces = list(indented({"list": ["x" * 10] * 1000}))
    assert len(pieces) > 1000
    assert max(map(len, pieces)) < 100
