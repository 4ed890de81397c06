"""
Many subjects in byte order.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from natsbroker.storage import sortedsubjects
from natsbroker.storage.sortedsubjects import SortedSubjects
from natsbroker.subjects.grammar import matches
from natsbroker.subjects.searching import PatternSearch


class CountedSearch(PatternSearch):
    """
    A search that counts the subjects that it looks at, and the calls.
    """

    looked = calls = 0

    def select(self, subjects: Sequence[bytes]) -> list[bytes]:
        self.looked += len(subjects)
        self.calls += 1
        return super().select(subjects)


def matchesOf(subjects: SortedSubjects, pattern: bytes, most: int = 1 << 20) -> list[bytes]:
    """All subjects that match a pattern, searched some at a time."""
    search, start, total = CountedSearch(pattern), b"", []
    while True:
        before = search.looked
        some, start = subjects.find(search, start, most)
        assert search.looked - before <= most
        total += some
        if not start:
            return total


def test_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Added and removed subjects are listed in order, also from some place on."""
    monkeypatch.setattr(sortedsubjects, "LONGEST", 8)
    chance = Random(11)
    subjects = SortedSubjects()
    known: set[bytes] = set()
    for turn in range(3000):
        subject = b"%c.%d" % (chance.choice(b"abc"), chance.randrange(60))
        if subject in known:
            known.remove(subject)
            subjects.remove(subject)
        else:
            known.add(subject)
            subjects.add(subject)
        if turn % 50 == 0 or turn < 20:
            for pattern in (b">", b"b.*", b"*.5", b"b.>"):
                expected = sorted(one for one in known if matches(pattern, one))
                assert matchesOf(subjects, pattern) == expected
                assert matchesOf(subjects, pattern, 5) == expected
            behind, _ = subjects.find(PatternSearch(b"b.*"), b"b.3\0", 1000)
            assert behind == sorted(one for one in known if one > b"b.3" and one[:1] == b"b")
    assert max(map(len, subjects._lists)) <= 8
    for one in known:
        subjects.remove(one)
    assert matchesOf(subjects, b">") == []


def test_sparse() -> None:
    """A search with a pattern that matches little does not look at every subject."""
    subjects = SortedSubjects()
    for area in range(20):
        for device in range(1000):
            subjects.add(b"a.%d.%d" % (area, device))
    subjects.add(b"a.7.yes")
    for pattern, expected in ((b"a.*.nope", []), (b"a.*.yes", [b"a.7.yes"]), (b"*.7.yes", None)):
        search = CountedSearch(pattern)
        some, start = subjects.find(search, b"a.", 1 << 20)
        assert (some, start) == (expected if expected is not None else [b"a.7.yes"], b"")
        assert search.looked < 1500


def test_dense() -> None:
    """If no subject can be skipped, a search costs hardly more than a look at every subject."""
    subjects = SortedSubjects()
    for number in range(20_000):
        subjects.add(b"a.%d.x" % number)
    search = CountedSearch(b"a.*.nope")
    assert subjects.find(search, b"a.", 1 << 20) == ([], b"")
    assert search.looked == 20_000
    assert search.calls < 12
