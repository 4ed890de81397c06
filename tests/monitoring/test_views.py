"""
Tests for L{natsbroker.monitoring.views}: what a broker is made of fits the shapes that the
pages ask for.
"""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker.config.model import TLS, Settings
from natsbroker.monitoring import views
from tests.monitoring.staging import Stage


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
    stage = Stage(Settings(tls=TLS()))
    wire = stage.client("a@A")
    wire.ask(b"SUB foo 1\r\n")
    account = stage.world.accounts["A"]
    (subscription,) = account.subscriptions()
    context = stage.world.context
    facts = wire.session.facts()
    wire.transport.hangUp()
    stage.world.settle()
    (closed,) = context.connections.closed
    return {
        "AccountView": account,
        "ClosedView": closed,
        "ConnectionView": wire.session,
        "ConnectionsView": context.connections,
        "ContextView": context,
        "CountedView": wire.session,
        "FactsView": facts,
        "InfoView": context.info,
        "LimitsView": context.limits,
        "MatcherView": account.matcher,
        "MomentView": facts,
        "PeerView": facts,
        "SettingsView": stage.settings,
        "SubscriptionFactsView": closed.facts.details[0],
        "SubscriptionView": subscription,
    }


def test_allAreProvided() -> None:
    """Each view has a provider here."""
    assert set(provided()) == set(views.__all__)


@pytest.mark.parametrize("name", views.__all__)
def test_provider(name: str) -> None:
    """A provider has every member of its view."""
    members = membersOf(getattr(views, name))
    assert members
    provider = provided()[name]
    assert [each for each in sorted(members) if not hasattr(provider, each)] == []
