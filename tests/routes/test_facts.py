"""
Routes as monitoring shows them.
"""

from __future__ import annotations

from natsbroker.routes.facts import routeFacts
from tests.routes.clusters import Node, info


def test_accepted() -> None:
    """The facts of a route that a member dialled."""
    node = Node()
    node.clock.advance(5)
    wire = node.joined()
    node.clock.advance(2)
    wire.send(b"RS+ A foo\r\nLS+ LC A bar q 2\r\n")
    node.publish(b"foo", b"12345")
    facts = routeFacts(wire.route)
    assert (facts.number, facts.remoteId, facts.remoteName) == (1, "PEER", "peer")
    assert (facts.isDialled, facts.isConfigured, facts.account) == (False, False, "")
    assert (facts.host, facts.port, facts.started, facts.lastActivity) == ("127.0.0.9", 50000, 5, 7)
    assert (facts.pending, facts.traffic, facts.subscriptions) == (0, (0, 0, 1, 5), 2)
    told = [(each.origin, each.pattern, each.queue, count) for each, count in facts.interest]
    assert told == [(b"", b"foo", b"", 1), (b"LC", b"bar", b"q", 0)]


def test_dialled() -> None:
    """Of one that we dialled it is known why; before the peer has said anything, little else."""
    node = Node()
    wire = node.dialling()
    facts = routeFacts(wire.route)
    assert (facts.isDialled, facts.isConfigured) == (True, True)
    assert (facts.remoteId, facts.subscriptions, list(facts.interest)) == ("", 0, [])
    told = node.dialling(isConfigured=False)
    told.send(info(server_id="P2"))
    assert not routeFacts(told.route).isConfigured


def test_dedicated() -> None:
    """A connection that is dedicated to an account says so."""
    node = Node(poolSize=3, dedicated=("A",))
    wire = node.joined(route_pool_size=3, route_account="A")
    assert routeFacts(wire.route).account == "A"
