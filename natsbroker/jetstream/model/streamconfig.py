"""
The configuration of a stream. The fields have the names and the order of the wire's keys.

The defaults are what a field means when a request leaves it out, before the server fills in its own
defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from natsbroker.jetstream.model.documents import Always, Int32, Int64, UInt64
from natsbroker.wire.timestamps import Timestamp


class RetentionPolicy(str, Enum):
    """The rule by which a message stays in the stream."""

    LIMITS = "limits"
    INTEREST = "interest"
    WORKQUEUE = "workqueue"


class DiscardPolicy(str, Enum):
    """The message that a full stream drops: its oldest or the one that arrives."""

    OLD = "old"
    NEW = "new"

    @classmethod
    def _missing_(cls, value: object) -> DiscardPolicy | None:
        """The type with this name in other capitals."""
        return next((member for member in cls if member == str(value).lower()), None)


class StorageType(str, Enum):
    """Where the messages are."""

    FILE = "file"
    MEMORY = "memory"


class StoreCompression(str, Enum):
    """The compression of a file stream on disk."""

    NONE = "none"
    S2 = "s2"


class PersistMode(str, Enum):
    """Whether an acknowledgement waits for the disk."""

    DEFAULT = "default"
    ASYNC = "async"

    @classmethod
    def _missing_(cls, value: object) -> PersistMode | None:
        return None if value else cls.DEFAULT


@dataclass(frozen=True)
class Placement:
    """Which servers of a cluster may hold the stream."""

    cluster: str = ""
    tags: tuple[str, ...] = ()
    preferred: str = ""


@dataclass(frozen=True)
class SubjectTransformConfig:
    """A subject pattern and the subject that replaces what it matches."""

    src: Always[str] = ""
    dest: Always[str] = ""


@dataclass(frozen=True)
class Republish:
    """Where copies of stored messages are published."""

    src: str = ""
    dest: Always[str] = ""
    headers_only: bool = False


@dataclass(frozen=True)
class External:
    """
    The prefixes with which a stream of another account or domain is reached.

    @ivar api: replaces C{$JS.API} in requests.
    @ivar deliver: the prefix of the subjects on which messages arrive.
    """

    api: Always[str] = ""
    deliver: Always[str] = ""


@dataclass(frozen=True)
class ConsumerSource:
    """The durable consumer through which a mirror or source reads."""

    name: str = ""
    deliver_subject: str = ""


@dataclass(frozen=True)
class StreamSource:
    """Another stream whose messages this one takes, as its mirror or one of its sources."""

    name: Always[str] = ""
    opt_start_seq: UInt64 = 0
    opt_start_time: Timestamp | None = None
    filter_subject: str = ""
    subject_transforms: tuple[SubjectTransformConfig, ...] = ()
    external: External | None = None
    consumer: ConsumerSource | None = None


@dataclass(frozen=True)
class ConsumerLimits:
    """Defaults and upper bounds for the consumers of a stream."""

    inactive_threshold: Int64 = 0
    max_ack_pending: Int64 = 0


@dataclass(frozen=True)
class StreamConfig:
    """
    The messages that a stream takes, and how long it keeps them. Durations are nanoseconds.

    @ivar max_msg_size: without headers; like the other limits, -1 is none.
    @ivar discard_new_per_subject: whether C{max_msgs_per_subject} also rejects instead of dropping.
    @ivar sealed: whether nothing can be added or removed any more.
    """

    name: Always[str] = ""
    description: str = ""
    subjects: tuple[str, ...] = ()
    retention: Always[RetentionPolicy] = RetentionPolicy.LIMITS
    max_consumers: Always[Int64] = 0
    max_msgs: Always[Int64] = 0
    max_bytes: Always[Int64] = 0
    max_age: Always[Int64] = 0
    max_msgs_per_subject: Always[Int64] = 0
    max_msg_size: Int32 = 0
    discard: Always[DiscardPolicy] = DiscardPolicy.OLD
    storage: Always[StorageType] = StorageType.FILE
    num_replicas: Always[Int64] = 0
    no_ack: bool = False
    duplicate_window: Int64 = 0
    placement: Placement | None = None
    mirror: StreamSource | None = None
    sources: tuple[StreamSource, ...] = ()
    compression: Always[StoreCompression] = StoreCompression.NONE
    first_seq: UInt64 = 0
    subject_transform: SubjectTransformConfig | None = None
    republish: Republish | None = None
    allow_direct: Always[bool] = False
    mirror_direct: Always[bool] = False
    discard_new_per_subject: bool = False
    sealed: Always[bool] = False
    deny_delete: Always[bool] = False
    deny_purge: Always[bool] = False
    allow_rollup_hdrs: Always[bool] = False
    consumer_limits: Always[ConsumerLimits] = ConsumerLimits()
    allow_msg_ttl: Always[bool] = False
    subject_delete_marker_ttl: Int64 = 0
    allow_msg_counter: bool = False
    allow_atomic: bool = False
    allow_msg_schedules: bool = False
    persist_mode: PersistMode = PersistMode.DEFAULT
    allow_batched: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def firstSources(self) -> Mapping[str, StreamSource]:
        """The first source of each name."""
        return {source.name: source for source in reversed(self.sources)}
