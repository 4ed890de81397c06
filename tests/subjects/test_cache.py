"""
Tests for L{natsbroker.subjects.cache}.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.subjects.cache import MatchCache
from natsbroker.subjects.epochs import Epochs
from natsbroker.subjects.index import SubjectIndex
from tests.subjects.strategies import DELIVERABLE, PATTERNS


class World:
    """
    Results that change, and a record of who asked.

    @ivar epoch: of all subjects.
    @ivar asked: the subjects that were matched, in order.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.asked: list[bytes] = []

    def match(self, subject: bytes) -> tuple[bytes, int]:
        """
        @return: the subject and the epoch.
        """
        self.asked.append(subject)
        return subject, self.epoch

    def epochOf(self, subject: bytes) -> int:
        """
        @return: the one epoch.
        """
        return self.epoch


@pytest.fixture
def world() -> World:
    """The world of a test."""
    return World()


class TestMatchCache:
    """Remembering."""

    def test_remembers(self, world: World) -> None:
        """A subject asked for twice is matched once."""
        cache = MatchCache(world.match, world.epochOf, 10)
        first = cache.get(b"a")
        assert cache.get(b"a") is first
        assert first == (b"a", 0)
        assert world.asked == [b"a"]
        assert (cache.hits, cache.misses, len(cache)) == (1, 1, 1)

    def test_emptyResultsToo(self, world: World) -> None:
        """A result that is false is remembered like any other."""
        asked: list[bytes] = []
        cache: MatchCache[None] = MatchCache(asked.append, world.epochOf, 10)
        assert cache.get(b"a") is cache.get(b"a") is None
        assert asked == [b"a"]

    def test_newEpoch(self, world: World) -> None:
        """When a subject's epoch changes, the subject is matched again, once."""
        cache = MatchCache(world.match, world.epochOf, 10)
        cache.get(b"a")
        world.epoch = 1
        assert cache.get(b"a") == cache.get(b"a") == (b"a", 1)
        assert len(cache) == 1
        assert (cache.hits, cache.misses) == (1, 2)

    def test_newEpochInTheOldGeneration(self, world: World) -> None:
        """A result of an older epoch is not used either when it comes from the old generation."""
        cache = MatchCache(world.match, world.epochOf, 2)
        cache.get(b"a")
        cache.get(b"b")
        world.epoch = 1
        assert cache.get(b"a") == (b"a", 1)

    def test_changeDuringTheMatch(self, world: World) -> None:
        """A result is not remembered if something changed while the match was running."""

        def match(subject: bytes) -> tuple[bytes, int]:
            result = world.match(subject)
            if len(world.asked) == 1:
                world.epoch += 1
            return result

        cache = MatchCache(match, world.epochOf, 10)
        assert cache.get(b"a") == (b"a", 0)
        assert cache.get(b"a") == (b"a", 1)

    def test_matchThatAsksAgain(self, world: World) -> None:
        """
        A match that itself asks the cache for the same subject leaves the sum of weights right.
        """

        def match(subject: bytes) -> tuple[bytes, int]:
            result = world.match(subject)
            if len(world.asked) < 3:
                cache.get(subject)
            return result

        cache = MatchCache(match, world.epochOf, 4)
        cache.get(b"a")
        assert len(cache) == 1
        cache.get(b"b")
        world.asked.clear()
        cache.get(b"a")
        cache.get(b"b")
        assert world.asked == []

    def test_failureIsNotRemembered(self, world: World) -> None:
        """An exception from the match goes to the caller, and the next request matches again."""

        def match(subject: bytes) -> tuple[bytes, int]:
            if not world.asked:
                world.asked.append(subject)
                raise LookupError("later")
            return world.match(subject)

        cache = MatchCache(match, world.epochOf, 4)
        with pytest.raises(LookupError, match="later"):
            cache.get(b"a")
        assert cache.get(b"a") == (b"a", 0)

    @pytest.mark.parametrize("limit", [2, 3, 10, 64])
    def test_bounded(self, world: World, limit: int) -> None:
        """No more subjects than the limit are ever remembered."""
        cache = MatchCache(world.match, world.epochOf, limit)
        for number in range(500):
            cache.get(b"s%d" % number)
            assert len(cache) <= limit
        assert len(cache) >= limit // 2

    def test_steadySubjectsStay(self, world: World) -> None:
        """A subject in steady use is kept while thousands of others are asked for once."""
        cache = MatchCache(world.match, world.epochOf, 10)
        for number in range(1000):
            cache.get(b"steady")
            cache.get(b"passing%d" % number)
        assert world.asked.count(b"steady") == 1

    def test_weights(self, world: World) -> None:
        """With weights, their sum is bounded. A result that is too heavy is not remembered."""

        def match(subject: bytes) -> bytes:
            world.asked.append(subject)
            return subject

        cache = MatchCache(match, world.epochOf, 20, weigh=len)
        for subject in (b"aaaa", b"bbbb", b"cccc", b"dddd", b"eeee", b""):
            cache.get(subject)
        assert len(cache) <= 5
        world.asked.clear()
        for _ in range(2):
            cache.get(b"eeee")
            cache.get(b"much too heavy")
        assert world.asked == [b"much too heavy"] * 2

    def test_weightlessStillCount(self, world: World) -> None:
        """A result without weight counts as one."""
        cache = MatchCache(world.match, world.epochOf, 4, weigh=lambda result: 0)
        for number in range(100):
            cache.get(b"s%d" % number)
        assert len(cache) <= 4

    def test_longSubjects(self, world: World) -> None:
        """Subjects longer than the limit are matched each time."""
        cache = MatchCache(world.match, world.epochOf, 10, longest=3)
        for _ in range(2):
            cache.get(b"abc")
            cache.get(b"abcd")
        assert world.asked == [b"abc", b"abcd", b"abcd"]

    def test_clear(self, world: World) -> None:
        """A cleared cache matches every subject again."""
        cache = MatchCache(world.match, world.epochOf, 4)
        for subject in (b"a", b"b", b"c"):
            cache.get(subject)
        cache.clear()
        assert len(cache) == 0
        cache.get(b"a")
        assert world.asked == [b"a", b"b", b"c", b"a"]

    @pytest.mark.parametrize("limit", [1, 0, -1])
    def test_limit(self, world: World, limit: int) -> None:
        """A cache without room is refused."""
        with pytest.raises(ValueError, match="room"):
            MatchCache(world.match, world.epochOf, limit)

    @given(
        st.lists(
            st.tuples(st.just("insert"), PATTERNS)
            | st.tuples(st.just("remove"), PATTERNS)
            | st.tuples(st.just("match"), DELIVERABLE),
            max_size=40,
        )
    )
    def test_withAnIndex(self, steps: list[tuple[str, bytes]]) -> None:
        """In front of an index, with epochs, the remembered answers are the index's."""
        index: SubjectIndex[bytes] = SubjectIndex()
        epochs = Epochs(16)
        cache = MatchCache(index.match, epochs.epochOf, 8)
        for step, subject in steps:
            if step == "insert":
                index.insert(subject, subject)
                epochs.changed(subject)
            elif step == "remove":
                for entry in index.entriesFor(subject):
                    index.remove(subject, entry)
                epochs.changed(subject)
            assert sorted(cache.get(subject)) == sorted(index.match(subject))
