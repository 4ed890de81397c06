"""
Subscription requests.

Checks and error texts are those of nats-streaming-server, in its order. A subscription is durable
before the request is answered, and receives messages after the answer. Its start position counts
from the arrival of the request. A durable subscription resumes at its own position, whatever the
request asks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twisted.logger import Logger

from natsbroker.interfaces import ISubscriber
from natsbroker.interfaces.records import StoreError, StoreFailed, StoreFull
from natsbroker.streaming import errors, protocol
from natsbroker.streaming.context import StreamingContext
from natsbroker.streaming.errors import Refused
from natsbroker.streaming.model import (
    Channel,
    ChannelSubscription,
    Group,
    GroupKey,
    StreamingClient,
    queueName,
)
from natsbroker.streaming.protocol import Malformed, SubscriptionRequest, SubscriptionResponse
from natsbroker.streaming.requests.access import Requester, belongsTo, requesterOf
from natsbroker.streaming.requests.close import CloseHandler
from natsbroker.subjects.channels import isChannel
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker.streaming")


@dataclass(frozen=True)
class _CheckedRequest:
    asked: Any
    requester: Requester
    client: StreamingClient


async def startAfter(channel: Channel, asked: Any, last: int, now: int) -> int:
    """
    The sequence after which delivery starts. C{last} is the channel's last sequence before the
    request.
    """
    first = channel.bounds.first
    position = asked.startPosition
    if position == protocol.FIRST:
        return min(first - 1, last)
    if position == protocol.LAST_RECEIVED:
        return max(last - 1, 0)
    if position == protocol.SEQUENCE_START:
        wanted: int = asked.startSequence
        return min(max(wanted, first) - 1, last)
    if position == protocol.TIME_DELTA_START:
        at: int = await channel.log.sequenceAt(max(now - asked.startTimeDelta, 0))
        return min(max(at, first) - 1, last)
    return last


class SubscribeHandler:
    def __init__(self, context: StreamingContext, close: CloseHandler, acks: ISubscriber) -> None:
        """C{acks} receives the acknowledgements, with the subscription as the tag."""
        self._context = context
        self._close = close
        self._acks = acks
        self.nextNumber = 1

    def subscribe(self, message: Message) -> None:
        try:
            request = self._checked(message)
            channel = self._context.channels.demand(request.asked.subject)
        except Refused as refused:
            self._context.replies.subscription(message.reply, str(refused))
        else:
            self._context.run(self._serve(message.reply, channel, request))

    def _checked(self, message: Message) -> _CheckedRequest:
        try:
            asked = SubscriptionRequest.FromString(message.payload)
        except Malformed:
            raise Refused(errors.INVALID_SUBSCRIPTION_REQUEST) from None
        if not asked.clientID:
            raise Refused(errors.CLIENT_ID_MISSING)
        if asked.ackWaitInSecs <= 0:
            raise Refused(errors.INVALID_ACK_WAIT)
        if asked.maxInFlight <= 0:
            raise Refused(errors.INVALID_MAX_IN_FLIGHT)
        if not protocol.NEW_ONLY <= asked.startPosition <= protocol.FIRST:
            raise Refused(errors.INVALID_START)
        channel = asked.subject.encode()
        if not isChannel(channel):
            raise Refused(errors.INVALID_SUBJECT)
        client = self._context.clients.byID.get(asked.clientID)
        requester = requesterOf(message.origin)
        if client is None or not requester.actsFor(client.owner):
            raise Refused(errors.UNKNOWN_CLIENT_ID)
        inbox = asked.inbox.encode()
        if not requester.may(self._context.subjects.subscribe, channel) or (
            inbox and not _mayHear(requester, inbox)
        ):
            raise Refused(errors.NOT_AUTHORIZED)
        return _CheckedRequest(asked, requester, client)

    async def _serve(self, reply: bytes, channel: Channel, request: _CheckedRequest) -> None:
        channel.users += 1
        self._context.inactivity.joined(channel)
        try:
            await channel.whenOpen()
            last = channel.log.nextSequence - 1
            await channel.settled()
            last = min(last, channel.bounds.last)
            subscription = await self._makeSubscription(channel, request, last)
        except (Refused, StoreError) as error:
            _log.debug(
                "[Client:{id}] Cannot subscribe to {name}: {why}",
                id=request.client.clientID,
                name=channel.name,
                why=str(error),
            )
            self._context.replies.subscription(reply, str(error))
        else:
            ackInbox = subscription.ackInbox.decode()
            self._context.replies.send(reply, SubscriptionResponse(ackInbox=ackInbox))
            self._begin(subscription)
        finally:
            channel.users -= 1
            self._context.inactivity.left(channel)

    def _begin(self, subscription: ChannelSubscription) -> None:
        subscription.isReady = True
        if subscription.isOnHold:
            self._context.run(self._context.redelivery.resume(subscription))
        else:
            self._context.delivery.pump(subscription.group)

    async def _makeSubscription(
        self, channel: Channel, request: _CheckedRequest, last: int
    ) -> ChannelSubscription:
        """Store the subscription; C{last} is the channel's last sequence when the request came."""
        start = await startAfter(channel, request.asked, last, self._context.now())
        if not request.client.isRegistered:
            raise Refused(errors.UNKNOWN_CLIENT_ID)
        if channel.isDeleted:
            raise Refused(errors.BEING_DELETED)
        group = self._groupFor(channel, request, start)
        isResumed = group.offline is not None
        subscription = self._join(group, request)
        try:
            await self._context.ledger.changed(subscription)
        except StoreError as error:
            # A subscription that ends with its client is stored when the store can write again.
            if group.isDurable or not isinstance(error, (StoreFull, StoreFailed)):
                if subscription.isActive:
                    self._close.remove(subscription, isForGood=not isResumed)
                raise
        if not subscription.isActive:
            raise Refused(errors.UNKNOWN_CLIENT_ID)
        return subscription

    def _groupFor(self, channel: Channel, request: _CheckedRequest, start: int) -> Group:
        asked = request.asked
        key = self._keyFor(asked)
        group = channel.groups.get(key)
        if group is None:
            self._checkRoom(channel)
            queue = queueName(asked.qGroup, asked.durableName) if asked.qGroup else ""
            durableName = "" if queue else asked.durableName
            group = Group(channel, key, queue, durableName, bool(asked.durableName))
            group.lastSent = group.announced = start
            channel.groups[key] = group
        elif group.queue:
            if group.offline is None:
                self._checkRoom(channel)
        else:
            self._checkDurable(group, request)
        return group

    def _keyFor(self, asked: Any) -> GroupKey:
        if asked.qGroup:
            if ":" in asked.durableName:
                raise Refused(errors.INVALID_DURABLE_NAME)
            return ("queue", queueName(asked.qGroup, asked.durableName))
        if asked.durableName:
            return ("durable", asked.clientID, asked.durableName)
        return ("plain", str(self.nextNumber))

    def _checkRoom(self, channel: Channel) -> None:
        maximum = channel.limits.max_subs
        if 0 < maximum <= sum(1 for _ in channel.subscriptions):
            raise Refused(errors.TOO_MANY_SUBSCRIPTIONS)

    def _checkDurable(self, group: Group, request: _CheckedRequest) -> None:
        for member in list(group.members):
            if not self._context.settings.replace_durable or not member.isReady:
                raise Refused(errors.DUPLICATE_DURABLE)
            self._close.remove(member, isForGood=False)
        offline = group.offline
        if offline is not None and not belongsTo(offline.owner, request.requester.name):
            raise Refused(errors.NOT_AUTHORIZED)

    def _join(self, group: Group, request: _CheckedRequest) -> ChannelSubscription:
        asked = request.asked
        subscription, group.offline = group.offline, None
        if subscription is None:
            subscription = ChannelSubscription(self.nextNumber, group)
            self.nextNumber += 1
        group.members.append(subscription)
        subscription.client = request.client
        subscription.clientID = request.client.clientID
        subscription.inbox = asked.inbox.encode()
        subscription.canHear = _mayHear(request.requester, subscription.inbox)
        subscription.ackInbox = self._context.newInbox()
        subscription.maxInFlight = asked.maxInFlight
        subscription.ackWaitInSecs = asked.ackWaitInSecs
        subscription.owner = "" if group.queue else request.client.owner
        subscription.isReady = False
        subscription.isOnHold = bool(subscription.pending)
        request.client.subscriptions[subscription.number] = subscription
        self.listen(subscription)
        return subscription

    def listen(self, subscription: ChannelSubscription) -> None:
        subscription.acks = self._context.bus.serve(subscription.ackInbox, self._acks, subscription)


def _mayHear(requester: Requester, inbox: bytes) -> bool:
    return bool(inbox) and requester.mayHear(inbox)
