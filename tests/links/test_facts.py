"""
What there is to tell of a link.
"""

from __future__ import annotations

from natsbroker.links.facts import LinkFacts, sharedFacts
from tests.gateways.gatewaypeers import Joined


def test_facts() -> None:
    """What is counted on the way, and where the peer is."""
    node = Joined()
    node.clock.advance(5.0)
    wire = node.arrived()
    node.clock.advance(1.0)
    wire.send(b"PING\r\n")
    facts = LinkFacts(*sharedFacts(wire.link, 3))
    assert (facts.number, facts.host, facts.port) == (wire.link.number, "127.0.0.9", 50000)
    assert facts.started == 5.0 and facts.lastActivity == 6.0
    assert (facts.subscriptions, facts.traffic) == (3, (0, 0, 0, 0))
