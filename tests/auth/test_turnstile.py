"""
Tests of L{natsbroker.auth.turnstile}.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred

from natsbroker.auth.turnstile import ConcurrencyLimiter
from natsbroker.errors import Unauthorized


class Door:
    """
    Calls through a turnstile.

    @ivar running: what runs, by number.
    @ivar outcomes: what the calls came to.
    """

    def __init__(self, atATime: int = 2, waiting: int = 3) -> None:
        self.turnstile = ConcurrencyLimiter(atATime, waiting)
        self.running: dict[int, Deferred[Any]] = {}
        self.outcomes: list[Any] = []
        self.most = 0

    def call(self, number: int) -> Deferred[Any]:
        """One call that is running."""
        self.running[number] = Deferred()
        self.most = max(self.most, len(self.running))
        return self.running[number]

    def enter(self, number: int) -> Deferred[Any]:
        """Have something called."""
        result = self.turnstile.run(self.call, number)
        return result.addCallbacks(
            self.outcomes.append, lambda why: self.outcomes.append(type(why.value))
        )

    def finish(self, number: int, outcome: Any = None) -> None:
        """A call comes to something."""
        running = self.running.pop(number)
        if isinstance(outcome, Exception):
            running.errback(outcome)
        else:
            running.callback(outcome if outcome is not None else number)


def test_order() -> None:
    """Calls run a few at a time, in order."""
    door = Door()
    for number in range(5):
        door.enter(number)
    assert sorted(door.running) == [0, 1]
    door.finish(1)
    assert sorted(door.running) == [0, 2]
    for number in (0, 2, 3, 4):
        door.finish(number)
    assert (door.outcomes, door.most) == ([1, 0, 2, 3, 4], 2)


def test_tooMany() -> None:
    """What is one too many is denied at once, and later ones are not."""
    door = Door()
    for number in range(5):
        door.enter(number)
    with pytest.raises(Unauthorized):
        door.enter(5)
    door.finish(0)
    door.enter(6)
    assert sorted(door.running) == [1, 2]


def test_failures() -> None:
    """A call that fails makes room as well, also if it raises at once."""
    door = Door(1, 3)

    def refuse() -> None:
        raise ZeroDivisionError

    door.enter(0)
    raising: list[Any] = []
    door.turnstile.run(refuse).addErrback(lambda why: raising.append(type(why.value)))
    door.enter(1)
    door.finish(0, KeyError())
    door.finish(1)
    assert (door.outcomes, raising) == ([KeyError, 1], [ZeroDivisionError])


def test_manyAtOnce() -> None:
    """Any number of calls that end at once do not pile up on the stack."""
    turnstile = ConcurrencyLimiter(1, 100_000)
    first: Deferred[None] = Deferred()
    turnstile.run(lambda: first)
    done: list[int] = []
    for number in range(20_000):
        turnstile.run(lambda number=number: number).addCallback(done.append)
    assert done == []
    first.callback(None)
    assert done == list(range(20_000))


def test_leave() -> None:
    """Who is cancelled while waiting is not called."""
    door = Door(1, 1)
    door.enter(0)
    door.enter(1).cancel()
    assert door.outcomes == [CancelledError]
    door.enter(2)
    door.finish(0)
    assert sorted(door.running) == [2]


def test_cancel() -> None:
    """Who is cancelled while the call runs cancels it, and makes room."""
    door = Door(1, 1)
    first = door.enter(0)
    door.enter(1)
    first.cancel()
    assert door.outcomes == [CancelledError]
    assert 1 in door.running


def test_stubborn() -> None:
    """A call that cannot be cancelled keeps its place until it ends, and nobody hears of it."""
    turnstile = ConcurrencyLimiter(1, 1)
    stubborn: Deferred[None] = Deferred(lambda _: None)
    outcomes: list[Any] = []
    running = turnstile.run(lambda: stubborn)
    running.addErrback(lambda why: outcomes.append(type(why.value)))
    running.cancel()
    assert outcomes == [CancelledError]
    door: list[int] = []
    turnstile.run(door.append, 1)
    assert door == [1]
