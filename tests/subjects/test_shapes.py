"""
Tests for L{natsbroker.subjects.shapes}.
"""

from __future__ import annotations

import pytest
from hypothesis import given

from natsbroker.subjects.grammar import hasWildcard, matches, tokens
from natsbroker.subjects.shapes import WILDCARDS, ShapeTable, TooManyShapes
from tests.subjects.strategies import LITERALS, PATTERNS


def textsFor(table: ShapeTable, subject: bytes) -> list[bytes]:
    """
    @return: the patterns to look up for a subject.
    """
    parts = tokens(subject)
    return [b".".join(recipe([*parts, *WILDCARDS])) for recipe in table.recipesFor(len(parts))]


def tableOf(*patterns: bytes) -> ShapeTable:
    """
    @return: a table with these patterns counted in.
    """
    table = ShapeTable(100)
    for pattern in patterns:
        table.admit(pattern)
    return table


class TestRecipes:
    """What is looked up for a subject."""

    def test_textOfEachShape(self) -> None:
        """For each shape that fits there is the one text that a matching pattern would have."""
        table = tableOf(b"x.*", b"*.x", b"*.*", b"x.>", b"*.>", b">", b"*", b"x.x.*", b"x.x.>")
        assert sorted(textsFor(table, b"a.b")) == [b"*.*", b"*.>", b"*.b", b">", b"a.*", b"a.>"]
        assert sorted(textsFor(table, b"a")) == [b"*", b">"]
        assert sorted(textsFor(table, b"a.b.c")) == [b"*.>", b">", b"a.>", b"a.b.*", b"a.b.>"]
        assert sorted(textsFor(table, b"a.b.c.d")) == [b"*.>", b">", b"a.>", b"a.b.>"]

    @given(PATTERNS, LITERALS)
    def test_patternIsLookedUpIfItMatches(self, pattern: bytes, subject: bytes) -> None:
        """A pattern is among the texts for a subject exactly if the subject matches it."""
        table = tableOf(pattern)
        if hasWildcard(pattern):
            assert (pattern in textsFor(table, subject)) is matches(pattern, subject)
        else:
            assert textsFor(table, subject) == []

    def test_remembered(self) -> None:
        """Recipes are made once for a length, and once for all lengths above the longest shape."""
        table = tableOf(b"x.*", b"x.>")
        assert table.recipesFor(2) is table.recipesFor(2)
        assert table.recipesFor(3) is table.recipesFor(50000)
        assert set(table.recipes) == {2, 3}

    def test_forgottenWhenShapesChange(self) -> None:
        """A shape that comes or goes shows in the recipes; one more pattern of it does not."""
        table = tableOf(b"x.*")
        assert len(table.recipesFor(2)) == 1
        table.admit(b"y.*")
        assert table.recipes
        table.admit(b"*.x")
        assert len(table.recipesFor(2)) == 2
        table.retire(b"*.x")
        assert len(table.recipesFor(2)) == 1


class TestCap:
    """The limit on shapes."""

    def test_number(self) -> None:
        """No more than the given number of shapes are in use at a time."""
        table = ShapeTable(1)
        table.admit(b"a.*")
        table.admit(b"b.*")
        with pytest.raises(TooManyShapes, match="1 shapes with 2 tokens are in use"):
            table.admit(b"a.>")
        table.retire(b"a.*")
        with pytest.raises(TooManyShapes):
            table.admit(b"a.>")
        table.retire(b"b.*")
        table.admit(b"a.>")
        assert len(table) == 1

    def test_tokens(self) -> None:
        """The tokens of all shapes are no more than sixteen times the limit."""
        table = ShapeTable(2)
        table.admit(b"*" + b".a" * 19)
        table.admit(b"*" + b".a" * 11)
        table.retire(b"*" + b".a" * 11)
        with pytest.raises(TooManyShapes):
            table.admit(b"*" + b".a" * 12)

    def test_literalsAreFree(self) -> None:
        """Literals have no shape."""
        table = ShapeTable(0)
        table.admit(b"a.b*.>c")
        table.retire(b"a.b*.>c")
        assert len(table) == 0

    def test_errorIsShort(self) -> None:
        """The error shows the beginning of a long pattern only."""
        table = ShapeTable(0)
        with pytest.raises(TooManyShapes) as caught:
            table.admit(b"*." * 2000 + b"a")
        assert len(str(caught.value)) < 200
