"""The selection of the subscriptions that a watcher of interest learns of."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

from natsbroker.subjects.subscription import Subscription


def clusterOf(subscriber: Any) -> bytes:
    """
    The cluster of the leafnode that a subscriber or the origin of a message is; empty for none.
    """
    cluster: bytes = getattr(subscriber, "cluster", b"")
    return cluster


def clusterIn(account: str, origin: Any) -> bytes:
    """
    The cluster that receivers in an account are not to be of, if a message has that origin. Empty
    if it came in another account: members of the cluster do not send each other what is imported
    here.
    """
    cluster = clusterOf(origin)
    return cluster if cluster and origin.grant.account == account else b""


@dataclass(eq=False, slots=True)
class InterestFilter:
    """
    Selects the subscriptions that a watcher learns of. Compared by identity.

    @ivar namesClusters: whether the subscriptions of each cluster of leafnodes are reported
        separately.
    @ivar exclude: the subscriber whose own subscriptions are not selected.
    @ivar cluster: of leafnodes whose subscriptions are not selected.
    @ivar loopSubject: the prefix of patterns that are selected for every kind.
    """

    kinds: Container[int]
    includesImports: bool = False
    namesClusters: bool = False
    exclude: object = None
    cluster: bytes = b""
    loopSubject: bytes = b""

    def originOf(self, subscription: Subscription) -> bytes | None:
        """
        The cluster under whose name a subscription is reported; empty for none. C{None} if the
        subscription is not selected.
        """
        subscriber = subscription.subscriber
        loopSubject = self.loopSubject
        if subscription.kind not in self.kinds:
            if not loopSubject or not subscription.pattern.startswith(loopSubject):
                return None
        if subscriber is self.exclude and subscriber is not None:
            return None
        if not self.includesImports and not getattr(subscriber, "isAdvertised", True):
            return None
        cluster = clusterOf(subscriber)
        if cluster and cluster == self.cluster:
            return None
        return cluster if self.namesClusters else b""
