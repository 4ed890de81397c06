"""
The plugins that come with the broker and need no installation.

Their modules load when the settings name a plugin, so that all other brokers start sooner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from natsbroker.interfaces import IAuthorizerPlugin, IBrokerService, IGatewayPolicyPlugin

__all__ = ["authorizers", "policies", "services"]


def authorizers() -> Sequence[IAuthorizerPlugin]:
    """
    The authorizers that C{authorization { plugin: NAME }} finds without an installation.
    """
    from natsbroker.auth.plugins import READY_MADE

    return READY_MADE


def policies() -> Sequence[IGatewayPolicyPlugin]:
    """
    The policies that C{gateway { interest { plugin: NAME } }} finds without an installation.
    """
    from natsbroker.gateways.policyplugins import READY_MADE

    return READY_MADE


def services() -> Sequence[IBrokerService]:
    """
    The services that C{services { NAME { ... } }} finds without an installation.
    """
    from natsbroker.monitoring.trafficplugin import TrafficPlugin

    return (TrafficPlugin(),)
