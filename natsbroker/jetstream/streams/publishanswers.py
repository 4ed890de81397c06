"""The answers to publishers to a stream, byte for byte as nats-server writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from twisted.python.failure import Failure

from natsbroker import hot
from natsbroker.accounts.tracing import disabled
from natsbroker.interfaces import IMessageBus
from natsbroker.interfaces.records import Entry, LogBounds, Record
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.sourceconsumers import OriginDelivery
from natsbroker.jetstream.streams.msgheaders import storable
from natsbroker.wire.text import decoded
from natsbroker.wire.values import Message

ONLY_STORED = -1
"""In place of an index: the answer is not sent if the entries cannot be stored."""

OR_FAILURE = -2
"""
In place of an index: the answer is a refusal that names a message, which may not be durable yet. If
that message cannot be stored, the publisher receives the failure instead.
"""

DUPLICATE = b',"duplicate": true'
"""The end of the answer to a duplicate, behind the sequence, with nats-server's space."""


NAMES_LAST = b",names last"
"""
Marks a refusal as above in a batch, in place of the text behind a sequence. Its index is that of
the last message before it.
"""


class PublishAnswers:
    """The answers of one stream."""

    def __init__(self, stream: str, domain: str) -> None:
        """The answers of a stream in a JetStream domain; empty for none."""
        self._name = json.dumps(stream, ensure_ascii=False)
        middle = f'"domain":{json.dumps(domain)},' if domain else ""
        self._prefix = f'{{"stream":{self._name},{middle}"seq":'.encode()

    def stored(self, sequence: int, tail: bytes = b"") -> bytes:
        """An acknowledgement with a tail behind the sequence."""
        return self._prefix + b"%d%b}" % (sequence, tail)

    def error(self, error: JetStreamError) -> bytes:
        shown = json.dumps(error.toJSON(), ensure_ascii=False, separators=(",", ":"))
        return f'{{"error":{shown},"stream":{self._name},"seq":0}}'.encode()

    def send(
        self,
        bus: IMessageBus,
        publisher: hot.InternalPublisher,
        batch: StreamBatch,
        first: int,
        bounds: Callable[[], LogBounds],
    ) -> None:
        """
        Send the answers of a batch.

        @param publisher: a faster way for acknowledgements.
        @param first: the first sequence of the batch.
        @param bounds: gives the bounds of durable messages.
        """
        answers, sent = batch.answers, 0
        while (sent := publisher.publishAcks(answers, sent, self._prefix, first)) < len(answers):
            reply, answer, place, tail, count = answers[sent]
            isUnsure = tail is DUPLICATE or tail is NAMES_LAST
            if isUnsure and first + place > bounds().last:
                error = errors.STREAM_STORE_FAILED(err="the message before was not stored")
                bus.publishInternal(reply, self.error(error))
            elif answer is not None:
                bus.publishInternal(reply, answer)
            else:
                sequences = range(first + place, first + place + count)
                bus.publishBatch(reply, [self.stored(sequence, tail) for sequence in sequences])
            sent += 1


#: The texts in traces by the error's cause, if they are not the description with the cause.
_TRACED = {10054: "maximum payload exceeded", 10166: "message TTL disabled"}

#: The causes that traces show by their descriptions alone.
_DESCRIBED = frozenset({10060, 10077, 10111})


class StreamTrace:
    """
    A stream's part of the trace of a message (L{natsbroker.accounts.tracing.MessageTrace}).

    @ivar isOnly: whether the message is judged, but not stored.
    """

    def __init__(self, stream: str, trace: Any) -> None:
        self.isOnly: bool = trace.isOnly
        self._stream = stream
        self._trace = trace
        self._isDone = False
        self._judged: dict[str, Any] = {}
        trace.hold()

    def judged(self, subject: bytes, isWanted: bool = True) -> None:
        """
        Note that a message has passed the checks, although it may find no room.

        @param isWanted: whether there is a consumer for it, if the stream stores only messages with
            one.
        """
        shown = decoded(subject)
        self._judged = {"subject": shown, "nointerest": None if isWanted else True}

    def stored(self, subject: bytes) -> None:
        if not self._judged:
            self.judged(subject)
        self._done(**self._judged)

    def refused(self, error: JetStreamError) -> None:
        code, text = error.err_code, error.description
        if code not in _DESCRIBED:
            text = error.traced or _TRACED.get(code) or f"{text} ({code})"
        self._done(**self._judged, error=text)

    def repeated(self) -> None:
        self._done(error="msgid is duplicate")

    def _done(self, **members: Any) -> None:
        if not self._isDone:
            self._isDone = True
            self._trace.add("js", stream=self._stream, **members)
            self._trace.release()


class IRefusedReader(Protocol):
    """A reader whose messages the stream may refuse; C{refusals} counts those."""

    refusals: int

    def goBack(self, sequence: int, error: JetStreamError) -> None:
        """Read again from behind a sequence of the origin, because the stream refused a message."""


