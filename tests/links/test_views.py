"""
Tests for L{natsbroker.links.views}: what links are made of fits the shapes that the pages
ask for.
"""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker.config.model import Settings
from natsbroker.gateways.pages import GatewayPages, LinkPage
from natsbroker.leafnodes.facts import leafFacts
from natsbroker.leafnodes.pages import LeafPages
from natsbroker.links import views
from natsbroker.routes.facts import routeFacts
from natsbroker.routes.pages import ClusterPages
from tests.gateways.gatewaypeers import Joined
from tests.leafnodes.leaves import Broker
from tests.monitoring.test_views import membersOf
from tests.routes.clusters import Node


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
    assert set(provided()) == set(views.__all__)


@pytest.mark.parametrize("name", views.__all__)
def test_fits(name: str) -> None:
    """A provider has what its view asks for."""
    provider = provided()[name]
    assert {
        each for each in membersOf(getattr(views, name)) if not hasattr(provider, each)
    } == set()
