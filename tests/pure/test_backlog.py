"""
The rest when a share of work is used up.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from natsbroker.pure.backlog import LEAST, LONGEST_BATCH, LOOK, SHARE
from tests.support import Names, onEach

pytestmark = onEach


class Room:
    """A batch of turns, and the calls that it has scheduled."""

    def __init__(self, names: Names) -> None:
        self.soon: list[Callable[[], None]] = []
        self.worked = 0.0
        self.batch = names.FlushBatch(self.soon.append, None, lambda: self.worked)
        self.done: list[str] = []

    def iterate(self) -> None:
        """Run one iteration of a reactor."""
        calls, self.soon[:] = list(self.soon), []
        for call in calls:
            call()

    def worker(self, name: str, work: int) -> Callable[[], None]:
        """An entry that does some work in a turn."""

        def run() -> None:
            self.batch.enter()
            self.batch.work += work
            self.done.append(name)
            self.batch.leave()

        return run


class TestTurns:
    """The share of a turn."""

    def test_unlimitedOutside(self, names: Names) -> None:
        """Outside of turns nothing is limited."""
        batch = Room(names).batch
        batch.work += 10 * SHARE
        assert not batch.isSpent

    def test_aShare(self, names: Names) -> None:
        """The first turn of a round may use the whole share of work."""
        batch = Room(names).batch
        batch.enter()
        batch.work += SHARE - 1
        assert not batch.isSpent
        batch.work += 1
        assert batch.isSpent

    def test_theRestOfTheRound(self, names: Names) -> None:
        """Later turns of a round may use what is left of the share, and always a minimum."""
        batch = Room(names).batch
        for _ in range(3):
            batch.enter()
            batch.work += SHARE
            batch.leave()
        batch.enter()
        assert batch.until - batch.work == LEAST
        batch.renew()
        batch.leave()
        batch.enter()
        assert batch.until - batch.work == SHARE

    def test_innerTurn(self, names: Names) -> None:
        """A turn within another one has no separate share."""
        batch = Room(names).batch
        batch.enter()
        batch.work += SHARE
        batch.enter()
        assert batch.isSpent
        batch.leave()
        assert batch.isSpent


class TestTime:
    """The time of a turn, whose work takes longer than it is counted for."""

    def test_over(self, names: Names) -> None:
        """A turn is over when it has used its time, counted from its first look at the clock."""
        room = Room(names)
        batch = room.batch
        batch.enter()
        assert not batch.isSpent
        room.worked += LONGEST_BATCH * 0.9
        batch.work += LOOK
        assert not batch.isSpent
        room.worked += LONGEST_BATCH * 0.2
        batch.work += LOOK
        assert batch.isSpent

    def test_betweenLooks(self, names: Names) -> None:
        """The clock is read only after a number of operations."""
        room = Room(names)
        room.batch.enter()
        assert not room.batch.isSpent
        room.worked += 1.0
        room.batch.work += LOOK - 1
        assert not room.batch.isSpent
        room.batch.work += 1
        assert room.batch.isSpent

    def test_roundOver(self, names: Names) -> None:
        """A turn that uses up its time ends the round: later turns have the minimum."""
        room = Room(names)
        batch = room.batch
        batch.enter()
        assert not batch.isSpent
        room.worked += LONGEST_BATCH
        batch.work += LOOK
        assert batch.isSpent
        assert batch.work >= batch.round + SHARE
        batch.leave()
        assert not batch.isSpent
        batch.enter()
        assert batch.until - batch.work == LEAST
        assert not batch.isSpent

    def test_othersNextTime(self, names: Names) -> None:
        """An entry behind one that uses up the round's time is called in the next round."""
        room = Room(names)

        def slow() -> None:
            room.batch.enter()
            assert not room.batch.isSpent
            room.worked += LONGEST_BATCH
            room.batch.work += LOOK
            assert room.batch.isSpent
            room.batch.leave()

        room.batch.backlog.add(slow)
        room.batch.backlog.add(room.worker("a", 1))
        room.iterate()
        assert room.done == []
        room.iterate()
        assert room.done == ["a"]


class TestRounds:
    """The clients that are served in a round."""

    def test_notAtOnce(self, names: Names) -> None:
        """An entry is called once, in the next iteration of the reactor."""
        room = Room(names)
        room.batch.backlog.add(room.worker("a", 1))
        assert room.done == []
        room.iterate()
        room.iterate()
        assert room.done == ["a"]

    def test_oneRound(self, names: Names) -> None:
        """Entries with little work are served in one round."""
        room = Room(names)
        for name in "abc":
            room.batch.backlog.add(room.worker(name, 10))
        room.iterate()
        assert room.done == ["a", "b", "c"]

    def test_roundRobin(self, names: Names) -> None:
        """An entry that is added again waits for all others first."""
        room = Room(names)
        backlog = room.batch.backlog

        def again(name: str) -> Callable[[], None]:
            def run() -> None:
                room.worker(name, SHARE)()
                backlog.add(run)

            return run

        for name in "abc":
            backlog.add(again(name))
        for _ in range(7):
            room.iterate()
        assert "".join(room.done) == "abcabca"

    def test_failure(self, names: Names) -> None:
        """An entry that raises does not keep later ones from being called."""
        room = Room(names)

        def fail() -> None:
            raise RuntimeError("a test")

        room.batch.backlog.add(fail)
        room.batch.backlog.add(room.worker("a", 1))
        with pytest.raises(RuntimeError):
            room.iterate()
        room.iterate()
        assert room.done == ["a"]


class TestSteps:
    """An iterator that is used up."""

    def test_atOnce(self, names: Names) -> None:
        """An iterator with little work is exhausted at once."""
        room = Room(names)
        steps = iter(range(10))
        room.batch.backlog.exhaust(steps)
        assert list(steps) == [] and len(room.batch.backlog) == 0

    def test_inShares(self, names: Names) -> None:
        """An iterator with much work is exhausted over several iterations of the reactor."""
        room = Room(names)
        numbers: list[int] = []

        def step(number: int) -> None:
            numbers.append(number)
            room.batch.work += SHARE // 4

        room.batch.backlog.exhaust(map(step, range(10)))
        assert numbers == list(range(4))
        room.iterate()
        assert numbers == list(range(8))
        room.iterate()
        assert numbers == list(range(10)) and len(room.batch.backlog) == 0

    def test_failure(self, names: Names) -> None:
        """A step that raises an exception is skipped, and the caller is informed."""
        room = Room(names)
        numbers: list[int] = []

        def step(number: int) -> None:
            if number == 1:
                raise RuntimeError("a test")
            numbers.append(number)

        with pytest.raises(RuntimeError):
            room.batch.backlog.exhaust(map(step, range(3)))
        room.iterate()
        assert numbers == [0, 2]
