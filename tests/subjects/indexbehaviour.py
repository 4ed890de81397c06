"""
The behaviour of a subject index: the contract of L{natsbroker.subjects.index.SubjectIndex} is held
against the product of C{makeIndex}, so that another implementation is tested by subclassing::

    class TestCompiledIndex(IndexBehaviour):
        makeIndex = CompiledIndex

    class CompiledIndexMachine(IndexMachine):
        makeIndex = CompiledIndex

    TestCompiledIndexMachine = CompiledIndexMachine.TestCase
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Protocol

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from natsbroker.subjects.grammar import hasWildcard, matches
from natsbroker.subjects.index import InvalidPattern
from natsbroker.subjects.shapes import TooManyShapes
from tests.subjects.strategies import DELIVERABLE, PATTERNS

__all__ = ["IndexBehaviour", "IndexMachine", "SubjectIndexLike"]


class SubjectIndexLike(Protocol):
    """The methods of an implementation."""

    def insert(self, pattern: bytes, entry: object) -> None: ...

    def remove(self, pattern: bytes, entry: object) -> bool: ...

    def match(self, subject: bytes) -> list[Any]: ...

    def hasInterest(self, subject: bytes) -> bool: ...

    def entriesFor(self, pattern: bytes) -> tuple[Any, ...]: ...

    def patterns(self) -> Iterator[bytes]: ...

    def __iter__(self) -> Iterator[Any]: ...

    def __len__(self) -> int: ...

    @property
    def shapes(self) -> int: ...


class Equal:
    """
    An entry that is equal to any other, and does not want to be hashed.
    """

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def sameEntries(entries: list[Any] | tuple[Any, ...], expected: list[Any]) -> bool:
    """Whether two collections hold the same objects equally often."""
    return sorted(map(id, entries)) == sorted(map(id, expected))


class IndexBehaviour:
    """The behaviour of every subject index."""

    makeIndex: ClassVar[Callable[..., SubjectIndexLike]]

    def filled(self, *patterns: bytes) -> SubjectIndexLike:
        """
        @return: an index in which each pattern is its own entry.
        """
        index = self.makeIndex()
        for pattern in patterns:
            index.insert(pattern, pattern)
        return index

    def test_empty(self) -> None:
        """A new index matches nothing and holds nothing."""
        index = self.makeIndex()
        assert index.match(b"a.b") == []
        assert not index.hasInterest(b"a.b")
        assert index.entriesFor(b"a.b") == ()
        assert list(index) == list(index.patterns()) == []
        assert (len(index), index.shapes) == (0, 0)

    def test_literals(self) -> None:
        """A literal pattern matches only its own subject."""
        index = self.filled(b"foo", b"foo.bar", b"foo*")
        assert index.match(b"foo") == [b"foo"]
        assert index.match(b"foo.bar") == [b"foo.bar"]
        assert index.match(b"foo*") == [b"foo*"]
        assert index.match(b"foox") == []
        assert index.shapes == 0

    def test_wildcards(self) -> None:
        """Every pattern that matches is found, with any kinds of wildcards."""
        index = self.filled(
            b"foo.bar",
            b"foo.*",
            b"*.bar",
            b"*.*",
            b"foo.>",
            b"*.>",
            b">",
            b"foo.bar.>",
            b"*",
            b"x.*",
        )
        expected = [b"*.*", b"*.>", b"*.bar", b">", b"foo.*", b"foo.>", b"foo.bar"]
        assert sorted(index.match(b"foo.bar")) == expected
        assert sorted(index.match(b"foo.bar.baz")) == [b"*.>", b">", b"foo.>", b"foo.bar.>"]
        assert sorted(index.match(b"foo")) == [b"*", b">"]

    def test_wildcardsInTheSubject(self) -> None:
        """
        A wildcard in a published subject is a literal, and each matching pattern is found once.
        """
        index = self.filled(b"foo.*", b"foo.bar", b"foo.>", b"*.*", b"*.>", b"foo.*.*")
        assert sorted(index.match(b"foo.*")) == [b"*.*", b"*.>", b"foo.*", b"foo.>"]
        assert sorted(index.match(b"foo.>")) == [b"*.*", b"*.>", b"foo.*", b"foo.>"]
        assert sorted(index.match(b"*.*")) == [b"*.*", b"*.>"]
        assert sorted(index.match(b"*.bar.>")) == [b"*.>"]
        assert index.hasInterest(b"*.bar")
        assert not index.hasInterest(b"*")

    @pytest.mark.parametrize("subject", [b"", b".", b"foo.", b".foo", b"foo..bar", b"foo.*."])
    def test_emptyTokensReachNothing(self, subject: bytes) -> None:
        """A subject with an empty token reaches no subscription, not even C{>}."""
        index = self.filled(b">", b"*", b"*.*", b"foo.>", b"*.*.*", b"foo.*.bar")
        assert index.match(subject) == []
        assert not index.hasInterest(subject)

    @pytest.mark.parametrize("pattern", [b"", b"a..b", b".a", b"a.", b">.a", b"a b", b"a\x00"])
    def test_invalidPattern(self, pattern: bytes) -> None:
        """An invalid pattern is refused and leaves no trace."""
        index = self.makeIndex()
        with pytest.raises(InvalidPattern):
            index.insert(pattern, object())
        assert list(index.patterns()) == []
        assert not index.remove(pattern, object())
        assert (len(index), index.shapes) == (0, 0)

    @pytest.mark.parametrize("number", [1, 2, 3, 16, 17, 18, 100])
    def test_entriesOfOnePattern(self, number: int) -> None:
        """Entries under one pattern are added and removed by identity, in any order."""
        index = self.makeIndex()
        entries = [Equal() for _ in range(number)]
        for entry in entries:
            index.insert(b"a.*", entry)
        assert sameEntries(index.match(b"a.b"), entries)
        assert sameEntries(index.entriesFor(b"a.*"), entries)
        assert len(index) == number
        random.Random(number).shuffle(entries)
        while entries:
            assert not index.remove(b"a.*", Equal())
            assert index.remove(b"a.*", entries[-1])
            assert not index.remove(b"a.*", entries.pop())
            assert sameEntries(index.match(b"a.b"), entries)
            assert len(index) == len(entries)
        assert index.shapes == 0

    @pytest.mark.parametrize("others", [0, 1, 16])
    def test_insertedTwice(self, others: int) -> None:
        """Inserting an entry again under the same pattern changes nothing."""
        index = self.makeIndex()
        for number in range(others):
            index.insert(b"a", number)
        entry = object()
        index.insert(b"a", entry)
        index.insert(b"a", entry)
        assert len(index) == len(index.match(b"a")) == others + 1
        assert index.remove(b"a", entry)
        assert not index.remove(b"a", entry)

    def test_oneEntryManyPatterns(self) -> None:
        """An entry under several patterns is found once for each."""
        index = self.makeIndex()
        entry = object()
        for pattern in (b"a.b", b"a.*", b">"):
            index.insert(pattern, entry)
        assert index.match(b"a.b") == [entry] * 3
        assert index.remove(b"a.*", entry)
        assert index.match(b"a.b") == [entry] * 2
        assert not index.remove(b"a.>", entry)

    @pytest.mark.parametrize("entry", [None, 0, b"", (), (1, 2), [], [3], {}, {1: 2}])
    def test_anyEntry(self, entry: object) -> None:
        """Entries may be of any type, containers and L{None} included."""
        index = self.makeIndex()
        index.insert(b"a.*", entry)
        assert sameEntries(index.match(b"a.b"), [entry])
        assert index.hasInterest(b"a.b")
        other = object()
        index.insert(b"a.*", other)
        assert sameEntries(index.entriesFor(b"a.*"), [entry, other])
        assert sameEntries(list(index), [entry, other])
        assert index.remove(b"a.*", entry)
        assert index.match(b"a.b") == [other]

    def test_entriesForIsExact(self) -> None:
        """Entries are listed by the text of their pattern, not by its matches."""
        index = self.filled(b"a.*", b"a.b")
        assert index.entriesFor(b"a.*") == (b"a.*",)
        assert index.entriesFor(b"a.b") == (b"a.b",)
        assert index.entriesFor(b"a.>") == ()

    def test_walk(self) -> None:
        """The patterns are listed once each, the entries once for each pattern."""
        index = self.makeIndex()
        for number in range(20):
            index.insert(b"a.*", number)
        index.insert(b"b", 20)
        index.insert(b"c.>", 20)
        index.insert(b"c.>", 21)
        assert sorted(index.patterns()) == [b"a.*", b"b", b"c.>"]
        assert sorted(index) == [*range(20), 20, 20, 21]
        assert len(index) == 23

    def test_resultIsTheCallers(self) -> None:
        """A caller that changes a result does not change the index."""
        index = self.makeIndex()
        for number in range(3):
            index.insert(b"a", number)
        index.match(b"a").clear()
        assert sorted(index.match(b"a")) == [0, 1, 2]

    def test_changesShowAtOnce(self) -> None:
        """
        A pattern of a new shape is found for lengths that were matched before, and not after its
        removal.
        """
        index = self.filled(b"a.*")
        for length in range(1, 6):
            subject = b".".join([b"a"] * length)
            before = index.match(subject)
            index.insert(b">", b">")
            assert sorted(index.match(subject)) == sorted([b">", *before])
            assert index.remove(b">", b">")
            assert index.match(subject) == before

    def test_longSubjects(self) -> None:
        """Subjects of two thousand tokens and more are matched."""
        index = self.filled(b">", b"a.>", b"*.*.>", b".".join([b"*"] * 2000))
        assert len(index.match(b".".join([b"a"] * 200))) == 3
        assert len(index.match(b".".join([b"a"] * 2000))) == 4
        assert len(index.match(b".".join([b"a"] * 1999))) == 3
        assert len(index.match(b".".join([b"a"] * 32000))) == 3

    def test_shapesAreCounted(self) -> None:
        """Patterns that differ in their literal tokens only are of one shape."""
        index = self.filled(b"a.*", b"b.*", b"c*.*", b"a.*.x", b"a.>", b"bb.>", b"literal.a")
        assert index.shapes == 3
        index.remove(b"a.*", b"a.*")
        assert index.shapes == 3
        index.remove(b"b.*", b"b.*")
        index.remove(b"c*.*", b"c*.*")
        assert index.shapes == 2

    def test_shapesAreCapped(self) -> None:
        """
        A new shape beyond the cap is refused. Known ones and literals are not. Removed shapes make
        room.
        """
        index = self.makeIndex(maxShapes=2)
        index.insert(b"*", 1)
        index.insert(b"a.*", 2)
        with pytest.raises(TooManyShapes):
            index.insert(b"*.a", 3)
        assert (len(index), index.shapes) == (2, 2)
        assert index.match(b"b.a") == []
        assert not index.remove(b"*.a", 3)
        index.insert(b"b.*", 4)
        index.insert(b"b.a", 5)
        index.remove(b"*", 1)
        index.insert(b"*.a", 3)
        assert sorted(index.match(b"b.a")) == [3, 4, 5]

    def test_longShapesAreCapped(self) -> None:
        """Shapes of long patterns use the cap up sooner, since each costs more to look up."""
        index = self.makeIndex(maxShapes=10)
        long = b"*." + b"a" * 598
        index.insert(long, 1)
        with pytest.raises(TooManyShapes):
            index.insert(b"*.*." + b"a" * 37, 2)
        with pytest.raises(TooManyShapes):
            index.insert(b"*." + b"a" * 639, 2)
        index.insert(b"b.*", 3)
        assert sorted(index.match(b"b." + b"a" * 598)) == [1, 3]
        index.remove(long, 1)
        index.insert(b"*.*." + b"a" * 37, 2)
        assert len(index) == 2

    @pytest.mark.parametrize("size", [1, 100, 512, 513, 5000])
    def test_longTokens(self, size: int) -> None:
        """Subjects with tokens of any length are matched."""
        long = b"a" * size
        expected = [b"*.*", b"*.>", b">", long + b".*", long + b".>", long + b".b"]
        index = self.filled(*expected, long, b"b.*", b"*.b.*", long + b"a.*")
        assert sorted(index.match(long + b".b")) == sorted(expected)
        assert index.hasInterest(long + b".b")
        assert sorted(index.match(b"b." + long)) == sorted([b"*.*", b"*.>", b">", b"b.*"])
        assert index.match(b"b.." + long) == []
        index.remove(b">", b">")
        assert not index.hasInterest(long + b"b")

    def test_hostilePatterns(self) -> None:
        """Patterns that branch at every token are limited by default, and matched correctly."""
        index = self.makeIndex()
        made = (b".".join(parts) for parts in itertools.product((b"a", b"*"), repeat=11))
        taken = []
        with pytest.raises(TooManyShapes):
            for pattern in made:
                index.insert(pattern, pattern)
                taken.append(pattern)
        assert index.shapes <= 1024
        assert index.match(b".".join([b"b"] * 11)) == []
        subject = b".".join([b"a", b"b"] * 5 + [b"a"])
        expected = sorted(candidate for candidate in taken if matches(candidate, subject))
        assert len(expected) > 10
        assert sorted(index.match(subject)) == expected

    def test_manyPatternsOfOneShape(self) -> None:
        """Thousands of patterns of one shape need one look-up for a subject."""
        index = self.filled(*[b"user.%d.*" % number for number in range(5000)])
        assert index.shapes == 1
        assert index.match(b"user.4321.seen") == [b"user.4321.*"]
        assert index.match(b"user.5000.seen") == []


class IndexMachine(RuleBasedStateMachine):
    """
    An index and a plain list of what it should hold, treated alike.
    """

    makeIndex: ClassVar[Callable[..., SubjectIndexLike]]

    MAX_SHAPES = 6

    def __init__(self) -> None:
        super().__init__()
        self.index = self.makeIndex(maxShapes=self.MAX_SHAPES)
        self.held: list[tuple[bytes, object]] = []
        self.spare = [Equal() for _ in range(3)]

    def shapesHeld(self) -> set[object]:
        """
        @return: the wildcard shapes that the plain list has.
        """
        return {shapeOf(pattern) for pattern, _ in self.held if hasWildcard(pattern)}

    def put(self, pattern: bytes, entry: object) -> None:
        """Insert into both, or check that the index refuses for a reason."""
        full = len(self.shapesHeld() | {shapeOf(pattern)}) > self.MAX_SHAPES
        if hasWildcard(pattern) and full:
            with pytest.raises(TooManyShapes):
                self.index.insert(pattern, entry)
            return
        self.index.insert(pattern, entry)
        if not any(known == pattern and other is entry for known, other in self.held):
            self.held.append((pattern, entry))

    @rule(pattern=PATTERNS | DELIVERABLE)
    def insertNew(self, pattern: bytes) -> None:
        """A new entry."""
        self.put(pattern, Equal())

    @rule(pattern=PATTERNS, number=st.integers(0, 2))
    def insertKnown(self, pattern: bytes, number: int) -> None:
        """An entry that may already be in the index."""
        self.put(pattern, self.spare[number])

    @rule(pattern=PATTERNS, number=st.integers(2, 40))
    def insertMany(self, pattern: bytes, number: int) -> None:
        """Insert enough entries under one pattern to make the index keep them in another way."""
        for _ in range(number):
            self.put(pattern, Equal())

    @rule(data=st.data())
    def removeKnown(self, data: st.DataObject) -> None:
        """Remove an entry that is in the index."""
        if self.held:
            place = data.draw(st.integers(0, len(self.held) - 1))
            pattern, entry = self.held.pop(place)
            assert self.index.remove(pattern, entry)
            assert not self.index.remove(pattern, entry)

    @rule(data=st.data())
    def removeAllOfOne(self, data: st.DataObject) -> None:
        """Remove all entries of one pattern."""
        if self.held:
            victim = data.draw(st.sampled_from(sorted({pattern for pattern, _ in self.held})))
            for pattern, entry in self.held:
                if pattern == victim:
                    assert self.index.remove(pattern, entry)
            self.held = [pair for pair in self.held if pair[0] != victim]

    @rule(pattern=PATTERNS)
    def removeStranger(self, pattern: bytes) -> None:
        """Remove an entry that is not in the index."""
        assert not self.index.remove(pattern, Equal())

    @rule(subject=DELIVERABLE)
    def matchSubject(self, subject: bytes) -> None:
        """A subject reaches the subscriptions of the plain list."""
        expected = [entry for pattern, entry in self.held if matches(pattern, subject)]
        assert sameEntries(self.index.match(subject), expected)
        assert self.index.hasInterest(subject) is bool(expected)

    @rule(pattern=PATTERNS)
    def listPattern(self, pattern: bytes) -> None:
        """The entries under one text are those of the plain list."""
        expected = [entry for known, entry in self.held if known == pattern]
        assert sameEntries(self.index.entriesFor(pattern), expected)

    @invariant()
    def counts(self) -> None:
        """Counts and walks agree with the plain list."""
        assert len(self.index) == len(self.held)
        assert self.index.shapes == len(self.shapesHeld())
        assert sorted(self.index.patterns()) == sorted({pattern for pattern, _ in self.held})
        assert sameEntries(list(self.index), [entry for _, entry in self.held])


def shapeOf(pattern: bytes) -> object:
    """
    @return: the same for patterns that differ in literal tokens only.
    """
    return tuple(token if token in (b"*", b">") else b"" for token in pattern.split(b"."))
