"""
Searching subjects in byte order.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from natsbroker.steps import PIECE
from natsbroker.subjects.grammar import matches
from natsbroker.subjects.searching import PatternSearch, searchesFor

#: Beside letters what is before and behind the full stop in byte order, and literal wildcards.
TOKENS = st.sampled_from([b"a", b"b", b"a-", b"a!", b"a0", b"b/", b"ab", b"*", b">", b""])
SUBJECTS = st.lists(TOKENS, min_size=1, max_size=5).map(b".".join)
PATTERNS = st.builds(
    lambda tokens, isOpen: b".".join([*tokens, b">"] if isOpen or not tokens else tokens),
    st.lists(st.sampled_from([b"a", b"b", b"a-", b"ab", b"*", b"*"]), max_size=4),
    st.booleans(),
)


@given(PATTERNS, st.sets(SUBJECTS, max_size=40))
def test_nothingMissed(pattern: bytes, subjects: set[bytes]) -> None:
    """Every matching subject is found, and none is skipped."""
    search = PatternSearch(pattern)
    ordered = sorted(subjects)
    expected = [candidate for candidate in ordered if matches(pattern, candidate)]
    assert search.select(ordered) == expected
    for subject in ordered:
        place = search.following(subject)
        assert place == b"" or place > subject
        behind = [candidate for candidate in expected if candidate > subject]
        assert [candidate for candidate in behind if place and candidate >= place] == behind


def test_passesOver() -> None:
    """A branch of subjects that cannot match is skipped as a whole."""
    search = PatternSearch(b"a.*.nope")
    assert search.following(b"a.1.b.5") == b"a.1.nope"
    assert search.following(b"a.1.nope") == b"a.1/"
    assert search.following(b"a.1.x") == b"a.1/"
    assert search.following(b"b.1") == b""
    assert PatternSearch(b"a.*.b.c.>").following(b"a.1.a") == b"a.1.b.c."
    assert PatternSearch(b"*.b").following(b"a.c") == b"a/"


@given(st.lists(PATTERNS, max_size=30), st.lists(SUBJECTS, max_size=20))
def test_together(patterns: list[bytes], subjects: list[bytes]) -> None:
    """Searches for many patterns together find the same as one by one."""
    hits = {
        subject
        for pattern, isWanted in filter(None, searchesFor(patterns))
        for subject in subjects
        if matches(pattern, subject) and (isWanted is None or isWanted(subject))
    }
    assert hits == {
        subject for subject in subjects if any(matches(one, subject) for one in patterns)
    }


def test_sharedSearch() -> None:
    """Patterns that look at the same subjects share one search; literal subjects have one each."""
    patterns = [b"*.x%d" % number for number in range(3000)] + [b"a.b", b"c.*"]
    searches = filter(None, searchesFor(patterns))
    assert [pattern for pattern, _ in searches] == [b"a.b", b">", b"c.*"]


def test_manyInSteps() -> None:
    """Many filters are searched in steps, also if they share a search."""
    patterns = [b"a.*.%d" % number for number in range(4 * PIECE)]
    searches = list(searchesFor(patterns))
    assert searches.count(None) >= 8
    (search,) = filter(None, searches)
    pattern, isWanted = search
    assert pattern == b"a.>" and isWanted is not None
    assert isWanted(b"a.x.9") and not isWanted(b"a.x.y")
