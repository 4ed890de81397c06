"""
Groups that wait for the publishers that were just answered.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from natsbroker import hot
from natsbroker.storage.committing import Holder
from natsbroker.storage.grouping import ALONE, LEAST, LONGEST, MISSES, MOST, PAUSE, GroupPatience
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.testing.pumped import PumpedReactor, StillWaiting


def begins(patience: GroupPatience, stored: int, waiting: int, wereWaiting: bool = True) -> bool:
    """Whether a group waits when a write has just ended."""
    patience.wrote(stored, 0)
    return patience.begin(waiting, wereWaiting, 0)


def test_waitsForThoseAnswered() -> None:
    """A group is complete when as many requests came as were answered before."""
    patience = GroupPatience()
    assert begins(patience, 3, 2)
    assert not patience.isComplete(4)
    assert patience.isComplete(5)


def test_firstAfterAnswers() -> None:
    """The first request after the answers waits for the others, but not longer."""
    patience = GroupPatience()
    assert begins(patience, 3, 1, False)
    assert not patience.isComplete(2)
    assert patience.isComplete(3)
    assert not begins(patience, 1, 1, False)
    assert not begins(patience, MOST, 1)
    patience.wrote(3, 0)
    assert not patience.begin(1, False, LEAST + 1)


def test_most() -> None:
    """A group does not wait for more records than it was given as the most."""
    patience = GroupPatience(4)
    assert begins(patience, 3, 1)
    assert not begins(patience, 4, 1)


def test_longestWait() -> None:
    """A group waits as long as writes take, within bounds."""
    patience = GroupPatience()
    for duration, expected in ((600_000, 600_000), (10_000, LEAST), (10**9, LONGEST)):
        for _ in range(200):
            patience.writes(5)
            patience.wrote(1, 5 + duration)
        assert patience.nanoseconds == pytest.approx(expected, rel=0.01)


def test_isAlone() -> None:
    """A publisher is alone after many groups of one record, until there is a larger group."""
    patience = GroupPatience()
    for _ in range(ALONE):
        assert not patience.isAlone
        patience.wrote(1, 0)
    assert patience.isAlone
    patience.wrote(2, 0)
    assert not patience.isAlone


def test_pauses() -> None:
    """After some waits in which too few came, groups do not wait for longer and longer."""
    patience = GroupPatience()
    for _ in range(MISSES - 1):
        assert begins(patience, 4, 1)
        patience.end(2)
    assert begins(patience, 4, 1)
    patience.end(3)
    for pause in (PAUSE, 2 * PAUSE):
        for _ in range(MISSES):
            assert begins(patience, 4, 1)
            patience.end(1)
        assert [begins(patience, 4, 1) for _ in range(pause)] == [False] * pause
    assert begins(patience, 4, 1)


class SilentAlarm:
    """A timer that ends when the test says so."""

    made: list[SilentAlarm] = []

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_NONBLOCK)
        self.set_: list[int] = []
        self.made.append(self)

    def fileno(self) -> int:
        """Like L{hot.Alarm}."""
        return self._fd

    def set(self, nanoseconds: int) -> None:
        """Remember the time."""
        self.set_.append(nanoseconds)

    def take(self) -> bool:
        """Whether the test has ended the timer."""
        return bool(os.eventfd_read(self._fd))

    def ring(self) -> None:
        """End the timer."""
        os.eventfd_write(self._fd, 1)

    def close(self) -> None:
        """Stop the timer."""
        os.close(self._fd)


class Stage:
    """
    A store with a log whose next appends the journal's writer gets.
    """

    def __init__(self, path: Path, syncInterval: float = 0) -> None:
        self.reactor = PumpedReactor()
        opening = openLMDB(self.reactor, path, syncInterval=syncInterval)
        self.store: Any = self.reactor.wait(opening)
        self.log: Any = self.reactor.wait(self.store.open("log"))
        self.done: list[int] = []
        for _ in range(2):
            self.reactor.wait(self.append())
        while self.committer._holder is not Holder.NOBODY:
            time.sleep(0.001)
        self.done.clear()

    @property
    def committer(self) -> Any:
        return self.store._committer

    def append(self) -> Any:
        """Append one record, and remember when it is durable."""
        deferred = self.log.append([(b"s", b"", b"x", 0)])
        return deferred.addCallback(lambda sequences: self.done.append(sequences.start))

    def waitUntilGathering(self) -> None:
        """
        Turn the reactor until a queued write waits for more.

        @raise StillWaiting: if all was written without waiting; the store is closed then.
        """
        try:
            while self.committer._holder is not Holder.REACTOR:
                self.reactor.turn()
        except StillWaiting:
            self.reactor.wait(self.store.close())
            raise


@pytest.fixture
def alarm(monkeypatch: pytest.MonkeyPatch) -> type[SilentAlarm]:
    """The timer that stores use."""
    if hot.SyncedWriter is None:
        pytest.skip("the lane is not compiled")
    SilentAlarm.made = []
    monkeypatch.setattr(hot, "Alarm", SilentAlarm)
    return SilentAlarm


@pytest.mark.realtime
@pytest.mark.parametrize("syncInterval", [0, 60])
def test_gathered(tmp_path: Path, alarm: type[SilentAlarm], syncInterval: float) -> None:
    """A queued write is done as soon as the publishers that were answered have sent again."""
    stage = Stage(tmp_path / "store", syncInterval)
    asked = [stage.append() for _ in range(3)]
    stage.waitUntilGathering()
    assert stage.done == [3]
    assert alarm.made[0].set_[-1] > 0
    asked.append(stage.append())
    assert alarm.made[0].set_[-1] == 0
    for request in asked:
        if not request.called:
            stage.reactor.wait(request)
    assert stage.done == [3, 4, 5, 6]
    stage.reactor.wait(stage.store.close())


@pytest.mark.realtime
def test_patienceEnds(tmp_path: Path, alarm: type[SilentAlarm]) -> None:
    """A queued write is done after a moment if no publisher sends again."""
    stage = Stage(tmp_path / "store")
    asked = [stage.append() for _ in range(3)]
    stage.waitUntilGathering()
    alarm.made[0].ring()
    for request in asked:
        if not request.called:
            stage.reactor.wait(request)
    assert stage.done == [3, 4, 5]
    stage.reactor.wait(stage.store.close())


@pytest.mark.realtime
def test_closedWhileGathering(tmp_path: Path, alarm: type[SilentAlarm]) -> None:
    """A store that is closed writes the records of a waiting group."""
    stage = Stage(tmp_path / "store")
    for _ in range(3):
        stage.append()
    stage.waitUntilGathering()
    closing = stage.store.close()
    alarm.made[0].ring()
    stage.reactor.wait(closing)
    assert stage.done == [3, 4, 5]
