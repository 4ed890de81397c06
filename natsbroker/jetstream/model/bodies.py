"""
The bodies of API requests: the keys of each, for L{natsbroker.jetstream.model.documents}.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from natsbroker.jetstream.model.consumerconfig import ConsumerConfig
from natsbroker.jetstream.model.documents import Int64, UInt64
from natsbroker.jetstream.model.streamconfig import Placement, StreamConfig
from natsbroker.wire.timestamps import ZERO_TIME, Timestamp

LONGEST: Final = 1 << 16
"""The longest body, in bytes, that is read in one turn. Only bodies with lists may be longer."""

_CHUNK: Final = (1024, 128 * 1024, 1024 * 1024)
_WINDOW: Final = (1024, 8 * 1024 * 1024, 32 * 1024 * 1024)


class ConsumerAction(str, Enum):
    """Whether a request may create a consumer, change one, or either."""

    EITHER = ""
    UPDATE = "update"
    CREATE = "create"


@dataclass(frozen=True)
class StreamRequest:
    """
    The creation or change of a stream.

    @ivar namesStorage: whether the request says where the messages are kept. Otherwise nats-server
        checks the space for them only after everything else.
    """

    config: StreamConfig = field(default_factory=StreamConfig)
    pedantic: bool = False
    namesStorage: bool = True


@dataclass(frozen=True)
class ConsumerRequest:
    """The creation or change of a consumer."""

    stream_name: str = ""
    config: ConsumerConfig = field(default_factory=ConsumerConfig)
    action: ConsumerAction = ConsumerAction.EITHER
    pedantic: bool = False


@dataclass(frozen=True)
class PageRequest:
    """
    A page of names or details.

    @ivar offset: less than zero is the begin.
    """

    offset: Int64 = 0


@dataclass(frozen=True)
class StreamsRequest(PageRequest):
    """
    A page of streams or of their names.

    @ivar subject: what the streams must take.
    """

    subject: str = ""


@dataclass(frozen=True)
class InfoRequest(PageRequest):
    """
    The details of a stream that a request asks for.

    @ivar subjects_filter: the subjects that are counted.
    """

    deleted_details: bool = False
    subjects_filter: str = ""


@dataclass(frozen=True)
class PurgeRequest:
    """
    The messages that a purge removes.

    @ivar seq: only those below; 0 for all.
    @ivar filter: only those with this subject.
    @ivar keep: how many of the newest stay.
    """

    seq: UInt64 = 0
    filter: str = ""
    keep: UInt64 = 0


@dataclass(frozen=True)
class MessageDeleteRequest:
    """
    The message to remove. With C{no_erase} its bytes stay on disk, which clients do not notice.
    """

    seq: UInt64 = 0
    no_erase: bool = False


@dataclass(frozen=True)
class MessageGetRequest:
    """Which messages are read, by the API or directly."""

    seq: UInt64 = 0
    last_by_subj: str = ""
    next_by_subj: str = ""
    batch: Int64 = 0
    max_bytes: Int64 = 0
    start_time: Timestamp | None = None
    multi_last: tuple[str, ...] = ()
    up_to_seq: UInt64 = 0
    up_to_time: Timestamp | None = None
    no_hdr: bool = False


@dataclass(frozen=True)
class SnapshotRequest:
    """
    The destination and the pace of a copy of a stream.

    @ivar chunk_size: bytes of a message.
    @ivar window_size: bytes without an answer.
    @ivar jsck: whether the stored messages are verified first.
    """

    deliver_subject: str = ""
    no_consumers: bool = False
    chunk_size: Int64 = 0
    window_size: Int64 = 0
    jsck: bool = False

    def chunk(self) -> int:
        """The bytes of a message, within the bounds."""
        return _within(self.chunk_size, _CHUNK)

    def window(self) -> int:
        """The bytes without an answer, within the bounds."""
        return _within(self.window_size, _WINDOW)


@dataclass(frozen=True)
class LostData:
    msgs: tuple[UInt64, ...] = ()
    bytes: UInt64 = 0


@dataclass(frozen=True)
class CopiedState:
    """The state of a stream that was copied."""

    messages: UInt64 = 0
    bytes: UInt64 = 0
    first_seq: UInt64 = 0
    first_ts: Timestamp = ZERO_TIME
    last_seq: UInt64 = 0
    last_ts: Timestamp = ZERO_TIME
    num_subjects: Int64 = 0
    subjects: Mapping[str, UInt64] = field(default_factory=dict)
    num_deleted: Int64 = 0
    deleted: tuple[UInt64, ...] = ()
    lost: LostData | None = None
    consumer_count: Int64 = 0


@dataclass(frozen=True)
class RestoreRequest:
    """A copy of a stream that is to be sent."""

    config: StreamConfig = field(default_factory=StreamConfig)
    state: CopiedState = field(default_factory=CopiedState)


@dataclass(frozen=True)
class PauseRequest:
    """The time until which a consumer pauses; Go's zero time if it does not."""

    pause_until: Timestamp = ZERO_TIME


@dataclass(frozen=True)
class UnpinRequest:
    """The group whose client loses its pin."""

    group: str = ""


@dataclass(frozen=True)
class ResetRequest:
    """The sequence to which a consumer goes back; 0 for its acknowledgement floor."""

    seq: UInt64 = 0


@dataclass(frozen=True)
class StepDownRequest:
    """The broker that is to lead; C{None} for any."""

    placement: Placement | None = None


@dataclass(frozen=True)
class PeerRequest:
    """The name or the id of a broker."""

    peer: str = ""


@dataclass(frozen=True)
class ServerRequest(PeerRequest):
    peer_id: str = ""


@dataclass(frozen=True)
class PullBody:
    """The messages that a pull request asks for. Durations are nanoseconds."""

    expires: Int64 = 0
    batch: Int64 = 0
    max_bytes: Int64 = 0
    no_wait: bool = False
    idle_heartbeat: Int64 = 0
    group: str = ""
    min_pending: Int64 = 0
    min_ack_pending: Int64 = 0
    id: str = ""
    priority: Int64 = 0


def _within(value: int, bounds: tuple[int, int, int]) -> int:
    least, usual, most = bounds
    return min(max(value, least), most) if value else usual
