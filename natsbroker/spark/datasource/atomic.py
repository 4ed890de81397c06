"""
Publishing in atomic batches: messages that a stream stores together, or not at all.

nats-server has them since 2.12, and so has our own JetStream, for streams with C{allow_atomic}.
"""

from __future__ import annotations

import secrets
import time

from natsbroker.spark.errors import ApiError, BadMessage, DataSourceError
from natsbroker.spark.logs.streams import apiFields
from natsbroker.spark.nats.connection import BlockingConnection
from natsbroker.spark.nats.publishing import Publication, Publisher
from natsbroker.wire.serverside import publishLine

#: The most messages of a batch, which is the limit of servers, and about how many bytes.
_MOST, _BYTES = 1000, 4 << 20

#: What servers say when a message with an id of the batch is stored, and when too many batches of
#: others are open; for how many seconds a batch waits then, and how often it tries.
_DUPLICATE, _BUSY = 10201, (10210, 10211)
_PATIENCE, _PAUSE = 10.0, 0.1


class AtomicPublisher(Publisher):
    """
    A batch that the stream refuses because it has some of its messages, or whose
    refused messages are wanted, is published message by message.
    """

    def __init__(self, connection: BlockingConnection, stream: str, window: int) -> None:
        super().__init__(connection, stream, window)
        self._connection = connection
        self._chunk: list[Publication] = []
        self._size = 0

    def take(self, one: Publication) -> None:
        try:
            publishLine(one.subject.encode("utf-8"), b"", 0, 0)
        except ValueError as error:
            raise BadMessage(f"{self.what}: {error}") from None
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
        for each in chunk:
            super().take(each)
        super().finish()

    def _send(self, chunk: list[Publication]) -> None:
        name = secrets.token_hex(16)
        first, last = chunk[0], chunk[-1]
        # A stream that has no batches says so to the first message, and to the others what follows.
        if first is not last:
            answer = self._asked(first, _batch(name, 1))
            if answer:
                self._refused(answer)
        middle: list[bytes] = []
        for number, each in enumerate(chunk[1:-1], 2):
            block = each.block[:-2] + _batch(name, number)
            sizes = len(block), len(block) + len(each.data)
            line = publishLine(each.subject.encode("utf-8"), b"", *sizes)
            middle += (line, block, each.data, b"\r\n")
        if middle:
            self._connection.send(*middle)
        answer = self._asked(last, _batch(name, len(chunk), True))
        fields = self._refused(answer)
        if fields.get("batch") != name or fields.get("count") != len(chunk):
            raise DataSourceError(f"{self.what}: a batch was stored in part: {fields}")

    def _asked(self, message: Publication, more: bytes) -> bytes:
        reply = self._connection.ask(message.subject, message.data, message.block[:-2] + more)
        _, body = self._connection.answer(reply, message.subject)
        return body

    def _refused(self, answer: bytes) -> dict[str, object]:
        return apiFields(answer, f"{self.what}: a batch was not stored")


def _batch(name: str, number: int, isLast: bool = False) -> bytes:
    commit = "Nats-Batch-Commit: 1\r\n" if isLast else ""
    return f"Nats-Batch-Id: {name}\r\nNats-Batch-Sequence: {number}\r\n{commit}\r\n".encode()
