"""
The links of one kind that there are.
"""

from __future__ import annotations

from natsbroker.links.registry import LinkRegistry
from natsbroker.routes.route import Route
from tests.routes.clusters import Node


def rollOf(node: Node, *names: str) -> tuple[LinkRegistry[Route], list[Route]]:
    """A registry with routes to some peers."""
    registry: LinkRegistry[Route] = LinkRegistry(node.cluster.context)
    routes = [node.joined(server_id=name).route for name in names]
    for route in routes:
        registry.linkOpened(route)
    return registry, routes


def test_links() -> None:
    """Whoever came is there until it is gone, in that order."""
    registry, (first, second) = rollOf(Node(), "P1", "P2")
    assert (len(registry), list(registry)) == (2, [first, second])
    for link in registry:
        registry.linkGone(link)
    assert (len(registry), list(registry)) == (0, [])


def test_never() -> None:
    """What never came can go."""
    node = Node()
    registry, (first,) = rollOf(node, "P1")
    registry.linkGone(node.joined(server_id="P2").route)
    assert list(registry) == [first]


def test_close() -> None:
    """All are closed, and that nobody is left is told once."""
    registry, routes = rollOf(Node(), "P1", "P2")
    told: list[int] = []
    registry.close(lambda: told.append(len(registry)))
    assert registry.isOver and [route.reason for route in routes] == ["Server Shutdown"] * 2
    registry.linkGone(routes[0])
    assert told == []
    registry.linkGone(routes[1])
    registry.linkGone(routes[1])
    assert told == [0]


def test_empty() -> None:
    """Where nobody is, the end is told at once."""
    told: list[bool] = []
    registry: LinkRegistry[Route] = LinkRegistry(Node().cluster.context)
    registry.close(lambda: told.append(True))
    assert told == [True]


def test_late() -> None:
    """Whoever comes later is sent away."""
    node = Node()
    registry: LinkRegistry[Route] = LinkRegistry(node.cluster.context)
    registry.close(lambda: None)
    late = node.joined().route
    registry.linkOpened(late)
    assert late.reason == "Server Shutdown" and list(registry) == [late]
