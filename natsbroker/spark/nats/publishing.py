"""
Publishing to a stream, with many messages on their way at once and each acknowledged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from natsbroker.spark.errors import ApiError, BadMessage, DataSourceError
from natsbroker.spark.logs.streams import apiFields
from natsbroker.spark.nats.connection import BlockingConnection
from natsbroker.spark.nats.pipelining import Pipeline
from natsbroker.wire.headers import Headers

#: Told the sequence that a message has, and whether the stream had it already.
Stored = Callable[[int, bool], object]

#: Told why the stream does not take a message.
Refused = Callable[[ApiError], object]


class Publication(NamedTuple):
    """
    @ivar block: its headers.
    """

    subject: str
    data: bytes
    block: bytes
    onStored: Stored | None
    onRefused: Refused | None


class Publisher:
    """
    @ivar stored: how many messages the stream has acknowledged, those that it had included.
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
        Publish one message; waits while too many are on their way.

        @param msgId: what the stream knows a repetition by.
        @param onRefused: called in place of an error.
        @raise BadMessage: if it cannot be published; then it was not sent.
        """
        pairs = list(headers)
        try:
            block = self._block(pairs, msgId) if pairs or msgId else self._plain
        except ValueError as error:
            raise BadMessage(f"{self.what}: {error}") from None
        size = len(block) + len(data)
        if 0 < self._limit < size:
            raise BadMessage(
                f"{self.what}: a message to {subject} has {size} bytes with its headers, and"
                f" the server takes {self._limit}"
            )
        self.take(Publication(subject, data, block, onStored, onRefused))

    def take(self, one: Publication) -> None:
        try:
            onAnswer = partial(self._answered, one)
            subject = one.subject.encode("utf-8")
            self.pipeline.send(self.what, onAnswer, subject, one.data, one.block)
        except ValueError as error:
            if isinstance(error, DataSourceError):
                raise
            raise BadMessage(f"{self.what}: {error}") from None

    def finish(self) -> None:
        self.pipeline.finish()

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
            raise ApiError(f"{what} there: {taker!r} took it")
        if not isinstance(sequence, int):
            raise ApiError(f"{what}: the answer makes no sense")
        return sequence, answer.get("duplicate") is True
