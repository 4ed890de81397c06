"""
Tests for L{natsbroker.config.language.cursor}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.errors import SyntaxProblem
from natsbroker.config.language.cursor import MAX_DEPTH
from natsbroker.config.language.lexer import Lexer


def test_errorsNameTheLine() -> None:
    """An error says its line in nats-server's words, and has its place."""
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
    """Brackets nest only so deep, whatever their kind."""
    with pytest.raises(SyntaxProblem, match="Nested more than 100 levels deep"):
        list(Lexer(text, "s.conf"))


def test_depthBelowTheLimit() -> None:
    """What nests less is fine."""
    depth = MAX_DEPTH - 1
    assert list(Lexer("a " + "[" * depth + "]" * depth, "s.conf"))
