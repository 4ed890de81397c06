"""
Ending subscriptions and connections.

A request to leave is handled after everything that the client sent before. The answer to a close
request comes after the answers to all earlier publishes. By then, the subscriptions have ended. A
durable subscription is kept, with its pending messages, unless the request unsubscribes it.
"""

from __future__ import annotations

from typing import Any

from twisted.logger import Logger

from natsbroker.interfaces.records import StoreError
from natsbroker.streaming import errors
from natsbroker.streaming.context import StreamingContext
from natsbroker.streaming.errors import Refused
from natsbroker.streaming.model import Channel, ChannelSubscription, StreamingClient
from natsbroker.streaming.protocol import CloseRequest, Malformed, UnsubscribeRequest
from natsbroker.streaming.requests.access import requesterOf
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker.streaming")


class CloseHandler:
    def __init__(self, context: StreamingContext) -> None:
        self._context = context

    def unsubscribe(self, message: Message) -> None:
        self._context.run(self._end(message, self._context.subjects.unsubscribe, isForGood=True))

    def closeSubscription(self, message: Message) -> None:
        self._context.run(self._end(message, self._context.subjects.subClose, isForGood=False))

    async def _end(self, message: Message, subject: bytes, isForGood: bool) -> None:
        try:
            subscription = self._asked(message, subject)
            gone = self.remove(subscription, isForGood)
            if gone:
                await self._context.ledger.ended([subscription])
            else:
                await self._context.ledger.flush()
        except (Refused, StoreError) as error:
            self._context.replies.subscription(message.reply, str(error))
        else:
            self._context.replies.subscription(message.reply)

    def _asked(self, message: Message, subject: bytes) -> ChannelSubscription:
        try:
            asked = UnsubscribeRequest.FromString(message.payload)
        except Malformed:
            raise Refused(errors.INVALID_UNSUBSCRIBE_REQUEST) from None
        channel = self._context.channels.get(asked.subject)
        if channel is None:
            raise Refused(errors.UNKNOWN_CHANNEL)
        subscription = _find(channel, asked.inbox.encode())
        if subscription is None:
            raise Refused(errors.INVALID_SUBSCRIPTION)
        client = subscription.client
        requester = requesterOf(message.origin)
        if client is None or client.clientID != asked.clientID:
            raise Refused(errors.UNKNOWN_CLIENT_ID)
        if not requester.actsFor(client.owner):
            raise Refused(errors.UNKNOWN_CLIENT_ID)
        if not requester.may(subject, channel.subject):
            raise Refused(errors.NOT_AUTHORIZED)
        return subscription

    def remove(self, subscription: ChannelSubscription, isForGood: bool) -> bool:
        """Take a subscription from its client and group. Return whether nothing is left."""
        client, group = subscription.client, subscription.group
        if client is not None:
            client.subscriptions.pop(subscription.number, None)
        subscription.client = None
        _silence(subscription)
        group.members.remove(subscription)
        isKept = group.isDurable and not isForGood and not group.members
        if isKept:
            group.offline = subscription
            self._context.ledger.touched(subscription)
        elif group.members:
            self._context.redelivery.handOver(subscription, group)
            self._context.ledger.touched(group.members[0])
        else:
            del group.channel.groups[group.key]
        self._context.inactivity.left(group.channel)
        return not isKept

    def withdraw(self, subscription: ChannelSubscription) -> None:
        _log.info(
            '[Client:{id}] May not subscribe to channel "{name}" any more',
            id=subscription.clientID,
            name=subscription.group.channel.name,
        )
        gone = self.remove(subscription, isForGood=False)
        self._context.run(self._withdrawn([subscription] if gone else []))

    async def _withdrawn(self, gone: list[ChannelSubscription]) -> None:
        await self._context.ledger.ended(gone)

    def close(self, message: Message) -> None:
        self._context.run(self._close(message))

    async def _close(self, message: Message) -> None:
        try:
            await self.dismiss(self._closing(message))
            for channel in self._context.channels:
                await channel.settled()
        except (Refused, StoreError) as error:
            self._context.replies.close(message.reply, str(error))
        else:
            self._context.replies.close(message.reply)

    def _closing(self, message: Message) -> StreamingClient:
        try:
            asked = CloseRequest.FromString(message.payload)
        except Malformed:
            raise Refused(errors.INVALID_CLOSE_REQUEST) from None
        client = self._context.clients.byID.get(asked.clientID)
        if client is None or not requesterOf(message.origin).actsFor(client.owner):
            raise Refused(errors.UNKNOWN_CLIENT_ID)
        return client

    async def dismiss(self, client: StreamingClient) -> None:
        """End a connection and its transient subscriptions; L{StoreError} is retried."""
        self._context.clients.unregister(client)
        subscriptions = list(client.subscriptions.values())
        gone = [
            subscription
            for subscription in subscriptions
            if self.remove(subscription, isForGood=False)
        ]
        _log.debug(
            "[Client:{id}] Closed (Inbox={inbox})",
            id=client.clientID,
            inbox=client.heartbeatInbox,
        )
        await self._context.ledger.clientWent(client, gone)


def _find(channel: Channel, inbox: bytes) -> ChannelSubscription | None:
    active = [member for group in channel.groups.values() for member in group.members]
    for wanted in ("ackInbox", "inbox"):
        for member in active:
            value: Any = getattr(member, wanted)
            if value == inbox:
                return member
    return None


def _silence(subscription: ChannelSubscription) -> None:
    subscription.isReady = False
    acks, subscription.acks = subscription.acks, None
    if acks is not None:
        acks.cancel()
    redelivery, subscription.redelivery = subscription.redelivery, None
    if redelivery is not None:
        redelivery.cancel()
