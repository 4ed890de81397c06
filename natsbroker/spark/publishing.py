"""
Publishing to a stream, with many messages on their way at once and each acknowledged.

Promises: when L{Publisher.finish} returns, the stream has stored every message, or had it already
under its id; a message that it does not take is an error that says which and why. Nothing is stored
in another stream than the one that was named.
Must never know: Spark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from natsbroker.spark.connection import Connection
from natsbroker.spark.errors import ApiError, SourceError, TimedOut
from natsbroker.wire.headers import Headers

__all__ = ["Publisher"]

#: So many bytes are collected before they are sent.
_CHUNK = 1 << 17


class Publisher:
    """
    Publishes over one connection.

    @ivar stored: how many messages the stream has acknowledged, those that it had included.
    @ivar duplicates: how many of them it had already.
    """

    def __init__(self, connection: Connection, stream: str, window: int) -> None:
        """
        @param window: how many messages may wait for their acknowledgement.
        """
        self.stored = 0
        self.duplicates = 0
        self._connection = connection
        self._stream = stream
        self._window = window
        self._limit = int(connection.info.get("max_payload") or 0)
        self._waiting: dict[bytes, str] = {}
        self._pieces: list[bytes] = []
        self._size = 0
        #: What a server says of a message that it has stored, as servers write it.
        self._answer = re.compile(
            rb'\{"stream":%b, ?"seq":\d+(?:, ?"domain":"[^"\\]*")?(, ?"duplicate": ?true)?\}'
            % re.escape(json.dumps(stream).encode())
        )
        self._plain = Headers({"Nats-Expected-Stream": stream}).block()

    def publish(
        self,
        subject: str,
        data: bytes,
        headers: Iterable[tuple[str, str]] = (),
        msgId: str | None = None,
    ) -> None:
        """
        Publish one message; waits while too many are on their way.

        @param msgId: what the stream knows a repetition by.
        @raise SourceError: if it cannot be published, or an earlier one was not stored.
        """
        pairs = list(headers)
        try:
            block = self._block(pairs, msgId) if pairs or msgId else self._plain
            reply, pieces = self._connection.composed(subject.encode("utf-8"), data, block)
        except ValueError as error:
            raise SourceError(f"stream {self._stream}: {error}") from None
        size = len(block) + len(data)
        if 0 < self._limit < size:
            raise SourceError(
                f"stream {self._stream}: a message to {subject} has {size} bytes with its headers,"
                f" and the server takes {self._limit}"
            )
        self._waiting[reply] = subject
        self._pieces += pieces
        self._size += size
        if self._size >= _CHUNK:
            self._flush()
        if len(self._waiting) >= self._window:
            self._collect(self._window // 2)

    def finish(self) -> None:
        """
        Wait for every acknowledgement.

        @raise SourceError: if a message was not stored.
        """
        self._collect(0)

    def _block(self, pairs: list[tuple[str, str]], msgId: str | None) -> bytes:
        """
        Ours stand first, where the server looks for them.
        """
        if msgId and not pairs and "\r" not in msgId and "\n" not in msgId:
            return self._plain[:-2] + b"Nats-Msg-Id: %b\r\n\r\n" % msgId.encode("utf-8")
        ours = [("Nats-Expected-Stream", self._stream)]
        if msgId:
            ours.append(("Nats-Msg-Id", msgId))
        return Headers(ours + pairs).block()

    def _flush(self) -> None:
        if self._pieces:
            self._connection.send(*self._pieces)
            self._pieces.clear()
            self._size = 0

    def _collect(self, left: int) -> None:
        self._flush()
        while len(self._waiting) > left:
            try:
                reply, headerLength, body = self._connection.anyAnswer()
            except TimedOut as error:
                count = len(self._waiting)
                raise TimedOut(
                    f"stream {self._stream}: {count} messages were not acknowledged: {error}"
                ) from None
            subject = self._waiting.pop(reply, None)
            if subject is not None:
                self._acknowledged(subject, headerLength, body)

    def _acknowledged(self, subject: str, headerLength: int, body: bytes) -> None:
        plain = self._answer.fullmatch(body, headerLength)
        if plain is not None:
            self.stored += 1
            self.duplicates += plain[1] is not None
            return
        what = f"stream {self._stream}: a message to {subject} was not stored"
        if headerLength and headerLength == len(body):
            raise ApiError(f"{what}: no stream takes its subject", 503)
        try:
            answer = json.loads(body[headerLength:])
            refusal = answer.get("error")
            taker = answer.get("stream")
        except (ValueError, AttributeError, RecursionError):
            raise ApiError(f"{what}: the answer makes no sense") from None
        if refusal is not None:
            why = refusal.get("description") if isinstance(refusal, dict) else None
            code = refusal.get("err_code", 0) if isinstance(refusal, dict) else 0
            raise ApiError(f"{what}: {why or 'refused'}", code if isinstance(code, int) else 0)
        if taker != self._stream:
            raise ApiError(f"{what} there: {taker!r} took it")
        self.stored += 1
        self.duplicates += answer.get("duplicate") is True
