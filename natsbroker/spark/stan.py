"""
Publishing to a channel of NATS Streaming, with many messages on their way and each acknowledged.

Promises: when L{ChannelPublisher.finish} returns, the channel has stored every message; one that it
does not take is an error that says why. The client is gone from the broker when it is closed.
Must never know: Spark.
"""

from __future__ import annotations

import secrets

from natsbroker.spark.connection import Connection
from natsbroker.spark.errors import ApiError, ConnectionFailed, SourceError, TimedOut
from natsbroker.spark.protobuf import Malformed, decode, encode

__all__ = ["ChannelPublisher"]

_CHUNK = 1 << 17

#: The fields of ConnectRequest, ConnectResponse, CloseRequest, PubMsg and PubAck that are used.
_ID, _HEARTBEATS, _PROTOCOL, _CONNECTION = 1, 2, 3, 4
_PUBLISH_TO, _CLOSE_AT, _CONNECT_ERROR = 1, 4, 5
_GUID, _CHANNEL, _DATA, _MESSAGE_CONNECTION = 2, 3, 5, 6
_ACK_GUID, _ACK_ERROR = 1, 2


class ChannelPublisher:
    """
    Publishes to one channel over one connection, as a client of NATS Streaming of its own.

    @ivar stored: how many messages the channel has acknowledged.
    """

    def __init__(
        self, connection: Connection, channel: str, clusterId: str, discoverPrefix: str, window: int
    ) -> None:
        """
        @param discoverPrefix: where clients connect.
        @param window: how many messages may wait for their acknowledgement.
        @raise ApiError: if the cluster is not there, or does not let us in.
        """
        self.stored = 0
        self._connection = connection
        self._channel = channel
        self._window = window
        self._limit = int(connection.info.get("max_payload") or 0)
        self._waiting: set[bytes] = set()
        self._pieces: list[bytes] = []
        self._size = 0
        self._id = f"natsbroker-spark-{secrets.token_hex(8)}".encode()
        self._connId = secrets.token_bytes(16)
        # The fields stand in the order of their numbers, and all answers come to one subject, as
        # with every client: what is alike, the broker takes together.
        self._before = encode({_ID: self._id})
        self._between = encode({_CHANNEL: channel.encode()})
        self._behind = encode({_MESSAGE_CONNECTION: self._connId})
        self._acknowledgements = connection.inbox(f"acks{secrets.token_hex(4)}")
        self._heartbeats = connection.inbox("heartbeats")
        answer = self._ask(
            f"{discoverPrefix}.{clusterId}",
            {
                _ID: self._id,
                _HEARTBEATS: self._heartbeats,
                _PROTOCOL: 1,
                _CONNECTION: self._connId,
            },
            clusterId,
        )
        error = answer.get(_CONNECT_ERROR)
        if error:
            raise ApiError(f"channel {channel}: the cluster {clusterId} refuses: {_text(error)}")
        self._subject = f"{_text(answer.get(_PUBLISH_TO))}.{channel}".encode()
        self._closeAt = _text(answer.get(_CLOSE_AT))

    def _ask(
        self, subject: str, fields: dict[int, bytes | int], clusterId: str
    ) -> dict[int, bytes | int]:
        try:
            return decode(self._connection.request(subject, encode(fields)))
        except ApiError as error:
            if error.code != 503:
                raise
            raise ApiError(
                f"channel {self._channel}: nobody answers {subject}: there is no NATS Streaming"
                f" with the cluster id {clusterId}, or not for this account",
                503,
            ) from None
        except Malformed:
            raise ApiError(f"channel {self._channel}: the answer makes no sense") from None

    def publish(self, data: bytes) -> None:
        """
        Publish one message; waits while too many are on their way.

        @raise SourceError: if an earlier one was not stored.
        """
        guid = b"%x" % self._number()
        payload = b"".join(
            (
                self._before,
                encode({_GUID: guid}),
                self._between,
                encode({_DATA: data}),
                self._behind,
            )
        )
        if 0 < self._limit < len(payload):
            raise SourceError(
                f"channel {self._channel}: a message has {len(payload)} bytes with its envelope,"
                f" and the server takes {self._limit}"
            )
        _, pieces = self._connection.composed(self._subject, payload, b"", self._acknowledgements)
        self._waiting.add(guid)
        self._pieces += pieces
        self._size += len(payload)
        if self._size >= _CHUNK:
            self._flush()
        if len(self._waiting) >= self._window:
            self._collect(self._window // 2)

    def _number(self) -> int:
        return self.stored + len(self._waiting) + 1

    def finish(self) -> None:
        """
        Wait for every acknowledgement.

        @raise SourceError: if a message was not stored.
        """
        self._collect(0)

    def close(self) -> None:
        """
        Tell the broker that this client ends. What it does not hear of, it finds out by itself.
        """
        if not self._closeAt:
            return
        try:
            self._connection.request(self._closeAt, encode({_ID: self._id}))
        except (ApiError, ConnectionFailed, TimedOut):
            return

    def _flush(self) -> None:
        if self._pieces:
            self._connection.send(*self._pieces)
            self._pieces.clear()
            self._size = 0

    def _collect(self, left: int) -> None:
        self._flush()
        while len(self._waiting) > left:
            try:
                subject, answerTo, body = self._connection.anyMessage()
            except TimedOut as error:
                count = len(self._waiting)
                raise TimedOut(
                    f"channel {self._channel}: {count} messages were not acknowledged: {error}"
                ) from None
            if subject == self._heartbeats:
                self._connection.publish(answerTo.decode("utf-8"), b"")
            elif subject == self._acknowledgements:
                self._acknowledged(body)

    def _acknowledged(self, body: bytes) -> None:
        guid = body[2:]
        if guid in self._waiting and body == encode({_ACK_GUID: guid}):
            self._waiting.discard(guid)
            self.stored += 1
            return
        what = f"channel {self._channel}: a message was not stored"
        if not body:
            raise ApiError(f"{what}: NATS Streaming is not there any more", 503)
        try:
            answer = decode(body)
        except Malformed:
            raise ApiError(f"{what}: the answer makes no sense") from None
        error = answer.get(_ACK_ERROR)
        if error:
            raise ApiError(f"{what}: {_text(error)}")
        raise ApiError(f"{what}: another one was acknowledged")


def _text(value: bytes | int | None) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""
