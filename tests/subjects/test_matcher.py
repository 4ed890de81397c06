"""
The answers of a router, sorted and remembered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.subjects.grammar import matches as reaches
from natsbroker.subjects.matcher import isDeliverable, sortMatches
from natsbroker.subjects.permissions import SubscribePermissions
from natsbroker.subjects.subscription import FIRST_LINK_KIND
from tests.subjects.strategies import DELIVERABLE, PATTERNS
from tests.support import Names, onEach


class ListRouter:
    """
    A router that is a list.

    @ivar asked: the subjects that it was asked for.
    """

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self.asked: list[bytes] = []

    def match(self, subject: bytes) -> Iterable[Any]:
        """All entries for a subject."""
        self.asked.append(subject)
        return [entry for entry in self.entries if reaches(entry.pattern, subject)]


class Desk:
    """
    A matcher with its router.
    """

    def __init__(self, names: Names, **more: Any) -> None:
        self.names = names
        self.router = ListRouter()
        self.matcher = names.Matcher(self.router, **more)

    def add(self, pattern: bytes, queue: bytes = b"", kind: int = 0) -> Any:
        """Add a subscription."""
        entry = self.names.Subscription(None, pattern, queue, kind, object(), b"1")
        self.router.entries.append(entry)
        self.matcher.changed(pattern)
        return entry

    def remove(self, entry: Any) -> None:
        """Remove a subscription."""
        self.router.entries.remove(entry)
        self.matcher.changed(entry.pattern)


@onEach
class TestSorting:
    """The form of an answer."""

    def test_emptyAnswer(self, names: Names) -> None:
        """An empty answer is false."""
        answer = Desk(names).matcher.match(b"foo")
        assert (answer.plain, answer.groups, answer.links) == ((), (), ())
        assert not answer

    def test_sorted(self, names: Names) -> None:
        """
        Plain subscriptions, queue groups by the place of their members, and links are separate.
        """
        desk = Desk(names)
        plain = [desk.add(b"foo"), desk.add(b">", kind=1), desk.add(b"*", kind=2)]
        links = [desk.add(b"foo", kind=kind) for kind in (3, 4, 5, 6)]
        here = [desk.add(b"foo", b"q"), desk.add(b"*", b"q", kind=1)]
        there = [desk.add(b"foo", b"q", kind=3)]
        other = [desk.add(b"foo", b"r", kind=5)]
        desk.add(b"bar")
        answer = desk.matcher.match(b"foo")
        assert answer
        assert set(answer.plain) == set(plain)
        assert set(answer.links) == set(links)
        groups = {name: (set(mine), set(theirs)) for name, mine, theirs in answer.groups}
        assert groups == {b"q": (set(here), set(there)), b"r": (set(), set(other))}

    def test_eachMakesItTrue(self, names: Names) -> None:
        """An answer with a receiver of any kind is true."""
        for queue, kind in [(b"", 0), (b"q", 0), (b"", 2), (b"q", 2)]:
            desk = Desk(names)
            desk.add(b"foo", queue, kind)
            assert desk.matcher.match(b"foo")

    def test_answerCanBeMade(self, names: Names) -> None:
        """An answer can be made from its three parts."""
        answer = names.Matches((), (), ())
        assert not answer
        entry = names.Subscription(None, b"a", b"", 0, None, None)
        assert names.Matches((entry,), (), ()).plain == (entry,)


@onEach
class TestRemembering:
    """Answers that are remembered, and others."""

    def test_remembers(self, names: Names) -> None:
        """The router is asked once for a subject."""
        desk = Desk(names)
        desk.add(b"foo")
        answers = [desk.matcher.match(b"foo") for _ in range(5)]
        assert desk.router.asked == [b"foo"]
        assert all(answer is answers[0] for answer in answers)
        assert (desk.matcher.hits, desk.matcher.misses, len(desk.matcher)) == (4, 1, 1)

    @pytest.mark.parametrize("pattern", [b"a.b", b"a.*", b"*.b", b">", b"a.>", b"*.*"])
    def test_forgetsWhatChanged(self, names: Names, pattern: bytes) -> None:
        """After a change of a matching pattern, the router is asked again."""
        desk = Desk(names)
        assert not desk.matcher.match(b"a.b")
        entry = desk.add(pattern)
        assert desk.matcher.match(b"a.b").plain == (entry,)
        desk.remove(entry)
        assert not desk.matcher.match(b"a.b")

    def test_othersStay(self, names: Names) -> None:
        """After a change, most other subjects stay remembered."""
        desk = Desk(names)
        subjects = [b"s%d.x" % number for number in range(200)]
        for subject in subjects:
            desk.matcher.match(subject)
        for number in range(5):
            desk.add(b"other%d" % number)
            desk.add(b"more%d.*" % number)
        desk.router.asked.clear()
        for subject in subjects:
            desk.matcher.match(subject)
        assert len(desk.router.asked) < 20

    def test_bounded(self, names: Names) -> None:
        """However many subjects are asked for, no more than the limit is remembered."""
        desk = Desk(names, limit=64)
        for number in range(5000):
            desk.matcher.match(b"s.%d" % number)
        assert 0 < len(desk.matcher) <= 64

    def test_nothingRemembered(self, names: Names) -> None:
        """With a limit of 0 the router is asked every time, and the answers are right."""
        desk = Desk(names, limit=0)
        desk.add(b"s")
        assert [len(desk.matcher.match(b"s").plain) for _ in range(3)] == [1, 1, 1]
        assert desk.router.asked == [b"s"] * 3
        assert (len(desk.matcher), desk.matcher.hits, desk.matcher.misses) == (0, 0, 3)

    def test_boundedByWhatIsInIt(self, names: Names) -> None:
        """Answers with very many subscriptions count for more than one."""
        desk = Desk(names, limit=64)
        for _ in range(200):
            desk.add(b">")
        for number in range(100):
            assert len(desk.matcher.match(b"s.%d" % number).plain) == 200
        assert len(desk.matcher) <= 4

    def test_usedOnesStay(self, names: Names) -> None:
        """A subject in steady use stays remembered while many others are asked for once."""
        desk = Desk(names, limit=64)
        for number in range(1000):
            desk.matcher.match(b"steady")
            desk.matcher.match(b"s.%d" % number)
        assert desk.router.asked.count(b"steady") == 1

    def test_longSubjects(self, names: Names) -> None:
        """Very long subjects are matched, but not remembered."""
        desk = Desk(names)
        entry = desk.add(b">")
        subject = b"x." * 2000 + b"x"
        for _ in range(2):
            assert desk.matcher.match(subject).plain == (entry,)
        assert len(desk.matcher) == 0

    def test_prefixes(self, names: Names) -> None:
        """Subjects with the same beginning are not confused."""
        desk = Desk(names)
        entries = {length: desk.add(b"x" * length) for length in range(1, 200)}
        for _ in range(2):
            for length, entry in entries.items():
                assert desk.matcher.match(b"x" * length).plain == (entry,)

    def test_anyBytes(self, names: Names) -> None:
        """A subject may contain any bytes."""
        desk = Desk(names)
        entry = desk.add(b"\xff\xfe.*")
        assert desk.matcher.match(b"\xff\xfe.\x80").plain == (entry,)

    def test_readable(self, names: Names) -> None:
        """A matcher can be marked to need the readable path."""
        matcher = Desk(names).matcher
        assert not matcher.needsSlowPath
        matcher.needsSlowPath = True
        assert matcher.needsSlowPath


@pytest.mark.parametrize(
    ("subject", "answer"),
    [
        (b"a", True),
        (b"a.b", True),
        (b"a.*", True),
        (b">", True),
        (b"\xc3\xb6", True),
        (b"", False),
        (b".", False),
        (b".a", False),
        (b"a.", False),
        (b"a..b", False),
        (b"a\x00b", False),
        (b"a\x7f", False),
        (b"a\x1f", False),
    ],
)
class TestMalformed:
    """Subjects of messages that reach no subscription."""

    def test_isDeliverable(self, subject: bytes, answer: bool) -> None:
        """A subject with an empty token or a control byte is malformed."""
        assert isDeliverable(subject) is answer

    @onEach
    def test_neverAskedFor(self, names: Names, subject: bytes, answer: bool) -> None:
        """A malformed subject has no match, even if the router would return one."""
        desk = Desk(names)
        desk.router.match = lambda subject: [desk.add(b">")]  # type: ignore[method-assign]
        assert bool(desk.matcher.match(subject)) is answer


def asSets(groups: Any) -> set[Any]:
    """Queue groups without any order."""
    return {(name, frozenset(here), frozenset(there)) for name, here, there in groups}


STEPS = st.lists(
    st.tuples(
        st.booleans(),
        PATTERNS,
        st.sampled_from([b"", b"q", b"r"]),
        st.sampled_from([0, 1, FIRST_LINK_KIND, 5]),
        DELIVERABLE,
    ),
    max_size=20,
)


@onEach
class TestAnything:
    """Properties that hold after any changes."""

    @pytest.mark.parametrize(("queue", "kind"), [(b"", 3), (b"q", 3), (b"", 6), (b"q", 6)])
    def test_permissions(self, names: Names, queue: bytes, kind: int) -> None:
        """
        A subject that a link may not receive has no match; the permissions of clients are checked
        at delivery.
        """
        desk = Desk(names)
        entry = desk.add(b">", queue, kind)
        entry.permissions = SubscribePermissions(None, [b"a.secret"])
        assert not desk.matcher.match(b"a.secret")
        assert desk.matcher.match(b"a.b")
        client = desk.add(b">")
        client.permissions = entry.permissions
        assert desk.matcher.match(b"a.secret").plain == (client,)

    @given(STEPS, st.sampled_from([2, 16, 16384]))
    def test_neverStale(
        self, names: Names, steps: list[tuple[bool, bytes, bytes, int, bytes]], limit: int
    ) -> None:
        """A remembered answer is always the one that the router would give now."""
        desk = Desk(names, limit=limit)
        asked: list[bytes] = []
        for removes, pattern, queue, kind, subject in steps:
            if removes and desk.router.entries:
                desk.remove(desk.router.entries[len(pattern) % len(desk.router.entries)])
            else:
                desk.add(pattern, queue, kind)
            asked.append(subject)
            for literal in asked:
                answer = desk.matcher.match(literal)
                expected = sortMatches(desk.router.match(literal), literal)
                assert set(answer.plain) == set(expected.plain)
                assert set(answer.links) == set(expected.links)
                assert asSets(answer.groups) == asSets(expected.groups)
