"""
A gateway's connection as monitoring shows it.
"""

from __future__ import annotations

from natsbroker.gateways.facts import gatewayFacts
from tests.gateways.gatewaypeers import Joined


def test_facts() -> None:
    """The peer is called by its id."""
    facts = gatewayFacts(Joined().arrived().link, 3)
    assert (facts.host, facts.subscriptions, facts.name) == ("127.0.0.9", 3, "PEER")


def test_nameless() -> None:
    """A peer that has not said who it is has no name."""
    assert gatewayFacts(Joined().dialling("C").link, 0).name == ""
