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
from natsbroker.storage.grouping import MISSES, PAUSE, GroupPatience
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.testing.pumped import PumpedReactor


def test_waitsForThoseAnswered() -> None:
    """A group is complete when as many came as were answered."""
    patience = GroupPatience()
    assert patience.begin(3, 2)
    assert not patience.isComplete(4)
    assert patience.isComplete(5)


def test_pauses() -> None:
    """After some waits in which too few came, groups do not wait for a while."""
    patience = GroupPatience()
    for _ in range(MISSES - 1):
        assert patience.begin(4, 1)
        patience.end(2)
    assert patience.begin(4, 1)
    patience.end(3)
    for _ in range(MISSES):
        assert patience.begin(4, 1)
        patience.end(1)
    assert [patience.begin(4, 1) for _ in range(PAUSE)] == [False] * PAUSE
    assert patience.begin(4, 1)


class SilentAlarm:
    """
    A timer that is over when the test says so.
    """

    made: list[SilentAlarm] = []

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_NONBLOCK)
        self.set_: list[int] = []
        self.made.append(self)

    def fileno(self) -> int:
        """As L{hot.Alarm}."""
        return self._fd

    def set(self, nanoseconds: int) -> None:
        """Remember."""
        self.set_.append(nanoseconds)

    def take(self) -> bool:
        """Whether the test said so."""
        return bool(os.eventfd_read(self._fd))

    def ring(self) -> None:
        """Be over."""
        os.eventfd_write(self._fd, 1)

    def close(self) -> None:
        """End."""
        os.close(self._fd)


class Stage:
    """
    A store with a log whose next appends the journal's writer gets.
    """

    def __init__(self, path: Path) -> None:
        self.reactor = PumpedReactor()
        self.store: Any = self.reactor.wait(openLMDB(self.reactor, path))
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
        """Turn until what has queued up waits for more."""
        while self.committer._holder is not Holder.REACTOR:
            self.reactor.turn()


@pytest.fixture
def alarm(monkeypatch: pytest.MonkeyPatch) -> type[SilentAlarm]:
    """The timer that stores use."""
    if hot.SyncedWriter is None:
        pytest.skip("the lane is not compiled")
    SilentAlarm.made = []
    monkeypatch.setattr(hot, "Alarm", SilentAlarm)
    return SilentAlarm


def test_gathered(tmp_path: Path, alarm: type[SilentAlarm]) -> None:
    """What queued up is written as soon as those who were answered have asked again."""
    stage = Stage(tmp_path / "store")
    asked = [stage.append() for _ in range(3)]
    stage.waitUntilGathering()
    assert stage.done == [3]
    assert alarm.made[0].set_[-1] > 0
    asked.append(stage.append())
    assert alarm.made[0].set_[-1] == 0
    for each in asked:
        if not each.called:
            stage.reactor.wait(each)
    assert stage.done == [3, 4, 5, 6]
    stage.reactor.wait(stage.store.close())


def test_patienceEnds(tmp_path: Path, alarm: type[SilentAlarm]) -> None:
    """What queued up is written after a moment if nobody asks again."""
    stage = Stage(tmp_path / "store")
    asked = [stage.append() for _ in range(3)]
    stage.waitUntilGathering()
    alarm.made[0].ring()
    for each in asked:
        if not each.called:
            stage.reactor.wait(each)
    assert stage.done == [3, 4, 5]
    stage.reactor.wait(stage.store.close())


def test_closedWhileGathering(tmp_path: Path, alarm: type[SilentAlarm]) -> None:
    """A store that is closed writes what waits for more."""
    stage = Stage(tmp_path / "store")
    for _ in range(3):
        stage.append()
    stage.waitUntilGathering()
    closing = stage.store.close()
    alarm.made[0].ring()
    stage.reactor.wait(closing)
    assert stage.done == [3, 4, 5]
