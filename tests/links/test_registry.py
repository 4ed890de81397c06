"""
The links of one kind that there are.
"""

from __future__ import annotations

from natsbroker.links.registry import LinkRoll
from natsbroker.routes.route import Route
from tests.routes.clusters import Node


def rollOf(node: Node, *names: str) -> tuple[LinkRoll[Route], list[Route]]:
    """A roll with routes to some peers."""
    roll: LinkRoll[Route] = LinkRoll(node.cluster.context)
    routes = [node.joined(server_id=name).route for name in names]
    for route in routes:
        roll.joined(route)
    return roll, routes


def test_links() -> None:
    """Whoever came is there until it is gone, in that order."""
    roll, (first, second) = rollOf(Node(), "P1", "P2")
    assert (len(roll), list(roll)) == (2, [first, second])
    for link in roll:
        roll.forgotten(link)
    assert (len(roll), list(roll)) == (0, [])


def test_never() -> None:
    """What never came can go."""
    node = Node()
    roll, (first,) = rollOf(node, "P1")
    roll.forgotten(node.joined(server_id="P2").route)
    assert list(roll) == [first]


def test_close() -> None:
    """All are closed, and that nobody is left is told once."""
    roll, routes = rollOf(Node(), "P1", "P2")
    told: list[int] = []
    roll.close(lambda: told.append(len(roll)))
    assert roll.isOver and [route.reason for route in routes] == ["Server Shutdown"] * 2
    roll.forgotten(routes[0])
    assert told == []
    roll.forgotten(routes[1])
    roll.forgotten(routes[1])
    assert told == [0]


def test_empty() -> None:
    """Where nobody is, the end is told at once."""
    told: list[bool] = []
    roll: LinkRoll[Route] = LinkRoll(Node().cluster.context)
    roll.close(lambda: told.append(True))
    assert told == [True]


def test_late() -> None:
    """Whoever comes later is sent away."""
    node = Node()
    roll: LinkRoll[Route] = LinkRoll(node.cluster.context)
    roll.close(lambda: None)
    late = node.joined().route
    roll.joined(late)
    assert late.reason == "Server Shutdown" and list(roll) == [late]
