"""
Tests for L{natsbroker.subjects.transforms}.
"""

from __future__ import annotations

import random
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.steps import PIECE, finish
from natsbroker.subjects.functions import InvalidMapping, partitionOf
from natsbroker.subjects.grammar import isValidSubject, matches
from natsbroker.subjects.transforms import SubjectTransform, listed
from tests.counting import callsOf
from tests.subjects.chances import noChance
from tests.subjects.strategies import DELIVERABLE, LITERALS, PATTERNS


def applied(source: bytes, destination: bytes, subject: bytes) -> bytes | None:
    """
    @return: what becomes of a subject.
    """
    return SubjectTransform(source, destination).apply(subject, noChance)


class TestApply:
    """From subject to subject."""

    @pytest.mark.parametrize(
        ("source", "destination", "subject", "result"),
        [
            (b"foo", b"bar", b"foo", b"bar"),
            (b"foo", b"bar", b"foo.x", None),
            (b"foo.*", b"bar", b"foo.x", b"bar"),
            (b"*.*", b"$2.$1", b"foo.x", b"x.foo"),
            (b"*.*", b"{{wildcard(2)}}.x.$2", b"foo.y", b"y.x.y"),
            (b"foo.>", b"bar.>", b"foo.x.y", b"bar.x.y"),
            (b"foo.>", b"bar.>", b"foo", None),
            (b">", b"bar.>", b"foo.x", b"bar.foo.x"),
            (b">", b">", b"foo.x", b"foo.x"),
            (b"foo.*.>", b"$1.>", b"foo.x.y.z", b"x.y.z"),
            (b"foo.*", b"bar.{{split(1,-)}}.z", b"foo.a-b", b"bar.a.b.z"),
            (b"foo.*", b"bar.{{split(1,-)}}.z", b"foo.--", b""),
            (b"foo.*", b"bar.$1", b"foo.*", b"bar.*"),
            (b"foo.*", b"$1", b"foo.>", b">"),
            (b"foo.*", b"$1.x", b"foo.>", b""),
            (b"foo.>", b"bar.>", b"foo..x", None),
            (b"p.*", b"part.{{partition(3,1)}}.$1", b"p.abc", b"part.2.abc"),
            (b"p.*", b"part.{{partition(3,1)}}.$1", b"p.xyz", b"part.0.xyz"),
        ],
    )
    def test_apply(
        self, source: bytes, destination: bytes, subject: bytes, result: bytes | None
    ) -> None:
        """A subject that matches the source is mapped to another; an invalid result is empty."""
        assert applied(source, destination, subject) == result

    def test_random(self) -> None:
        """Random numbers come from the caller."""
        transform = SubjectTransform(b"a.*", b"b.{{random(10)}}.$1")
        assert transform.isRandom
        rng = random.Random(7)
        made = {transform.apply(b"a.x", rng.randrange) for _ in range(200)}
        assert made == {b"b.%d.x" % number for number in range(10)}

    def test_notRandom(self) -> None:
        """Other transforms always give the same result."""
        assert not SubjectTransform(b"a.*", b"b.{{partition(3,1)}}").isRandom

    @given(PATTERNS, LITERALS, DELIVERABLE)
    def test_valid(self, source: bytes, destination: bytes, subject: bytes) -> None:
        """A result is C{None}, empty, or a valid subject."""
        if source.split(b".")[-1] == b">":
            destination += b".>"
        result = applied(source, destination, subject)
        assert (result is not None) is matches(source, subject)
        assert not result or isValidSubject(result)

    @given(
        st.sampled_from(
            [
                b"split(1,-)",
                b"splitFromLeft(1,2)",
                b"splitFromRight(1,2)",
                b"sliceFromLeft(1,2)",
                b"sliceFromRight(1,2)",
            ]
        ),
        st.binary(min_size=1, max_size=12).filter(lambda t: isValidSubject(t) and b"." not in t),
    )
    def test_nothingIsLost(self, function: bytes, token: bytes) -> None:
        """Cutting a token adds full stops, and removes only separators."""
        result = applied(b"*", b"x.{{" + function + b"}}", token)
        assert result is not None
        if result:
            assert result[2:].replace(b".", b"").replace(b"-", b"") == token.replace(b"-", b"")


