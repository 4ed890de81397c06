"""
Clients of NATS Streaming, and publishing to a channel with many messages on their way and each
acknowledged.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import cast

from natsbroker.spark.errors import ApiError, ConnectionFailed, DataSourceError, TimedOut
from natsbroker.spark.nats.connection import BlockingConnection
from natsbroker.spark.nats.pipelining import Pipeline
from natsbroker.spark.nats.protobuf import Malformed, decode, encode

__all__ = ["ChannelPublisher", "StanClient", "textOf"]

#: The fields of ConnectRequest, ConnectResponse, CloseRequest, PubMsg and PubAck that are used.
_ID, _HEARTBEATS, _PROTOCOL, _CONNECTION = 1, 2, 3, 4
_PUBLISH_TO, _CLOSE_AT, _CONNECT_ERROR = 1, 4, 5
_GUID, _CHANNEL, _DATA, _MESSAGE_CONNECTION = 2, 3, 5, 6
_ACK_GUID, _ACK_ERROR = 1, 2


class StanClient:
    """
    A client of NATS Streaming.

    @ivar connection: how it talks.
    @ivar id: what it is called.
    @ivar connId: tells it from another one of that name.
    @ivar answer: what the cluster said when it was let in.
    """

    def __init__(
        self, connection: BlockingConnection, channel: str, clusterId: str, discoverPrefix: str
    ) -> None:
        """
        @param channel: what it is for, for errors.
        @param discoverPrefix: where clients connect.
        @raise ApiError: if the cluster is not there, or does not let us in.
        """
        self.connection = connection
        self.id = f"natsbroker-spark-{secrets.token_hex(8)}".encode()
        self.connId = secrets.token_bytes(16)
        self._channel = channel
        self._clusterId = clusterId
        self._heartbeats = connection.inbox("heartbeats")
        self.answer = self.ask(
            f"{discoverPrefix}.{clusterId}",
            {_ID: self.id, _HEARTBEATS: self._heartbeats, _PROTOCOL: 1, _CONNECTION: self.connId},
        )
        error = self.answer.get(_CONNECT_ERROR)
        if error:
            raise ApiError(f"channel {channel}: the cluster {clusterId} refuses: {textOf(error)}")

    def ask(self, subject: str, fields: dict[int, bytes | int]) -> dict[int, bytes | int]:
        """
        Ask the cluster something that has one answer.

        @raise ApiError: if nobody answers, or the answer makes no sense.
        """
        try:
            return decode(self.connection.request(subject, encode(fields)))
        except ApiError as error:
            if error.code != 503:
                raise
            raise ApiError(
                f"channel {self._channel}: nobody answers {subject}: there is no NATS Streaming"
                f" with the cluster id {self._clusterId}, or not for this account",
                503,
            ) from None
        except Malformed:
            raise ApiError(f"channel {self._channel}: the answer makes no sense") from None

    def heard(self, subject: bytes, reply: bytes) -> bool:
        """
        Whether a message is a heartbeat; then it is answered.
        """
        if subject != self._heartbeats:
            return False
        self.connection.publish(reply.decode("utf-8"), b"")
        return True

    def close(self) -> None:
        """
        Tell the cluster that this client ends. What it does not hear of, it finds out by itself.
        """
        subject = textOf(self.answer.get(_CLOSE_AT))
        if subject:
            with suppress(ApiError, ConnectionFailed, TimedOut):
                self.connection.request(subject, encode({_ID: self.id}))


class ChannelPublisher:
    """
    Publishes to one channel over one connection, as a client of NATS Streaming of its own.

    @ivar what: the channel, for errors.
    @ivar stored: how many messages the channel has acknowledged.
    """

    def __init__(
        self,
        connection: BlockingConnection,
        channel: str,
        clusterId: str,
        discoverPrefix: str,
        window: int,
    ) -> None:
        """
        @param window: how many messages may wait for their acknowledgement.
        @raise ApiError: if the cluster is not there, or does not let us in.
        """
        self.stored = 0
        self.what = f"channel {channel}"
        self._channel = channel
        self._limit = int(connection.info.get("max_payload") or 0)
        self._client = StanClient(connection, channel, clusterId, discoverPrefix)
        # The fields stand in the order of their numbers, and all answers come to one subject, as
        # with every client: what is alike, the broker takes together.
        self._before = encode({_ID: self._client.id})
        self._between = encode({_CHANNEL: channel.encode()})
        self._behind = encode({_MESSAGE_CONNECTION: self._client.connId})
        self._acknowledgements = connection.inbox(f"acks{secrets.token_hex(4)}")
        self._pipeline = Pipeline(connection, window, self._heard, self._guidOf)
        self._subject = f"{textOf(self._client.answer.get(_PUBLISH_TO))}.{channel}".encode()

    def publish(self, data: bytes) -> None:
        """
        Publish one message; waits while too many are on their way.

        @raise DataSourceError: if an earlier one was not stored.
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
            raise DataSourceError(
                f"channel {self._channel}: a message has {len(payload)} bytes with its envelope,"
                f" and the server takes {self._limit}"
            )
        self._pipeline.send(
            self, guid, self._subject, payload, reply=self._acknowledgements, key=guid
        )

    def _number(self) -> int:
        return self.stored + self._pipeline.waiting + 1

    def finish(self) -> None:
        """
        Wait for every acknowledgement.

        @raise DataSourceError: if a message was not stored.
        """
        self._pipeline.finish()

    def close(self) -> None:
        self._client.close()

    def _guidOf(self, subject: bytes, body: bytes) -> bytes:
        return body[2:] if subject == self._acknowledgements else subject

    def answered(self, tag: object, headerLength: int, body: bytes) -> None:
        if body != encode({_ACK_GUID: cast("bytes", tag)}):
            raise self._refusal(body)
        self.stored += 1

    def _heard(self, subject: bytes, reply: bytes, body: bytes) -> None:
        if not self._client.heard(subject, reply) and subject == self._acknowledgements:
            raise self._refusal(body)

    def _refusal(self, body: bytes) -> ApiError:
        what = f"channel {self._channel}: a message was not stored"
        if not body:
            return ApiError(f"{what}: NATS Streaming is not there any more", 503)
        try:
            answer = decode(body)
        except Malformed:
            return ApiError(f"{what}: the answer makes no sense")
        error = answer.get(_ACK_ERROR)
        if error:
            return ApiError(f"{what}: {textOf(error)}")
        return ApiError(f"{what}: another one was acknowledged")


def textOf(value: bytes | int | None) -> str:
    """
    A field that holds a text.
    """
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""
