"""
Tests for L{natsbroker.subjects.renaming}.
"""

from __future__ import annotations

import pytest
from hypothesis import given

from natsbroker.subjects.functions import InvalidMapping
from natsbroker.subjects.grammar import isSubset, matches
from natsbroker.subjects.renaming import Renaming, intersection, numbered, unnumbered
from tests.subjects.strategies import DELIVERABLE, PATTERNS


@pytest.mark.parametrize(
    ("pattern", "result"),
    [(b"a.b", b"a.b"), (b"*.a.*", b"$1.a.$2"), (b"*.>", b"$1.>"), (b"a*.*", b"a*.$1")],
)
def test_numbered(pattern: bytes, result: bytes) -> None:
    """Stars are numbered from the left, and numbers become stars again."""
    assert numbered(pattern) == result
    assert unnumbered(result) == pattern


@pytest.mark.parametrize(
    ("pattern", "result"),
    [
        (b"a.$2.$1", b"a.*.*"),
        (b"a.{{wildcard(2)}}.{{ Wildcard( 1 ) }}", b"a.*.*"),
        (b"$x.$.$0.{{wildcard()}}.{{partition(2)}}", b"$x.$.$0.{{wildcard()}}.{{partition(2)}}"),
    ],
)
def test_unnumbered(pattern: bytes, result: bytes) -> None:
    """Numbers of stars become stars; other tokens stay unchanged."""
    assert unnumbered(pattern) == result


class TestIntersection:
    """The intersection of two patterns."""

    @pytest.mark.parametrize(
        ("one", "other", "result"),
        [
            (b"a.b", b"a.b", b"a.b"),
            (b"a.*", b"*.b", b"a.b"),
            (b"a.>", b"*.b", b"a.b"),
            (b"a.>", b"*.b.c", b"a.b.c"),
            (b"a.*.>", b"*.b.>", b"a.b.>"),
            (b"*.>", b"*", None),
            (b"*.*", b"a.>", b"a.*"),
            (b">", b"a.>", b"a.>"),
            (b"a.b", b"a.c", None),
            (b"a.b", b"a", None),
            (b"a", b"a.b", None),
            (b"a.>", b"a", None),
        ],
    )
    def test_examples(self, one: bytes, other: bytes, result: bytes | None) -> None:
        """The intersection is the pattern of the subjects that both match, in either order."""
        assert intersection(one, other) == result
        assert intersection(other, one) == result

    @given(PATTERNS, PATTERNS, DELIVERABLE)
    def test_meaning(self, one: bytes, other: bytes, subject: bytes) -> None:
        """
        A subject matches the intersection exactly if it matches both patterns, and the intersection
        lies within both.
        """
        both = intersection(one, other)
        expected = matches(one, subject) and matches(other, subject)
        assert (both is not None and matches(both, subject)) == expected
        assert both is None or (isSubset(both, one) and isSubset(both, other))


class TestRenaming:
    """There and back."""

    @pytest.mark.parametrize(
        ("theirs", "ours", "subject", "renamed"),
        [
            (b"pub.>", b"from.pub.>", b"pub.x.y", b"from.pub.x.y"),
            (b"q.*.*", b"t.$2.$1", b"q.a.b", b"t.b.a"),
            (b"q.*.*.*", b"t.$2.$3.$1", b"q.a.b.c", b"t.b.c.a"),
            (b"q.*.*", b"t.{{wildcard(2)}}.x.{{wildcard(1)}}", b"q.a.b", b"t.b.x.a"),
            (b"q.*", b"t.*", b"q.a", b"t.a"),
            (b"q.*", b"t.$1.$1", b"q.a", b"t.a.a"),
            (b"*.q.>", b"x.$1.>", b"a.q.b.c", b"x.a.b.c"),
            (b"a", b"b.c", b"a", b"b.c"),
            (b"a.>", b"a.>", b"a.b", b"a.b"),
            (b">", b"p.>", b"a.b", b"p.a.b"),
        ],
    )
    def test_thereAndBack(self, theirs: bytes, ours: bytes, subject: bytes, renamed: bytes) -> None:
        """A subject is renamed token by token, and renamed back unchanged."""
        renaming = Renaming(theirs, ours)
        assert renaming.toOurs(subject) == renamed
        assert renaming.toTheirs(renamed) == subject
        assert matches(renaming.ours, renamed)

    def test_patterns(self) -> None:
        """A pattern within the renamed ones is renamed too."""
        renaming = Renaming(b"q.*.*", b"t.$2.$1")
        assert renaming.toTheirs(b"t.*.a") == b"q.a.*"
        assert renaming.toOurs(b"q.a.*") == b"t.*.a"
        assert Renaming(b"pub.>", b"x.pub.>").toTheirs(b"x.pub.>") == b"pub.>"
        assert Renaming(b"pub.>", b"x.pub.>").toTheirs(b"x.pub.*.a.>") == b"pub.*.a.>"

    def test_oneSubject(self) -> None:
        """If the other account's name has no wildcards, every matching subject gets that name."""
        renaming = Renaming(b"req", b"local.>")
        assert renaming.toTheirs(b"local.a") == renaming.toTheirs(b"local.b.c") == b"req"
        assert renaming.ours == b"local.>"

    def test_keeps(self) -> None:
        """A renaming that keeps all subjects is known to have no effect."""
        assert Renaming(b"a.*", b"a.*").keeps
        assert not Renaming(b"a.*", b"a.$1").keeps
        assert Renaming(b"a.*", b"a.$1").toOurs(b"a.b") == b"a.b"

    @pytest.mark.parametrize(
        ("theirs", "ours", "reason"),
        [
            (b"a.*", b"b", "not using all"),
            (b"a.*", b"b.$2", "out of range"),
            (b"a.*", b"b.>", "invalid subject"),
            (b"a.>", b"b", "invalid subject"),
            (b"a.*", b"b.{{partition(2,1)}}", "only mapping function"),
            (b"a.*", b"b..$1", "invalid transform"),
        ],
    )
    def test_subjectsThatDoNotFit(self, theirs: bytes, ours: bytes, reason: str) -> None:
        """A pair of subjects that cannot be renamed back is refused, in nats-server's words."""
        with pytest.raises(InvalidMapping, match=reason):
            Renaming(theirs, ours)

    def test_repr(self) -> None:
        """The text of a renaming has both names."""
        assert repr(Renaming(b"a.*", b"b.$1")) == "<Renaming b'a.*' as b'b.*'>"
