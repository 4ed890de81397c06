"""
The gateway interest policies that nobody needs to install.

C{switching}, which is the default, C{optimistic} and C{interest-only} are there under
these names; a section that makes no sense is refused with what is wrong with it.
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
    Begins optimistically, and tells everything after so many refusals.
    """

    name = "switching"

    def makePolicy(self, host: IBrokerHost, section: Mapping[str, Any]) -> IGatewayInterestPolicy:
        return SwitchingPolicy(switchAfterOf(section))


@implementer(IGatewayPolicyPlugin)
class OptimisticPlugin:
    """
    Tells what it does not want as it comes, for ever.
    """

    name = "optimistic"

    def makePolicy(self, host: IBrokerHost, section: Mapping[str, Any]) -> IGatewayInterestPolicy:
        _refuseOthers(section, ())
        return OptimisticPolicy()


@implementer(IGatewayPolicyPlugin)
class InterestOnlyPlugin:
    """
    Sends only what is asked for, and tells everything at once.
    """

    name = "interest-only"

    def makePolicy(self, host: IBrokerHost, section: Mapping[str, Any]) -> IGatewayInterestPolicy:
        _refuseOthers(section, ())
        return InterestOnlyPolicy()


def switchAfterOf(section: Mapping[str, Any]) -> int:
    """
    After how many refusals an account is told of as a whole.

    @raise ValueError: if the section says something else than a number of them.
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


#: Those that C{gateway { interest { plugin: NAME } }} finds without anybody's installing them; the
#: first is for those who name none.
READY_MADE = (SwitchingPlugin(), OptimisticPlugin(), InterestOnlyPlugin())
