"""Clients of NATS Streaming, and publishing to a channel with many messages on their way."""

from __future__ import annotations

import secrets
from contextlib import suppress
from functools import partial
from typing import Any

from natsbroker.spark.errors import ApiError, ConnectionFailed, DataSourceError, TimedOut
from natsbroker.spark.nats.connection import BlockingConnection
from natsbroker.spark.nats.publishing import Pipeline
from natsbroker.streaming import protocol


class StanClient:
    def __init__(
        self, connection: BlockingConnection, channel: str, clusterId: str, discoverPrefix: str
    ) -> None:
        self.connection = connection
        self.id = f"natsbroker-spark-{secrets.token_hex(8)}"
        self.connId = secrets.token_bytes(16)
        self._channel = channel
        self._clusterId = clusterId
        self._heartbeats = connection.inbox("heartbeats")
        request = protocol.ConnectRequest(
            clientID=self.id, heartbeatInbox=self._heartbeats, protocol=1, connID=self.connId
        )
        self.answer = self.ask(f"{discoverPrefix}.{clusterId}", request, protocol.ConnectResponse)
        if self.answer.error:
            refusal = self.answer.error
            raise ApiError(f"channel {channel}: the cluster {clusterId} refuses: {refusal}")

    def ask(self, subject: str, request: Any, response: Any) -> Any:
        try:
            answer = self.connection.request(subject, request.SerializeToString())
            return response.FromString(answer)
        except ApiError as error:
            if error.code != 503:
                raise
            raise ApiError(
                f"channel {self._channel}: no responders for {subject}: there is no NATS Streaming"
                f" with the cluster id {self._clusterId}, or not for this account",
                503,
            ) from None
        except protocol.Malformed:
            raise ApiError(f"channel {self._channel}: the answer is malformed") from None

    def heard(self, subject: bytes, reply: bytes) -> bool:
        if subject != self._heartbeats:
            return False
        self.connection.publish(reply.decode("utf-8"), b"")
        return True

    def close(self) -> None:
        subject = self.answer.closeRequests
        if subject:
            request = protocol.CloseRequest(clientID=self.id).SerializeToString()
            with suppress(ApiError, ConnectionFailed, TimedOut):  # The server notices it by itself.
                self.connection.request(subject, request)


class ChannelPublisher(StanClient):
    def __init__(
        self,
        connection: BlockingConnection,
        channel: str,
        clusterId: str,
        discoverPrefix: str,
        window: int,
    ) -> None:
        super().__init__(connection, channel, clusterId, discoverPrefix)
        self.stored = 0
        self.what = f"channel {channel}"
        self._limit = int(connection.info.get("max_payload") or 0)
        # One message for all, and one subject for all answers: that is half the time for each.
        self._message = protocol.PubMsg(clientID=self.id, subject=channel, connID=self.connId)
        self._acknowledgements = connection.inbox(f"acks{secrets.token_hex(4)}")
        self._pipeline = Pipeline(connection, window, self._heard, self._guidOf)
        self._subject = f"{self.answer.pubPrefix}.{channel}".encode()

    def publish(self, data: bytes) -> None:
        guid = f"{self.stored + self._pipeline.waiting + 1:x}"
        self._message.guid = guid
        self._message.data = data
        payload = self._message.SerializeToString()
        if 0 < self._limit < len(payload):
            raise DataSourceError(
                f"channel {self._channel}: a message has {len(payload)} bytes with its envelope,"
                f" and the server takes {self._limit}"
            )
        onAnswer, reply = partial(self._answered, guid), self._acknowledgements
        key = guid.encode()
        self._pipeline.send(self.what, onAnswer, self._subject, payload, reply=reply, key=key)

    def finish(self) -> None:
        self._pipeline.finish()

    def _guidOf(self, subject: bytes, body: bytes) -> bytes:
        return body[2:] if subject == self._acknowledgements else subject

    def _answered(self, guid: str, headerLength: int, body: bytes) -> None:
        if body != protocol.PubAck(guid=guid).SerializeToString():
            raise self._refusal(body)
        self.stored += 1

    def _heard(self, subject: bytes, reply: bytes, body: bytes) -> None:
        if not self.heard(subject, reply) and subject == self._acknowledgements:
            raise self._refusal(body)

    def _refusal(self, body: bytes) -> ApiError:
        what = f"channel {self._channel}: a message was not stored"
        if not body:
            return ApiError(f"{what}: NATS Streaming is not there any more", 503)
        try:
            answer = protocol.PubAck.FromString(body)
        except protocol.Malformed:
            return ApiError(f"{what}: the answer is malformed")
        if answer.error:
            return ApiError(f"{what}: {answer.error}")
        return ApiError(f"{what}: another message was acknowledged")
