"""
A snapshot of a leafnode connection for monitoring.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from natsbroker.leafnodes.registry import LeafLink
from natsbroker.links.facts import LinkFacts, sharedFacts
from natsbroker.wire.values import Kind

__all__ = ["LeafFacts", "leafFacts"]


@dataclass(frozen=True, slots=True)
class LeafFacts(LinkFacts):
    """
    @ivar name: the peer's name for itself.
    @ivar isSpoke: we are the spoke.
    @ivar isIsolated: the peer gets no interest of other leafnodes.
    @ivar compression: the level that we send at.
    """

    name: str
    isSpoke: bool
    isIsolated: bool
    account: str
    compression: str
    _leaf: LeafLink

    @property
    def patterns(self) -> Iterator[bytes]:
        traffic = self._leaf.traffic
        return iter(()) if traffic is None else (each.pattern for each in traffic.interest)


def leafFacts(leaf: LeafLink) -> LeafFacts:
    traffic = leaf.traffic
    return LeafFacts(
        *sharedFacts(leaf, 0 if traffic is None else len(traffic.interest)),
        leaf.name,
        leaf.kind is Kind.HUB,
        leaf.isIsolated,
        leaf.account,
        leaf.compression.level,
        leaf,
    )
