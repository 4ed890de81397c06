"""
A gateway's connection at one moment, as monitoring shows it.

Facts alone, none of them secret.
"""

from __future__ import annotations

from dataclasses import dataclass

from natsbroker.gateways.registry import GatewayLink
from natsbroker.links.facts import LinkFacts, sharedFacts

__all__ = ["GatewayFacts", "gatewayFacts"]


@dataclass(frozen=True, slots=True)
class GatewayFacts(LinkFacts):
    """
    @ivar name: the peer's id; empty while it is not known.
    """

    name: str


def gatewayFacts(link: GatewayLink, subscriptions: int) -> GatewayFacts:
    """
    The facts of a gateway's connection.

    @param subscriptions: how much interest the peer has told.
    """
    document = link.document
    name = "" if document is None else document.server_id
    return GatewayFacts(*sharedFacts(link, subscriptions), name)
