"""Tests for L{natsbroker.monitoring.answers}."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.monitoring.answers import (
    LARGEST,
    PAUSE,
    Answer,
    Listing,
    Steps,
    bodyOf,
    compact,
    complete,
    indented,
    jsonAnswer,
    textAnswer,
)


def joined(listing: Listing, **arguments: Any) -> Any:
    """
    The document of a list.
    """
    return json.loads(b"".join(listing.body(**arguments)))


class TestListing:
    """Documents that end with a long list."""

    def test_layout(self) -> None:
        """The list comes after the other members, in the layout of one document."""
        listing = Listing({"limit": 5}, "rows", [{"a": 1}, {"b": [2]}])
        document = {"limit": 5, "rows": [{"a": 1}, {"b": [2]}]}
        assert b"".join(listing.body()).decode() == json.dumps(document, indent=2)

    def test_count(self) -> None:
        """The number of rows stands in its member of the head."""
        listing = Listing({"n": 0, "limit": 5}, "rows", [{}, None, {}], "n")
        assert list(joined(listing).items()) == [("n", 2), ("limit", 5), ("rows", [{}, {}])]

    @pytest.mark.parametrize("isShown", [True, False])
    def test_empty(self, isShown: bool) -> None:
        """An empty list is shown only if the page asks for it."""
        listing = Listing({"limit": 5}, "rows", [], isShownEmpty=isShown)
        document = {"limit": 5, "rows": []} if isShown else {"limit": 5}
        assert b"".join(listing.body()).decode() == json.dumps(document, indent=2)

    def test_isNeverTooLong(self) -> None:
        """
        A list that exceeds the largest answer is cut. Its head has the number of rows that are
        left.
        """
        rows = [{"text": "x" * 1000} for _ in range(10_000)]
        body = b"".join(Listing({"n": 0, "limit": 10_000}, "rows", rows, "n").body())
        assert LARGEST - 80_000 < len(body) <= LARGEST
        document = json.loads(body)
        assert document["limit"] == document["n"] == len(document["rows"])
        assert document["truncated"] is True

    def test_bytesCount(self) -> None:
        """The size of an answer is counted in bytes, not in characters."""
        rows = [{"text": "中" * 1000} for _ in range(100)]
        assert len(b"".join(Listing({}, "rows", rows).body(200_000))) <= 200_000

    def test_untilItIsFull(self) -> None:
        """Rows beyond the largest answer are not made."""
        made: list[int] = []

        def rows() -> Iterator[dict[str, Any]]:
            for number in range(1000):
                made.append(number)
                yield {"text": "x" * 10_000}

        document = joined(Listing({}, "rows", rows()), largest=100_000)
        assert len(made) == len(document["rows"]) + 1

    def test_pauses(self) -> None:
        """A listing pauses every few rows, and within a long one."""
        few = [{"a": 1}] * 15
        assert PAUSE not in list(Listing({}, "rows", few).body())
        pieces = list(Listing({}, "rows", [{"a": 1}] * 160).body())
        assert pieces.count(PAUSE) >= 10
        assert PAUSE in list(Listing({}, "rows", [{"a": ["x"] * 1000}]).body())
        assert PAUSE in list(Listing({}, "rows", [None]).body())


def countingSteps(result: Any) -> Steps:
    """Steps with two pauses, and a result."""
    yield PAUSE
    yield PAUSE
    return result


def test_complete() -> None:
    """The result of a document's steps is available without pauses."""
    assert complete(countingSteps({"a": 1})) == {"a": 1}


def test_bodyOfDocument() -> None:
    """The body of a document follows the pauses of its making."""
    pieces = list(bodyOf(countingSteps({"a": 1})))
    assert pieces == [PAUSE, PAUSE, b'{\n  "a": 1\n}']


def test_bodyOfListing() -> None:
    """The body of a list follows the pauses of its making."""
    pieces = list(bodyOf(countingSteps(Listing({"n": 1}, "rows", [{"a": 1}]))))
    assert pieces[:2] == [PAUSE, PAUSE]
    assert json.loads(b"".join(pieces)) == {"n": 1, "rows": [{"a": 1}]}


def test_longDocumentComesInPieces() -> None:
    """A long document is made in several steps."""
    assert len(list(bodyOf(countingSteps({"list": ["x"] * 10_000})))) > 30


def contents(answer: Answer) -> tuple[int, str, bytes]:
    """
    An answer without its iterator.
    """
    return answer.status, answer.contentType, b"".join(answer.body)


def test_jsonAnswer() -> None:
    """A short document is on one line."""
    wanted = (503, "application/json", b'{"status":"error"}')
    assert contents(jsonAnswer({"status": "error"}, 503)) == wanted


def test_textAnswer() -> None:
    """A sentence is plain text, and UTF-8 whatever is in it."""
    wanted = (400, "text/plain; charset=utf-8", "no \ufffd".encode())
    assert contents(textAnswer(400, "no \udcff")) == wanted


#: Text without lone surrogates, which no JSON can carry.
TEXTS = st.text(st.characters(codec="utf-8"))

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(DOCUMENTS)
def test_isJson(document: Any) -> None:
    """A document can be parsed from its indented and from its compact text."""
    assert json.loads("".join(indented(document))) == document
    assert json.loads(compact(document)) == document


@given(DOCUMENTS)
def test_layout(document: Any) -> None:
    """The indented text is that of Python's C{json} with two blanks."""
    text = "".join(indented(document))
    assert _plain(text) == _plain(json.dumps(document, indent=2, ensure_ascii=False))


def _plain(text: str) -> str:
    """Escape the characters that only one of the two encoders escapes."""
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
    """Keys are escaped as values are."""
    assert compact({'<"': 1}) == '{"\\u003c\\"":1}'


def test_comesInPieces() -> None:
    """The text of a long list comes in many small pieces."""
    pieces = list(indented({"list": ["x" * 10] * 1000}))
    assert len(pieces) > 1000
    assert max(map(len, pieces)) < 100
