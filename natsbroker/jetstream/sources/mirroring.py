"""
A mirror: a copy of another stream, with its sequences and times.
"""

from __future__ import annotations

from typing import Any

from twisted.python.failure import Failure

from natsbroker.interfaces.records import Entry, Record
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.sourceconsumers import OriginDelivery
from natsbroker.jetstream.model.streamconfig import StreamSource
from natsbroker.jetstream.sources.origins import OriginReader
from natsbroker.jetstream.streams.msgheaders import withoutExpectations
from natsbroker.jetstream.streams.publishanswers import ReadMessage
from natsbroker.jetstream.streams.streamcore import StreamCore

_HEADERS = b"NATS/1.0\r\nNats-Required-Api-Level: 4\r\n\r\n"


class MirrorReader(OriginReader):
    """
    Appends the messages of the origin. Sequences that are missing there are missing here.

    If the mirror's configuration asks for more than a copy, messages are published to it, each with
    its sequence and time. A message that the mirror refuses, perhaps because it is full, is read
    again until the mirror takes it.
    """

    kind = "MIRROR"
    letter = "M"
    noun = mark = "mirror"
    unreadable = errors.MIRROR_CONSUMER_REQUIRES_ACK_FC

    def __init__(self, stream: StreamCore, source: StreamSource) -> None:
        super().__init__(stream, source)
        self._first = 0
        self._taken = 0
        self._hasCaughtUp = False
        self._entries: list[Entry] = []
        self._records: list[Record] = []
        self._storing = 0
        self._isVerbatim: bool | None = None  # In this turn; C{None} before its first message.

    @property
    def isStoring(self) -> bool:
        """Whether a message that was taken is not durable yet."""
        return self._storing > 0

    def requestHeaders(self) -> bytes:
        return _HEADERS if self.source.consumer is None else b""

    async def position(self) -> int:
        await self.stream.publisher.barrier()
        await self.stream.log.append([])
        return self.stream.last

    def begins(self, before: int) -> None:
        log = self.stream.log
        if not self.stream.messages and before >= log.nextSequence:
            self.guarded(log.skipTo(before + 1))
        self._compare()

    def take(
        self, delivery: OriginDelivery, subject: bytes, headers: bytes, payload: bytes
    ) -> None:
        if headers:
            headers = withoutExpectations(headers)
        if self._isVerbatim is None:
            self._isVerbatim = self.stream.publisher.isVerbatim()
        if not self._isVerbatim:
            self._taken = delivery.sequence
            sequence = delivery.sequence
            message = ReadMessage(self, self.refusals, sequence, sequence - 1, delivery)
            self.stream.publisher.takeFrom(message, subject, headers, payload)
            return
        log, sequence = self.stream.log, delivery.sequence
        following = self._first + len(self._entries) if self._entries else log.nextSequence
        if sequence < following:
            return
        if sequence > following:
            self._flush()
            self.guarded(log.skipTo(sequence))
        self._taken = sequence
        if not self._entries:
            self._first = sequence
        stored = headers
        if headers and self.stream.isInFile:
            stored = len(headers).to_bytes(4, "big") + headers
        self._entries.append((subject, stored, payload, delivery.timestamp))
        self._records.append(Record(sequence, delivery.timestamp, subject, headers, payload))

    def flush(self) -> None:
        if self._isVerbatim:
            self._flush()
        elif self._isVerbatim is not None:
            publisher = self.stream.publisher
            publisher.flush()
            self.guarded(publisher.barrier().addCallback(lambda _: self._compare()))
        self._isVerbatim = None

    def _flush(self) -> None:
        entries, self._entries = self._entries, []
        records, self._records = self._records, []
        if entries:
            self._storing += 1
            first = self.stream.log.nextSequence
            storing = self.stream.log.append(entries)
            storing.addBoth(self._settled, first)
            storing.addCallback(self._stored, records)
            self.guarded(storing)

    def _settled(self, result: Any, first: int) -> Any:
        self._storing -= 1
        if isinstance(result, Failure):
            self.stream.upkeep.outcome.failed(first, result)
        return result

    def _stored(self, result: Any, records: list[Record]) -> None:
        stream = self.stream
        if not stream.isDeleted:
            isWatched = bool(stream.consumers) or bool(stream.watchers)
            stream.stored(records if isWatched else [], isWatched)
            self._compare()

    def _compare(self) -> None:
        """
        Note that the mirror has caught up with its origin, if it has. With an empty origin this is
        not known.
        """
        stream = self.stream
        if self._hasCaughtUp or self.lag or stream.last < self._taken:
            return
        if not (stream.messages or self._taken):
            return
        self._hasCaughtUp = True
        stream.caughtUp()
