"""
Due messages, in order.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from natsbroker.jetstream.schedules import duequeue
from natsbroker.jetstream.schedules.duequeue import LONGEST_WAIT, DueMessage, DueQueue
from tests.jetstream.support import SECOND, Stage


class _Place:
    """
    A queue, and the messages that it has handled.

    @ivar blocks: what the next calls wait for.
    """

    def __init__(self, pause: float = 0.0) -> None:
        self.stage = Stage()
        self.queue = DueQueue(self.stage.stream(), self._handle, pause)
        self.handled: list[list[int]] = []
        self.blocks: list[Deferred[Any]] = []

    def _handle(self, due: list[DueMessage], now: int) -> Generator[Deferred[Any], Any, None]:
        assert all(entry.time <= now for entry in due)
        self.handled.append([entry.sequence for entry in due])
        while self.blocks:
            yield self.blocks.pop()

    def add(self, seconds: float, sequence: int) -> None:
        time = self.stage.now() + round(seconds * SECOND)
        self.queue.add(DueMessage(time, sequence, b"s.a"))
        self.queue.schedule()

    def passes(self, seconds: float) -> list[list[int]]:
        """The messages that are handled in a number of seconds."""
        self.stage.clock.advance(seconds)
        self.stage.settle()
        handled, self.handled = self.handled, []
        return handled


def test_order() -> None:
    """Messages are handled in the order of their times, and those of one time together."""
    place = _Place()
    for seconds, sequence in ((2, 1), (1, 2), (1, 3), (LONGEST_WAIT + 5, 4)):
        place.add(seconds, sequence)
    assert place.passes(0.5) == []
    assert place.passes(0.5) == [[2, 3]]
    assert place.passes(1) == [[1]]
    assert place.passes(LONGEST_WAIT) == []
    assert place.passes(5) == [[4]]


def test_minimumPause() -> None:
    """Messages that are due wait until the minimum pause has passed."""
    place = _Place(0.25)
    place.add(0, 1)
    assert place.passes(0.2) == []
    assert place.passes(0.05) == [[1]]


def test_busy() -> None:
    """A message that becomes due while others are handled waits for their end."""
    place = _Place()
    waited: Deferred[None] = Deferred()
    place.blocks.append(waited)
    place.add(1, 1)
    assert place.passes(1) == [[1]]
    place.add(1, 2)
    assert place.passes(2) == []
    waited.callback(None)
    assert place.passes(0) == [[2]]


def test_closed() -> None:
    """A closed queue handles no more messages, not even new ones."""
    place = _Place()
    place.add(1, 1)
    place.queue.close()
    place.add(1, 2)
    assert place.passes(2) == []


def test_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many messages that are due at once, some are handled in a turn."""
    monkeypatch.setattr(duequeue, "SLICE", 10)
    place = _Place()
    turns: list[int] = []
    turn = place.stage.jetstream.turns.turn

    def noted() -> Deferred[None]:
        turns.append(len(place.handled))
        return turn()

    monkeypatch.setattr(place.stage.jetstream.turns, "turn", noted)
    for sequence in range(25):
        place.add(1, sequence)
    assert [len(batch) for batch in place.passes(1)] == [10, 10, 5]
    assert turns == [1, 2]
