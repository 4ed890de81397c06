"""
Results of threads, a few in each turn of the reactor.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.task import Clock

from natsbroker.storage.arrivals import SHARE, Arrivals
from natsbroker.testing.pumped import PumpedReactor


class Scene:
    """
    @ivar done: the results that were taken up.
    """

    def __init__(self) -> None:
        self.reactor = PumpedReactor()
        self.processor = Clock()
        self.arrivals = Arrivals(self.reactor, self.processor.seconds)
        self.done: list[str] = []

    def arrive(self, name: str, cost: float = SHARE) -> None:
        self.arrivals.callFromThread(self._work, name, cost=cost)

    def _work(self, name: str, cost: float) -> None:
        self.processor.advance(cost)
        self.done.append(name)

    def turn(self) -> list[str]:
        """Take up the calls that were waiting when one turn of a reactor begins."""
        self.done.clear()
        for _ in range(len(self.reactor._calls)):
            self.reactor.turn()
        return list(self.done)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_oneAtOnce(scene: Scene) -> None:
    """A result is processed in the turn in which it comes."""
    scene.arrive("a")
    assert scene.turn() == ["a"]


def test_littleWork(scene: Scene) -> None:
    """Cheap results are processed together."""
    for name in "abc":
        scene.arrive(name, SHARE / 4)
    assert scene.turn() == ["a", "b", "c"]


def test_muchWork(scene: Scene) -> None:
    """Expensive results are processed one in each turn, in order."""
    for name in "abc":
        scene.arrive(name)
    assert [scene.turn(), scene.turn(), scene.turn(), scene.turn()] == [["a"], ["b"], ["c"], []]


def test_orderIsKept(scene: Scene) -> None:
    """A result that comes while others wait is processed after them."""
    scene.arrive("a")
    scene.arrive("b")
    scene.turn()
    scene.arrive("c", 0)
    assert [scene.turn(), scene.turn()] == [["b"], ["c"]]


def test_exception(scene: Scene, flushLoggedErrors: Any) -> None:
    """An exception is logged, and later results are still processed."""
    scene.arrivals.callFromThread(int, "no number")
    scene.arrive("a", 0)
    assert scene.turn() == ["a"]
    assert len(flushLoggedErrors(ValueError)) == 1
