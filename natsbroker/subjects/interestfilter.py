"""The selection of subscriptions of which a watcher of interest learns."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

from natsbroker.subjects.subscription import Subscription


def clusterOf(subscriber: Any) -> bytes:
    """The leafnode cluster of a subscriber or an origin; empty for none."""
    cluster: bytes = getattr(subscriber, "cluster", b"")
    return cluster


def clusterIn(account: str, origin: Any) -> bytes:
    """
    The cluster whose leafnodes must not receive a message. Empty if the message came in another
    account, because members of a cluster do not send each other imports.
    """
    cluster = clusterOf(origin)
    return cluster if cluster and origin.grant.account == account else b""


@dataclass(eq=False, slots=True)
class InterestFilter:
    """
    Selects the subscriptions of which a watcher learns. Compared by identity.

    @ivar namesClusters: whether the subscriptions of each cluster of leafnodes are reported
        separately.
    @ivar exclude: the subscriber whose own subscriptions are not selected.
    @ivar cluster: of leafnodes whose subscriptions are not selected.
    @ivar loopSubject: the prefix of patterns that are selected for every kind.
    @ivar omits: the kind of leafnodes whose subscriptions are not selected, whatever the kind of
        those; C{None} for none.
    @ivar isIsolated: whether subscriptions of leafnodes at other brokers of this server are not
        selected.
    """

    kinds: Container[int]
    includesImports: bool = False
    namesClusters: bool = False
    exclude: object = None
    cluster: bytes = b""
    loopSubject: bytes = b""
    omits: int | None = None
    isIsolated: bool = False

    def originOf(self, subscription: Subscription) -> bytes | None:
        """
        The cluster under which a subscription is reported, or empty; C{None} if it is not selected.
        """
        subscriber = subscription.subscriber
        cluster = clusterOf(subscriber)
        isElsewhere = self.isIsolated and cluster and getattr(subscriber, "isNeighbour", False)
        loopSubject = self.loopSubject
        if subscription.kind not in self.kinds or isElsewhere:
            if not loopSubject or not subscription.pattern.startswith(loopSubject):
                return None
        if subscriber is self.exclude and subscriber is not None:
            return None
        if self.omits is not None:
            leafnode = getattr(subscriber, "leafnode", subscriber)
            if getattr(leafnode, "kind", None) == self.omits:
                return None
        if not self.includesImports and not getattr(subscriber, "isAdvertised", True):
            return None
        if cluster and cluster == self.cluster:
            return None
        return cluster if self.namesClusters else b""
