"""
The end of messages whose time is over: their removal, and the delete markers that they leave.

In a stream with delete markers, the last message of a subject is not just removed. A marker on the
same subject takes its place, so that consumers learn of the end. A marker leaves no other marker,
and neither does the purge of a key in a key-value bucket.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, inlineCallbacks

from natsbroker.interfaces.records import Record
from natsbroker.jetstream.model.streamconfig import RetentionPolicy
from natsbroker.jetstream.streams.msgheaders import MessageHeaders
from natsbroker.jetstream.streams.streamcore import StreamCore
from natsbroker.jetstream.streams.streamrecords import SEARCH
from natsbroker.wire.durations import nanosecondsText

if TYPE_CHECKING:
    from collections.abc import Generator

_SECOND = 1_000_000_000

_MARK = 500
"""The cost of a marker, in the units of L{natsbroker.pure.backlog}."""


def isMarker(headers: bytes) -> bool:
    """Whether a message says that its subject has ended."""
    if b"Nats-Marker-Reason:" not in headers and b"KV-Operation:" not in headers:
        return False
    known = MessageHeaders(headers)
    return bool(known.get(b"Nats-Marker-Reason")) or known.get(b"KV-Operation") == b"PURGE"


def markerHeaders(ttl: int) -> bytes:
    """
    The header block of a marker.

    @param ttl: its time to live in nanoseconds, of which whole seconds count.
    """
    shown = nanosecondsText(ttl - ttl % _SECOND).encode()
    return (
        b"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: %b\r\nNats-Rollup: sub\r\n\r\n"
        % shown
    )


class MessageEnds:
    """Ends messages of one stream."""

    def __init__(self, stream: StreamCore) -> None:
        self._stream = stream

    @inlineCallbacks
    def end(self, records: Sequence[Record]) -> Generator[Deferred[Any], Any, list[Record]]:
        """
        Remove messages, or replace them by markers.

        @param records: in the order of their sequences.
        @return: those that are still there, because their markers could not be stored.
        """
        stream = self._stream
        if stream.config.subject_delete_marker_ttl < _SECOND:
            yield stream.remove([record.sequence for record in records])
            return []
        gone, last = [], []
        left: dict[bytes, int] = {}
        for record in records:
            subject = record.subject
            yield stream.account.turns.take(SEARCH)
            if subject not in left:
                tally = (yield stream.log.subjects(subject)).get(subject)
                left[subject] = 0 if tally is None else tally.count
            left[subject] -= 1
            isLast = left[subject] == 0 and not isMarker(record.headers)
            if isLast and self._isWanted(subject):
                last.append(record)
            else:
                gone.append(record.sequence)
        yield stream.remove(gone)
        return (yield from self._mark(last))

    def _isWanted(self, subject: bytes) -> bool:
        """Whether the stream would store a marker."""
        stream = self._stream
        isKept = stream.config.retention is not RetentionPolicy.INTEREST
        return isKept or stream.consumers.isWanted(subject)

    def _mark(self, records: Sequence[Record]) -> Generator[Deferred[Any], Any, list[Record]]:
        stream = self._stream
        headers = markerHeaders(stream.config.subject_delete_marker_ttl)
        for record in records:
            subject = record.subject
            yield stream.account.turns.take(_MARK)
            stream.publisher.takeIf(subject, headers, b"", subject, record.sequence)
        stream.publisher.flush()
        yield stream.settle()
        failed = []
        for record in records:
            tally = (yield stream.log.subjects(record.subject)).get(record.subject)
            if tally is not None and tally.last == record.sequence:
                failed.append(record)
        return failed
