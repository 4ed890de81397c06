"""
Running histories: one seed, its violations, and the smallest number of steps that produces them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer

from natsbroker.testing.simulation.clock import RunawayError
from tests.simulation.checks import violations, violationsOfInterest, violationsOfLinks
from tests.simulation.history import CLUSTER, SUPER, WORKERS, Step, play, stepsOf
from tests.simulation.superchecks import violationsOfTables, violationsOfWays
from tests.simulation.superworld import SuperWorld
from tests.simulation.workerchecks import violationsOfMessages, violationsOfServer
from tests.simulation.workerworld import WorkerWorld
from tests.simulation.world import World

__all__ = ["Outcome", "run", "shortened"]

#: Many more than a history has, which is some 7,000.
MOST_EVENTS = 50_000

#: Everybody publishes this at the end, when all is well.
PROBES = (b"a", b"a.b", b"a.b.c", b"b.c")


@dataclass(frozen=True)
class Outcome:
    """
    The outcome of a history.

    @ivar wrong: what must not be; nothing if all is well.
    @ivar trace: tells runs apart; see L{natsbroker.testing.simulation.network.Network.trace}.
    @ivar messages: how many messages came.
    """

    wrong: tuple[str, ...]
    trace: str
    messages: int


def worldOf(kind: str, seed: int) -> World:
    """A world as it begins."""
    makes: dict[str, Callable[[int], World]] = {
        CLUSTER: World,
        SUPER: SuperWorld,
        WORKERS: WorkerWorld,
    }
    return makes[kind](seed)


def run(seed: int, steps: Sequence[Step] | None = None, kind: str = CLUSTER) -> Outcome:
    """
    Run one history.

    @param steps: other steps than the seed's.
    @param kind: that of its world.
    """
    failures: list[str] = []

    @implementer(ILogObserver)
    def observe(event: LogEvent) -> None:
        if event.get("log_failure") is not None or event["log_level"].name == "critical":
            failures.append(f"I12: {formatEvent(event)} {event.get('log_failure')}")

    globalLogPublisher.addObserver(observe)
    try:
        if steps is None:
            steps = stepsOf(seed, kind=kind)
        world = worldOf(kind, seed)
        # Messages that multiply on their way through a cluster.
        world.clock.limit = world.clock.events + MOST_EVENTS
        try:
            wrong = _played(world, steps)
        except RunawayError as error:
            wrong = [f"I13: {error}"]
        finally:
            world.restore()
    finally:
        globalLogPublisher.removeObserver(observe)
    messages = sum(
        len(wish.got) for person in world.people.values() for wish in person.wishes.values()
    )
    return Outcome((*failures, *wrong), world.trace, messages)


def _played(world: World, steps: Sequence[Step]) -> list[str]:
    play(world, steps)
    world.heal()
    if isinstance(world, WorkerWorld):
        wrong = list(violationsOfServer(world))
    elif isinstance(world, SuperWorld):
        wrong = list(violationsOfTables(world))
    else:
        wrong = list(violationsOfInterest(world))
    for person in world.here():
        for subject in PROBES:
            person.publish(subject, 0)
    world.advance(world.settle * 2)
    if isinstance(world, WorkerWorld):
        wrong += violationsOfMessages(world)
    else:
        ways = violationsOfWays if isinstance(world, SuperWorld) else violationsOfLinks
        wrong += violations(world, ways)
    world.close()
    return wrong


def shortened(
    seed: int, steps: Sequence[Step], isWrong: Callable[[Sequence[Step]], bool]
) -> list[Step]:
    """
    Leave out steps for as long as it stays wrong.
    """
    kept = list(steps)
    size = max(len(kept) // 2, 1)
    while True:
        place = 0
        while place < len(kept):
            fewer = kept[:place] + kept[place + size :]
            if isWrong(fewer):
                kept = fewer
            else:
                place += size
        if size == 1:
            return kept
        size //= 2
