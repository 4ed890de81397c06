"""
Tests for L{natsbroker.links.views}: what links are made of fits the shapes that the pages
ask for.
"""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker.config.model import Settings
from natsbroker.gateways.pages import GatewayPages, LinkPage
from natsbroker.leafnodes.pages import LeafPages
from natsbroker.links import views
from natsbroker.routes.pages import ClusterPages
from tests.gateways.gatewaypeers import Joined


def membersOf(view: Any) -> set[str]:
    """
    The names that a protocol asks for, and those that it is made from.
    """
    asking = [each for each in view.__mro__ if each.__module__.startswith("natsbroker.")]
    names = set().union(*map(vars, asking)) - set(vars(type("Empty", (), {})))
    return {name for name in names if not name.startswith("_") or name in ("__len__", "__iter__")}


def provided() -> dict[str, Any]:
    """
    For each view what provides it in a broker.
    """
    joined = Joined()
    page = LinkPage(joined.arrived().link, 7)
    return {
        "ClusterView": ClusterPages,
        "GatewayLinkView": page,
        "GatewaysView": GatewayPages(joined.gateways, Settings, 7),
        "LeafsView": LeafPages,
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
