"""Publishing to a stream, with messages in parallel or in atomic batches."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from natsbroker.spark.errors import ApiError, BadMessage, DataSourceError, TimedOut
from natsbroker.spark.logs.apis import apiFields
from natsbroker.spark.nats.connection import BlockingConnection
from natsbroker.wire.headers import Headers
from natsbroker.wire.serverside import publishLine

#: The bytes that are collected before they are sent.
_CHUNK = 1 << 17


#: Told how many bytes of an answer are headers, and the bytes.
OnAnswer = Callable[[int, bytes], object]


@dataclass
class Pipeline:
    """
    @ivar window: how many requests may wait for their answers.
    @ivar onOther: told the subject, the reply subject and the bytes of whatever else comes.
    @ivar keyOf: the key of an answer's request, by its subject and its bytes.
    """

    connection: BlockingConnection
    window: int
    onOther: Callable[[bytes, bytes, bytes], object] = lambda subject, reply, body: None
    keyOf: Callable[[bytes, bytes], bytes] = lambda subject, body: subject
    _waiting: dict[bytes, tuple[str, OnAnswer]] = field(default_factory=dict)
    _pieces: list[bytes] = field(default_factory=list)
    _size: int = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def send(
        self,
        what: str,
        onAnswer: OnAnswer,
        subject: bytes,
        payload: bytes,
        headers: bytes = b"",
        reply: bytes = b"",
        key: bytes = b"",
    ) -> None:
        """
        Send a request; waits while too many are on their way.

        @param what: the topic, for errors.
        @param reply: where the answer comes; a subject of its own if it is not given.
        @param key: the result of C{keyOf} for the answer; by default its subject.
        """
        ownSubject, pieces = self.connection.composed(subject, payload, headers, reply)
        self._waiting[key or ownSubject] = what, onAnswer
        self._pieces += pieces
        self._size += len(headers) + len(payload)
        if self._size >= _CHUNK:
            self.flush()
        if len(self._waiting) >= self.window:
            self._collect(self.window // 2)

    def finish(self) -> None:
        self._collect(0)

    def rest(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Send nothing new for a time. Answers and requests of the server are handled meanwhile."""
        self.flush()
        deadline = clock() + seconds
        while clock() < deadline:
            try:
                self._take(deadline)
            except TimedOut:
                return

    def flush(self) -> None:
        if self._pieces:
            self.connection.send(*self._pieces)
            self._pieces.clear()
            self._size = 0

    def _collect(self, left: int) -> None:
        self.flush()
        while len(self._waiting) > left:
            try:
                self._take(None)
            except TimedOut as error:
                what, _ = next(iter(self._waiting.values()))
                count = len(self._waiting)
                raise TimedOut(f"{what}: {count} messages were not acknowledged: {error}") from None

    def _take(self, deadline: float | None) -> None:
        subject, reply, headerLength, body = self.connection.anyMessage(deadline)
        waiting = self._waiting.pop(self.keyOf(subject, body), None)
        if waiting is None:
            self.onOther(subject, reply, body)
        else:
            waiting[1](headerLength, body)


#: Told the sequence that a message has, and whether the stream had it already.
Stored = Callable[[int, bool], object]

#: Told why the stream does not take a message.
Refused = Callable[[ApiError], object]


class Publication(NamedTuple):
    subject: str
    data: bytes
    block: bytes
    onStored: Stored | None
    onRefused: Refused | None


