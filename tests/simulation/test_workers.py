"""
Servers of three workers that die, hang and are upgraded, and tests that the checks find violations.
C{python -m tests.simulation --kind workers} runs any number of histories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from natsbroker.links.interest import RemoteInterest
from natsbroker.routes.modern import RouteAccount
from natsbroker.workers import acceptor, placing
from natsbroker.workers.placing import WorkerLoad
from natsbroker.workers.slots import WorkerSlot
from natsbroker.workers.worker import WorkerProcess
from tests.simulation.__main__ import main, report
from tests.simulation.faults import double, lose
from tests.simulation.history import WORKERS, stepsOf
from tests.simulation.running import run
from tests.simulation.workerworld import WorkerWorld

pytestmark = pytest.mark.slow

#: How many histories are run here, and how many in a part.
HISTORIES, PART = 60, 15

#: The histories within which each defect must be found.
PATIENCE = 60


@pytest.mark.parametrize("first", range(0, HISTORIES, PART))
def test_histories(first: int) -> None:
    """The histories have no violations."""
    for seed in range(first, first + PART):
        assert "\n".join(report(seed, WORKERS)) == ""


def test_commandLine(capsys: pytest.CaptureFixture[str]) -> None:
    """A history can be run again by its seed, and is always the same."""
    assert main(["--kind", "workers", "--seed", "5"]) == 0
    assert capsys.readouterr().out == "seed 5: nothing wrong\n"
    assert run(5, kind=WORKERS) == run(5, kind=WORKERS) != run(6, kind=WORKERS)
    assert stepsOf(5, kind=WORKERS) != stepsOf(5)


@pytest.fixture
def world() -> Iterator[WorkerWorld]:
    made = WorkerWorld(1)
    made.advance(4.0)
    yield made
    made.close()
    made.restore()


def test_onTheWay(world: WorkerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections on their way to a worker that is killed are closed, and the next ones served."""
    monkeypatch.setattr(acceptor, "chosen", _inTurn())
    world.hang(1)
    for number in range(12):
        world.welcome(number)
    world.advance(world.settle)
    waiting = [person for person in world.customers() if not person.broker]
    assert len(waiting) == 4 and all(person.isHere for person in waiting)
    world.kill(1)
    world.advance(world.settle)
    assert not any(person.isHere for person in waiting)
    world.heal()
    for number in range(12):
        world.welcome(number)
    world.advance(world.settle)
    assert {person.broker for person in world.customers()[-12:] if person.isHere} == {1, 2, 3}


def test_crossing(world: WorkerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages pass from each worker to each other one, also after one was killed."""
    monkeypatch.setattr(acceptor, "chosen", _inTurn())
    for _ in range(2):
        for _ in world.numbers:
            world.welcome(0)
        world.advance(world.settle)
        people = [person for person in world.customers() if person.isHere]
        for person in people:
            person.subscribe(b"a")
        world.advance(world.settle)
        world.sent.clear()
        for person in people:
            person.publish(b"a", 0)
        world.advance(world.settle)
        assert len({way[1:] for way in world.sent}) == 6
        assert all(len(list(person.wishes.values())[-1].got) >= len(people) for person in people)
        world.kill(2)
        world.heal()


def _inTurn() -> Callable[..., int]:
    places: list[int] = []

    def next_(account: str, loads: Any, random: Any) -> int:
        places.append(0)
        return len(places) % len(loads)

    return next_


def twice(patch: pytest.MonkeyPatch) -> None:
    """Another worker is given each message twice."""
    double(patch, RouteAccount)


def forgetful(patch: pytest.MonkeyPatch) -> None:
    """Every tenth message to another worker is lost."""
    lose(patch, RouteAccount)


def staleRoute(patch: pytest.MonkeyPatch) -> None:
    """Keep the interest of a worker that has gone."""
    patch.setattr(RemoteInterest, "clear", lambda self: None)


def silentEnds(patch: pytest.MonkeyPatch) -> None:
    """The parent does not learn that connections have ended."""
    patch.setattr(WorkerProcess, "_left", lambda self, cid, account: None)


def keptClients(patch: pytest.MonkeyPatch) -> None:
    """The parent keeps the clients of a worker that has ended."""
    patch.setattr(WorkerLoad, "clear", lambda self: None)


def byChance(patch: pytest.MonkeyPatch) -> None:
    """Clients are placed without a look at their accounts."""
    chosen = placing.chosen
    patch.setattr(acceptor, "chosen", lambda account, loads, random: chosen("", loads, random))


def twoInOne(patch: pytest.MonkeyPatch) -> None:
    """A process begins although another one began in its slot meanwhile."""
    stop = WorkerSlot.stop

    def careless(self: Any) -> Any:
        self._next = None
        return stop(self)

    patch.setattr(WorkerSlot, "stop", careless)


DEFECTS = (
    twice,
    forgetful,
    staleRoute,
    silentEnds,
    keptClients,
    byChance,
    twoInOne,
)


@pytest.mark.parametrize("defect", DEFECTS)
def test_defects(defect: Callable[[pytest.MonkeyPatch], None], monkeypatch: Any) -> None:
    """Each of these defects is found."""
    defect(monkeypatch)
    assert any(run(seed, kind=WORKERS).wrong for seed in range(PATIENCE))
