"""
The configuration of a consumer. The fields have the names and the order of the wire's keys.

The defaults are what a field means when a request leaves it out, before the server fills in its own
defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from natsbroker.jetstream.model.documents import Always, Int64, UInt64
from natsbroker.wire.timestamps import Timestamp


class DeliverPolicy(str, Enum):
    """The message with which a consumer starts."""

    ALL = "all"
    LAST = "last"
    NEW = "new"
    BY_START_SEQUENCE = "by_start_sequence"
    BY_START_TIME = "by_start_time"
    LAST_PER_SUBJECT = "last_per_subject"

    @classmethod
    def _missing_(cls, value: object) -> DeliverPolicy | None:
        """The policy for an empty word, which old servers stored for the default."""
        return cls.ALL if value == "undefined" else None


class AckPolicy(str, Enum):
    """Which messages an acknowledgement settles."""

    NONE = "none"
    ALL = "all"
    EXPLICIT = "explicit"
    FLOW_CONTROL = "flow_control"


class ReplayPolicy(str, Enum):
    """Whether stored messages are delivered at once or at the pace in which they arrived."""

    INSTANT = "instant"
    ORIGINAL = "original"


class PriorityPolicy(str, Enum):
    """Which of several pull requests is served first."""

    NONE = "none"
    OVERFLOW = "overflow"
    PINNED_CLIENT = "pinned_client"
    PRIORITIZED = "prioritized"


@dataclass(frozen=True)
class ConsumerConfig:
    """
    The messages that a consumer delivers, how it delivers them, and when they are settled.
    Durations are nanoseconds.

    @ivar max_deliver: deliveries of one message; -1 is no limit.
    @ivar max_batch: the largest C{batch} of a pull request. C{max_expires} and C{max_bytes} bound
        their counterparts in the same way.
    @ivar deliver_subject: where a push consumer delivers; empty makes a pull consumer.
    @ivar direct: whether the consumer belongs to a mirror or source and is not listed.
    @ivar priority_timeout: how long a pinned client may stay silent.
    """

    durable_name: str = ""
    name: str = ""
    description: str = ""
    deliver_policy: Always[DeliverPolicy] = DeliverPolicy.ALL
    opt_start_seq: UInt64 = 0
    opt_start_time: Timestamp | None = None
    ack_policy: Always[AckPolicy] = AckPolicy.NONE
    ack_wait: Int64 = 0
    max_deliver: Int64 = 0
    backoff: tuple[Int64, ...] = ()
    filter_subject: str = ""
    filter_subjects: tuple[str, ...] = ()
    replay_policy: Always[ReplayPolicy] = ReplayPolicy.INSTANT
    rate_limit_bps: UInt64 = 0
    sample_freq: str = ""
    max_waiting: Int64 = 0
    max_ack_pending: Int64 = 0
    flow_control: bool = False
    headers_only: bool = False
    max_batch: Int64 = 0
    max_expires: Int64 = 0
    max_bytes: Int64 = 0
    deliver_subject: str = ""
    deliver_group: str = ""
    idle_heartbeat: Int64 = 0
    inactive_threshold: Int64 = 0
    num_replicas: Always[Int64] = 0
    mem_storage: bool = False
    direct: bool = False
    sourcing: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)
    pause_until: Timestamp | None = None
    priority_groups: tuple[str, ...] = ()
    priority_policy: PriorityPolicy = PriorityPolicy.NONE
    priority_timeout: Int64 = 0
