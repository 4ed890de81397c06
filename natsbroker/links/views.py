"""
What the monitoring pages need to see of links to other servers, as protocols.

Nothing but shapes; each is no wider than what a page shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from natsbroker.gateways.facts import GatewayFacts
from natsbroker.leafnodes.facts import LeafFacts
from natsbroker.routes.facts import RouteFacts

__all__ = [
    "ClusterView",
    "GatewayLinkView",
    "GatewaysView",
    "LeafsView",
]


class ClusterView(Protocol):
    """
    The routes of a broker.
    """

    def routes(self) -> Iterable[RouteFacts]:
        """
        Those that are agreed on.
        """

    def permissions(self) -> Mapping[str, Any]:
        """
        What passes, under C{import} and C{export}, where not everything does.
        """


class LeafsView(Protocol):
    """
    The leafnode connections of a broker.
    """

    def leafs(self) -> Iterable[LeafFacts]:
        """
        Those that are agreed on.
        """


class GatewayLinkView(Protocol):
    """
    A connection between clusters.
    """

    @property
    def isConfigured(self) -> bool:
        """
        Whether it was dialled because the settings say so.
        """

    @property
    def switchAfter(self) -> int:
        """
        After how many refusals an account is told of as a whole; 0 for never.
        """

    def facts(self) -> GatewayFacts:
        """
        What there is to tell about it now.
        """

    def accounts(self) -> Mapping[str, Mapping[str, Any]]:
        """
        What was decided for each account: C{mode}, and counts.
        """

    def interests(self, account: str) -> Iterable[tuple[bytes, bytes]]:
        """
        The patterns and queue groups that are known to be wanted in an account.
        """


class GatewaysView(Protocol):
    """
    The gateways of a broker.
    """

    @property
    def name(self) -> str: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...

    def outbound(self) -> Iterable[tuple[str, GatewayLinkView]]:
        """
        The connections that we dialled, with the names of the clusters.
        """

    def inbound(self) -> Iterable[tuple[str, GatewayLinkView]]:
        """
        The connections that others dialled.
        """
