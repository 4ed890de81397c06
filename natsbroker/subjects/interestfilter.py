"""
Of which subscriptions somebody else is told.

Plain data; the same subscription is always told in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from natsbroker.subjects.subscription import Subscription

__all__ = ["InterestFilter", "clusterOf"]


def clusterOf(subscriber: Any) -> bytes:
    """
    The cluster of the leafnode behind which somebody is, or from which a message comes; no bytes
    for nobody behind a leafnode, and for one of no cluster.
    """
    cluster: bytes = getattr(subscriber, "cluster", b"")
    return cluster


class InterestFilter:
    """
    Selects the subscriptions that a watcher learns of. Compared by identity.
    """

    __slots__ = (
        "_cluster",
        "_exclude",
        "_includesImports",
        "_kinds",
        "_loopSubject",
        "_namesClusters",
    )

    def __init__(
        self,
        kinds: Iterable[int],
        includesImports: bool = False,
        namesClusters: bool = False,
        exclude: object = None,
        cluster: bytes = b"",
        loopSubject: bytes = b"",
    ) -> None:
        """
        @param kinds: of the subscribers, as integers.
        @param includesImports: whether what an account imports as a service is told.
        @param namesClusters: whether those behind leafnodes of one cluster are told apart from
            others.
        @param exclude: the subscriber who is told, and hears nothing of its own subscriptions.
        @param cluster: of leafnodes whose subscriptions are not told.
        @param loopSubject: how patterns begin that are told whatever kind they are of.
        """
        self._kinds = frozenset(kinds)
        self._includesImports = includesImports
        self._namesClusters = namesClusters
        self._exclude = exclude
        self._cluster = cluster
        self._loopSubject = loopSubject

    def originOf(self, subscription: Subscription) -> bytes | None:
        """
        Under which cluster's name a subscription is told; no bytes for none.

        @return: C{None} if it is not told.
        """
        subscriber = subscription.subscriber
        loopSubject = self._loopSubject
        if subscription.kind not in self._kinds:
            if not loopSubject or not subscription.pattern.startswith(loopSubject):
                return None
        if subscriber is self._exclude and subscriber is not None:
            return None
        if not self._includesImports and not getattr(subscriber, "isAdvertised", True):
            return None
        cluster = clusterOf(subscriber)
        if cluster and cluster == self._cluster:
            return None
        return cluster if self._namesClusters else b""
