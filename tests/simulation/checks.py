"""
The invariants of every history.

    I1  what one publisher sent comes to one subscription in its order, except for messages that
        were handed over
    I2  no message comes twice to one subscription, except to plain ones at a broker that a message
        was handed over to
    I3  no message comes to two members of a queue group, wherever they are, and to one of them
        where all is well
    I4  where all is well, every broker knows of every other exactly what its clients wish
    I5  a message goes once to each other broker at most, and from its publisher's broker only; over
        a classic route, once more for each queue group; and from a broker whose last member of a
        queue group has gone to one that has members of it: it is handed over
    I6  a message that did not come has a reason: trouble between the two brokers at that time
    I12 nothing failed inside a broker
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from natsbroker.broker import Broker
from natsbroker.subjects.grammar import matches
from natsbroker.wire.values import Kind
from tests.simulation.people import Person, Publication, WantedPattern
from tests.simulation.world import World, address

__all__ = ["violations", "violationsOfInterest", "violationsOfLinks", "violationsOfWishes"]


def violations(world: World, onTheWay: Callable[[Any], Iterator[str]]) -> Iterator[str]:
    """
    Find everything in a finished history that must not be there.

    @param onTheWay: tells what went wrong with messages between brokers (I5).
    """
    published = {
        message.key: message for person in world.people.values() for message in person.published
    }
    yield from _perWish(world, published)
    yield from _perGroup(world)
    yield from onTheWay(world)
    yield from _missing(world, published)
    for person in world.people.values():
        for error in person.errors:
            yield f"I12: client {person.number} was told {error!r}"


def _wishes(world: World) -> Iterator[tuple[Person, WantedPattern]]:
    for person in world.people.values():
        for wish in person.wishes.values():
            yield person, wish


def _perWish(world: World, published: dict[tuple[int, int], Publication]) -> Iterator[str]:
    for owner, wish in _wishes(world):
        last: dict[int, int] = {}
        for key, count in Counter(wish.got).items():
            # A route's message for a queue group reaches those without a group as well.
            if count > 1 + (0 if wish.queue else world.handOvers(key, owner.broker)):
                yield f"I2: {wish} got {key} {count} times"
        for person, number in wish.got:
            before = last.get(person, -1)
            told = published[person, number]
            if (
                number < before
                and not world.mayOvertake(
                    world.people[person].broker,
                    owner.broker,
                    told.when,
                    published[person, before].when,
                )
                and not any(
                    world.handOvers((person, part), owner.broker) for part in (number, before)
                )
            ):
                yield f"I1: {wish} got {person}:{number} after {before}"
            last[person] = max(number, before)
            if not matches(wish.pattern, told.subject):
                yield f"{wish} got {told}, which it did not wish for"
        if wish.maximum and len(wish.got) > wish.maximum:
            late = [key for key in wish.got if published[key].when > wish.limited + world.settle]
            if late:
                yield f"{wish} got {late} after its end"


def _perGroup(world: World) -> Iterator[str]:
    got: Counter[tuple[bytes, tuple[int, int]]] = Counter()
    for _, wish in _wishes(world):
        if wish.queue:
            got.update((wish.queue, key) for key in wish.got)
    for (queue, key), count in got.items():
        if count > 1:
            yield f"I3: {count} members of {queue!r} got {key}"


def violationsOfLinks(world: World) -> Iterator[str]:
    """
    I5, for a single cluster.
    """
    for ((person, number), source, target), count in world.sent.items():
        home = address(world.people[person].broker)
        told = world.people[person].published[number]
        if source != home and not _groupsOf(world, target, told) & _deserted(world, source, told):
            yield f"I5: {person}:{number} of {home} was sent on by {source} to {target}"
        if count > world.copies:
            yield f"I5: {person}:{number} was sent {count} times from {source} to {target}"


def _groupsOf(world: World, broker: str, told: Publication) -> set[bytes]:
    """The queue groups that ever had a member at a broker and match a message."""
    return {
        wish.queue
        for person, wish in _wishes(world)
        if address(person.broker) == broker and wish.queue and matches(wish.pattern, told.subject)
    }


def _deserted(world: World, broker: str, told: Publication) -> set[bytes]:
    """The queue groups that lost a member at a broker before the publisher's broker could know."""
    home = world.people[told.person].broker
    return {
        wish.queue
        for person, wish in _wishes(world)
        if address(person.broker) == broker
        and wish.queue
        and matches(wish.pattern, told.subject)
        # It is not noted when a limit was reached.
        and (wish.maximum or _isNews(world, wish.ended, person.broker, home, told.when))
    }


