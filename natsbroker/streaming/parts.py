"""
The parts of the streaming service, introduced to each other.

Promises: every part gets what it needs, and nothing else, from here.
Must never know: when the service starts and stops.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from natsbroker.interfaces import IMessageBus, IStreamStore
from natsbroker.interfaces.records import StoreError
from natsbroker.streaming.channels import Channel, Channels
from natsbroker.streaming.clients import Clients
from natsbroker.streaming.deadlines import Deadlines
from natsbroker.streaming.delivery import ChannelDelivery
from natsbroker.streaming.figures import Traffic
from natsbroker.streaming.inactivity import InactivityTimers
from natsbroker.streaming.ledger import Ledger, ledgerSpace
from natsbroker.streaming.names import Subjects
from natsbroker.streaming.options import StreamingOptions
from natsbroker.streaming.redelivery import Redelivery
from natsbroker.streaming.requests.acks import AckHandler
from natsbroker.streaming.requests.close import CloseHandler
from natsbroker.streaming.requests.connect import ConnectHandler
from natsbroker.streaming.requests.dispatcher import Dispatcher
from natsbroker.streaming.requests.publish import PublishHandler
from natsbroker.streaming.requests.subscribe import SubscribeHandler

__all__ = ["Components", "Environment"]

_log = Logger(namespace="natsbroker.streaming")


class Environment(Protocol):
    """
    What the parts are given from outside; see L{natsbroker.streaming.service.StreamingService}.
    """

    bus: IMessageBus
    reactor: IReactorTime
    options: StreamingOptions
    monotonic: Callable[[], float]
    now: Callable[[], int]
    newInbox: Callable[[], bytes]

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """
        Have something done that nobody waits for.
        """


class Components:
    """
    What the service consists of while it runs.
    """

    def __init__(self, around: Environment, store: IStreamStore, subjects: Subjects) -> None:
        bus, options, run = around.bus, around.options, around.run
        self.deadlines = deadlines = Deadlines(around.reactor, around.monotonic)
        self.traffic = traffic = Traffic()
        self.clients = clients = Clients()
        self.idleness = idleness = InactivityTimers(deadlines, run, self.delete)
        self.channels = channels = Channels(
            store, options.limits, options.clusterId, idleness.created
        )
        self.ledger = ledger = Ledger(store.states(ledgerSpace(options.clusterId)), deadlines)
        self.intake = Dispatcher(bus, subjects)
        delivery = ChannelDelivery(bus, deadlines, ledger, traffic, run)
        self.redelivery = redelivery = Redelivery(delivery, deadlines, ledger, run)
        self.leaving = leaving = CloseHandler(
            bus, subjects, clients, channels, redelivery, idleness, ledger, run
        )
        self.publishing = PublishHandler(
            bus, subjects.publish, clients, channels, delivery, idleness, traffic, around.now
        )
        self.acknowledging = AckHandler(subjects.subscribe, delivery, ledger, leaving.withdraw)
        self.subscribing = SubscribeHandler(
            bus,
            subjects.subscribe,
            clients,
            channels,
            delivery,
            redelivery,
            leaving,
            idleness,
            ledger,
            run,
            self.intake,
            around.newInbox,
            around.now,
            options.replaceDurable,
        )
        self.connecting = connecting = ConnectHandler(
            bus,
            around.reactor,
            subjects,
            options.heartbeats,
            clients,
            leaving,
            deadlines,
            ledger,
            run,
        )
        self.requests = {
            subjects.discover: connecting.connect,
            subjects.pings: connecting.ping,
            subjects.subscribe: self.subscribing.subscribe,
            subjects.unsubscribe: leaving.unsubscribe,
            subjects.subClose: leaving.closeSubscription,
            subjects.close: leaving.close,
        }

    async def delete(self, channel: Channel) -> None:
        """
        Delete a channel that nobody uses.
        """
        try:
            await self.channels.drop(channel)
        except StoreError as error:
            why = str(error)
            _log.error('Cannot delete channel "{name}": {why}', name=channel.name, why=why)
            self.idleness.left(channel)
            return
        _log.info('Channel "{name}" has been deleted', name=channel.name)
        offline = list(channel.subscriptions)
        channel.groups.clear()
        await self.ledger.ended(offline)
