"""
Of which subscriptions somebody else is told.
"""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker.subjects.audience import Audience, clusterOf
from natsbroker.subjects.subscription import Subscription


class Someone:
    """A subscriber."""

    def __init__(self, **facts: Any) -> None:
        vars(self).update(facts)


LEAF = Someone(cluster=b"L")
RELAY = Someone(isTold=False)
PLAIN = Someone()


def subscription(subscriber: Any, kind: int = 0, pattern: bytes = b"a") -> Subscription:
    """A subscription."""
    return Subscription(None, pattern, b"", kind, subscriber, None)


@pytest.mark.parametrize(
    ("audience", "told", "origin"),
    [
        (Audience({0}), subscription(PLAIN), b""),
        (Audience({1}), subscription(PLAIN), None),
        (Audience({1}, beacon=b"$L."), subscription(PLAIN, pattern=b"$L.x"), b""),
        (Audience({1}, beacon=b"$L."), subscription(PLAIN, pattern=b"x"), None),
        (Audience({0}, apart=PLAIN), subscription(PLAIN), None),
        (Audience({0}), subscription(RELAY), None),
        (Audience({0}, importsToo=True), subscription(RELAY), b""),
        (Audience({0}), subscription(LEAF), b""),
        (Audience({0}, namesClusters=True), subscription(LEAF), b"L"),
        (Audience({0}, cluster=b"L"), subscription(LEAF), None),
        (Audience({0}, cluster=b"M"), subscription(LEAF), b""),
    ],
)
def test_originOf(audience: Audience, told: Subscription, origin: bytes | None) -> None:
    """Whether a subscription is told, and under which cluster's name."""
    assert audience.originOf(told) == origin


def test_clusterOf() -> None:
    """Whoever says nothing of a cluster is in none."""
    assert [clusterOf(each) for each in (LEAF, PLAIN, None)] == [b"L", b"", b""]
