"""
Tests for L{natsbroker.subjects.grammar}.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.subjects.grammar import (
    hasWildcard,
    isSubset,
    isValidLiteral,
    isValidSubject,
    matches,
    overlaps,
)
from tests.subjects.strategies import DELIVERABLE, LITERALS, PATTERNS

VALID = [
    b"a",
    b"foo.bar",
    b"*",
    b">",
    b"foo.*",
    b"*.*.bar",
    b"foo.>",
    b"*.>",
    b"foo*",
    b"f*o",
    b"foo>",
    b">foo",
    b"a.>b.c",
    b"a.b>.c",
    b">>.a",
    b"$SYS.foo",
    b"_R_.x",
    "foö".encode(),
    b"\x80\xff.\xfe",
]

INVALID = [
    b"",
    b".",
    b"..",
    b"foo.",
    b".foo",
    b"foo..bar",
    b"foo.>.bar",
    b">.foo",
    b">.>",
    b"foo bar",
    b"foo\tbar",
    b"foo\r",
    b"foo\n",
    b"a.\x0c",
]


class TestIsValidSubject:
    """Subjects that may be subscribed to."""

    @pytest.mark.parametrize("subject", VALID)
    def test_valid(self, subject: bytes) -> None:
        """Tokens of any printable or non-ASCII bytes, and whole-token wildcards, are accepted."""
        assert isValidSubject(subject)

    @pytest.mark.parametrize("subject", INVALID)
    def test_invalid(self, subject: bytes) -> None:
        """Empty tokens, a C{>} that is not last, and white space are refused."""
        assert not isValidSubject(subject)

    @pytest.mark.parametrize("byte", [*range(0x20), 0x7F])
    def test_controlBytes(self, byte: int) -> None:
        """A control byte anywhere makes a subject invalid, which is stricter than nats-server."""
        control = bytes([byte])
        for subject in (control, b"a" + control, b"a." + control + b"b.c", control + b".>"):
            assert not isValidSubject(subject)

    @given(st.binary(max_size=8) | DELIVERABLE)
    def test_againstTheRules(self, subject: bytes) -> None:
        """The result is that of the rules, applied token by token."""
        parts = subject.split(b".")
        expected = (
            b"" not in parts
            and b">" not in parts[:-1]
            and all(byte > 0x20 and byte != 0x7F for byte in subject)
        )
        assert isValidSubject(subject) is expected


class TestKinds:
    """Literals and patterns."""

    @pytest.mark.parametrize("subject", [b"*", b">", b"a.*", b"*.a", b"a.*.c", b"a.>", b"*a.*"])
    def test_wildcards(self, subject: bytes) -> None:
        """A token that is exactly a star or a greater-than sign makes a pattern."""
        assert hasWildcard(subject)
        assert not isValidLiteral(subject)

    @pytest.mark.parametrize("subject", [b"a", b"a*", b"*a", b"**", b">>", b"a>.b", b"a.b*c.d"])
    def test_literals(self, subject: bytes) -> None:
        """A token that only contains a wildcard character is a literal."""
        assert not hasWildcard(subject)
        assert isValidLiteral(subject)

    @pytest.mark.parametrize("subject", INVALID)
    def test_invalidIsNoValidLiteral(self, subject: bytes) -> None:
        """An invalid subject is not a valid literal either."""
        assert not isValidLiteral(subject)


class TestMatches:
    """Which messages reach which subscriptions."""

    @pytest.mark.parametrize(
        ("pattern", "subject"),
        [
            (b"foo", b"foo"),
            (b"*", b"foo"),
            (b">", b"foo"),
            (b">", b"foo.bar.baz"),
            (b"foo.*", b"foo.bar"),
            (b"*.bar", b"foo.bar"),
            (b"*.*", b"foo.bar"),
            (b"foo.>", b"foo.bar"),
            (b"foo.>", b"foo.bar.baz"),
            (b"*.>", b"foo.bar"),
            (b"foo.*.>", b"foo.bar.baz"),
            (b"foo*", b"foo*"),
            (b"foo.*", b"foo.*"),
            (b"foo.*", b"foo.>"),
            (b"foo.>", b"foo.>"),
            (b"foo.>", b"foo.*"),
        ],
    )
    def test_matches(self, pattern: bytes, subject: bytes) -> None:
        """A star stands for one token, a final greater-than sign for one or more."""
        assert matches(pattern, subject)

    @pytest.mark.parametrize(
        ("pattern", "subject"),
        [
            (b"foo", b"foo.bar"),
            (b"foo.bar", b"foo"),
            (b"*", b"foo.bar"),
            (b"foo.*", b"foo"),
            (b"foo.>", b"foo"),
            (b"*.>", b"foo"),
            (b"foo*", b"foobar"),
            (b"foo.b*", b"foo.bar"),
            (b"foo>", b"foo.bar"),
            (b"foo.bar", b"foo.*"),
            (b"foo.bar", b"foo.>"),
            (b">", b"foo..bar"),
            (b"foo.*", b"foo."),
            (b">", b""),
        ],
    )
    def test_doesNotMatch(self, pattern: bytes, subject: bytes) -> None:
        """Patterns of another length, wildcards in the subject and empty tokens do not match."""
        assert not matches(pattern, subject)


#: Pairs, the first within the second.
SUBSETS = [
    (b"foo", b"foo"),
    (b"foo", b"*"),
    (b"foo", b">"),
    (b"*", b">"),
    (b">", b">"),
    (b"foo.*", b"foo.>"),
    (b"foo.*", b"*.*"),
    (b"foo.>", b"foo.>"),
    (b"foo.>", b">"),
    (b"foo.>", b"*.>"),
    (b"foo.bar.>", b"foo.*.>"),
    (b"foo.*.baz", b"foo.>"),
    (b"*a", b"*"),
]

#: Pairs that share subjects without one being within the other.
CROSSING = [
    (b"a.*.c", b"*.b.*"),
    (b"a.*", b"*.b"),
    (b"a.>", b"*.b"),
    (b"a.>", b"*.b.c"),
    (b"a.*.c", b"a.b.>"),
    (b"*.b.>", b"a.>"),
]

#: Pairs that share nothing.
APART = [
    (b"a", b"b"),
    (b"a", b"*.*"),
    (b"a", b"a.>"),
    (b"a.*", b"b.*"),
    (b"a.*", b"a.*.*"),
    (b"a.>", b"b.>"),
    (b"a.b.>", b"a.*"),
    (b"a.*.b", b"a.*.c"),
    (b"*a", b"b"),
    (b"*a.*", b"*b.*"),
]


class TestRelations:
    """Relations of patterns."""

    @pytest.mark.parametrize(("narrow", "wide"), SUBSETS)
    def test_subset(self, narrow: bytes, wide: bytes) -> None:
        """A pattern is within another one that matches all its subjects. The two overlap."""
        assert isSubset(narrow, wide)
        assert overlaps(narrow, wide)
        assert overlaps(wide, narrow)
        assert isSubset(wide, narrow) is (narrow == wide)

    @pytest.mark.parametrize(("one", "other"), CROSSING)
    def test_crossing(self, one: bytes, other: bytes) -> None:
        """Patterns may overlap without either being within the other."""
        assert overlaps(one, other)
        assert overlaps(other, one)
        assert not isSubset(one, other)
        assert not isSubset(other, one)

    @pytest.mark.parametrize(("one", "other"), APART)
    def test_disjointPatterns(self, one: bytes, other: bytes) -> None:
        """Patterns that share no subject neither overlap nor lie within each other."""
        assert not overlaps(one, other)
        assert not overlaps(other, one)
        assert not isSubset(one, other)
        assert not isSubset(other, one)

    def test_fullWildcardIsWiderThanAStar(self) -> None:
        """A trailing C{>} is not within C{*}, although both are one token."""
        assert not isSubset(b"foo.>", b"foo.*")
        assert not isSubset(b">", b"*")

    @given(PATTERNS, PATTERNS, LITERALS)
    def test_subsetTransfersMatches(self, narrow: bytes, wide: bytes, subject: bytes) -> None:
        """A subject that matches a pattern matches every pattern that includes it."""
        if isSubset(narrow, wide) and matches(narrow, subject):
            assert matches(wide, subject)

    @given(PATTERNS, PATTERNS, LITERALS)
    def test_commonSubjectMeansOverlap(self, one: bytes, other: bytes, subject: bytes) -> None:
        """Two patterns that match a common subject overlap."""
        if matches(one, subject) and matches(other, subject):
            assert overlaps(one, other)

    @given(PATTERNS, PATTERNS)
    def test_overlapHasAWitness(self, one: bytes, other: bytes) -> None:
        """Patterns overlap exactly if some subject matches both."""
        witness = witnessOf(one, other)
        assert overlaps(one, other) is (witness is not None)
        if witness is not None:
            assert matches(one, witness)
            assert matches(other, witness)

    @given(PATTERNS, PATTERNS)
    def test_subsetIsSharpest(self, narrow: bytes, wide: bytes) -> None:
        """
        A pattern is within another one exactly if the other matches its most general subjects.
        """
        general = [token if token not in (b"*", b">") else b"fresh" for token in narrow.split(b".")]
        subjects = [general]
        if narrow.endswith(b">") and narrow.split(b".")[-1] == b">":
            subjects.append([*general, *[b"fresh"] * 8])
        expected = all(matches(wide, b".".join(tokens)) for tokens in subjects)
        assert isSubset(narrow, wide) is expected

    @given(LITERALS, PATTERNS)
    def test_literalSubsetIsMatch(self, subject: bytes, pattern: bytes) -> None:
        """For a literal, being within a pattern, overlapping it and matching it are the same."""
        assert matches(pattern, subject) is isSubset(subject, pattern)
        assert matches(pattern, subject) is overlaps(subject, pattern)


def witnessOf(one: bytes, other: bytes) -> bytes | None:
    """
    @return: a subject that both patterns match, found token by token, if there is one.
    """
    left, right = one.split(b"."), other.split(b".")
    length = max(len(left), len(right))
    lefts = left[:-1] + [b"*"] * (length - len(left) + 1) if left[-1] == b">" else left
    rights = right[:-1] + [b"*"] * (length - len(right) + 1) if right[-1] == b">" else right
    if len(lefts) != len(rights):
        return None
    made = []
    for here, there in zip(lefts, rights, strict=True):
        if here == b"*":
            made.append(b"fresh" if there == b"*" else there)
        elif there in (b"*", here):
            made.append(here)
        else:
            return None
    return b".".join(made)


class TestSize:
    """Very long subjects, without recursion."""

    def test_thousandsOfTokens(self) -> None:
        """Every function accepts subjects of two thousand tokens."""
        long = b".".join([b"a"] * 2000)
        pattern = b".".join([b"*"] * 1999 + [b">"])
        assert isValidSubject(long)
        assert isValidSubject(pattern)
        assert hasWildcard(pattern)
        assert matches(pattern, long)
        assert isSubset(long, pattern)
        assert overlaps(pattern, pattern)
        assert not matches(pattern, long[:-4])
