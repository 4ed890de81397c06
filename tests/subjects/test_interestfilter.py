"""
The subscriptions that a filter selects.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from natsbroker.subjects.interestfilter import InterestFilter, clusterIn, clusterOf
from natsbroker.subjects.subscription import Subscription


class Subscriber:
    """A subscriber, behind a leafnode or not."""

    def __init__(self, cluster: bytes = b"", isAdvertised: bool = True) -> None:
        self.cluster = cluster
        self.isAdvertised = isAdvertised


class Neighbour(Subscriber):
    """Another broker of this server."""

    isNeighbour = True


def subscription(kind: int, subscriber: Any = None, pattern: bytes = b"foo") -> Subscription:
    """A subscription."""
    return Subscription(None, pattern, b"", kind, subscriber, None)


def test_clusterOf() -> None:
    """A subscriber that is not behind a leafnode has no cluster."""
    assert (clusterOf(None), clusterOf(object()), clusterOf(Subscriber(b"C"))) == (b"", b"", b"C")


def test_clusterIn() -> None:
    """A leafnode's cluster counts only in the leafnode's own account."""
    leaf = SimpleNamespace(cluster=b"C", grant=SimpleNamespace(account="A"))
    assert (clusterIn("A", leaf), clusterIn("B", leaf), clusterIn("A", None)) == (b"C", b"", b"")


@pytest.mark.parametrize(
    "more, kind, subscriber, pattern, origin",
    [
        ({}, 1, Subscriber(), b"foo", b""),
        ({}, 3, Subscriber(), b"foo", None),
        ({"loopSubject": b"$"}, 3, Subscriber(), b"$x", b""),
        ({"loopSubject": b"$"}, 3, Subscriber(), b"foo", None),
        ({}, 1, Subscriber(isAdvertised=False), b"foo", None),
        ({"includesImports": True}, 1, Subscriber(isAdvertised=False), b"foo", b""),
        ({}, 1, Subscriber(b"C"), b"foo", b""),
        ({"namesClusters": True}, 1, Subscriber(b"C"), b"foo", b"C"),
        ({"cluster": b"C"}, 1, Subscriber(b"C"), b"foo", None),
        ({"cluster": b"C"}, 1, Subscriber(), b"foo", b""),
        ({}, 1, None, b"foo", b""),
        ({"omits": 5}, 1, None, b"foo", b""),
        ({"omits": 5}, 1, SimpleNamespace(kind=6), b"foo", b""),
        ({"omits": 5}, 1, SimpleNamespace(kind=5), b"foo", None),
        ({"omits": 5}, 1, SimpleNamespace(leafnode=SimpleNamespace(kind=5)), b"foo", None),
        ({"isIsolated": True}, 1, Neighbour(b"C"), b"foo", None),
        ({"isIsolated": True}, 1, Neighbour(), b"foo", b""),
        ({"isIsolated": True}, 1, Subscriber(b"C"), b"foo", b""),
        ({"isIsolated": True, "loopSubject": b"$"}, 1, Neighbour(b"C"), b"$x", b""),
        ({}, 1, Neighbour(b"C"), b"foo", b""),
    ],
)
def test_originOf(
    more: dict[str, Any], kind: int, subscriber: Any, pattern: bytes, origin: bytes | None
) -> None:
    """The origin of a subscription depends on its kind, its cluster and the filter's options."""
    told = InterestFilter({0, 1}, **more).originOf(subscription(kind, subscriber, pattern))
    assert told == origin


def test_ownSubscriptions() -> None:
    """A subscriber's own subscriptions are not selected."""
    own, other = Subscriber(), Subscriber()
    interestFilter = InterestFilter({1}, exclude=own)
    assert interestFilter.originOf(subscription(1, own)) is None
    assert interestFilter.originOf(subscription(1, other)) == b""
