"""
A leafnode connection at one moment, as monitoring shows it.

Facts alone, none of them secret; what the peer is subscribed to is gone through only by
who asks for it.
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
    @ivar name: what the peer calls itself.
    @ivar isSpoke: whether we are the spoke.
    @ivar isIsolated: whether the peer hears nothing of other leafnodes.
    @ivar account: ours.
    @ivar compression: at which level we send.
    """

    name: str
    isSpoke: bool
    isIsolated: bool
    account: str
    compression: str
    _leaf: LeafLink

    @property
    def patterns(self) -> Iterator[bytes]:
        """
        What the peer is subscribed to.
        """
        traffic = self._leaf.traffic
        return iter(()) if traffic is None else (each.pattern for each in traffic.interest)


def leafFacts(leaf: LeafLink) -> LeafFacts:
    """
    The facts of a leafnode connection.
    """
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
