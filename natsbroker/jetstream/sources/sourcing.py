"""
A source: messages of another stream that this one stores among its own, with a header that says
where each comes from.
"""

from __future__ import annotations

from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.sourceconsumers import OriginDelivery, sourceHash, sourceWords
from natsbroker.jetstream.model.streamconfig import StreamSource
from natsbroker.jetstream.sources.origins import OriginReader
from natsbroker.jetstream.sources.sourcepositions import HEADER, positionKey
from natsbroker.jetstream.streams.msgheaders import (
    MessageHeaders,
    withoutExpectations,
    withoutHeader,
)
from natsbroker.jetstream.streams.publishanswers import ReadMessage
from natsbroker.jetstream.streams.streamcore import StreamCore

IDENTITY = b"Nats-Stream-Identity"
_EMPTY = b"NATS/1.0\r\n\r\n"


def withSource(headers: bytes, value: bytes) -> bytes:
    """The header block with C{Nats-Stream-Source}, and without headers for the origin only."""
    block = withoutHeader(withoutExpectations(headers), HEADER) or _EMPTY
    return b"%b%b: %b\r\n\r\n" % (block[:-2], HEADER, value)


class SourceReader(OriginReader):
    """
    Publishes the messages of the origin to the stream. A message that the stream refuses, perhaps
    because it is full, is read again until the stream takes it.
    """

    kind = "SRC"
    letter = "S"
    noun = "source"
    mark = "src"
    unreadable = errors.SOURCE_CONSUMER_REQUIRES_ACK_FC

    def __init__(self, stream: StreamCore, source: StreamSource) -> None:
        super().__init__(stream, source)
        self._words = [word.encode() for word in sourceWords(source)]
        self._identity = b""
        self._key = positionKey(source)
        self._hasTaken = False

    def requestHeaders(self) -> bytes:
        return b"NATS/1.0\r\nNats-Required-Api-Level: 5\r\nNats-Stream-Identity: %b\r\n\r\n" % (
            self._identity
        )

    def answerHeaders(self, headers: bytes) -> None:
        identity = MessageHeaders(headers).get(IDENTITY)
        if self._identity and identity and identity != self._identity:
            self._isOther(identity)
        self._identity = identity

    def _isOther(self, identity: bytes) -> None:
        """Forget the position, because the origin was created again."""
        self.sequence = self.since = 0
        self.stream.sources.begin(self.source, identity)

    def hash(self) -> str:
        return sourceHash(super().hash(), self.source, self.stream.config)

    def refused(self, cause: int) -> bool:
        """Begin with the first message if the origin was created again."""
        if cause != errors.CONSUMER_STREAM_IDENTITY_MISMATCH.err_code:
            return super().refused(cause)
        self._isOther(b"")
        return True

    @property
    def shownSequence(self) -> int:
        return self.sequence

    async def position(self) -> int:
        known = await self.stream.sources.find(self.source)
        self.sequence, self._identity, self.since = known
        return self.sequence

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
        self._hasTaken = True
        origin = ReadMessage(
            self,
            self.refusals,
            delivery.sequence,
            self.sequence,
            None,
            self._key,
            self._identity,
        )
        self.stream.publisher.takeFrom(origin, subject, block, payload)

    def flush(self) -> None:
        if self._hasTaken:
            self._hasTaken = False
            self.stream.publisher.flush()
            self.stream.sources.settle()
            self.guarded(self.stream.log.append([]))
