"""
Messages with a time to live, and when they end.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from natsbroker.interfaces.records import Record, StoreError
from natsbroker.jetstream.schedules.duequeue import DueMessage, DueQueue
from natsbroker.jetstream.streams.markers import MessageEnds
from natsbroker.jetstream.streams.msgheaders import MessageHeaders
from natsbroker.jetstream.streams.streamcore import StreamCore
from natsbroker.wire.durations import nanosecondsFrom

if TYPE_CHECKING:
    from collections.abc import Generator

SECOND = 1_000_000_000

NEVER = -1
"""The time to live of a message that has no end."""

RETRY = SECOND
"""Nanoseconds after which a removal that failed is tried again."""

_log = Logger(namespace="natsbroker.jetstream")


def parseTtl(text: bytes) -> int:
    """
    The value of C{Nats-TTL}: whole seconds, a duration of Go, or C{never}.

    @return: nanoseconds; L{NEVER}; 0 for anything else, and for less than a second.
    """
    if text.isdigit() and len(text) <= 18:
        return int(text) * SECOND
    if text.lower() == b"never":
        return NEVER
    try:
        duration = nanosecondsFrom(text.decode("utf-8", "replace"))
    except ValueError:
        return 0
    return duration if duration >= SECOND else 0


def _ttlIn(headers: bytes) -> int:
    """The time to live in a header block; 0 for none."""
    return parseTtl(MessageHeaders(headers).get(b"Nats-TTL"))


#: Messages of a bucket mostly have the same header block.
_ttlInShort = lru_cache(maxsize=64)(_ttlIn)

#: Header blocks up to this length are remembered.
_SHORT = 128


class MessageExpiry:
    """
    Removes the messages of one stream when their time to live is over.

    The times of removal are in memory only. When the broker starts, they are read from the messages
    of streams that allow a time to live. A second record on disk could disagree with the log after
    a crash.
    """

    def __init__(self, stream: StreamCore) -> None:
        self._stream = stream
        self._removal = MessageEnds(stream)
        self._ends = DueQueue(stream, self._remove)

    def stored(self, records: Sequence[Record]) -> None:
        """Note the times of removal of messages that became durable."""
        for sequence, timestamp, _, headers, _ in records:
            if b"Nats-TTL:" in headers:
                ttl = _ttlInShort(headers) if len(headers) <= _SHORT else _ttlIn(headers)
                if ttl > 0:
                    self._ends.add(DueMessage(timestamp + ttl, sequence, b""))
        self._ends.schedule()

    def close(self) -> None:
        """Remove nothing any more."""
        self._ends.close()

    def _remove(self, due: list[DueMessage], now: int) -> Generator[Deferred[Any], Any, None]:
        over = sorted(message.sequence for message in due)
        try:
            left = [message.sequence for message in (yield from self._end(over))]
        except StoreError as error:
            name, why = self._stream.name, str(error)
            _log.error("Cannot remove messages of stream {name}: {why}", name=name, why=why)
            left = over
        for sequence in left:
            self._ends.add(DueMessage(now + RETRY, sequence, b""))

    def _end(self, sequences: list[int]) -> Generator[Deferred[Any], Any, list[Record]]:
        """
        Remove messages, or replace them by markers.

        @return: those that are still there.
        """
        if self._stream.config.subject_delete_marker_ttl < SECOND:
            yield self._stream.remove(sequences)
            return []
        records = []
        for sequence in sequences:
            record = yield self._stream.get(sequence)
            if record is not None:
                records.append(record)
        left: list[Record] = yield self._removal.end(records)
        return left
