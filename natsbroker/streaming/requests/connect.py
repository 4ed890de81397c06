"""
Connect requests, pings and heartbeats.

A second client with the id of a registered one may be the same program after a crash, so the old
heartbeat inbox is asked first. With an answer within half a second the new client is refused;
without, it replaces the old one.

Checks, error texts and times are those of nats-streaming-server. A client is durable before its
connect request is answered, and removed when it leaves too many heartbeats in a row unanswered.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from twisted.logger import Logger

from natsbroker.accounts.requests import request
from natsbroker.errors import NoResponders, RequestTimeout
from natsbroker.interfaces.records import StoreError, StoreFailed, StoreFull
from natsbroker.streaming import errors
from natsbroker.streaming.context import StreamingContext
from natsbroker.streaming.errors import Refused
from natsbroker.streaming.model import StreamingClient
from natsbroker.streaming.protocol import (
    ConnectRequest,
    ConnectResponse,
    Malformed,
    Ping,
    PingResponse,
)
from natsbroker.streaming.requests.access import Requester, requesterOf
from natsbroker.subjects.channels import isClientID
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker.streaming")

#: Seconds that an old client has to show that it is there.
DUPLICATE_TIMEOUT = 0.5

#: The protocol that we speak: 1 has connection ids and pings.
PROTOCOL = 1

#: Seconds from a ping of a client that failed heartbeats to the next heartbeat.
SOON = 0.001


#: Ends the connection of a client.
Dismiss = Callable[[StreamingClient], Coroutine[Any, Any, None]]


class ConnectHandler:
    def __init__(self, context: StreamingContext, dismiss: Dismiss) -> None:
        self._context = context
        self._dismiss = dismiss
        self._examined: set[str] = set()

    def connect(self, message: Message) -> None:
        try:
            self._context.run(self._admit(message, *self._checked(message)))
        except Refused as refused:
            self._context.replies.connectError(message.reply, str(refused))

    def _checked(self, message: Message) -> tuple[Any, Requester]:
        try:
            asked = ConnectRequest.FromString(message.payload)
        except Malformed:
            raise Refused(errors.INVALID_CONNECTION_REQUEST) from None
        if not asked.heartbeatInbox:
            raise Refused(errors.INVALID_CONNECTION_REQUEST)
        if not isClientID(asked.clientID):
            raise Refused(errors.INVALID_CLIENT_ID)
        requester = requesterOf(message.origin)
        if not requester.mayHear(asked.heartbeatInbox.encode()):
            raise Refused(errors.INVALID_CONNECTION_REQUEST)
        return asked, requester

    async def _admit(self, message: Message, asked: Any, requester: Requester) -> None:
        try:
            await self._makeWay(asked.clientID, requester)
            await self._register(asked, requester)
        except (Refused, StoreError) as error:
            _log.debug("[Client:{id}] Connect failed; {why}", id=asked.clientID, why=str(error))
            self._context.replies.connectError(message.reply, str(error))
        else:
            self._context.replies.send(message.reply, self._welcome(asked))

    async def _makeWay(self, clientID: str, requester: Requester) -> None:
        """Raise L{Refused} if a client with that id is alive; a dead one is removed."""
        old = self._context.clients.byID.get(clientID)
        if clientID in self._examined or (old is not None and not requester.actsFor(old.owner)):
            raise Refused(errors.ALREADY_REGISTERED)
        if old is None:
            return
        self._examined.add(clientID)
        try:
            if await self._answers(old, DUPLICATE_TIMEOUT):
                raise Refused(errors.ALREADY_REGISTERED)
            if old.isRegistered:
                await self._dismiss(old)
        finally:
            self._examined.discard(clientID)

    async def _answers(self, client: StreamingClient, timeout: float) -> bool:
        inbox = client.heartbeatInbox.encode()
        try:
            await request(self._context.bus, self._context.reactor, inbox, b"", timeout)
        except (NoResponders, RequestTimeout):
            return False
        return True

    async def _register(self, asked: Any, requester: Requester) -> None:
        if asked.clientID in self._context.clients.byID:
            raise Refused(errors.ALREADY_REGISTERED)
        client = StreamingClient(
            asked.clientID, asked.heartbeatInbox, asked.connID, asked.protocol, requester.name
        )
        self._context.clients.register(client)
        try:
            await self._context.ledger.clientCame(client)
        except (StoreFull, StoreFailed) as error:
            # The client may read. It is stored when the store takes writes again.
            why = str(error)
            _log.warn(
                "[Client:{id}] The client is not stored yet: {why}", id=client.clientID, why=why
            )
        except StoreError:
            if client.isRegistered:
                self._context.clients.unregister(client)
            raise
        _log.debug(
            "[Client:{id}] Connected (Inbox={inbox})",
            id=client.clientID,
            inbox=client.heartbeatInbox,
        )
        self.watch(client)

    def _welcome(self, asked: Any) -> Any:
        subjects = self._context.subjects
        welcome = ConnectResponse(
            pubPrefix=subjects.publish.decode(),
            subRequests=subjects.subscribe.decode(),
            unsubRequests=subjects.unsubscribe.decode(),
            subCloseRequests=subjects.subClose.decode(),
            closeRequests=subjects.close.decode(),
            protocol=PROTOCOL,
        )
        if asked.protocol >= PROTOCOL:
            welcome.pingRequests = subjects.pings.decode()
            welcome.pingInterval = asked.pingInterval
            welcome.pingMaxOut = asked.pingMaxOut
        return welcome

    def ping(self, message: Message) -> None:
        try:
            asked = Ping.FromString(message.payload)
        except Malformed:
            return
        if not message.payload:
            return
        client = self._context.clients.byConnection.get(asked.connID)
        if client is None:
            self._context.replies.send(message.reply, PingResponse(error=errors.REPLACED))
            return
        if client.failures and client.heartbeat is not None:
            # The client seems to be alive: its heartbeat is asked for soon.
            client.heartbeat.cancel()
            self._schedule(client, SOON)
        self._context.replies.send(message.reply, PingResponse())

    def watch(self, client: StreamingClient) -> None:
        if client.isRegistered:
            self._schedule(client, self._context.settings.hb_interval)

    def _schedule(self, client: StreamingClient, seconds: float) -> None:
        client.heartbeat = self._context.deadlines.after(seconds, partial(self._beat, client))

    def _beat(self, client: StreamingClient) -> None:
        client.heartbeat = None
        self._context.run(self._examine(client))

    async def _examine(self, client: StreamingClient) -> None:
        answered = await self._answers(client, self._context.settings.hb_timeout)
        if not client.isRegistered:
            return
        if answered:
            client.failures = 0
        else:
            client.failures += 1
            if client.failures > self._context.settings.hb_fail_count:
                _log.error("[Client:{id}] Timed out on heartbeats", id=client.clientID)
                await self._dismiss(client)
                return
        self._schedule(client, self._context.settings.hb_interval)
