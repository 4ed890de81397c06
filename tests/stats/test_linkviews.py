"""
Tests for L{natsbroker.stats.linkviews}: what links are made of fits the shapes that the pages
ask for.
"""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker.config.model import Settings
from natsbroker.hosting.clusterpages import ClusterPages
from natsbroker.hosting.gatewaypages import GatewayPages, LinkPage
from natsbroker.hosting.leafpages import LeafPages
from natsbroker.net.leaffacts import leafFacts
from natsbroker.net.routefacts import routeFacts
from natsbroker.stats import linkviews
from tests.net.clusters import Node
from tests.net.gatewaypeers import Joined
from tests.net.leaves import Broker
from tests.stats.test_views import membersOf


def provided() -> dict[str, Any]:
    """
    For each view what provides it in a broker.
    """
    node = Node()
    wire = node.joined()
    wire.send(b"RS+ A foo\r\n")
    facts = routeFacts(wire.route)
    joined = Joined()
    page = LinkPage(joined.arrived().link, 7)
    ((interest, _),) = facts.interest
    return {
        "BookView": node.context.book,
        "ClusterView": ClusterPages,
        "GatewayFactsView": page.facts(),
        "GatewayLinkView": page,
        "GatewaysView": GatewayPages(joined.gateways, Settings, 7),
        "InterestView": interest,
        "LeafFactsView": leafFacts(Broker().spoke().leaf),
        "LeafsView": LeafPages,
        "LinkFactsView": facts,
        "LinkView": facts,
        "RouteFactsView": facts,
    }


def test_allAreProvided() -> None:
    """Each view has a provider here."""
    assert set(provided()) == set(linkviews.__all__)


@pytest.mark.parametrize("name", linkviews.__all__)
def test_fits(name: str) -> None:
    """A provider has what its view asks for."""
    provider = provided()[name]
    assert {
        each for each in membersOf(getattr(linkviews, name)) if not hasattr(provider, each)
    } == set()
