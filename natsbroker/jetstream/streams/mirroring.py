"""
A mirror: a copy of another stream, with its sequences and times.
"""

from __future__ import annotations

from typing import Any

from natsbroker.interfaces.records import Entry, Record
from natsbroker.jetstream.contracts import ReadingStream
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.streamconfig import StreamSource
from natsbroker.jetstream.streams.origins import OriginDelivery, OriginReader

_HEADERS = b"NATS/1.0\r\nNats-Required-Api-Level: 4\r\n\r\n"


class MirrorReader(OriginReader):
    """
    Appends what the origin has. Sequences that are missing there are missing here.
    """

    kind = "MIRROR"
    letter = "M"
    noun = "mirror"
    unreadable = errors.MIRROR_CONSUMER_REQUIRES_ACK_FC

    def __init__(self, stream: ReadingStream, source: StreamSource) -> None:
        super().__init__(stream, source)
        self._first = 0
        self._taken = 0
        self._hasCaughtUp = False
        self._entries: list[Entry] = []
        self._records: list[Record] = []
        self._storing = 0

    @property
    def isStoring(self) -> bool:
        """
        Whether something that was taken is not durable yet.
        """
        return self._storing > 0

    def requestHeaders(self) -> bytes:
        return _HEADERS if self.source.consumer is None else b""

    async def position(self) -> int:
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
        log, sequence = self.stream.log, delivery.sequence
        following = self._first + len(self._entries) if self._entries else log.nextSequence
        if sequence < following:
            return
        if sequence > following:
            self.flush()
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
        entries, self._entries = self._entries, []
        records, self._records = self._records, []
        if entries:
            self._storing += 1
            storing = self.stream.log.append(entries)
            storing.addBoth(self._settled)
            storing.addCallback(self._stored, records)
            self.guarded(storing)

    def _settled(self, result: Any) -> Any:
        self._storing -= 1
        return result

    def _stored(self, result: Any, records: list[Record]) -> None:
        stream = self.stream
        if not stream.isDeleted:
            isWatched = bool(stream.consumers) or bool(stream.watchers)
            stream.stored(records if isWatched else [], isWatched)
            self._compare()

    def _compare(self) -> None:
        """
        Look whether the mirror has what its origin has. Of an empty origin that is not known.
        """
        stream = self.stream
        if self._hasCaughtUp or self.lag or not stream.messages or stream.last < self._taken:
            return
        self._hasCaughtUp = True
        stream.caughtUp()
