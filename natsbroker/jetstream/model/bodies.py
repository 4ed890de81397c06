"""
The bodies of API requests, decoded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from natsbroker.jetstream.model.consumerconfig import ConsumerConfig
from natsbroker.jetstream.model.streamconfig import StreamConfig
from natsbroker.wire.timestamps import Timestamp

LONGEST: Final = 1 << 16
"""The bytes of a body that may not bring a list of any length: it is read in one turn."""

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

    @ivar offset: never negative.
    @ivar subject: what the streams listed must take.
    @ivar subjects_filter: the subjects of a stream that are counted.
    """

    offset: int = 0
    subject: str = ""
    deleted_details: bool = False
    subjects_filter: str = ""


@dataclass(frozen=True)
class PurgeRequest:
    """
    Which messages are removed from a stream.

    @ivar seq: only those below; 0 for all.
    @ivar filter: only those with this subject.
    @ivar keep: how many of the newest stay.
    """

    seq: int = 0
    filter: str = ""
    keep: int = 0


@dataclass(frozen=True)
class MessageDeleteRequest:
    """
    The message to remove. C{no_erase} leaves its bytes on disk, which makes no visible difference.
    """

    seq: int = 0
    no_erase: bool = False


@dataclass(frozen=True)
class MessageGetRequest:
    """Which messages are read, by the API or directly."""

    seq: int = 0
    last_by_subj: str = ""
    next_by_subj: str = ""
    batch: int = 0
    max_bytes: int = 0
    start_time: Timestamp | None = None
    multi_last: tuple[str, ...] = ()
    up_to_seq: int = 0
    up_to_time: Timestamp | None = None
    no_hdr: bool = False


@dataclass(frozen=True)
class SnapshotRequest:
    """
    Where a copy of a stream goes.

    @ivar chunk_size: bytes of a message.
    @ivar window_size: bytes without an answer.
    @ivar jsck: whether the stored messages are verified first.
    """

    deliver_subject: str = ""
    no_consumers: bool = False
    chunk_size: int = 0
    window_size: int = 0
    jsck: bool = False

    def chunk(self) -> int:
        """
        @return: the bytes of a message, within the bounds.
        """
        return _within(self.chunk_size, _CHUNK)

    def window(self) -> int:
        """
        @return: the bytes without an answer, within the bounds.
        """
        return _within(self.window_size, _WINDOW)


@dataclass(frozen=True)
class RestoreRequest:
    """
    A copy of a stream that is to be sent.

    @ivar state: of the copied stream, as decoded.
    """

    config: StreamConfig = field(default_factory=StreamConfig)
    state: dict[str, Any] = field(default_factory=dict)


def _within(value: int, bounds: tuple[int, int, int]) -> int:
    least, usual, most = bounds
    return min(max(value, least), most) if value else usual
