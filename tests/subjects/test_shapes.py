"""
Tests for L{natsbroker.subjects.shapes}.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.subjects.grammar import hasWildcard, matches
from natsbroker.subjects.shapes import WILDCARDS, ShapeTable, TooManyShapes
from tests.subjects.strategies import DELIVERABLE, LITERALS, PATTERNS


def textsFor(table: ShapeTable, subject: bytes) -> list[bytes]:
    """
    @return: the patterns to look up for a subject.
    """
    parts = subject.split(b".")
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
    """The look-ups for a subject."""

    def test_textOfEachShape(self) -> None:
        """For each shape that fits, there is one text of a matching pattern."""
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
        """
        Recipes are made once for each length up to the longest shape, and once for all longer
        subjects.
        """
        table = tableOf(b"x.*", b"x.>")
        assert table.recipesFor(2) is table.recipesFor(2)
        assert table.recipesFor(3) is table.recipesFor(50000)
        assert set(table.recipes) == {2, 3}

    def test_forgottenWhenShapesChange(self) -> None:
        """
        Recipes change when a shape is added or removed, and not with another pattern of a known
        shape.
        """
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
        with pytest.raises(TooManyShapes, match="1 shapes with 3 bytes are in use"):
            table.admit(b"a.>")
        table.retire(b"a.*")
        with pytest.raises(TooManyShapes):
            table.admit(b"a.>")
        table.retire(b"b.*")
        table.admit(b"a.>")
        assert len(table) == 1

    def test_bytes(self) -> None:
        """The longest patterns of all shapes are no more than sixty-four bytes for each allowed."""
        table = ShapeTable(2)
        table.admit(b"*." + b"a" * 98)
        table.admit(b"*." + b"b" * 98)
        table.admit(b"*.*." + b"a" * 24)
        with pytest.raises(TooManyShapes):
            table.admit(b"*.*." + b"a" * 25)
        with pytest.raises(TooManyShapes):
            table.admit(b"*." + b"a" * 99)
        table.retire(b"*.*." + b"a" * 24)
        table.admit(b"*.*." + b"a" * 24)
        assert list(table.counts.values()) == [2, 1]

    def test_refusedWhole(self) -> None:
        """A refused subscription leaves the table unchanged."""
        table = ShapeTable(1)
        table.admit(b"*." + b"a" * 38)
        for pattern in (b"*.*", b"*." + b"a" * 63, b"*." + b"a" * 4000):
            with pytest.raises(TooManyShapes):
                table.admit(pattern)
        table.admit(b"*." + b"a" * 62)
        table.retire(b"*." + b"a" * 38)
        table.retire(b"*." + b"a" * 62)
        table.admit(b"*.*.*." + b"a" * 58)

    def test_longTextsAreNotMade(self) -> None:
        """A text longer than every pattern of its shape is left out if lengths are considered."""
        table = tableOf(b"a.*", b"*.bb", b"*.>", b">")
        assert sorted(table.textsFor([b"a", b"bb"])) == [b"*.>", b"*.bb", b">", b"a.*"]
        assert sorted(table.textsFor([b"aa", b"bbb"])) == [b"*.>", b">"]

    @given(st.lists(PATTERNS, max_size=5), DELIVERABLE)
    def test_lengthsLeaveNothingOut(self, patterns: list[bytes], subject: bytes) -> None:
        """Every matching pattern is looked up, also if lengths are considered."""
        table = tableOf(*patterns)
        expected = {p for p in patterns if hasWildcard(p) and matches(p, subject)}
        assert expected <= set(table.textsFor(subject.split(b".")))

    def test_literalsAreFree(self) -> None:
        """Literals do not count as a shape."""
        table = ShapeTable(0)
        table.admit(b"a.b*.>c")
        table.retire(b"a.b*.>c")
        assert len(table) == 0

    def test_errorIsShort(self) -> None:
        """The error shows only the beginning of a long pattern."""
        table = ShapeTable(0)
        with pytest.raises(TooManyShapes) as caught:
            table.admit(b"*." * 2000 + b"a")
        assert len(str(caught.value)) < 200
