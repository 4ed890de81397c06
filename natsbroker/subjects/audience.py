"""
Of which subscriptions somebody else is told.

Plain data; the same subscription is always told in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from natsbroker.subjects.subscription import Subscription

__all__ = ["Audience", "clusterOf"]


def clusterOf(subscriber: Any) -> bytes:
    """
    The cluster of the leafnode behind which somebody is, or from which a message comes; no bytes
    for nobody behind a leafnode, and for one of no cluster.
    """
    cluster: bytes = getattr(subscriber, "cluster", b"")
    return cluster


class Audience:
    """
    Whoever is told of subscriptions. Every object is an audience of its own.
    """

    __slots__ = ("_apart", "_beacon", "_cluster", "_importsToo", "_kinds", "_namesClusters")

    def __init__(
        self,
        kinds: Iterable[int],
        importsToo: bool = False,
        namesClusters: bool = False,
        apart: object = None,
        cluster: bytes = b"",
        beacon: bytes = b"",
    ) -> None:
        """
        @param kinds: of the subscribers, as integers.
        @param importsToo: whether what an account imports as a service is told.
        @param namesClusters: whether those behind leafnodes of one cluster are told apart from
            others.
        @param apart: the subscriber who is told, and hears nothing of its own subscriptions.
        @param cluster: of leafnodes whose subscriptions are not told.
        @param beacon: how patterns begin that are told whatever kind they are of.
        """
        self._kinds = frozenset(kinds)
        self._importsToo = importsToo
        self._namesClusters = namesClusters
        self._apart = apart
        self._cluster = cluster
        self._beacon = beacon

    def originOf(self, subscription: Subscription) -> bytes | None:
        """
        Under which cluster's name a subscription is told; no bytes for none.

        @return: C{None} if it is not told.
        """
        subscriber = subscription.subscriber
        beacon = self._beacon
        if subscription.kind not in self._kinds:
            if not beacon or not subscription.pattern.startswith(beacon):
                return None
        if subscriber is self._apart and subscriber is not None:
            return None
        if not self._importsToo and not getattr(subscriber, "isTold", True):
            return None
        cluster = clusterOf(subscriber)
        if cluster and cluster == self._cluster:
            return None
        return cluster if self._namesClusters else b""
