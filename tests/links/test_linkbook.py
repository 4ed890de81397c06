"""
The books of links.
"""

from __future__ import annotations

import pytest

from natsbroker import errors
from natsbroker.links.linkbook import LinkBook, trafficOf
from tests.routes.clusters import Node


def test_traffic() -> None:
    """What has passed over links stays in the sums when they are gone."""
    node = Node()
    first, second = node.joined(server_id="P1"), node.joined(server_id="P2")
    first.send(b"RS+ A foo\r\nRMSG A bar 2\r\nhi\r\n")
    second.send(b"RMSG A bar 3\r\nhoi\r\n")
    node.publish(b"foo", b"12345")
    book = node.context.book
    assert (len(book), list(book)) == (2, [first.route, second.route])
    assert book.traffic == (2, 5, 1, 5)
    assert trafficOf(first.route) == (1, 2, 1, 5)
    first.hangUp()
    assert (len(book), book.traffic) == (1, (2, 5, 1, 5))
    assert (book.slow, book.stale, book.ended["Client Closed"]) == (0, 0, 1)


def test_silent() -> None:
    """Who does not answer is counted."""
    node = Node()
    node.joined()
    node.settle(200)
    assert (node.context.book.stale, node.context.book.slow) == (1, 0)


@pytest.mark.parametrize("error", [errors.SLOW_PENDING, errors.SLOW_DEADLINE])
def test_slow(error: errors.WireError) -> None:
    """Who takes too little is counted."""
    node = Node()
    node.joined().route.close(error, abort=True)
    node.settle()
    assert (node.context.book.stale, node.context.book.slow, len(node.context.book)) == (0, 1, 0)


def test_neverBegan() -> None:
    """What was never in the book does not leave it."""
    node = Node()
    route = node.joined().route
    book = LinkBook()
    book.ends(route)
    assert (book.traffic, sum(book.ended.values())) == ((0, 0, 0, 0), 0)
