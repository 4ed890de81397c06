"""
The plugins of the gateway interest policies that come with the broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zope.interface import implementer

from natsbroker.gateways.policies import (
    SWITCH_AFTER,
    InterestOnlyPolicy,
    OptimisticPolicy,
    SwitchingPolicy,
)
from natsbroker.interfaces import IBrokerHost, IGatewayInterestPolicy, IGatewayPolicyPlugin

__all__ = [
    "READY_MADE",
    "InterestOnlyPlugin",
    "OptimisticPlugin",
    "SwitchingPlugin",
    "switchAfterOf",
]


@implementer(IGatewayPolicyPlugin)
class SwitchingPlugin:
    """
    Makes a L{SwitchingPolicy}.
    """

    name = "switching"

    def makePolicy(self, host: IBrokerHost, section: Mapping[str, Any]) -> IGatewayInterestPolicy:
        return SwitchingPolicy(switchAfterOf(section))


@implementer(IGatewayPolicyPlugin)
class OptimisticPlugin:
    """
    Makes an L{OptimisticPolicy}.
    """

    name = "optimistic"

    def makePolicy(self, host: IBrokerHost, section: Mapping[str, Any]) -> IGatewayInterestPolicy:
        _refuseOthers(section, ())
        return OptimisticPolicy()


@implementer(IGatewayPolicyPlugin)
class InterestOnlyPlugin:
    """
    Makes an L{InterestOnlyPolicy}.
    """

    name = "interest-only"

    def makePolicy(self, host: IBrokerHost, section: Mapping[str, Any]) -> IGatewayInterestPolicy:
        _refuseOthers(section, ())
        return InterestOnlyPolicy()


def switchAfterOf(section: Mapping[str, Any]) -> int:
    """
    @return: the refusals after which an account is announced as a whole.
    @raise ValueError: if the section is not valid.
    """
    _refuseOthers(section, ("switch_after",))
    count = section.get("switch_after") or SWITCH_AFTER
    if type(count) is not int or count < 0:
        raise ValueError("switch_after is not a count")
    return count


def _refuseOthers(section: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in section:
        if key not in known:
            raise ValueError(f'unknown field "{key}"')


#: The plugins that C{gateway { interest { plugin: NAME } }} always finds; the first is the default.
READY_MADE = (SwitchingPlugin(), OptimisticPlugin(), InterestOnlyPlugin())
