"""
The address, identity and limits of gateway connections, made from the settings.
"""

from __future__ import annotations

from dataclasses import replace

from natsbroker.clients.listener import joined
from natsbroker.config.model import Settings
from natsbroker.gateways.settings import Gateway
from natsbroker.links.context import LinkLimits
from natsbroker.links.settings import advertised
from natsbroker.links.settingsmapper import identityAt, limitsOf
from natsbroker.routes.terms import LinkIdentity
from natsbroker.server.hostaddresses import addressesOf

#: The longest PING interval, in seconds.
_LONGEST_SILENCE = 15.0


def placeFrom(gateway: Gateway, port: int) -> tuple[str, int]:
    """
    The host and port that are announced to other clusters.

    @param port: of our listener.
    """
    if gateway.advertise:
        return advertised(gateway.advertise, port)
    return addressesOf(gateway.host)[0], port


def identityFrom(settings: Settings, gateway: Gateway, serverId: str, port: int) -> LinkIdentity:
    """
    @param port: of our listener.
    """
    host, port = placeFrom(gateway, port)
    return identityAt(settings, serverId, host, port, gateway=joined(host, port))


def limitsFrom(settings: Settings, gateway: Gateway) -> LinkLimits:
    limits = limitsOf(settings, gateway)
    return replace(limits, ping_interval=min(limits.ping_interval, _LONGEST_SILENCE))
