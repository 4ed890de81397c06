"""Contract tests for L{ISubjectRouter}."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from natsbroker.interfaces import ISubjectRouter
from natsbroker.subjects.grammar import matches
from natsbroker.testing.contracts.base import QUICK, Contract
from natsbroker.testing.strategies import literalSubjects, patterns

__all__ = ["MATCHES", "subjectRouterTests"]


#: Patterns, subjects, and whether the one matches the other.
MATCHES: Sequence[tuple[bytes, bytes, bool]] = (
    (b"a", b"a", True),
    (b"a", b"b", False),
    (b"a", b"a.b", False),
    (b"a.b", b"a", False),
    (b"*", b"a", True),
    (b"*", b"a.b", False),
    (b"a.*", b"a.b", True),
    (b"a.*", b"a", False),
    (b"a.*", b"a.b.c", False),
    (b"*.b", b"a.b", True),
    (b"*.*", b"a.b", True),
    (b"a.*.c", b"a.b.c", True),
    (b"a.*.c", b"a.b.d", False),
    (b">", b"a", True),
    (b">", b"a.b.c", True),
    (b"a.>", b"a.b", True),
    (b"a.>", b"a.b.c", True),
    (b"a.>", b"a", False),
    (b"*.>", b"a.b", True),
    (b"*.>", b"a", False),
    (b"a*", b"a*", True),
    (b"a*", b"ab", False),
    (b">a", b"b", False),
    (b"a.*", b"a.*", True),
    (b"a.b", b"a.*", False),
    (b"a.>", b"a.>", True),
    (b"a.*", b"a.>", True),
    (b"A", b"a", False),
    (b"\xff.\xc3\xb6", b"\xff.\xc3\xb6", True),
)


class _EqualEntry:
    """An entry that is equal to all others: a router distinguishes entries by identity."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _EqualEntry)

    def __hash__(self) -> int:
        return 1


def _same(entries: Iterable[Any], expected: Iterable[Any]) -> bool:
    return sorted(map(id, entries)) == sorted(map(id, expected))


def subjectRouterTests(
    factory: Callable[[], Any],
    reaches: Callable[[bytes, bytes], bool] = matches,
    samples: Sequence[bytes] = (),
) -> type[SynchronousTestCase]:
    """
    Tests for an L{ISubjectRouter}.

    @param factory: makes an empty router.
    @param reaches: tells whether a subject reaches an entry under a pattern; by default by NATS's
        rules.
    @param samples: patterns and subjects that the tests combine besides their own: the ones for
        which C{reaches} differs from NATS's rules.
    """
    somePatterns, someSubjects = patterns(), literalSubjects() | patterns()
    if samples:
        somePatterns |= st.sampled_from(samples)
        someSubjects |= st.sampled_from(samples)

    class SubjectRouterTests(Contract):
        def test_provides(self) -> None:
            """A router provides the interface, and is empty at first."""
            router = factory()
            self.holds(verifyObject(ISubjectRouter, router))
            self.same((len(router), list(router)), (0, []))

        def test_matches(self) -> None:
            """An entry is reached by the subjects that its pattern reaches, and by no others."""
            for pattern, subject, byNATS in MATCHES:
                answer = byNATS if reaches is matches else reaches(pattern, subject)
                router, entry = factory(), _EqualEntry()
                router.insert(pattern, entry)
                self.same(_same(router.match(subject), [entry]), answer, (pattern, subject))
                self.same(bool(router.hasInterest(subject)), answer, (pattern, subject))

        def test_identity(self) -> None:
            """Equal entries are distinguished, under one pattern and several."""
            router = factory()
            entries = [_EqualEntry() for _ in range(40)]
            for entry in entries:
                router.insert(b"a.*", entry)
            router.insert(b"a.b", entries[0])
            self.holds(_same(router.match(b"a.b"), [*entries, entries[0]]))
            self.same(len(router), 41)
            self.holds(_same(router, [*entries, entries[0]]))

        def test_remove(self) -> None:
            """A removed entry is not reached. Removing a missing entry returns false."""
            router = factory()
            one, other = _EqualEntry(), _EqualEntry()
            router.insert(b"a.*", one)
            self.holds(not router.remove(b"a.*", other))
            self.holds(not router.remove(b"a.b", one))
            self.holds(router.remove(b"a.*", one))
            self.holds(not router.remove(b"a.*", one))
            self.same((list(router.match(b"a.b")), len(router)), ([], 0))
            self.holds(not router.hasInterest(b"a.b"))

        def test_changesShowAtOnce(self) -> None:
            """A subject that was matched before is matched again after a change."""
            router, entry = factory(), _EqualEntry()
            for pattern in (b"a.b", b"a.*", b"a.>", b">"):
                self.same(list(router.match(b"a.b")), [])
                router.insert(pattern, entry)
                self.holds(_same(router.match(b"a.b"), [entry]), pattern)
                router.remove(pattern, entry)
            self.same(list(router.match(b"a.b")), [])

        @given(
            st.lists(st.tuples(st.booleans(), somePatterns), max_size=15),
            st.lists(someSubjects, min_size=1, max_size=6),
        )
        @example(
            [(removes, pattern) for pattern in samples for removes in (False, True)], list(samples)
        )
        @QUICK
        def test_announcesChanges(
            self, steps: list[tuple[bool, bytes]], subjects: list[bytes]
        ) -> None:
            """A match that a bus still remembers is the one that the router would give now."""
            router = factory()
            remembered: dict[bytes, list[Any]] = {}

            def changed(pattern: bytes) -> None:
                for subject in [subject_ for subject_ in remembered if matches(pattern, subject_)]:
                    del remembered[subject]

            router.watchChanges(changed)
            held: list[tuple[bytes, _EqualEntry]] = []
            for removes, pattern in steps:
                for subject in subjects:
                    remembered[subject] = list(router.match(subject))
                if removes and held:
                    pattern, entry = held.pop()
                    router.remove(pattern, entry)
                else:
                    held.append((pattern, _EqualEntry()))
                    router.insert(*held[-1])
                changed(pattern)
                for subject, entries in remembered.items():
                    self.holds(_same(entries, router.match(subject)), (pattern, subject))

        @given(
            st.lists(st.tuples(st.booleans(), somePatterns), max_size=15),
            st.lists(someSubjects, max_size=4),
        )
        @QUICK
        def test_anything(self, steps: list[tuple[bool, bytes]], subjects: list[bytes]) -> None:
            """
            After any changes, a subject reaches the same entries as a search through a plain list.
            """
            router = factory()
            held: list[tuple[bytes, _EqualEntry]] = []
            for removes, pattern in steps:
                if removes and held:
                    self.holds(router.remove(*held.pop()))
                else:
                    held.append((pattern, _EqualEntry()))
                    router.insert(*held[-1])
            self.holds(_same(router, [entry for _, entry in held]))
            for subject in subjects:
                expected = [entry for pattern, entry in held if reaches(pattern, subject)]
                self.holds(_same(router.match(subject), expected), subject)
                self.same(bool(router.hasInterest(subject)), bool(expected))

    return SubjectRouterTests
