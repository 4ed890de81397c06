"""
The built-in gateway interest policies, and policies of plugins.
"""

from __future__ import annotations

from typing import Any

import pytest
from zope.interface import implementer
from zope.interface.verify import verifyObject

from natsbroker.gateways.policies import (
    READY_MADE,
    AnnouncingPolicy,
    InterestOnlyPolicy,
    switchAfterOf,
)
from natsbroker.gateways.tables import INTEREST_ONLY, OPTIMISTIC
from natsbroker.interfaces import IGatewayInterestPolicy, IGatewayPolicyPlugin
from natsbroker.runtime.plugins import PluginError, Plugins
from natsbroker.server.builtin import withBuiltIn
from tests.server.support import settingsOf


@implementer(IGatewayPolicyPlugin)
class Mine:
    """The policy of a third party."""

    name = "mine"

    def makePolicy(self, host: Any, section: Any) -> Any:
        if "bad" in section:
            raise ValueError("bad is bad")
        return InterestOnlyPolicy() if "good" in section else "no policy"


def policyOf(interest: str = "", given: Any = None) -> Any:
    """The policy that a block configures."""
    text = f"gateway {{ name: A, listen: '127.0.0.1:1', interest {{ {interest} }} }}"
    plugins = withBuiltIn(Plugins(lambda interface: [Mine()]))
    host: Any = None
    return plugins.gatewayPolicy(host, settingsOf(text), given)


def test_default() -> None:
    """
    By default all interest is sent at once, and a peer with the same policy gets no unwanted
    message.
    """
    policy = policyOf()
    assert isinstance(policy, AnnouncingPolicy) and policy.tellsAll
    assert policy.introduces("B", "A", False)
    modes = [policy.connected("B", "A", tellsAll).mode for tellsAll in (True, False)]
    assert modes == [INTEREST_ONLY, OPTIMISTIC]


@pytest.mark.parametrize("interest", ["switch_after: 5", "plugin: switching, switch_after: 5"])
def test_switching(interest: str) -> None:
    """The policy switching begins optimistic, up to a number of refusals."""
    policy = policyOf(interest)
    assert (policy.tellsAll, policy.switchAfter) == (False, 5)
    assert policy.connected("B", "A", False).mode == OPTIMISTIC
    assert policyOf("plugin: switching").switchAfter == 1000


def test_interestOnly() -> None:
    """The policy interest-only sends all interest."""
    assert policyOf("plugin: interest-only").tellsAll


def test_optimistic() -> None:
    """The policy optimistic never sends all interest on its own."""
    policy = policyOf("plugin: optimistic")
    assert not policy.tellsAll and not policy.switches("B", "A", 1_000_000)


@pytest.mark.parametrize("plugin", READY_MADE, ids=lambda plugin: plugin.name)
def test_provide(plugin: Any) -> None:
    """The policies provide their interface."""
    verifyObject(IGatewayPolicyPlugin, plugin)
    verifyObject(IGatewayInterestPolicy, plugin.makePolicy(None, {}))


@pytest.mark.parametrize(
    "interest, problem",
    [
        ("plugin: nobody", 'no IGatewayPolicyPlugin named "nobody"'),
        ("plugin: mine, bad: 1", 'gateway policy "mine": bad is bad'),
        ("plugin: mine", 'gateway policy "mine" makes no policy'),
        ("plugin: interest-only, x: 1", 'unknown option "x"'),
        ("plugin: optimistic, switch_after: 1", 'unknown option "switch_after"'),
    ],
)
def test_invalidSectionIsRefused(interest: str, problem: str) -> None:
    """An invalid section is refused with the reason."""
    with pytest.raises(PluginError, match=problem):
        policyOf(interest)


def test_installedPluginIsChosen() -> None:
    """A plugin of a third party is found by name, or given as an object or a factory."""
    assert isinstance(policyOf("plugin: mine, good: 1"), InterestOnlyPolicy)
    policy = InterestOnlyPolicy()
    assert policyOf(given=policy) is policy
    assert isinstance(policyOf("plugin: nobody, good: 1", given=Mine()), InterestOnlyPolicy)


def test_noCount() -> None:
    """A boolean or a negative number is refused as a count."""
    for value in (True, -1, 1.5):
        with pytest.raises(ValueError, match="count"):
            switchAfterOf({"switch_after": value})
