"""
Tests for L{natsbroker.subjects.collisions}.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.steps import Steps, finish
from natsbroker.subjects.collisions import PatternTable, firstInside, firstMeeting, firstOverlap
from natsbroker.subjects.grammar import isSubset, overlaps
from natsbroker.subjects.shapes import TooManyShapes
from tests.counting import callsOf
from tests.subjects.strategies import LITERALS, PATTERNS

#: Most lists have a few patterns of which some overlap.
LISTS = st.lists(PATTERNS | LITERALS, max_size=6)

#: As a peer may send them: tokens are empty, and a C{>} is not the last.
ODD = st.lists(
    st.lists(st.sampled_from([b"a", b"b", b"*", b">", b""]), min_size=1, max_size=4).map(b".".join),
    max_size=6,
)


def _placed(patterns: Sequence[bytes]) -> list[tuple[int, bytes]]:
    return list(enumerate(patterns))


@given(LISTS | ODD)
def test_overlap(patterns: list[bytes]) -> None:
    """The first two overlapping patterns are those that a comparison of all pairs finds."""
    pairs = [
        (place, other)
        for place, one in enumerate(patterns)
        for other in range(place + 1, len(patterns))
        if overlaps(one, patterns[other])
    ]
    assert finish(firstOverlap(_placed(patterns))) == (pairs[0] if pairs else None)


@given(LISTS)
def test_overlaps(patterns: list[bytes]) -> None:
    """The first pattern within another is the one that a comparison of all pairs finds."""
    inside = [
        place
        for place, one in enumerate(patterns)
        if any(isSubset(one, pattern) for pattern in patterns[:place] + patterns[place + 1 :])
    ]
    assert finish(firstInside(_placed(patterns))) == (inside[0] if inside else None)


@given(LISTS | ODD, LISTS | ODD)
def test_meeting(mine: list[bytes], theirs: list[bytes]) -> None:
    """
    The first pattern that overlaps with another list is the one that a comparison of all pairs
    finds.
    """
    meeting = [
        place for place, one in enumerate(mine) if any(overlaps(one, other) for other in theirs)
    ]
    assert finish(firstMeeting(mine, theirs)) == (meeting[0] if meeting else None)


@pytest.mark.parametrize("look", [firstOverlap, firstInside, lambda some: firstMeeting(some, ())])
def test_tooManyShapes(look: Callable[[Any], Steps[Any]]) -> None:
    """The number of shapes is capped, and with it the work for each pattern."""
    several = [b"a." + b"*." * many + b"b" for many in range(1, 1026)]
    with pytest.raises(TooManyShapes):
        finish(look(_placed(several) if look in (firstOverlap, firstInside) else several))


def _crossing(count: int) -> list[bytes]:
    """
    Patterns of which none overlaps with another, and each has to be compared with half of the
    others unless their last tokens come first.
    """
    half = count // 2
    return [b"a%d.*.x" % number for number in range(half)] + [
        b"*.b%d.y" % number for number in range(half)
    ]


def _flat(count: int) -> list[bytes]:
    return [b"a.%d" % number for number in range(count)]


@pytest.mark.parametrize("make", [_crossing, _flat])
@pytest.mark.parametrize(
    "look",
    [
        lambda some: firstOverlap(_placed(some)),
        lambda some: firstInside(_placed(some)),
        lambda some: firstMeeting(some, some[:1]),
    ],
)
def test_workIsLinear(
    make: Callable[[int], list[bytes]], look: Callable[[Any], Steps[Any]]
) -> None:
    """A list that is twice as long takes about twice the work."""
    once, twice = (callsOf(partial(finish, look(make(count)))) for count in (2000, 4000))
    assert 2000 < once < 40_000
    assert twice < 2.4 * once


def test_steps() -> None:
    """No step compares more than some hundreds of patterns."""
    steps = firstOverlap(_placed(_flat(5000)))
    longest = 0
    for _ in range(10):
        longest = max(longest, callsOf(lambda: next(steps)))
    assert longest < 2000


@given(LISTS | ODD, PATTERNS | LITERALS)
def test_table(patterns: list[bytes], pattern: bytes) -> None:
    """A table gives the places of all patterns that overlap with one, or lie within it."""
    table, places = PatternTable(patterns), range(len(patterns))
    overlapping = [place for place in places if overlaps(pattern, patterns[place])]
    assert table.overlapping(pattern) == overlapping
    assert table.overlaps(pattern) == bool(overlapping)
    containing = [place for place in places if isSubset(pattern, patterns[place])]
    assert table.containing(pattern) == containing
