"""
The watchdog of the reactor, with time that stands still and with a real thread.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.task import Clock

from natsbroker.server import watchdog as module
from natsbroker.server.watchdog import INTERVAL, LIMIT, WINDOW, Watchdog, placeOf
from tests.server.support import logLines


class World:
    """
    A watchdog whose thread looks when the test says so.

    @ivar waited: the seconds in which the reactor's thread has waited for a processor.
    """

    def __init__(self) -> None:
        self.clock = Clock()
        self.waited = 0.0
        self.dog = Watchdog(
            self.clock, self.clock.seconds, times=lambda: (self.clock.seconds(), self.waited)
        )
        self.dog._watched = threading.get_ident()

    def pass_(self, seconds: float, isWatched: bool = True) -> None:
        """Let the reactor work without interruption for a number of seconds."""
        self.clock.rightNow += seconds
        if isWatched:
            self.dog.look()
        self.dog.beat()


@pytest.fixture
def world() -> World:
    """A watchdog."""
    return World()


class TestHeld:
    """The time for which the reactor was held."""

    def test_livelyReactor(self, world: World) -> None:
        """A reactor that is never held for longer than the limit is not reported."""
        for _ in range(100):
            world.pass_(INTERVAL + LIMIT * 0.9)
        assert world.dog.varz() is None
        assert world.dog.trouble() == ""

    def test_longHold(self, world: World) -> None:
        """Holding the reactor for too long is reported, with the place in the code."""
        with logLines() as lines:
            world.pass_(INTERVAL + 2.0)
            world.pass_(INTERVAL + 1.0)
        shown = world.dog.varz() or {}
        assert (shown["held"], shown["seconds"], shown["longest"]) == (2, 3.0, 2.0)
        assert shown["place"].endswith(" in look")
        assert f"The reactor was held for 2.0 seconds: {shown['place']}" in lines[0]

    def test_unseen(self, world: World) -> None:
        """
        If the thread did not run either, as while the machine was suspended, the time does not
        count.
        """
        world.pass_(INTERVAL + 60, isWatched=False)
        assert world.dog.held == 0

    def test_withoutProcessor(self, world: World) -> None:
        """The time for which the reactor's thread waited for a processor does not count."""
        world.waited += 3.0
        world.pass_(INTERVAL + 3.0 + LIMIT * 0.9)
        assert world.dog.held == 0
        world.waited += 3.0
        world.pass_(INTERVAL + 3.0 + LIMIT * 2)
        assert (world.dog.held, world.dog.longest) == (1, LIMIT * 2)

    def test_trouble(self, world: World) -> None:
        """
        A reactor that was held for most of the last ten seconds is unhealthy until that time has
        passed.
        """
        world.pass_(INTERVAL + WINDOW / 2 - 0.1)
        assert world.dog.trouble() == ""
        world.pass_(INTERVAL + 1.0)
        assert world.dog.trouble().startswith("held for 5.9 of the last 10 seconds: ")
        world.clock.rightNow += WINDOW
        assert world.dog.trouble() == ""

    def test_series(self, world: World) -> None:
        """Metrics count how often and how long the reactor was held."""
        world.pass_(INTERVAL + 2.0)
        steps = world.dog.series()
        with pytest.raises(StopIteration) as end:
            next(steps)
        assert [report.samples for report in end.value.value] == [[((), 1)], [((), 2.0)]]


def called(call: Callable[[], Any]) -> Any:
    """Call a function from the broker's code."""
    return call()


class TestPlace:
    """Where a thread is."""

    def test_foreignCall(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The reported place is the outermost one that is not the broker's own code."""
        namespace: dict[str, Any] = {"frame": lambda: sys._getframe(1)}
        text = "def plugin():\n    return library()\ndef library():\n    return frame()\n"
        exec(compile(text, "/plugin.py", "exec"), namespace)
        ours: dict[str, Any] = {"plugin": namespace["plugin"]}
        exec(compile("def run():\n    return plugin()\n", "/broker/run.py", "exec"), ours)
        monkeypatch.setattr(module, "_OURS", ("/broker/",))
        assert placeOf(called(ours["run"])) == "/plugin.py:2 in plugin"

    def test_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without code of others, the reported place is the broker's innermost one."""
        monkeypatch.setattr(module, "_OURS", ("/",))
        assert placeOf(sys._getframe()).endswith(" in test_own")


@pytest.mark.slow
def test_thread() -> None:
    """The thread sees where the reactor's thread is, and ends with the service."""
    clock = Clock()
    dog = Watchdog(clock, limit=0.01)
    dog.startService()
    names = [thread.name for thread in threading.enumerate()]
    deadline = time.monotonic() + 60
    while not dog._seen and time.monotonic() < deadline:
        time.sleep(0.01)
    assert dog._seen.endswith("in test_thread")
    dog.stopService()
    assert "natsbroker-watch" in names
    assert "natsbroker-watch" not in [thread.name for thread in threading.enumerate()]
