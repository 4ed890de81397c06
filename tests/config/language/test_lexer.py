"""
Tests for L{natsbroker.config.language.lexer}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.errors import Position, SyntaxProblem
from natsbroker.config.language.lexer import MAX_DEPTH, Lexer, LineIndex

TEXT = "ab\ncd\n\nef"


def test_linesAndColumns() -> None:
    """Lines and columns are counted from 1, and a line end belongs to its line."""
    places = LineIndex("s.conf", TEXT)
    positions = [(places.at(offset).line, places.at(offset).column) for offset in range(len(TEXT))]
    assert positions == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3), (3, 1), (4, 1), (4, 2)]


def test_behindTheEnd() -> None:
    """The position after the last character is on its line."""
    assert LineIndex("s.conf", TEXT).at(len(TEXT)) == Position("s.conf", 4, 3)


def test_reached() -> None:
    """An error points to the last character read. A line end counts as the next line."""
    places = LineIndex("s.conf", TEXT)
    assert places.reached(2) == Position("s.conf", 1, 2)
    assert places.reached(3) == Position("s.conf", 2, 1)


def test_errorsNameTheLine() -> None:
    """An error names its line as nats-server does, and has its position."""
    with pytest.raises(SyntaxProblem) as raised:
        list(Lexer("a: 1\nb: .5\n", "s.conf"))
    expected = "s.conf:2:4: Parse error on line 2: 'Floats must start with a digit'"
    assert str(raised.value) == expected


@pytest.mark.parametrize(
    "text",
    ["{" * (MAX_DEPTH + 1), "a " + "[" * (MAX_DEPTH + 1), "a " + "{a " * (MAX_DEPTH + 1)],
    ids=["blocks", "arrays", "maps"],
)
def test_depth(text: str) -> None:
    """Brackets of any kind may be nested up to a limit."""
    with pytest.raises(SyntaxProblem, match="Nested more than 100 levels deep"):
        list(Lexer(text, "s.conf"))


def test_depthBelowTheLimit() -> None:
    """A text that is nested up to the limit is accepted."""
    depth = MAX_DEPTH - 1
    assert list(Lexer("a " + "[" * depth + "]" * depth, "s.conf"))


def tokens(text: str) -> str:
    """The tokens of a text in one line."""
    shown = {"MAP_START": "{", "MAP_END": "}", "ARRAY_START": "[", "ARRAY_END": "]"}
    kinds = [
        shown.get(token.kind.name, f"{token.kind.name.lower()}:{token.text}")
        for token in Lexer(text, "s.conf")
    ]
    return " ".join(kinds)


VALUES = [
    ("a [1, 2 ]", "key:a [ integer:1 integer:2 ]"),
    ("a [\n1\n2\n]", "key:a [ integer:1 integer:2 ]"),
    ("a [x,y,]", "key:a [ string:x string:y ]"),
    ("a [x / y]", "key:a [ string:x string:y ]"),
    ("a [ # c\n x // d\n # e\n]", "key:a [ string:x ]"),
    ("a [ [x], {b c} ]", "key:a [ [ string:x ] { key:b string:c } ]"),
    (
        "a {b: 1, c = 2; d 3\ne\n4}",
        "key:a { key:b integer:1 key:c integer:2 key:d integer:3 key:e integer:4 }",
    ),
    ("a {'b c': 1, \"d:e\" 2}", "key:a { key:b c integer:1 key:d:e integer:2 }"),
    ("a {b:\n\n1}", "key:a { key:b integer:1 }"),
    ("a {/b 1}", "key:a { key:b integer:1 }"),
    ("a { # c\n b 1 // d\n # e\n}", "key:a { key:b integer:1 }"),
    ("a {b 1 / c 2}", "key:a { key:b integer:1 key:c integer:2 }"),
    ("a {include 'x' \n b 1}", "key:a { include:x key:b integer:1 }"),
    ("a {include: x}", "key:a { key:include string:x }"),
    ("a { }", "key:a { }"),
    ("a {}\nb 1", "key:a { } key:b integer:1"),
]


@pytest.mark.parametrize(("text", "expected"), VALUES)
def test_values(text: str, expected: str) -> None:
    """Maps and arrays hold the values between their brackets, with any separators."""
    assert tokens(text) == expected


MALFORMED_VALUES = [
    (
        "a [",
        'Expected an array value terminator "," or an array terminator "]", '
        "but got 'EOF' instead.",
    ),
    ("a [,]", "Unexpected array value terminator ','."),
    (
        "a [x y]",
        'Expected an array value terminator "," or an array terminator "]", but got \'y\' instead.',
    ),
    ("a {", "Unexpected EOF processing map."),
    ("a {b", "Unexpected EOF processing map key."),
    ("a {'b", "Unexpected EOF processing quoted map key."),
    ('a {"b', "Unexpected EOF processing double quoted map key."),
    ("a {b ,}", 'Unexpected map value terminator ",".'),
    ("a {b: }", "Expected a value but found the end of the map."),
    ("a {: 1}", "Unexpected key separator ':'."),
    ("a {]}", "Unexpected array end ']' processing map."),
    (
        "a {b 1 c 2}",
        'Expected a map value terminator "," or a map terminator "}", but got \'c\' instead.',
    ),
    ("a {include [x]}", "Expected include value but found start of an array"),
    ("a {include 'x}", "Unexpected EOF in quoted include"),
    ('a {include "x}', "Unexpected EOF in double quoted include"),
]


@pytest.mark.parametrize(("text", "message"), MALFORMED_VALUES)
def test_malformedValues(text: str, message: str) -> None:
    """A malformed value is reported with nats-server's error."""
    with pytest.raises(SyntaxProblem) as raised:
        tokens(text)
    assert raised.value.message == f"Parse error on line 1: '{message}'"


