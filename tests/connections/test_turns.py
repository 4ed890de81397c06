"""Tests for L{natsbroker.connections.turns}."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.task import Clock

from natsbroker import hot
from natsbroker.connections.turns import LEVEL, SLICE, Turns, WorkEnded
from natsbroker.pure.backlog import LONGEST_BATCH, LOOK, SHARE


class World:
    """
    Turns whose slices take as long as the test sets.

    @ivar done: the names of the finished slices in order, with a bar after each turn of the
        reactor.
    """

    def __init__(self) -> None:
        self.clock = Clock()
        self.calls: list[Callable[[], None]] = []
        self.batch = hot.FlushBatch(self.calls.append, None, lambda: self.worked)
        self.turns = Turns(self.clock, self.batch, lambda: self.worked)
        self.worked = 0.0
        self.seconds = 0.0
        self.done: list[str] = []
        self.outcomes: dict[str, Any] = {}

    async def _work(self, name: str, account: str, slices: int, cost: int) -> str:
        for _ in range(slices):
            await self.turns.of(account).turn(cost)
            self.done.append(name)
            self.worked += self.seconds
        return "done"

    def begin(
        self,
        name: str,
        slices: int = 1,
        account: str = "A",
        origin: object = None,
        cost: int = SLICE,
    ) -> Deferred[Any]:
        """Begin a task of several slices."""
        work: Coroutine[Any, Any, Any] = self._work(name, account, slices, cost)
        running = self.turns.begin(work, origin)
        running.addBoth(lambda result: self.outcomes.__setitem__(name, result))
        return running

    def queue(
        self,
        name: str,
        slices: int,
        running: list[Deferred[Any]],
        isWanted: Callable[[], bool],
    ) -> None:
        """Queue a task, which is added to the list when it begins."""

        def begin() -> None:
            running.append(ensureDeferred(self._work(name, "A", slices, SLICE)))

        self.turns.of("A").queue(begin, self, isWanted)

    def turn(self) -> str:
        """The slices of one turn of the reactor."""
        calls, self.calls[:] = list(self.calls), []
        before = len(self.done)
        for call in calls:
            call()
        return "".join(self.done[before:])

    def run(self) -> str:
        """Run turns until there is no work."""
        turns = []
        while self.calls:
            turns.append(self.turn())
        return "|".join(turns)


def test_takeAtOnce() -> None:
    """Without other work a slice begins at once, until the round is used up."""
    world = World()
    taken = [world.turns.of("A").take() for _ in range(SHARE // SLICE + 1)]
    assert [deferred.called for deferred in taken] == [True] * (SHARE // SLICE) + [False]
    assert world.turns.of("A").isSpent
    assert world.turns.of("A").waiting == 1
    world.turn()
    assert taken[-1].called
    assert world.turns.of("A").waiting == 0


def test_behindOthers() -> None:
    """A new task runs after the tasks that wait."""
    world = World()
    first = world.turns.of("A").turn()
    second = world.turns.of("B").take()
    assert (first.called, second.called) == (False, False)
    world.turn()
    assert (first.called, second.called) == (True, True)


def test_fair() -> None:
    """
    Accounts take turns, however many tasks they have, and so do the connections of an account.
    """
    world = World()
    world.seconds = LONGEST_BATCH
    one, other = object(), object()
    for _ in range(3):
        world.begin("a", 1, "A", one)
    world.begin("b", 1, "A", other)
    world.begin("c", 2, "B")
    assert world.run() == "a|c|b|c|a|a"


def test_oldestFirst() -> None:
    """
    The first task of a connection is finished first, so that only one answer is incomplete at a
    time.
    """
    world = World()
    world.seconds = LONGEST_BATCH
    for name in "abc":
        world.begin(name, 2, origin=world)
    assert world.run() == "a|a|b|b|c|c"


def test_longWorkStepsBack() -> None:
    """A long task does not delay later tasks of the same connection."""
    world = World()
    world.begin("a", 2 * LEVEL, origin=world)
    world.begin("b", 1, origin=world)
    done = world.run().replace("|", "")
    assert done.index("b") == LEVEL
    assert done.count("a") == 2 * LEVEL


@pytest.mark.parametrize(
    ("seconds", "cost", "most"),
    [(LONGEST_BATCH, LOOK, 1), (LONGEST_BATCH / 3, LOOK, 3), (0.0, SLICE, 8)],
)
def test_oneTurn(seconds: float, cost: int, most: int) -> None:
    """A turn ends after some CPU time, or after some counted work."""
    world = World()
    world.seconds = seconds
    for place in range(20):
        world.begin("x", account=f"{place}", cost=cost)
    assert {len(part) for part in world.run().split("|")[:-1]} == {most}


def test_reactorBetween() -> None:
    """A single task has one slice in each turn of the reactor."""
    world = World()
    world.begin("x", 3)
    assert world.run() == "x|x|x"


def test_unwanted() -> None:
    """A task whose result is no longer wanted ends when its turn comes."""
    world = World()
    isWanted = [True]
    running: list[Deferred[Any]] = []
    world.queue("x", 3, running, lambda: isWanted[0])
    assert world.turn() == "x"
    isWanted[0] = False
    assert world.run() == ""
    (ended,) = running
    ended.addErrback(lambda why: why.trap(WorkEnded))
    assert world.turns.count("A") == 0


def test_beginsInItsTurn() -> None:
    """A queued task begins after earlier ones, or never if its result is no longer wanted."""
    world = World()
    running: list[Deferred[Any]] = []
    isWanted = [True]
    world.begin("a", 2, origin=world)
    world.queue("b", 1, running, lambda: True)
    world.queue("c", 1, running, lambda: isWanted[0])
    assert (running, world.turns.count("A")) == ([], 3)
    isWanted[0] = False
    assert world.run().replace("|", "") == "aab"
    assert len(running) == 1


def test_cancelled() -> None:
    """A waiting task that is cancelled leaves the queue."""
    world = World()
    running = world.begin("x")
    world.begin("y")
    running.cancel()
    assert world.run() == "y"
    assert world.outcomes["x"].check(CancelledError)
    assert world.turns.count("A") == 0


def test_own() -> None:
    """A task that another task has started continues when the other one ends."""
    world = World()

    async def outer() -> None:
        world.begin("inner", 2)
        await world.turns.of("A").turn()

    def begin() -> None:
        ensureDeferred(outer()).addErrback(lambda why: why.trap(WorkEnded))

    world.turns.of("A").queue(begin, world, lambda: False)
    assert world.run() == "inner|inner"


def test_stop() -> None:
    """After a stop no task runs, neither a waiting nor a new one."""
    world = World()
    world.begin("x", 3)
    world.turns.stop()
    world.begin("y")
    assert world.run() == ""
    assert all(world.outcomes[name].check(CancelledError) for name in "xy")
    assert world.turns.of("A").take().addErrback(lambda why: why.trap(CancelledError)).called


class Owner:
    """The owner of an outbox."""

    def outboxOverflowed(self) -> None:
        """Unused by these tests."""

    def outboxFailed(self) -> None:
        """Unused by these tests."""


def test_receiverLags() -> None:
    """
    A task that fills a receiver's outbox resumes when the outbox has drained, and other tasks do
    not wait.
    """
    world = World()
    outbox: Any = hot.Outbox(world.batch, Owner(), lambda data: None, 64 << 20)
    outbox.pause()

    async def fill() -> None:
        for _ in range(3):
            await world.turns.of("A").turn()
            outbox.write(b"x" * (2 << 20))
            world.done.append("f")

    world.turns.begin(fill())
    world.begin("x", 3, "B")
    assert world.run() == "fx|x|x"
    outbox.resume()
    assert world.run() == "f|f"


def test_receiverHadItsChance() -> None:
    """A task resumes after a while although the receiver's outbox has not drained."""
    world = World()
    outbox: Any = hot.Outbox(world.batch, Owner(), lambda data: None, 64 << 20)
    outbox.pause()

    async def fill() -> None:
        for _ in range(5):
            await world.turns.of("A").turn()
            outbox.write(b"x" * (2 << 20))
            world.done.append("f")

    world.turns.begin(fill())
    assert world.run() == "f"
    world.clock.advance(1)
    assert world.run() == "f|f|f|f"