class TestErrors:
    """Invalid transforms."""

    @pytest.mark.parametrize(
        ("source", "destination", "text"),
        [
            (b"a..b", b"b", "invalid subject in a..b"),
            (b"", b"b", "invalid subject"),
            (b"a.*", b"b.*", "invalid subject in b.*"),
            (b"a.*", b"b.>", "invalid subject in b.>"),
            (b"a.>", b"b.x", "invalid subject in b.x"),
            (b"a", b"", "invalid mapping destination: invalid transform"),
            (b"a", b"b c", "invalid mapping destination: invalid transform in b c"),
            (b"a", b"b..c", "invalid mapping destination: invalid transform in b..c"),
            (b"a.>", b"b.>.>", "invalid mapping destination: invalid transform in b.>.>"),
            (b"a", b"b\x00", "invalid mapping destination: invalid transform in b\x00"),
            (b"a", b"{{x y", "invalid mapping destination: invalid transform in {{x y"),
            (
                b"a.*",
                b"b.{{wildcard(2)}}",
                "invalid mapping destination: wildcard index out of range in {{wildcard(2)}}: [2]",
            ),
        ],
    )
    def test_invalidTransform(self, source: bytes, destination: bytes, text: str) -> None:
        """The error is nats-server's, with its place."""
        with pytest.raises(InvalidMapping) as caught:
            SubjectTransform(source, destination)
        assert str(caught.value) == text

    @given(PATTERNS | st.binary(max_size=10), st.binary(max_size=20) | LITERALS)
    def test_nothingElseIsRaised(self, source: bytes, destination: bytes) -> None:
        """Any bytes are a transform, or an error with the reason."""
        try:
            SubjectTransform(source, destination)
        except InvalidMapping:
            pass


class TestStrict:
    """Transforms that must be reversible."""

    def test_wildcardsOnly(self) -> None:
        """A strict transform may use all wildcards in any order."""
        assert SubjectTransform(b"a.*.*", b"$2.b.$1", strict=True).source == b"a.*.*"

    @pytest.mark.parametrize(
        ("destination", "reason"),
        [
            (b"b.$1", "not using all of the token wildcard(s)"),
            (b"b.$1.$1", "not using all of the token wildcard(s)"),
            (
                b"b.{{partition(3,1)}}.$1.$2",
                "the only mapping function allowed for import transforms is {{Wildcard()}}",
            ),
        ],
    )
    def test_invalidDestination(self, destination: bytes, reason: str) -> None:
        """A destination that loses a wildcard, or cannot be undone, is refused."""
        with pytest.raises(InvalidMapping) as caught:
            SubjectTransform(b"a.*.*", destination, strict=True)
        assert caught.value.reason == f"invalid mapping destination: {reason}"
        assert SubjectTransform(b"a.*.*", destination).destination == destination


def test_partitionIsExported() -> None:
    """The hash behind partitions is public."""
    assert partitionOf(b"abc", 3) == 2


@given(st.lists(PATTERNS | LITERALS, max_size=12), st.lists(DELIVERABLE, max_size=6))
def test_list(sources: list[bytes], subjects: list[bytes]) -> None:
    """In a list of transforms, the first one with a valid result is applied."""
    pairs = [
        (source, b"to.%d" % place + (b".>" if source.split(b".")[-1] == b">" else b""))
        for place, source in enumerate(sources)
    ]
    transforms, several = [SubjectTransform(*pair) for pair in pairs], finish(listed(pairs))
    for subject in subjects:
        changed = [transform.apply(subject, noChance) for transform in transforms]
        expected = next(filter(None, changed), subject)
        assert several.rewrite(subject, noChance) == expected


def test_listOfMany() -> None:
    """A message costs the same with any number of transforms in a list."""
    few, many = (
        finish(listed([(b"a.%d" % number, b"b.%d" % number) for number in range(count)]))
        for count in (10, 3000)
    )
    calls = [callsOf(partial(transform.rewrite, b"a.7", noChance)) for transform in (few, many)]
    assert calls[0] == calls[1] > 0
    assert many.rewrite(b"a.2999", noChance) == b"b.2999"


def test_listedInSteps() -> None:
    """Many transforms are made into a list in steps."""
    pairs = [(b"a.%d" % number, b"b") for number in range(3 * PIECE)]
    assert sum(1 for _ in listed(pairs)) == 3