def _isNews(world: World, ended: float | None, there: int, home: int, when: float) -> bool:
    """Whether the end of a subscription may have been unknown at another broker at some time."""
    return ended is not None and (
        ended >= when - world.settle or world.wasTroubled(there, home, ended, when)
    )


def _missing(world: World, published: dict[tuple[int, int], Publication]) -> Iterator[str]:
    settle = world.settle
    groups: dict[tuple[bytes, tuple[int, int]], list[bool]] = defaultdict(list)
    came: set[tuple[bytes, tuple[int, int]]] = set()
    for person, wish in _wishes(world):
        got = set(wish.got)
        if wish.queue:
            came.update((wish.queue, key) for key in got)
        if wish.maximum:
            continue
        for told in published.values():
            if not matches(wish.pattern, told.subject):
                continue
            isSure = _isSure(world, person, wish, told, settle)
            if wish.queue:
                groups[wish.queue, told.key].append(isSure)
            elif isSure and told.key not in got:
                yield f"I6: {wish} did not get {told}"
    for (queue, key), sure in groups.items():
        # Another member may have had it and gone: only where all are there it must be one of them.
        if all(sure) and (queue, key) not in came and not _mayBeTaken(world, queue, key, published):
            yield f"I3: nobody of {queue!r} got {key}"


def _isSure(
    world: World, person: Person, wish: WantedPattern, told: Publication, settle: float
) -> bool:
    """Whether a message must have been delivered, because no fault and no change was near."""
    publisher = world.people[told.person]
    before, after = told.when - settle, told.when + settle
    if wish.began > before or (wish.ended is not None and wish.ended < after):
        return False
    if publisher.left is not None and publisher.left < after:
        return False
    return not world.isApart(publisher.broker, person.broker, before, after)


def _mayBeTaken(
    world: World,
    queue: bytes,
    key: tuple[int, int],
    published: dict[tuple[int, int], Publication],
) -> bool:
    """
    Whether a message may have gone to a member with a maximum, whose deliveries are not all known.
    """
    told = published[key]
    return any(
        wish.queue == queue and wish.maximum and matches(wish.pattern, told.subject)
        for _, wish in _wishes(world)
    )


def violationsOfWishes(
    world: World, wished: dict[int, Counter[tuple[bytes, bytes]]]
) -> Iterator[str]:
    """
    Compare the subscriptions that brokers know with those of their clients.

    @param wished: what each has, to be filled in.
    """
    for number in world.numbers:
        broker = world.brokers[number]
        wished[number] = Counter(
            (subscription.pattern, subscription.queue)
            for subscription in broker.accounts[world.account].subscriptions()
            if subscription.kind == Kind.CLIENT
        )
        there = Counter(
            (wish.pattern, wish.queue)
            for person, wish in _wishes(world)
            if person.broker == number and _isInForce(person, wish)
        )
        if wished[number] != there:
            yield f"I4: broker {number} has {wished[number]} and its clients wish {there}"


def violationsOfInterest(world: World) -> Iterator[str]:
    """
    I4, for a world in which all is well.
    """
    wished: dict[int, Counter[tuple[bytes, bytes]]] = {}
    yield from violationsOfWishes(world, wished)
    ids = {_memberId(world.brokers[number]): number for number in world.numbers}
    for number in world.numbers:
        membership = world.brokers[number].membership
        assert membership is not None
        known: dict[int, dict[tuple[bytes, bytes], int]] = {peer: {} for peer in world.numbers}
        for route in membership.cluster:
            peer = ids.get(route.remoteId)
            if peer is None or route.traffic is None:
                yield f"I4: broker {number} has a route to nobody"
                continue
            for interest in route.traffic.interest:
                account = world.account
                if interest.account == account.encode() or route.account == account:
                    weight = interest.weight if interest.queue else 0
                    known[peer][interest.pattern, interest.queue] = weight
        for peer in world.numbers:
            if peer == number:
                continue
            expected = {key: count if key[1] else 0 for key, count in wished[peer].items()}
            if known[peer] != expected:
                yield f"I4: broker {number} believes of {peer} {known[peer]}, not {expected}"
        subscribed = Counter(
            (subscription.pattern, subscription.queue)
            for subscription in world.brokers[number].accounts[world.account].subscriptions()
            if subscription.kind == Kind.ROUTE
        )
        others = Counter(key for peer in world.numbers if peer != number for key in wished[peer])
        if subscribed != others:
            yield f"I4: broker {number} delivers to routes {subscribed}, not {others}"


def _memberId(broker: Broker) -> str:
    membership = broker.membership
    assert membership is not None
    return membership.cluster.identity.server_id


def _isInForce(person: Person, wish: WantedPattern) -> bool:
    if not person.isHere or wish.ended is not None:
        return False
    return not wish.maximum or len(wish.got) < wish.maximum