class ReadMessage(NamedTuple):
    """
    A message that was read from another stream.

    @ivar refusals: the number of messages from the reader that the stream had refused before this
        one.
    @ivar sequence: in the origin.
    @ivar before: the last sequence of the origin that was taken before.
    @ivar delivery: the delivery of a message to a mirror, which keeps its sequence and time;
        C{None} in other streams.
    @ivar key: of the source, in the positions of the stream; empty for a mirror.
    @ivar identity: of the origin of a source; empty if it does not say.
    """

    reader: IRefusedReader
    refusals: int
    sequence: int
    before: int
    delivery: OriginDelivery | None = None
    key: str = ""
    identity: bytes = b""

    @property
    def isWithdrawn(self) -> bool:
        """
        Whether the message is left out because an earlier one was refused. Both are read again.
        """
        return self.refusals != self.reader.refusals

    def refused(self, error: JetStreamError) -> None:
        self.reader.goBack(self.before, error)


def refuseAll(origins: Sequence[ReadMessage], error: JetStreamError) -> None:
    """Have messages read again that could not be stored."""
    for origin in origins:
        if not origin.isWithdrawn:
            origin.refused(error)


class Arrived(NamedTuple):
    """
    A message as it arrived.

    @ivar headers: the header block; empty without.
    @ivar isSourced: whether this stream took it from a source, or made it itself.
    @ivar place: a message of the stream itself is stored only if C{last} is the last sequence of
        this subject; empty for other messages.
    @ivar trace: the trace of the message; C{None} if it is not traced.
    @ivar origin: of a message that was taken from a source or a mirror's origin; C{None} for
        others.
    @ivar publisher: the connection that it came over; C{None} for those that the broker makes or
        reads itself.
    """

    subject: bytes
    reply: bytes
    headers: bytes
    payload: bytes
    isSourced: bool = False
    place: bytes = b""
    last: int = 0
    trace: StreamTrace | None = None
    origin: ReadMessage | None = None
    publisher: object = None


def tracedIn(stream: str, message: Message) -> Arrived:
    """
    @param message: one with a trace. The copy that is stored is not traced where it is delivered.
    """
    copy, trace = disabled(message), StreamTrace(stream, message.trace)
    body = storable(copy.headers), copy.payload
    return Arrived(copy.subject, copy.reply, *body, trace=trace, publisher=message.origin)


class StreamBatch:
    """
    The messages that were taken in one turn.

    @ivar entries: to append.
    @ivar answers: reply subjects with the answer, or C{None} for acknowledgements. An
        acknowledgement has the place of its first entry (below 0 for an entry of an earlier batch),
        its text after the sequence, and the number of entries.
    @ivar rollups: subjects of which only the newest message stays, with that message's place; an
        empty subject for the whole stream.
    @ivar copies: places of entries that are republished, each with a function that publishes the
        copy, called with the sequence and the entry.
    @ivar unwanted: places of entries to remove. No consumer of an interest stream wants them, but
        the atomic batch that they belong to is stored as a whole.
    @ivar origins: of the entries that were read from another stream, and of those among them that
        were taken as duplicates.
    @ivar newest: the place of the newest entry of each source.
    @ivar before: the positions of the sources before this batch.
    @ivar failures: reply subjects of messages of fast batches, each with a function that ends the
        fast batch if nothing is stored.
    """

    __slots__ = (
        "answers",
        "before",
        "copies",
        "entries",
        "failures",
        "first",
        "newest",
        "origins",
        "rollups",
        "size",
        "unwanted",
    )

    def __init__(self, first: int) -> None:
        self.first = first
        self.entries: list[Entry] = []
        self.answers: list[tuple[bytes, bytes | None, int, bytes, int]] = []
        self.rollups: list[tuple[bytes, int]] = []
        self.copies: list[tuple[int, Callable[[int, Entry], None]]] = []
        self.unwanted: list[int] = []
        self.origins: list[ReadMessage] = []
        self.newest: dict[str, int] = {}
        self.before: dict[str, Any] = {}
        self.failures: list[tuple[bytes, Callable[[], object]]] = []
        self.size = 0

    def passedBy(self, origin: ReadMessage | None) -> None:
        """Note that a message read from another stream was taken without an entry."""
        if origin is not None:
            self.origins.append(origin)

    def sourced(self, origin: ReadMessage) -> None:
        self.origins.append(origin)
        self.newest[origin.key] = len(self.entries) - 1

    def records(self, skip: int) -> list[Record]:
        """The entries as they are stored; C{skip} bytes precede a header block."""
        if hot.storedRecords is not None:
            records: list[Record] = hot.storedRecords(Record, self.entries, self.first, skip)
            return records
        return [
            Record(sequence, timestamp, subject, headers[skip:] if headers else b"", payload)
            for sequence, (subject, headers, payload, timestamp) in enumerate(
                self.entries, self.first
            )
        ]


def answersOfFailed(batch: StreamBatch, text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The answers for a batch that could not be stored, with their reply subjects."""
    for reply, answer, place, tail, count in batch.answers:
        if answer is None or tail is NAMES_LAST:
            for _ in range(count):
                yield reply, text
        elif place != ONLY_STORED:
            yield reply, answer


#: The error codes of messages that expect another last sequence or message id.
_NAMES_LAST = frozenset({10070, 10071})


def refusalPlace(error: JetStreamError) -> int:
    """The place in a batch for an answer with an error."""
    return OR_FAILURE if error.err_code in _NAMES_LAST else 0


def storeFailed(failure: Failure) -> JetStreamError:
    return errors.STREAM_STORE_FAILED(err=str(failure.value))
