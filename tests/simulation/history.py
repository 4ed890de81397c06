"""
Histories: steps that chance chooses, and the run that they make.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from tests.simulation.people import Person
from tests.simulation.world import World

__all__ = ["CLUSTER", "KINDS", "SUPER", "SUPER_STEPS", "WORKERS", "Step", "play", "stepsOf"]

KINDS = CLUSTER, SUPER, WORKERS = "cluster", "super", "workers"
"""The kinds of worlds."""

TOKENS = [b"a", b"b", b"c"]
QUEUES = [b"q", b"r"]
SIZES = [0, 10, 300, 5000]


class Step(NamedTuple):
    """One step: its action, and the remaining choices."""

    what: str
    who: int
    some: int
    other: int


def subject(choice: int) -> bytes:
    """A subject out of few."""
    random = Random(choice)
    return b".".join(random.choice(TOKENS) for _ in range(random.randint(1, 3)))


def pattern(choice: int) -> bytes:
    """A pattern, mostly with wildcards."""
    random = Random(choice)
    tokens = [random.choice([*TOKENS, b"*"]) for _ in range(random.randint(1, 3))]
    if random.random() < 0.3:
        tokens[-1] = b">"
    return b".".join(tokens)


def _person(world: World, step: Step) -> Person | None:
    people = world.here()
    return people[step.who % len(people)] if people else None


def _broker(world: World, step: Step) -> int:
    return world.numbers[step.who % len(world.numbers)]


def _pair(world: World, step: Step) -> tuple[int, int]:
    numbers = world.numbers
    further = 1 + step.some % (len(numbers) - 1)
    return numbers[step.who % len(numbers)], numbers[(step.who + further) % len(numbers)]


def _welcome(world: World, step: Step) -> None:
    broker = _broker(world, step)
    if broker in world.brokers:
        world.welcome(broker)


def _leave(world: World, step: Step) -> None:
    person = _person(world, step)
    if person is not None:
        person.leave()


def _drop(world: World, step: Step) -> None:
    person = _person(world, step)
    if person is not None:
        world.drop(person)


def _subscribe(world: World, step: Step) -> None:
    person = _person(world, step)
    if person is not None:
        person.subscribe(pattern(step.some), QUEUES[step.other % 2] if step.other % 3 else b"")


def _unsubscribe(world: World, step: Step) -> None:
    person = _person(world, step)
    if person is None:
        return
    wishes = [wish for wish in person.wishes.values() if not (wish.ended or wish.maximum)]
    if wishes:
        person.unsubscribe(wishes[step.some % len(wishes)], step.other % 4)


def _publish(world: World, step: Step) -> None:
    person = _person(world, step)
    if person is not None:
        for number in range(1 + step.other % 4):
            size = SIZES[(step.other + number) % len(SIZES)]
            person.publish(subject(step.some + number), size, bool(step.other & 8))


def _wait(world: World, step: Step) -> None:
    world.advance([0.0, 0.001, 0.02, 0.3, 2.5][step.some % 5])


def _cut(world: World, step: Step) -> None:
    world.cut(*_pair(world, step))


def _hold(world: World, step: Step) -> None:
    world.hold(*_pair(world, step), bothWays=bool(step.other % 2))


def _heal(world: World, step: Step) -> None:
    world.heal()


def _kill(world: World, step: Step) -> None:
    world.kill(_broker(world, step))


def _stop(world: World, step: Step) -> None:
    world.stop(_broker(world, step))


def _start(world: World, step: Step) -> None:
    world.start(_broker(world, step))


STEPS: dict[str, tuple[int, Callable[[World, Step], None]]] = {
    "welcome": (6, _welcome),
    "leave": (2, _leave),
    "drop": (1, _drop),
    "subscribe": (16, _subscribe),
    "unsubscribe": (6, _unsubscribe),
    "publish": (30, _publish),
    "wait": (25, _wait),
    "cut": (2, _cut),
    "hold": (2, _hold),
    "heal": (2, _heal),
    "kill": (1, _kill),
    "stop": (1, _stop),
    "start": (2, _start),
}
"""The possible events, their frequency, and their effects."""


def _slit(world: World, step: Step) -> None:
    world.slit()


SUPER_STEPS = {**STEPS, "slit": (3, _slit), "heal": (6, _heal)}
"""The same for a super-cluster: the switch of a mode may be cut through."""


def _hang(world: World, step: Step) -> None:
    world.hang(_broker(world, step))


def _resume(world: World, step: Step) -> None:
    world.resume()


def _upgrade(world: World, step: Step) -> None:
    world.upgrade()


_OF_NETWORKS = ("cut", "hold", "start", "stop")

WORKER_STEPS = {
    **{name: kind for name, kind in STEPS.items() if name not in _OF_NETWORKS},
    "welcome": (10, _welcome),
    "kill": (3, _kill),
    "hang": (2, _hang),
    "resume": (2, _resume),
    "upgrade": (1, _upgrade),
    "heal": (1, _heal),
}
"""The same for a server of workers, which is one machine, and starts them itself."""

_ALL_STEPS = {**STEPS, **SUPER_STEPS, **WORKER_STEPS}


def stepsOf(seed: int, count: int = 80, kind: str = CLUSTER) -> list[Step]:
    """The steps of a seed."""
    random = Random(f"steps {seed}")
    kinds = {CLUSTER: STEPS, SUPER: SUPER_STEPS, WORKERS: WORKER_STEPS}[kind]
    names = list(kinds)
    weights = [kinds[name][0] for name in names]
    steps = [Step("welcome", number, 0, 0) for number in range(4 if kind == CLUSTER else 6)]
    for _ in range(count):
        name = random.choices(names, weights)[0]
        steps.append(Step(name, *(random.randrange(1 << 16) for _ in range(3))))
    return steps


def play(world: World, steps: Sequence[Step], after: Callable[[], Any] = lambda: None) -> None:
    """
    Carry out the steps of a history.

    @param after: called after each.
    """
    world.advance(4.0)
    for step in steps:
        _ALL_STEPS[step.what][1](world, step)
        after()