class Publisher:
    """
    @ivar stored: how many messages the stream has acknowledged, duplicates included.
    @ivar duplicates: how many of them it had already.
    """

    def __init__(
        self,
        connection: BlockingConnection,
        stream: str,
        window: int,
        pipeline: Pipeline | None = None,
    ) -> None:
        self.what = f"stream {stream}"
        self.stored = 0
        self.duplicates = 0
        self.pipeline = pipeline or Pipeline(connection, window)
        self._stream = stream
        self._limit = int(connection.info.get("max_payload") or 0)
        #: An acknowledgement of a stored message, as servers write it.
        self._answer = re.compile(
            rb'\{"stream":%b, ?"seq":(\d+)(?:, ?"domain":"[^"\\]*")?(, ?"duplicate": ?true)?\}'
            % re.escape(json.dumps(stream).encode())
        )
        self._plain = Headers({"Nats-Expected-Stream": stream}).block()

    def publish(
        self,
        subject: str,
        data: bytes,
        headers: Iterable[tuple[str, str]] = (),
        msgId: str | None = None,
        onStored: Stored | None = None,
        onRefused: Refused | None = None,
    ) -> None:
        """
        @param msgId: the stream's key for a repetition.
        @param onRefused: called in place of an error.
        @raise BadMessage: if it cannot be published; then it was not sent.
        """
        pairs = list(headers)
        try:
            block = self._block(pairs, msgId) if pairs or msgId else self._plain
            size = len(block) + len(data)
            if 0 < self._limit < size:
                raise BadMessage(
                    f"{self.what}: a message to {subject} has {size} bytes with its headers, and"
                    f" the server takes {self._limit}"
                )
            self.take(Publication(subject, data, block, onStored, onRefused))
        except DataSourceError:
            raise
        except ValueError as error:
            raise BadMessage(f"{self.what}: {error}") from None

    def take(self, one: Publication) -> None:
        onAnswer, subject = partial(self._answered, one), one.subject.encode("utf-8")
        self.pipeline.send(self.what, onAnswer, subject, one.data, one.block)

    def finish(self) -> None:
        self.pipeline.finish()

    def _block(self, pairs: list[tuple[str, str]], msgId: str | None) -> bytes:
        if msgId and not pairs and "\r" not in msgId and "\n" not in msgId:
            return self._plain[:-2] + b"Nats-Msg-Id: %b\r\n\r\n" % msgId.encode("utf-8")
        ours = [("Nats-Expected-Stream", self._stream)]
        if msgId:
            ours.append(("Nats-Msg-Id", msgId))
        return Headers(ours + pairs).block()

    def _answered(self, one: Publication, headerLength: int, body: bytes) -> None:
        try:
            sequence, isDuplicate = self._acknowledged(one, headerLength, body)
        except ApiError as error:
            if one.onRefused is None:
                raise
            one.onRefused(error)
            return
        self.stored += 1
        self.duplicates += isDuplicate
        if one.onStored is not None:
            one.onStored(sequence, isDuplicate)

    def _acknowledged(self, one: Publication, headerLength: int, body: bytes) -> tuple[int, bool]:
        plain = self._answer.fullmatch(body, headerLength)
        if plain is not None:
            return int(plain[1]), plain[2] is not None
        what = f"{self.what}: a message to {one.subject} was not stored"
        if headerLength and headerLength == len(body):
            raise ApiError(f"{what}: no stream takes its subject", 503)
        answer = apiFields(body[headerLength:], what)
        taker, sequence = answer.get("stream"), answer.get("seq")
        if taker != self._stream:
            raise ApiError(f"{what} there: the stream {taker!r} took it")
        if not isinstance(sequence, int):
            raise ApiError(f"{what}: the answer is malformed")
        return sequence, answer.get("duplicate") is True


#: The most messages of a batch, which is the limit of servers, and about how many bytes.
_MOST, _BYTES = 1000, 4 << 20

#: The answers of servers when a message with an id of the batch is stored, and when too many
#: batches of others are open; for how many seconds a batch waits then, and how often it tries.
_DUPLICATE, _BUSY = 10201, (10210, 10211)
_PATIENCE, _PAUSE = 10.0, 0.1


class AtomicPublisher(Publisher):
    """
    Publishes in batches that are stored together or not at all (nats-server 2.12). If a batch is
    refused because of duplicates, or refused messages must be known singly, its messages are
    published one by one.
    """

    def __init__(self, connection: BlockingConnection, stream: str, window: int) -> None:
        super().__init__(connection, stream, window)
        self._connection = connection
        self._chunk: list[Publication] = []
        self._size = 0

    def take(self, one: Publication) -> None:
        publishLine(one.subject.encode("utf-8"), b"", 0, 0)
        self._chunk.append(one)
        self._size += len(one.block) + len(one.data)
        if len(self._chunk) >= _MOST or self._size >= _BYTES:
            self._commit()

    def finish(self) -> None:
        if self._chunk:
            self._commit()

    def _commit(self) -> None:
        chunk, self._chunk, self._size = self._chunk, [], 0
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                self._send(chunk)
                self.stored += len(chunk)
                return
            except ApiError as error:
                if error.code in _BUSY and time.monotonic() < deadline:
                    time.sleep(_PAUSE)
                    continue
                if error.code != _DUPLICATE and chunk[0].onRefused is None:
                    raise
                break
        for message in chunk:
            super().take(message)
        super().finish()

    def _send(self, chunk: list[Publication]) -> None:
        name, what = secrets.token_hex(16), f"{self.what}: a batch was not stored"
        fields: dict[str, object] = {}
        lines: list[bytes] = []
        for number, message in enumerate(chunk, 1):
            isLast = number == len(chunk)
            commit = "Nats-Batch-Commit: 1\r\n" if isLast else ""
            batch = f"Nats-Batch-Id: {name}\r\nNats-Batch-Sequence: {number}\r\n{commit}\r\n"
            block = message.block[:-2] + batch.encode()
            # A stream that has no batches says so to the first, and to the others what follows.
            if number == 1 or isLast:
                self._connection.send(*lines)
                reply = self._connection.ask(message.subject, message.data, block)
                _, body = self._connection.answer(reply, message.subject)
                fields = apiFields(body, what) if body or isLast else fields
                lines = []
            else:
                sizes = len(block), len(block) + len(message.data)
                line = publishLine(message.subject.encode("utf-8"), b"", *sizes)
                lines += (line, block, message.data, b"\r\n")
        if fields.get("batch") != name or fields.get("count") != len(chunk):
            raise DataSourceError(f"{self.what}: a batch was stored in part: {fields}")
