"""
Tests for L{natsbroker.config.language.nested}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.errors import SyntaxProblem
from natsbroker.config.language.lexer import Lexer


def tokens(text: str) -> str:
    """
    Write the tokens of a text in one line.
    """
    shown = {"MAP_START": "{", "MAP_END": "}", "ARRAY_START": "[", "ARRAY_END": "]"}
    found = [
        shown.get(token.kind.name, f"{token.kind.name.lower()}:{token.text}")
        for token in Lexer(text, "s.conf")
    ]
    return " ".join(found)


READABLE = [
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


@pytest.mark.parametrize(("text", "expected"), READABLE)
def test_readable(text: str, expected: str) -> None:
    """Maps and arrays hold what stands between their brackets, however it is separated."""
    assert tokens(text) == expected


UNREADABLE = [
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


@pytest.mark.parametrize(("text", "message"), UNREADABLE)
def test_unreadable(text: str, message: str) -> None:
    """What does not belong there is reported with nats-server's words."""
    with pytest.raises(SyntaxProblem) as raised:
        tokens(text)
    assert raised.value.message == f"Parse error on line 1: '{message}'"
