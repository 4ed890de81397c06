"""
Reading a channel of NATS Streaming as any of its clients reads it: by a subscription. This is for
servers that answer no requests for ranges, such as nats-streaming-server.

The protocol has no question for how much there is. So the end is the message that a subscription to
the last one brings, and a channel that has brought nothing for a while counts as empty.
"""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from natsbroker.spark.errors import ApiError, DataLoss, DataSourceError, TimedOut
from natsbroker.spark.logs.reading import OnLoss, lose
from natsbroker.spark.nats.stan import StanClient
from natsbroker.spark.tables.checking import SCHEMA
from natsbroker.streaming.protocol import (
    LAST_RECEIVED,
    SEQUENCE_START,
    Ack,
    Malformed,
    MsgProto,
    SubscriptionRequest,
    SubscriptionResponse,
    UnsubscribeRequest,
)
from natsbroker.wire.serverside import publishLine

#: After so long the server sends again what was not acknowledged, in seconds.
_PATIENCE = 60


class ChannelReader(StanClient):
    _inbox = b""
    _ackInbox = ""

    def __enter__(self) -> ChannelReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def last(self) -> int:
        self._subscribe(1, startPosition=LAST_RECEIVED)
        try:
            return int(self._message().sequence)
        except TimedOut:
            return 0
        finally:
            self._unsubscribe()

    def batches(
        self,
        start: int,
        stop: int,
        known: int = 0,
        onLoss: OnLoss | None = None,
        window: int = 1024,
    ) -> Iterator[Any]:
        """
        The messages of a range, as Arrow batches with the columns of archives.

        @param known: when the one before C{start} was stored, in nanoseconds since 1970; 0 if
            nobody knows, because the channel is read from its beginning.
        @param onLoss: told of what is not stored any more; by default that is an error.
        @param window: how many the server may send before they are acknowledged.
        @raise DataLoss: if something is missing, or the channel is another one.
        """
        if start >= stop:
            return
        first = start - 1 if known else start
        self._subscribe(window, startPosition=SEQUENCE_START, startSequence=first)
        cursor, isBegun = start, bool(known)
        rows: list[dict[str, Any]] = []
        acks: list[bytes] = []
        while cursor < stop:
            message = self._waited(cursor, stop)
            seq = message.sequence
            acks.append(self._ack(seq))
            if known and seq == start - 1 and message.timestamp != known:
                raise DataLoss(
                    f"channel {self._channel}: the message {seq} is another one than when it was"
                    " copied: the channel was deleted and made again"
                )
            if cursor <= seq < stop:
                if seq > cursor and isBegun:
                    gone = f"sequences {cursor} to {seq - 1} are not stored any more"
                    lose(f"channel {self._channel}: {gone}", onLoss, (cursor, seq))
                isBegun = True
                rows.append(self._row(message))
            cursor = max(cursor, seq + 1)
            if len(acks) >= max(window // 2, 1) or cursor >= stop:
                self.connection.send(*acks)
                if rows:
                    yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
                acks, rows = [], []

    def _row(self, message: Any) -> dict[str, Any]:
        data, when, reply = message.data, message.timestamp, message.reply
        if message.CRC32 and zlib.crc32(data) != message.CRC32:
            raise DataSourceError(
                f"channel {self._channel}: the message {message.sequence} is damaged"
            )
        return {
            "seq": message.sequence,
            "subject": message.subject,
            "data": data,
            "time": when // 1000,
            "headers": [{"key": "Stan-Reply", "value": reply}] if reply else [],
            "time_ns": when,
        }

    def _subscribe(self, window: int, **position: int) -> None:
        self._inbox = self.connection.inbox(f"channel{secrets.token_hex(4)}")
        request = SubscriptionRequest(
            clientID=self.id,
            subject=self._channel,
            inbox=self._inbox,
            maxInFlight=window,
            ackWaitInSecs=_PATIENCE,
            **position,
        )
        answer = self.ask(self.answer.subRequests, request, SubscriptionResponse)
        if answer.error:
            raise ApiError(f"channel {self._channel}: {answer.error}")
        self._ackInbox = answer.ackInbox

    def _unsubscribe(self) -> None:
        request = UnsubscribeRequest(clientID=self.id, subject=self._channel, inbox=self._ackInbox)
        self.ask(self.answer.unsubRequests, request, SubscriptionResponse)

    def _ack(self, seq: int) -> bytes:
        payload: bytes = Ack(subject=self._channel, sequence=seq).SerializeToString()
        return publishLine(self._ackInbox.encode(), b"", 0, len(payload)) + payload + b"\r\n"

    def _waited(self, cursor: int, stop: int) -> Any:
        try:
            return self._message()
        except TimedOut as error:
            raise TimedOut(
                f"channel {self._channel}: {stop - cursor} messages did not come: {error}"
            ) from None

    def _message(self) -> Any:
        while True:
            subject, reply, headerLength, body = self.connection.anyMessage()
            if subject == self._inbox:
                try:
                    return MsgProto.FromString(body[headerLength:])
                except Malformed:
                    raise ApiError(f"channel {self._channel}: a message makes no sense") from None
            self.heard(subject, reply)
