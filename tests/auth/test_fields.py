"""
Tests of L{natsbroker.auth.fields}.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.auth.fields import FieldError, Fields

#: Everything that can be asked of a member.
READERS: list[Callable[[Fields, str], Any]] = [
    Fields.text,
    Fields.integer,
    Fields.flag,
    Fields.texts,
    Fields.integers,
    Fields.block,
    Fields.blocks,
    Fields.blocksByName,
    Fields.textsOrBlocks,
]

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def fieldsOf(value: object) -> Fields:
    """
    An object read from its JSON.
    """
    return Fields.parse(json.dumps(value).encode())


class TestParse:
    """The objects that are accepted."""

    @pytest.mark.parametrize(
        "text",
        [
            b"",
            b"[]",
            b"1",
            b'"x"',
            b"null",
            b"{",
            b"{}x",
            b'{"a":NaN}',
            b'{"a":Infinity}',
            b"\xff{}",
            b'{"a":"\xff"}',
            b"\xef\xbb\xbf{}",
            "{}".encode("utf-16"),
            b'{"a":' * 100000,
            b"[" * 100000,
            b'{"a":' + b"9" * 5000 + b"}",
        ],
    )
    def test_otherTextsAreRefused(self, text: bytes) -> None:
        """Any text other than one JSON object in UTF-8 is refused, however deep or long."""
        with pytest.raises(FieldError):
            Fields.parse(text)

    @pytest.mark.parametrize(
        "text",
        [b'{"a":1,"a":1}', b'{"a":1,"A":2}', '{"\u017f":1,"s":2}'.encode(), b'{"a":null,"a":1}'],
    )
    def test_doubleNames(self, text: bytes) -> None:
        """
        A name that occurs twice, in any case of its letters, is refused, because parsers differ in
        the value that they take.
        """
        with pytest.raises(FieldError):
            Fields.parse(text)

    @given(st.binary())
    def test_anyBytes(self, data: bytes) -> None:
        """Any input is either an object or refused."""
        try:
            Fields.parse(data)
        except FieldError:
            pass

    @given(VALUES)
    def test_anyMember(self, value: object) -> None:
        """Any member is read as a value of the right type or refused."""
        fields = fieldsOf({"a": value})
        for read in READERS:
            try:
                read(fields, "a")
            except FieldError:
                pass


class TestMembers:
    """The members of objects."""

    @pytest.mark.parametrize("read", READERS)
    def test_nullIsAbsent(self, read: Callable[[Fields, str], Any]) -> None:
        """A member that is C{null} counts as missing."""
        assert read(fieldsOf({"a": None}), "a") == read(fieldsOf({}), "a")
        assert "a" not in fieldsOf({"a": None})

    def test_namesWithoutCase(self) -> None:
        """Names are found in any case, so that a limit in capitals is a limit too."""
        assert fieldsOf({"EXP": 5}).integer("exp") == 5

    def test_part(self) -> None:
        """
        A part has the selected members, and replaced or added ones, which may be parts themselves.
        """
        whole = Fields.parse(b'{"A": 1, "b": {"c": 2, "d": 3}}')
        inner = whole.block("b")
        assert inner is not None
        part = whole.part({"a"}, b=inner.part({"c"}), tags=["x"])
        assert sorted(part) == ["a", "b", "tags"] and part.integer("a") == 1
        block = part.block("b")
        assert block is not None and list(block) == ["c"]
        assert part.texts("tags") == ("x",)

    def test_values(self) -> None:
        """Members of the right types are read."""
        fields = fieldsOf(
            {
                "text": "é",
                "number": -(2**63),
                "flag": True,
                "texts": ["a", ""],
                "numbers": {"A": 1, "a": 2},
                "block": {"x": 1},
                "blocks": [{}, {"x": 2}],
                "named": {"k": [{"x": 3}]},
                "mixed": ["a", {"x": 4}],
            }
        )
        assert (fields.text("text"), fields.integer("number")) == ("é", -(2**63))
        assert fields.flag("flag") is True
        assert fields.texts("texts") == ("a", "")
        assert fields.integers("numbers") == {"A": 1, "a": 2}
        block = fields.block("block")
        assert block is not None and block.integer("x") == 1
        assert [part.integer("x") for part in fields.blocks("blocks")] == [0, 2]
        assert fields.blocksByName("named")["k"][0].integer("x") == 3
        first, second = fields.textsOrBlocks("mixed")
        assert first == "a" and isinstance(second, Fields) and second.integer("x") == 4
        assert fields.isText("text") and not fields.isText("flag")
        assert set(fields) >= {"text", "flag"}

    @pytest.mark.parametrize("value", [1.0, 1.5, 1e3, True, "1", 2**63, -(2**63) - 1, [], {}])
    def test_notIntegers(self, value: object) -> None:
        """An integer has at most 64 bits, and is neither a boolean nor a text."""
        with pytest.raises(FieldError):
            fieldsOf({"a": value}).integer("a")

    def test_exponents(self) -> None:
        """A number with an exponent is not an integer."""
        with pytest.raises(FieldError):
            Fields.parse(b'{"a":1e3}').integer("a")

    @pytest.mark.parametrize(
        ("read", "value"),
        [
            (Fields.text, 1),
            (Fields.text, ["x"]),
            (Fields.flag, 1),
            (Fields.flag, "true"),
            (Fields.texts, "x"),
            (Fields.texts, [1]),
            (Fields.texts, [None]),
            (Fields.integers, {"a": "1"}),
            (Fields.integers, []),
            (Fields.block, []),
            (Fields.blocks, {}),
            (Fields.blocks, [None]),
            (Fields.blocksByName, {"a": {}}),
            (Fields.blocksByName, {"a": [1]}),
            (Fields.textsOrBlocks, [1]),
            (Fields.textsOrBlocks, [[]]),
        ],
    )
    def test_otherTypes(self, read: Callable[[Fields, str], Any], value: object) -> None:
        """A member of another type is refused."""
        with pytest.raises(FieldError):
            read(fieldsOf({"a": value}), "a")

    def test_halvesOfCharacters(self) -> None:
        """A text with half a character is refused."""
        with pytest.raises(FieldError):
            Fields.parse(b'{"a":"\\ud800"}').text("a")
        with pytest.raises(FieldError):
            Fields.parse(b'{"a":["\\udfff"]}').texts("a")
