"""
The invariants of every history of a server of workers, besides L{tests.simulation.checks}.

    I14 where all is well, every worker is there, and every client is at one of them or gone: also
        one whose connection was on its way to a worker that died
    I15 the parent knows for each worker exactly the clients that are there, each with its account
    I16 a client comes to the worker that has most clients of its account, if that has room
    I17 no message comes to a client of another account
"""

from __future__ import annotations

from collections.abc import Iterator

from natsbroker.workers import placing
from tests.simulation.checks import violations, violationsOfInterest, violationsOfLinks
from tests.simulation.workerworld import ACCOUNTS, WorkerWorld

__all__ = ["violationsOfMessages", "violationsOfServer"]

#: The number of clients of each account that come at the end.
_LATE = 3


def violationsOfServer(world: WorkerWorld) -> Iterator[str]:
    """I4 and I14 to I16, for a world in which all is well."""
    there = [number for number in world.numbers if world.slot(number).isReady]
    if len(there) < len(world.numbers):
        yield f"I14: only the workers {there} are there"
        return
    yield from _places(world)
    yield from _clients(world)
    for account in ACCOUNTS:
        for problem in violationsOfInterest(world.of(account)):
            yield f"{problem} (account {account})"


def _places(world: WorkerWorld) -> Iterator[str]:
    loads = [world.slot(number).connections for number in world.numbers]
    for place, account in enumerate(ACCOUNTS * _LATE):
        most = max(load.of(account) for load in loads)
        homes = {number for number in world.numbers if loads[number - 1].of(account) == most}
        limit = placing.FACTOR * sum(map(len, loads)) / len(loads) + placing.SPARE
        isRoomy = most and all(len(loads[number - 1]) < limit for number in homes)
        world.welcome(place)
        world.advance(world.settle)
        last = world.customers()[-1]
        if not last.isHere or not last.cid:
            yield f"I14: client {last.number} was not let in"
        elif isRoomy and last.broker not in homes:
            yield f"I16: client {last.number} of {account} is at {last.broker}, not at {homes}"


def _clients(world: WorkerWorld) -> Iterator[str]:
    for person in world.customers():
        if person.isHere and not (person.cid and person.broker):
            yield f"I14: client {person.number} waits for a worker"
    for number in world.numbers:
        known = dict(world.slot(number).connections)
        there = {
            person.cid: person.account
            for person in world.customers()
            if person.isHere and person.broker == number
        }
        if known != there:
            yield f"I15: the parent knows {known} at worker {number}, where {there} are"
        served = {connection.cid for connection in world.brokers[number].clientContext.connections}
        if served != there.keys():
            yield f"I15: worker {number} serves {served}, and {set(there)} are there"


def violationsOfMessages(world: WorkerWorld) -> Iterator[str]:
    """I1 to I3, I5, I6, I12 and I17, for a finished history."""
    accounts = {person.number: person.account for person in world.customers()}
    for person in world.customers():
        for wish in person.wishes.values():
            strange = [key for key in wish.got if accounts[key[0]] != person.account]
            if strange:
                yield f"I17: {wish} got {strange} of another account"
                return
    for account in ACCOUNTS:
        yield from violations(world.of(account), violationsOfLinks)
