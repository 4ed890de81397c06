"""
Tests for L{natsbroker.config.language.lexer}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.errors import SyntaxProblem
from natsbroker.config.language.lexer import Lexer
from tests.config.language.test_nested import tokens

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
    """Keys and values stand at the top, or in braces that make no map."""
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
    """What does not belong there is reported on nats-server's line, with its words."""
    with pytest.raises(SyntaxProblem) as raised:
        list(Lexer(text, "s.conf"))
    assert raised.value.message == f"Parse error on line {line}: '{message}'"
    assert raised.value.position.line == line


def test_offsets() -> None:
    """Each token knows where it begins, with its quotes or dollar."""
    text = "ab: 12\n'c': {d: $e}"
    found = [text[token.offset] for token in Lexer(text, "s.conf")]
    assert found == ["a", "1", "'", "{", "d", "$", "}"]


def test_longTexts() -> None:
    """Hundreds of thousands of comments, escapes and separators are read in one go."""
    for text in ("#\n" * 200000, "a: " + "\\n" * 200000, "a: 1" + "/" * 400000):
        assert len(list(Lexer(text, "s.conf"))) <= 2
