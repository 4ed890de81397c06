"""
The other members, and the connections to each.
"""

from __future__ import annotations

import pytest

from natsbroker.routes.members import Member, poolIndex, prevails
from natsbroker.wire.serverinfo import ServerDocument
from tests.routes.clusters import Node


@pytest.mark.parametrize(
    "size, account, index",
    [(3, "A", 0), (3, "C", 1), (1, "C", 0), (0, "C", 0), (-1, "C", 0), (7, "", 2166136261 % 7)],
)
def test_poolIndex(size: int, account: str, index: int) -> None:
    """
    The place of an account in the pool is the 32-bit FNV-1a hash of its name, modulo the pool's
    size.
    """
    assert poolIndex(size, account) == index


def test_member() -> None:
    """A member exists until its last connection of the pool is removed."""
    node = Node(poolSize=2, dedicated=("A",))
    member = Member(ServerDocument(server_id="P", server_name="p"))
    one, two = (node.joined(route_pool_size=2, route_pool_idx=place).route for place in (0, 1))
    own = node.joined(route_pool_size=2, route_account="A").route
    there = [(bool(member), member.first)]
    member.pool = {0: one, 1: two}
    member.dedicated = {"A": own}
    assert [*member] == [one, two, own]
    there.append((bool(member), member.first))
    assert [member.remove(peer) for peer in (own, one, two, two)] == [False, False, True, False]
    there.append((bool(member), member.first))
    assert there == [(False, None), (True, one), (False, None)]


def test_placeFor() -> None:
    """A dialling peer chooses its place in the pool. Otherwise the first free place is taken."""
    node = Node(poolSize=3)
    member = Member(ServerDocument(server_id="P"))
    accepted, dialled = node.joined(route_pool_size=3).route, node.dialling().route
    assert member.placeFor(dialled, 2) == 0
    member.isPooled, member.size = True, 2
    assert (member.placeFor(accepted, 2), member.placeFor(dialled, 0)) == (2, 0)
    member.pool = {0: accepted}
    assert member.placeFor(dialled, 0) == 1
    member.pool = {0: accepted, 1: accepted}
    assert member.placeFor(dialled, 0) is None


@pytest.mark.parametrize(
    "isOurs, peer, isDialled, age, isPooled, stays",
    [
        (True, "A", False, 0.0, True, True),  # they dialled, and have the lower id
        (True, "Z", False, 0.0, True, False),
        (True, "Z", False, 9.0, True, True),  # no race: what was there is dead
        (False, "A", False, 0.0, True, True),  # its pool has a free place there
        (False, "A", False, 0.0, False, False),  # who knows: the first one stays
        (False, "A", False, 9.0, False, True),
        (False, "A", True, 9.0, False, False),  # we had no reason to dial
        (True, "Z", True, 0.0, False, False),  # both were dialled by us
    ],
)
def test_prevails(
    isOurs: bool, peer: str, isDialled: bool, age: float, isPooled: bool, stays: bool
) -> None:
    """Of two connections for the same place, both ends keep the same one."""
    node = Node(poolSize=3 if isPooled else -1)
    there = node.dialling().route
    node.settle(age)
    wire = node.dialling() if isDialled else node.joined()
    wire.route.document = ServerDocument(server_id=peer, raw={"natsbroker": "1"} if isOurs else {})
    wire.route.isPooled = isPooled
    assert prevails(wire.route, there, "M", node.clock.seconds()) is stays


def test_bothAgree() -> None:
    """
    Two natsbrokers that dial each other keep the connection of the one with the lower id, on both
    ends.
    """
    kept: dict[str, set[str]] = {}
    for ours, theirs in (("A", "B"), ("B", "A")):
        node = Node()
        dialled, accepted = node.dialling().route, node.joined().route
        for route in (dialled, accepted):
            route.document = ServerDocument(server_id=theirs, raw={"natsbroker": "1"})
        now = node.clock.seconds()
        for newcomer, there in ((accepted, dialled), (dialled, accepted)):
            stays = newcomer if prevails(newcomer, there, ours, now) else there
            kept.setdefault(ours, set()).add("dialled" if stays is dialled else "accepted")
    assert kept == {"A": {"dialled"}, "B": {"accepted"}}


def test_serverWithoutInfoReplacesNone() -> None:
    """A new connection does not replace an existing route before it has received INFO."""
    node = Node()
    assert not prevails(node.accepted().route, node.joined().route, "M", 0.0)
