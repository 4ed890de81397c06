"""
A leafnode connection as monitoring shows it.
"""

from __future__ import annotations

from natsbroker.leafnodes.facts import leafFacts
from tests.leafnodes.leaves import Broker


def test_facts() -> None:
    """Everything that is shown, of either side."""
    broker = Broker()
    spoke, hub = broker.spoke(name="below", isolate=True), broker.hub()
    spoke.send(b"LS+ foo\r\nLS+ bar q 2\r\nLMSG x 2\r\nhi\r\n")
    broker.publish(b"foo", b"12345")
    facts = leafFacts(spoke.leaf)
    assert (facts.name, facts.isSpoke, facts.isIsolated, facts.account) == (
        "below",
        False,
        True,
        "A",
    )
    assert (facts.host, facts.port, facts.subscriptions) == ("127.0.0.9", 50000, 2)
    assert facts.traffic == (1, 2, 1, 5) and sorted(facts.patterns) == [b"bar", b"foo"]
    assert leafFacts(hub.leaf).isSpoke and leafFacts(hub.leaf).name == "peer"
    spoke.transport.hangUp()
    broker.settle()
    assert list(leafFacts(spoke.leaf).patterns) == []
