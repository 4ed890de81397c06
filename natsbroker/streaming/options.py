"""
What can be configured about NATS Streaming.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from natsbroker.streaming.limits import Limits

__all__ = ["Heartbeats", "StreamingOptions"]


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """
    How clients are asked whether they are there.

    @ivar interval: seconds between heartbeats.
    @ivar timeout: seconds to answer one.
    @ivar failures: how many may be left unanswered in a row.
    """

    interval: float = 30.0
    timeout: float = 10.0
    failures: int = 10


@dataclass(frozen=True)
class StreamingOptions:
    """
    What can be configured.

    @ivar clusterId: part of all subjects, and what clients name when they connect.
    @ivar discoverPrefix: where clients connect, without the cluster id.
    @ivar limits: of channels.
    @ivar heartbeats: of clients.
    @ivar replaceDurable: somebody who subscribes with the durable name of an active subscription of
        the same client takes its place, instead of being refused.
    @ivar storeName: of the store, for monitoring.
    """

    clusterId: str = "test-cluster"
    discoverPrefix: str = "_STAN.discover"
    limits: Limits = field(default_factory=Limits)
    heartbeats: Heartbeats = field(default_factory=Heartbeats)
    replaceDurable: bool = False
    storeName: str = "MEMORY"
