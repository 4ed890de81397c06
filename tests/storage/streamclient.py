"""
A client of NATS Streaming for the tests that end brokers: on nats-py, with the service's own
protocol classes.

An answer says when it came; a client whose broker is gone fails, and waits for nothing.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

import nats
import nats.errors
from nats.aio.client import Client

from natsbroker.streaming import protocol

__all__ = ["Refused", "StreamClient", "connectStream"]

CLUSTER = "test-cluster"
PATIENCE = 20.0
"""Seconds after which an answer is not waited for any more."""


class Refused(Exception):
    """
    The service answered with an error.
    """


class StreamClient:
    """
    A connection.

    @ivar nc: the connection to the broker.
    """

    def __init__(self, nc: Client, clientID: str, response: Any) -> None:
        self.nc = nc
        self.clientID = clientID
        self._prefixes = response
        self._guids = count(1)
        self._inbox = nc.new_inbox()
        self._waiting: dict[str, asyncio.Future[str]] = {}

    async def begin(self) -> None:
        """Subscribe to PubAcks."""
        await self.nc.subscribe(self._inbox, cb=self._acked)

    async def _acked(self, message: Any) -> None:
        """
        Take a PubAck.
        """
        ack = protocol.PubAck.FromString(message.data)
        future = self._waiting.pop(ack.guid, None)
        if future is not None and not future.done():
            future.set_result(ack.error)

    async def send(self, channel: str, data: bytes) -> asyncio.Future[str]:
        """
        Publish, and do not wait.

        @return: will be the error of the PubAck; empty if the message is stored.
        """
        guid = f"{self.clientID}-{next(self._guids)}"
        future = asyncio.get_running_loop().create_future()
        self._waiting[guid] = future
        message = protocol.PubMsg(clientID=self.clientID, guid=guid, subject=channel, data=data)
        subject = f"{self._prefixes.pubPrefix}.{channel}"
        await self.nc.publish(subject, message.SerializeToString(), self._inbox)
        return future

    async def publish(self, channel: str, data: bytes) -> str:
        """
        Publish, and wait for the PubAck.

        @return: its error; empty if the message is stored.
        """
        return await asyncio.wait_for(await self.send(channel, data), PATIENCE)

    async def subscribe(
        self, channel: str, take: Callable[[Any], bool], durable: str = "", most: int = 64
    ) -> None:
        """
        Have everything from the beginning delivered, or what a durable subscription still has to.

        @param take: takes a message, and says whether to acknowledge it.
        @param most: how many messages may be without acknowledgement.
        @raise Refused: if the service says so.
        """
        ackInbox: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def deliver(message: Any) -> None:
            delivery = protocol.MsgProto.FromString(message.data)
            if take(delivery):
                ack = protocol.Ack(subject=channel, sequence=delivery.sequence)
                await self.nc.publish(await ackInbox, ack.SerializeToString())

        inbox = self.nc.new_inbox()
        await self.nc.subscribe(inbox, cb=deliver)
        request = protocol.SubscriptionRequest(
            clientID=self.clientID,
            subject=channel,
            inbox=inbox,
            maxInFlight=most,
            ackWaitInSecs=30,
            durableName=durable,
            startPosition=protocol.FIRST,
        )
        answer = await self.nc.request(
            self._prefixes.subRequests, request.SerializeToString(), PATIENCE
        )
        response = protocol.SubscriptionResponse.FromString(answer.data)
        if response.error:
            raise Refused(response.error)
        ackInbox.set_result(response.ackInbox)

    async def close(self) -> None:
        """
        Say goodbye and go.
        """
        request = protocol.CloseRequest(clientID=self.clientID).SerializeToString()
        await self.nc.request(self._prefixes.closeRequests, request, PATIENCE)
        await self.nc.close()

    async def leave(self) -> None:
        """
        Close the connection without a close request; publishers that wait for a PubAck wait in
        vain.
        """
        for future in self._waiting.values():
            future.cancel()
        await self.nc.close()


async def connectStream(port: int, clientID: str) -> StreamClient:
    """
    Connect to the service of a broker.

    @raise Refused: if the service says so.
    """
    nc = await nats.connect(
        f"nats://127.0.0.1:{port}", allow_reconnect=False, max_reconnect_attempts=0, error_cb=_quiet
    )
    heartbeats = nc.new_inbox()

    async def beat(message: Any) -> None:
        await nc.publish(message.reply, b"")

    await nc.subscribe(heartbeats, cb=beat)
    request = protocol.ConnectRequest(clientID=clientID, heartbeatInbox=heartbeats)
    subject = f"_STAN.discover.{CLUSTER}"
    answer = await nc.request(subject, request.SerializeToString(), PATIENCE)
    response = protocol.ConnectResponse.FromString(answer.data)
    if response.error:
        await nc.close()
        raise Refused(response.error)
    client = StreamClient(nc, clientID, response)
    await client.begin()
    return client


async def _quiet(error: Exception) -> None:
    """Ignore lost connections, which are intended here; other errors must be seen."""
    if not isinstance(error, (nats.errors.Error, OSError)):
        print(f"the client failed: {error!r}", file=sys.stderr)
