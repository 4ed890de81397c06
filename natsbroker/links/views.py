"""
What the monitoring pages need to see of links to other servers, as protocols.

Promises: nothing but shapes; each is no wider than what a page shows.
Must never know: any implementation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from natsbroker.monitoring.views import CountedView, MomentView, PeerView

__all__ = [
    "BookView",
    "ClusterView",
    "GatewayFactsView",
    "GatewayLinkView",
    "GatewaysView",
    "InterestView",
    "LeafFactsView",
    "LeafsView",
    "LinkFactsView",
    "LinkView",
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


class LinkView(PeerView, CountedView, Protocol):
    """
    A link of any kind.
    """

    @property
    def number(self) -> int: ...


class LinkFactsView(LinkView, MomentView, Protocol):
    """
    A link at one moment.
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

    @property
    def compression(self) -> str:
        """
        At which level we send.
        """

    @property
    def interest(self) -> Iterable[tuple[InterestView, int]]:
        """
        What the peer is subscribed to, and how many messages it has had for each.
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


class LeafFactsView(LinkView, Protocol):
    """
    A connection to a leafnode, or as one.
    """

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
    def compression(self) -> str:
        """
        At which level we send.
        """

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


class BookView(CountedView, Protocol):
    """
    What has become of the links of one kind.
    """

    @property
    def slow(self) -> int: ...

    @property
    def stale(self) -> int: ...


class GatewayFactsView(LinkFactsView, Protocol):
    """
    A connection between clusters at one moment.
    """

    @property
    def name(self) -> str:
        """
        The peer's id; empty while it is not known.
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

    def facts(self) -> GatewayFactsView:
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
