"""
A source: messages of another stream that this one stores among its own, with a header that says
where each comes from. After a restart the newest such header says where to go on.
"""

from __future__ import annotations

from hashlib import sha256
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any

from natsbroker.interfaces.records import Record
from natsbroker.jetstream.contracts import ReadingStream
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.answers import sourceInfo
from natsbroker.jetstream.model.streamconfig import StreamSource
from natsbroker.jetstream.streams.msgheaders import MessageHeaders
from natsbroker.jetstream.streams.origins import OriginDelivery, OriginReader
from natsbroker.jetstream.streams.reading import SLICE

HEADER = b"Nats-Stream-Source"

IDENTITY = b"Nats-Stream-Identity"
_DIGITS = (digits + ascii_uppercase + ascii_lowercase).encode()
_EMPTY = b"NATS/1.0\r\n\r\n"

#: Headers that the publisher meant for the origin.
_FOR_ORIGIN = (b"nats-expected-", b"nats-batch-", HEADER.lower() + b":")


def shortHash(text: str) -> str:
    """
    Eight characters that stand for a text.
    """
    return bytes(
        _DIGITS[each % len(_DIGITS)] for each in sha256(text.encode()).digest()[:8]
    ).decode()


def sourceWords(source: StreamSource) -> tuple[str, str, str]:
    """
    What tells a source from the others of a stream in the header: its name, its filters, and the
    destinations of its transforms.
    """
    name = source.name
    if source.external is not None:
        name = f"{name}:{shortHash(source.external.api)}"
    if source.consumer is not None:
        name = f"{name}:C={shortHash(source.consumer.name)}"
    if not source.subject_transforms:
        return name, source.filter_subject or ">", ">"
    transforms = source.subject_transforms
    return (
        name,
        "\f".join(each.src or ">" for each in transforms),
        "\f".join(each.dest or ">" for each in transforms),
    )


def withSource(headers: bytes, value: bytes) -> bytes:
    """
    A header block with C{Nats-Stream-Source}, and without what was meant for the origin only.
    """
    lines = (headers or _EMPTY).split(b"\r\n")[:-2]
    kept = [each for each in lines if not each.lower().startswith(_FOR_ORIGIN)]
    return b"\r\n".join([*kept, b"%b: %b" % (HEADER, value), b"", b""])


class SourceReader(OriginReader):
    """
    Publishes what the origin has to the stream.
    """

    kind = "SRC"
    letter = "S"
    noun = "src"
    unreadable = errors.SOURCE_CONSUMER_REQUIRES_ACK_FC

    def __init__(self, stream: ReadingStream, source: StreamSource) -> None:
        super().__init__(stream, source)
        self._words = [each.encode() for each in sourceWords(source)]
        self._identity = b""
        self._hasTaken = self._isNew = False

    def requestHeaders(self) -> bytes:
        return b"NATS/1.0\r\nNats-Required-Api-Level: 5\r\nNats-Stream-Identity: %b\r\n\r\n" % (
            self._identity
        )

    def answerHeaders(self, headers: bytes) -> None:
        identity = MessageHeaders(headers).get(IDENTITY)
        if self._identity and identity and identity != self._identity:
            self.sequence = 0
        self._identity = identity

    def refused(self, cause: int) -> bool:
        """
        The origin was created again: begin with its first message.
        """
        if cause != errors.CONSUMER_STREAM_IDENTITY_MISMATCH.err_code:
            return False
        self.sequence = 0
        self._identity = b""
        self._isNew = True
        return True

    def info(self) -> dict[str, Any]:
        shown = super().info()
        active, error = shown["active"], self._error
        return sourceInfo(self.source, lag=self.lag, seq=self.sequence, active=active, error=error)

    async def position(self) -> int:
        """
        Found in the newest message of this source, unless it is known.
        """
        stream = self.stream
        if self.sequence or self._isNew:
            return self.sequence
        await stream.publisher.barrier()
        first, stop = max(stream.first, 1), stream.last + 1
        while stop > first:
            start = max(first, stop - SLICE)
            if await self._finds(start, stop):
                break
            stop = start
        return self.sequence

    async def _finds(self, sequence: int, stop: int) -> bool:
        """
        Look for the newest message of this source in a part of the stream.
        """
        while sequence < stop:
            found = await self.stream.read((), sequence, SLICE, 1 << 24)
            for record in found.records:
                if record.sequence < stop and HEADER in record.headers:
                    self._recognize(record)
            sequence = found.next
        return self.sequence > 0

    def _recognize(self, record: Record) -> None:
        words = MessageHeaders(record.headers).get(HEADER).split(b" ")
        if len(words) >= 5 and [words[0], *words[2:4]] == self._words and words[1].isdigit():
            self.sequence = int(words[1])
            self._identity = words[5] if len(words) > 5 else b""

    def take(
        self, delivery: OriginDelivery, subject: bytes, headers: bytes, payload: bytes
    ) -> None:
        if delivery.sequence <= self.sequence:
            return
        name, filters, destinations = self._words
        words = [name, b"%d" % delivery.sequence, filters, destinations, delivery.subject]
        if self._identity:
            words.append(self._identity)
        block = withSource(headers, b" ".join(words))
        self.stream.publisher.take(subject, b"", block, payload, isSourced=True)
        self._hasTaken = True

    def flush(self) -> None:
        if self._hasTaken:
            self._hasTaken = False
            self.stream.publisher.flush()
            self.guarded(self.stream.log.append([]))
