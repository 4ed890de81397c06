"""
What the monitoring pages need to see of links to other servers, as protocols.

Promises: nothing but shapes; each is no wider than what a page shows.
Must never know: any implementation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from natsbroker.stats.views import TrafficView

__all__ = [
    "BookView",
    "ClusterView",
    "GatewayLinkView",
    "GatewaysView",
    "InterestView",
    "LeafFactsView",
    "LeafsView",
    "LinkFactsView",
    "RouteFactsView",
]


class InterestView(Protocol):
    """
    Something that a peer is subscribed to.

    Its origin is the cluster of the leafnode that it comes from; no bytes for none.
    """

    @property
    def account(self) -> bytes: ...

    @property
    def origin(self) -> bytes: ...

    @property
    def pattern(self) -> bytes: ...

    @property
    def queue(self) -> bytes: ...


class LinkFactsView(Protocol):
    """
    A link at one moment; times are seconds since the epoch, durations seconds. Nothing in it may be
    a secret.
    """

    @property
    def number(self) -> int: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def started(self) -> float: ...

    @property
    def lastActivity(self) -> float: ...

    @property
    def roundTrip(self) -> float: ...

    @property
    def pending(self) -> int: ...

    @property
    def traffic(self) -> tuple[int, int, int, int]:
        """
        Messages in, bytes in, messages out, bytes out.
        """

    @property
    def subscriptions(self) -> int: ...

    @property
    def interest(self) -> Iterable[tuple[InterestView, int]]:
        """
        What the peer is subscribed to, and how many messages it has had for each.
        """


class RouteFactsView(LinkFactsView, Protocol):
    """
    A route.
    """

    @property
    def remoteId(self) -> str: ...

    @property
    def remoteName(self) -> str: ...

    @property
    def isDialled(self) -> bool: ...

    @property
    def isConfigured(self) -> bool: ...

    @property
    def account(self) -> str:
        """
        The account that it is dedicated to; empty for none.
        """


class ClusterView(Protocol):
    """
    The routes of a broker.
    """

    def routes(self) -> Iterable[RouteFactsView]:
        """
        Those that are agreed on.
        """

    def permissions(self) -> Mapping[str, Any]:
        """
        What passes, under C{import} and C{export}, where not everything does.
        """


class LeafFactsView(Protocol):
    """
    A connection to a leafnode, or as one.
    """

    @property
    def number(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def isSpoke(self) -> bool:
        """
        Whether we are the spoke.
        """

    @property
    def isIsolated(self) -> bool: ...

    @property
    def account(self) -> str: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def roundTrip(self) -> float: ...

    @property
    def traffic(self) -> tuple[int, int, int, int]:
        """
        Messages in, bytes in, messages out, bytes out.
        """

    @property
    def subscriptions(self) -> int: ...

    @property
    def patterns(self) -> Iterable[bytes]:
        """
        What the peer is subscribed to.
        """


class LeafsView(Protocol):
    """
    The leafnode connections of a broker.
    """

    def leafs(self) -> Iterable[LeafFactsView]:
        """
        Those that are agreed on.
        """


class BookView(Protocol):
    """
    What has become of the links of one kind.
    """

    @property
    def traffic(self) -> tuple[int, int, int, int]: ...

    @property
    def slow(self) -> int: ...

    @property
    def stale(self) -> int: ...


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

    def facts(self) -> TrafficView:
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
