"""
Recovery of clients and subscriptions when the service starts.

Clients are connected as before. Every subscription resumes at its position; unacknowledged messages
are redelivered, and so are those that may have been sent after its state was last written.
Subscriptions without a client that are not durable are removed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from natsbroker.streaming.channels import Channels
from natsbroker.streaming.context import Clients
from natsbroker.streaming.ledger import Ledger, Remembered
from natsbroker.streaming.model import (
    Channel,
    ChannelSubscription,
    Group,
    GroupKey,
    StreamingClient,
)
from natsbroker.subjects.grammar import isValidLiteral


class Recovery:
    def __init__(self, clients: Clients, channels: Channels, ledger: Ledger) -> None:
        self._clients = clients
        self._channels = channels
        self._ledger = ledger
        self._gone: list[ChannelSubscription] = []
        self._orphans: list[ChannelSubscription] = []
        self.nextNumber = 1
        self.active: list[ChannelSubscription] = []

    async def recover(
        self, remembered: Remembered, listen: Callable[[ChannelSubscription], object]
    ) -> None:
        for state in remembered.clients:
            self._clients.register(
                StreamingClient(
                    state.clientID, state.heartbeatInbox, state.connID, state.protocol, state.owner
                )
            )
        for state in remembered.subscriptions:
            self.nextNumber = max(self.nextNumber, state.id + 1)
            self._subscription(state)
        for orphan in self._orphans:
            self._settle(orphan)
        for subscription in self.active:
            listen(subscription)
        if self._gone:
            await self._ledger.ended(self._gone)

    def _subscription(self, state: Any) -> None:
        channel = self._channels.get(state.channel)
        if channel is None:
            # The channel was deleted, and the broker ended before its subscriptions were.
            deleted = Channel(state.channel, self._channels.limitsOf(state.channel))
            self._gone.append(ChannelSubscription(state.id, _group(deleted, state)))
            return
        group = channel.groups.get(_keyOf(state)) or _group(channel, state)
        subscription = _restored(state, group)
        client = None if state.isOffline else self._clients.byID.get(state.clientID)
        if client is None and not group.isDurable:
            self._gone.append(subscription)
            return
        channel.groups[group.key] = group
        group.lastSent = min(max(group.lastSent, state.lastSent), channel.last)
        group.mayBeSent = min(max(group.mayBeSent, state.mayBeSent), channel.last)
        if client is None:
            self._orphans.append(subscription)
        else:
            subscription.client = client
            subscription.isReady = subscription.isOnHold = True
            client.subscriptions[subscription.number] = subscription
            group.members.append(subscription)
            self.active.append(subscription)

    def _settle(self, orphan: ChannelSubscription) -> None:
        """
        Make a subscription without a client offline, or give its pending messages to other members.
        """
        group = orphan.group
        if not group.members and group.offline is None:
            group.offline = orphan
            return
        heir = group.offline or group.members[0]
        heir.inherit([(sequence, size) for sequence, (_, size) in orphan.pending.items()], 0.0)
        self._ledger.touched(heir)
        self._gone.append(orphan)


def _keyOf(state: Any) -> GroupKey:
    if state.queue:
        return ("queue", state.queue)
    if state.durableName:
        return ("durable", state.clientID, state.durableName)
    return ("plain", str(state.id))


def _group(channel: Channel, state: Any) -> Group:
    return Group(channel, _keyOf(state), state.queue, state.durableName, state.isDurable)


def _restored(state: Any, group: Group) -> ChannelSubscription:
    subscription = ChannelSubscription(state.id, group)
    subscription.clientID = state.clientID
    subscription.inbox = state.inbox.encode()
    subscription.canHear = isValidLiteral(subscription.inbox)
    subscription.ackInbox = state.ackInbox.encode()
    subscription.maxInFlight = state.maxInFlight
    subscription.ackWaitInSecs = state.ackWaitInSecs
    subscription.owner = state.owner
    subscription.pending = {sequence: (0.0, 0) for sequence in state.pending}
    return subscription
