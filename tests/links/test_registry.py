"""
The links of one kind, and statistics of those that have ended.
"""

from __future__ import annotations

import pytest

from natsbroker import errors
from natsbroker.links.registry import LinkRegistry
from natsbroker.routes.route import Route
from tests.routes.clusters import Node


def registryOf(node: Node, *names: str) -> tuple[LinkRegistry[Route], list[Route]]:
    """A registry with routes to some peers."""
    registry: LinkRegistry[Route] = LinkRegistry(node.cluster.context)
    routes = [node.joined(server_id=name).route for name in names]
    for route in routes:
        registry.linkOpened(route)
    return registry, routes


def test_iteration() -> None:
    """Links are listed in the order in which they opened, until they end."""
    registry, (first, second) = registryOf(Node(), "P1", "P2")
    assert (len(registry), list(registry)) == (2, [first, second])
    for link in registry:
        registry.linkGone(link)
    assert (len(registry), list(registry)) == (0, [])


def test_unopenedLinkGoes() -> None:
    """A link that never opened can be removed."""
    node = Node()
    registry, (first,) = registryOf(node, "P1")
    registry.linkGone(node.joined(server_id="P2").route)
    assert list(registry) == [first]


def test_close() -> None:
    """All links are closed, and the callback is called once after the last has ended."""
    registry, routes = registryOf(Node(), "P1", "P2")
    told: list[int] = []
    registry.close(lambda: told.append(len(registry)))
    assert registry.isOver and [route.reason for route in routes] == ["Server Shutdown"] * 2
    registry.linkGone(routes[0])
    assert told == []
    registry.linkGone(routes[1])
    registry.linkGone(routes[1])
    assert told == [0]


def test_closeWithoutLinks() -> None:
    """Without links the callback is called at once."""
    told: list[bool] = []
    registry: LinkRegistry[Route] = LinkRegistry(Node().cluster.context)
    registry.close(lambda: told.append(True))
    assert told == [True]


def test_openingAfterClose() -> None:
    """A link that opens after the close is closed."""
    node = Node()
    registry: LinkRegistry[Route] = LinkRegistry(node.cluster.context)
    registry.close(lambda: None)
    late = node.joined().route
    registry.linkOpened(late)
    assert late.reason == "Server Shutdown" and list(registry) == [late]


def test_trafficOfEndedLinks() -> None:
    """The traffic of ended links is included in the sums."""
    node = Node()
    first, second = node.joined(server_id="P1"), node.joined(server_id="P2")
    first.send(b"RS+ A foo\r\nRMSG A bar 2\r\nhi\r\n")
    second.send(b"RMSG A bar 3\r\nhoi\r\n")
    node.publish(b"foo", b"12345")
    registry = node.cluster
    assert (len(registry), list(registry)) == (2, [first.route, second.route])
    assert registry.traffic == (2, 5, 1, 5)
    assert first.route.counts == (1, 2, 1, 5)
    first.hangUp()
    assert (len(registry), registry.traffic) == (1, (2, 5, 1, 5))
    assert (registry.slow, registry.stale, registry.ended["Client Closed"]) == (0, 0, 1)


def test_stale() -> None:
    """Links that were closed as stale are counted."""
    node = Node()
    node.joined()
    node.settle(200)
    assert (node.cluster.stale, node.cluster.slow) == (1, 0)


@pytest.mark.parametrize("error", [errors.SLOW_PENDING, errors.SLOW_DEADLINE])
def test_slowConsumers(error: errors.WireError) -> None:
    """Links that were closed as slow consumers are counted."""
    node = Node()
    node.joined().route.close(error, abort=True)
    node.settle()
    assert (
        node.cluster.stale,
        node.cluster.slow,
        len(node.cluster),
    ) == (0, 1, 0)


def test_unopenedLinkIsNotCounted() -> None:
    """A link that never opened is not counted."""
    node = Node()
    registry: LinkRegistry[Route] = LinkRegistry(node.cluster.context)
    registry.linkGone(node.joined().route)
    assert (registry.traffic, sum(registry.ended.values())) == ((0, 0, 0, 0), 0)