READABLE = [
    ("", ""),
    (" \n# c\n// d\n", ""),
    ("a: 1", "key:a integer:1"),
    ("a = 1", "key:a integer:1"),
    ("a 1", "key:a integer:1"),
    ("a\n\n1", "key:a integer:1"),
    ("a: 1\nb: 2", "key:a integer:1 key:b integer:2"),
    ("a: 1, b: 2; c: 3", "key:a integer:1 key:b integer:2 key:c integer:3"),
    ("a: 1 # c\nb: 2 // d", "key:a integer:1 key:b integer:2"),
    ("a: 1 /\nb 2", "key:a integer:1 key:b integer:2"),
    ("a: 1}b: 2", "key:a integer:1 key:b integer:2"),
    ("a:", "key:a string:"),
    ("'a b': 1\n\"c\" 2", "key:a b integer:1 key:c integer:2"),
    ("accounts{A: 1", "key:accounts{A integer:1"),
    ('{"a": 1, "b": {"c": [true]}}', "key:a integer:1 key:b { key:c [ boolean:true ] }"),
    ("{ {a: 1} }", "key:a integer:1"),
    ("{a: 1\n", "key:a integer:1"),
    ("{a: 1 # c\nb: 2 // d\n}", "key:a integer:1 key:b integer:2"),
    ("{a: {b: 1}}, {c: 2}", "key:a { key:b integer:1 } key:, { key:c integer:2 }"),
    ("{a 1};\n}", "key:a integer:1 key:; string:"),
    ("a 1\n}", "key:a integer:1 key:}"),
    ("include 'x.conf'\na 1", "include:x.conf key:a integer:1"),
    ('include "x y"', "include:x y"),
    ("INCLUDE x.conf; a 1", "include:x.conf key:a integer:1"),
    ("include x'\na 1", "include:x key:a integer:1"),
    ("include: x", "key:include string:x"),
    ("include =\n", "include:="),
    ("{include x\n}", "include:x"),
]


@pytest.mark.parametrize(("text", "expected"), READABLE)
def test_readable(text: str, expected: str) -> None:
    """Keys and values are at the top level, or in braces that are not a map."""
    assert tokens(text) == expected


UNREADABLE = [
    (
        "a: 1 b: 2",
        1,
        "Expected a top-level value to end with a new line, comment or EOF, but got 'b' instead.",
    ),
    ("\n=1", 2, "Unexpected key separator '='"),
    ("/a", 1, "Unexpected EOF."),
    ("a: 1\n\0", 2, "Unexpected EOF."),
    ("'a", 1, "Unexpected EOF."),
    ("a:\n1", 2, "Expected value but found new line"),
    (
        "{a: 1 b",
        1,
        "Expected a block-level value to end with a new line, comment or EOF, but got 'b' instead.",
    ),
    ("{{a: 1} b", 1, "Expected a block-level to end with a '}', but got 'b' instead."),
    ("include\nx", 2, "Expected include value but found new line"),
    ("include 1", 1, "Expected include value but found start of a number"),
    ("include {", 1, "Expected include value but found start of a map"),
    ("include (", 1, "Expected include value but found start of a block"),
    ("include \\", 1, "Expected include value but found escape sequence"),
]


@pytest.mark.parametrize(("text", "line", "message"), UNREADABLE)
def test_unreadable(text: str, line: int, message: str) -> None:
    """A malformed text is reported with nats-server's error and line."""
    with pytest.raises(SyntaxProblem) as raised:
        list(Lexer(text, "s.conf"))
    assert raised.value.message == f"Parse error on line {line}: '{message}'"
    assert raised.value.position.line == line


def test_offsets() -> None:
    """Each token has the offset of its beginning, including quotes and the dollar sign."""
    text = "ab: 12\n'c': {d: $e}"
    characters = [text[token.offset] for token in Lexer(text, "s.conf")]
    assert characters == ["a", "1", "'", "{", "d", "$", "}"]


def test_longTexts() -> None:
    """Hundreds of thousands of comments, escapes and separators are read without recursion."""
    for text in ("#\n" * 200000, "a: " + "\\n" * 200000, "a: 1" + "/" * 400000):
        assert len(list(Lexer(text, "s.conf"))) <= 2
