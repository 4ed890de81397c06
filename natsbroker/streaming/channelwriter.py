"""A client in the broker that publishes to a channel in order. The log reports failures."""

from __future__ import annotations

import secrets
from collections import deque
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from natsbroker.accounts.requests import ProgramOrigin, newInbox, request
from natsbroker.errors import NoResponders, RequestTimeout
from natsbroker.interfaces import IMessageBus, ISubscriber, ISubscription
from natsbroker.streaming.protocol import (
    CloseRequest,
    ConnectRequest,
    ConnectResponse,
    Malformed,
    PubAck,
    PubMsg,
)
from natsbroker.subjects.channels import RequestSubjects, isChannel
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker.streaming")

#: The longest wait for an answer, in seconds.
_PATIENCE = 10.0

#: The most messages that wait; further ones are lost.
_MOST = 1024


class _Unstored(Exception):
    """A message was not stored."""


@implementer(ISubscriber)
class ChannelWriter:
    def __init__(
        self,
        bus: IMessageBus,
        clock: IReactorTime,
        channel: str,
        clusterId: str,
        discoverPrefix: str = "_STAN.discover",
    ) -> None:
        """C{ValueError} if no channel, or no cluster, can have such a name."""
        if not isChannel(channel.encode("utf-8", "replace")):
            raise ValueError(f"no channel can be called {channel!r}")
        self.stored = 0
        self.lost = 0
        self._bus = bus
        self._origin = ProgramOrigin(bus.account)
        self._clock = clock
        self._channel = channel
        self._subjects = RequestSubjects(clusterId, discoverPrefix)
        self._id = f"natsbroker-{secrets.token_hex(8)}"
        self._connection = secrets.token_bytes(16)
        self._inbox = newInbox()
        self._heartbeats: ISubscription | None = None
        self._waiting: deque[bytes] = deque()
        self._running: Deferred[None] | None = None
        self._isConnected = False

    def write(self, data: bytes) -> None:
        if len(self._waiting) >= _MOST:
            self.lost += 1
            return
        self._waiting.append(data)
        if self._running is None:
            running = self._running = ensureDeferred(self._drain())
            running.addBoth(self._drained)
            if not self._waiting:
                self._running = None

    def close(self) -> None:
        """Write nothing more. Messages that wait to be written are lost."""
        self._waiting.clear()
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
        heartbeats, self._heartbeats = self._heartbeats, None
        if heartbeats is not None:
            heartbeats.cancel()
        if self._isConnected:
            self._isConnected = False
            closing = CloseRequest(clientID=self._id).SerializeToString()
            message = Message(self._subjects.close, closing, newInbox(), origin=self._origin)
            self._bus.publish(message)

    def deliver(self, message: Message, tag: Any) -> None:
        if message.reply:
            self._bus.publishInternal(message.reply, b"")

    def subscriptionEnded(self, tag: Any) -> None:
        """Nothing to do: the subscription ends with the service."""

    def _drained(self, result: Any) -> None:
        self._running = None

    async def _drain(self) -> None:
        try:
            while self._waiting:
                await self._store(self._waiting[0])
                self._waiting.popleft()
                self.stored += 1
        except (NoResponders, RequestTimeout, Malformed, _Unstored) as error:
            # The next message connects again: another broker may serve the channel by now.
            self._isConnected = False
            self.lost += len(self._waiting)
            _log.warn(
                "{count} messages could not be stored in channel {channel}: {why}",
                count=len(self._waiting),
                channel=self._channel,
                why=str(error),
            )
            self._waiting.clear()
        except CancelledError:
            return

    async def _store(self, data: bytes) -> None:
        if not self._isConnected:
            await self._connect()
        message = PubMsg(
            clientID=self._id,
            guid=secrets.token_hex(8),
            subject=self._channel,
            data=data,
            connID=self._connection,
        )
        subject = self._subjects.publish + b"." + self._channel.encode("utf-8")
        answer = PubAck.FromString(await self._ask(subject, message))
        if answer.error:
            raise _Unstored(answer.error)

    async def _connect(self) -> None:
        if self._heartbeats is None:
            self._heartbeats = self._bus.subscribe(self._inbox, self)
        asked = ConnectRequest(
            clientID=self._id,
            heartbeatInbox=self._inbox.decode(),
            protocol=1,
            connID=self._connection,
        )
        answer = ConnectResponse.FromString(await self._ask(self._subjects.discover, asked))
        # A registered client of this name is this one, from before a reconnect.
        if answer.error and "already registered" not in answer.error:
            raise _Unstored(answer.error)
        self._isConnected = True

    async def _ask(self, subject: bytes, message: Any) -> bytes:
        text = message.SerializeToString()
        answer = await request(
            self._bus, self._clock, subject, text, _PATIENCE, origin=self._origin
        )
        return bytes(answer.payload)
