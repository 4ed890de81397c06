"""
The statistics of links.
"""

from __future__ import annotations

import pytest

from natsbroker import errors
from natsbroker.links.statistics import LinkStatistics, linkTraffic
from tests.routes.clusters import Node


def test_traffic() -> None:
    """What has passed over links stays in the sums when they are gone."""
    node = Node()
    first, second = node.joined(server_id="P1"), node.joined(server_id="P2")
    first.send(b"RS+ A foo\r\nRMSG A bar 2\r\nhi\r\n")
    second.send(b"RMSG A bar 3\r\nhoi\r\n")
    node.publish(b"foo", b"12345")
    statistics = node.context.statistics
    assert (len(statistics), list(statistics)) == (2, [first.route, second.route])
    assert statistics.traffic == (2, 5, 1, 5)
    assert linkTraffic(first.route) == (1, 2, 1, 5)
    first.hangUp()
    assert (len(statistics), statistics.traffic) == (1, (2, 5, 1, 5))
    assert (statistics.slow, statistics.stale, statistics.ended["Client Closed"]) == (0, 0, 1)


def test_silent() -> None:
    """Who does not answer is counted."""
    node = Node()
    node.joined()
    node.settle(200)
    assert (node.context.statistics.stale, node.context.statistics.slow) == (1, 0)


@pytest.mark.parametrize("error", [errors.SLOW_PENDING, errors.SLOW_DEADLINE])
def test_slow(error: errors.WireError) -> None:
    """Who takes too little is counted."""
    node = Node()
    node.joined().route.close(error, abort=True)
    node.settle()
    assert (
        node.context.statistics.stale,
        node.context.statistics.slow,
        len(node.context.statistics),
    ) == (0, 1, 0)


def test_neverBegan() -> None:
    """What was never in the statistics does not leave it."""
    node = Node()
    route = node.joined().route
    statistics = LinkStatistics()
    statistics.ends(route)
    assert (statistics.traffic, sum(statistics.ended.values())) == ((0, 0, 0, 0), 0)
