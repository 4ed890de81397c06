"""Momentary figures with the names of nats-streaming-server's C{/streaming} pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from natsbroker.wire.text import decoded

if TYPE_CHECKING:
    from natsbroker.config.settings.streaming import Streaming
    from natsbroker.interfaces import IStreamStore
    from natsbroker.streaming.model import Channel, ChannelSubscription, StreamingClient
    from natsbroker.streaming.service import StreamingService


@dataclass(frozen=True, slots=True)
class SubscriptionFigures:
    """
    @ivar durable_name: empty for a durable queue group.
    @ivar queue_name: for a durable queue group its durable name, a colon, and its name.
    """

    client_id: str
    inbox: str
    ack_inbox: str
    durable_name: str
    queue_name: str
    is_durable: bool
    is_offline: bool
    max_inflight: int
    ack_wait: int
    last_sent: int
    pending_count: int
    is_stalled: bool


@dataclass(frozen=True, slots=True)
class ClientFigures:
    id: str
    hb_inbox: str
    subs_count: int


@dataclass(frozen=True, slots=True)
class ChannelFigures:
    name: str
    msgs: int
    bytes: int
    first_seq: int
    last_seq: int
    subs_count: int


@dataclass(frozen=True, slots=True)
class ServiceFigures:
    """
    @ivar state: C{STANDALONE}, with a store that brokers share C{FT_ACTIVE} or C{FT_STANDBY}, or
        C{FAILED} while the store takes no writes.
    @ivar subscriptions: offline durable ones included.
    """

    cluster_id: str
    state: str
    store: str
    clients: int
    subscriptions: int
    channels: int
    total_msgs: int
    total_bytes: int
    in_msgs: int
    in_bytes: int
    out_msgs: int
    out_bytes: int


class StreamingModel:
    def __init__(self, service: StreamingService) -> None:
        self._service = service

    @property
    def isServing(self) -> bool:
        return self._service.isServing

    @property
    def store(self) -> IStreamStore | None:
        return self._service.store

    @property
    def isRunning(self) -> bool:
        """
        Whether there are figures. There are also some while another broker serves from a shared
        store.
        """
        return self.isServing or self._isOnStandby

    @property
    def settings(self) -> Streaming:
        return self._service.settings

    def figures(self) -> ServiceFigures:
        service = self._service
        if self._isOnStandby:
            nothing = [0] * 9
            return ServiceFigures(
                service.settings.cluster_id, "FT_STANDBY", service.settings.store.upper(), *nothing
            )
        context = service.context
        state = "FT_ACTIVE" if service.isShared else "STANDALONE"
        channels = [channel for channel in context.channels if channel.isOpen]
        traffic = context.traffic
        return ServiceFigures(
            service.settings.cluster_id,
            "FAILED" if service.trouble else state,
            service.settings.store.upper(),
            len(context.clients),
            sum(1 for channel in channels for _ in channel.subscriptions),
            len(context.channels),
            sum(channel.bounds.count for channel in channels),
            sum(channel.bounds.size for channel in channels),
            traffic.inMessages,
            traffic.inBytes,
            traffic.outMessages,
            traffic.outBytes,
        )

    @property
    def _isOnStandby(self) -> bool:
        return self._service.isShared and not self._service.isServing

    def clientNames(self) -> list[str]:
        return [] if self._isOnStandby else sorted(self._service.context.clients.byID)

    def channelNames(self) -> list[str]:
        if self._isOnStandby:
            return []
        return sorted(channel.name for channel in self._service.context.channels)

    def client(self, name: str) -> ClientFigures:
        """The figures of a client; C{KeyError} for an unknown one."""
        client = self._client(name)
        return ClientFigures(client.clientID, client.heartbeatInbox, len(client.subscriptions))

    def clientSubscriptions(self, name: str) -> dict[str, list[SubscriptionFigures]]:
        """Subscriptions by channel; C{KeyError} for an unknown client."""
        figures: dict[str, list[SubscriptionFigures]] = {}
        for subscription in self._client(name).subscriptions.values():
            figures.setdefault(subscription.group.channel.name, []).append(
                _subscriptionFigures(subscription)
            )
        return figures

    def channel(self, name: str) -> ChannelFigures:
        """The figures of a channel; C{KeyError} for an unknown one."""
        channel = self._channel(name)
        bounds = channel.bounds
        return ChannelFigures(
            channel.name,
            bounds.count,
            bounds.size,
            bounds.first if bounds.last else 0,
            bounds.last,
            sum(1 for _ in channel.subscriptions),
        )

    def channelSubscriptions(self, name: str) -> list[SubscriptionFigures]:
        """Subscriptions, offline durable ones included; C{KeyError} for an unknown channel."""
        return [
            _subscriptionFigures(subscription) for subscription in self._channel(name).subscriptions
        ]

    def _client(self, name: str) -> StreamingClient:
        if self._isOnStandby:
            raise KeyError(name)
        return self._service.context.clients.byID[name]

    def _channel(self, name: str) -> Channel:
        if self._isOnStandby:
            raise KeyError(name)
        channel = self._service.context.channels.get(name)
        if channel is None or not channel.isOpen:
            raise KeyError(name)
        return channel


def _subscriptionFigures(subscription: ChannelSubscription) -> SubscriptionFigures:
    return SubscriptionFigures(
        subscription.clientID,
        decoded(subscription.inbox),
        subscription.ackInbox.decode(),
        subscription.group.durableName,
        subscription.group.queue,
        subscription.group.isDurable,
        not subscription.isActive,
        subscription.maxInFlight,
        subscription.ackWaitInSecs,
        subscription.group.lastSent,
        len(subscription.pending),
        subscription.isStalled,
    )
