"""
Reading a channel of NATS Streaming as any of its clients reads it: by a subscription. This is for
servers that answer no requests for ranges, such as nats-streaming-server.

The protocol has no question for how much there is. So the end is the message that a subscription to
the last one brings, and a channel that has brought nothing for a while counts as empty.
"""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from natsbroker.spark.errors import ApiError, DataLoss, DataSourceError, TimedOut
from natsbroker.spark.logs.reading import Loss
from natsbroker.spark.nats.connection import BlockingConnection
from natsbroker.spark.nats.protobuf import Malformed, decode, encode
from natsbroker.spark.nats.stan import StanClient, textOf
from natsbroker.spark.tables.filing import SCHEMA
from natsbroker.wire.serverside import publishLine

__all__ = ["ChannelReader"]

#: The fields of the answer to ConnectRequest, and of SubscriptionRequest, UnsubscribeRequest,
#: SubscriptionResponse, MsgProto and Ack that are used.
_SUBSCRIBE_AT, _UNSUBSCRIBE_AT = 2, 3
_ID, _SUBJECT, _INBOX, _IN_FLIGHT, _ACK_WAIT, _POSITION, _START = 1, 2, 4, 5, 6, 10, 11
_LEAVING_INBOX = 3
_ACK_INBOX, _ERROR = 2, 3
_SEQUENCE, _CHANNEL, _REPLY, _DATA, _TIMESTAMP, _CRC = 1, 2, 3, 4, 5, 10
_ACK_CHANNEL, _ACK_SEQUENCE = 1, 2

_LAST, _SEQUENCE_START = 1, 3

#: After so long the server sends again what was not acknowledged, in seconds.
_PATIENCE = 60


class ChannelReader:
    """
    Reads one channel over one connection, as a client of NATS Streaming of its own.
    """

    def __init__(
        self,
        connection: BlockingConnection,
        channel: str,
        clusterId: str,
        discoverPrefix: str,
        window: int = 1024,
    ) -> None:
        """
        @param window: how many messages may wait to be acknowledged.
        @raise ApiError: if the cluster is not there, or does not let us in.
        """
        self._connection = connection
        self._channel = channel
        self._window = window
        self._client = StanClient(connection, channel, clusterId, discoverPrefix)
        self._inbox = b""
        self._ackInbox = b""

    def __enter__(self) -> ChannelReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def last(self) -> int:
        """
        The last sequence; 0 if the channel is empty.
        """
        self._subscribe({_POSITION: _LAST}, 1)
        try:
            fields = self._message()
        except TimedOut:
            return 0
        finally:
            self._unsubscribe()
        return _number(fields, _SEQUENCE)

    def batches(
        self,
        start: int,
        stop: int,
        known: int = 0,
        onLoss: Callable[[str], object] | None = None,
    ) -> Iterator[Any]:
        """
        The messages of a range, as Arrow batches with the columns of archives.

        @param known: when the one before C{start} was stored, in nanoseconds since 1970; 0 if
            nobody knows, because the channel is read from its beginning.
        @param onLoss: told of what is not stored any more; by default that is an error.
        @raise DataLoss: if something is missing, or the channel is another one.
        """
        if start >= stop:
            return
        first = start - 1 if known else start
        self._subscribe({_POSITION: _SEQUENCE_START, _START: first}, self._window)
        cursor, isBegun = start, bool(known)
        rows: list[dict[str, Any]] = []
        acks: list[bytes] = []
        while cursor < stop:
            fields = self._waited(cursor, stop)
            seq = _number(fields, _SEQUENCE)
            acks.append(self._ack(seq))
            if known and seq == start - 1 and _number(fields, _TIMESTAMP) != known:
                raise DataLoss(
                    f"channel {self._channel}: the message {seq} is another one than when it was"
                    " copied: the channel was deleted and made again"
                )
            if cursor <= seq < stop:
                if seq > cursor and isBegun:
                    self._lose(cursor, seq, onLoss)
                isBegun = True
                rows.append(self._row(seq, fields))
            cursor = max(cursor, seq + 1)
            if len(acks) >= max(self._window // 2, 1) or cursor >= stop:
                self._connection.send(*acks)
                if rows:
                    yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
                acks, rows = [], []

    def _lose(self, start: int, stop: int, onLoss: Callable[[str], object] | None) -> None:
        text = f"channel {self._channel}: sequences {start} to {stop - 1} are not stored any more"
        if onLoss is None:
            raise DataLoss(f"{text}; failOnDataLoss=false goes on without them")
        onLoss(Loss.of(text, (start, stop)))

    def _row(self, seq: int, fields: Mapping[int, bytes | int]) -> dict[str, Any]:
        data, when = fields.get(_DATA, b""), _number(fields, _TIMESTAMP)
        checksum = _number(fields, _CRC)
        if not isinstance(data, bytes) or (checksum and checksum != zlib.crc32(data)):
            raise DataSourceError(f"channel {self._channel}: the message {seq} is damaged")
        reply = textOf(fields.get(_REPLY))
        return {
            "seq": seq,
            "subject": textOf(fields.get(_CHANNEL)),
            "data": data,
            "time": when // 1000,
            "headers": [{"key": "Stan-Reply", "value": reply}] if reply else [],
            "time_ns": when,
        }

    def _subscribe(self, position: dict[int, bytes | int], window: int) -> None:
        self._inbox = self._connection.inbox(f"channel{secrets.token_hex(4)}")
        asked = {
            _ID: self._client.id,
            _SUBJECT: self._channel.encode("utf-8"),
            _INBOX: self._inbox,
            _IN_FLIGHT: window,
            _ACK_WAIT: _PATIENCE,
            **position,
        }
        answer = self._client.ask(textOf(self._client.answer.get(_SUBSCRIBE_AT)), asked)
        error = textOf(answer.get(_ERROR))
        if error:
            raise ApiError(f"channel {self._channel}: {error}")
        self._ackInbox = textOf(answer.get(_ACK_INBOX)).encode("utf-8")

    def _unsubscribe(self) -> None:
        asked: dict[int, bytes | int] = {
            _ID: self._client.id,
            _SUBJECT: self._channel.encode("utf-8"),
            _LEAVING_INBOX: self._ackInbox,
        }
        self._client.ask(textOf(self._client.answer.get(_UNSUBSCRIBE_AT)), asked)

    def _ack(self, seq: int) -> bytes:
        payload = encode({_ACK_CHANNEL: self._channel.encode("utf-8"), _ACK_SEQUENCE: seq})
        return publishLine(self._ackInbox, b"", 0, len(payload)) + payload + b"\r\n"

    def _waited(self, cursor: int, stop: int) -> Mapping[int, bytes | int]:
        try:
            return self._message()
        except TimedOut as error:
            raise TimedOut(
                f"channel {self._channel}: {stop - cursor} messages did not come: {error}"
            ) from None

    def _message(self) -> Mapping[int, bytes | int]:
        """
        The next message of the subscription.
        """
        while True:
            subject, reply, headerLength, body = self._connection.anyMessage()
            if subject == self._inbox:
                try:
                    return decode(body[headerLength:])
                except Malformed:
                    raise ApiError(f"channel {self._channel}: a message makes no sense") from None
            self._client.heard(subject, reply)


def _number(fields: Mapping[int, bytes | int], field: int) -> int:
    value = fields.get(field, 0)
    return value if isinstance(value, int) else 0
