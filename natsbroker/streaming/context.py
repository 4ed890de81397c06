"""The parts of the streaming service that its request handlers share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from natsbroker.config.settings.streaming import Streaming
from natsbroker.connections.turns import AccountTurns
from natsbroker.interfaces import IMessageBus, IStreamStore
from natsbroker.interfaces.records import StoreError
from natsbroker.runtime.deadlines import Deadlines
from natsbroker.streaming.channels import Channels, InactivityTimers
from natsbroker.streaming.delivery import ChannelDelivery, Run, TrafficCounters
from natsbroker.streaming.ledger import Ledger, ledgerSpace
from natsbroker.streaming.model import Channel, StreamingClient
from natsbroker.streaming.protocol import Replies
from natsbroker.streaming.redelivery import Redelivery
from natsbroker.subjects.channels import RequestSubjects

_log = Logger(namespace="natsbroker.streaming")


class Clients:
    def __init__(self) -> None:
        self.byID: dict[str, StreamingClient] = {}
        self.byConnection: dict[bytes, StreamingClient] = {}

    def register(self, client: StreamingClient) -> None:
        if client.clientID in self.byID:
            raise KeyError(client.clientID)
        self.byID[client.clientID] = client
        if client.connID:
            self.byConnection[client.connID] = client
        client.isRegistered = True

    def unregister(self, client: StreamingClient) -> None:
        client.isRegistered = False
        del self.byID[client.clientID]
        if self.byConnection.get(client.connID) is client:
            del self.byConnection[client.connID]
        heartbeat, client.heartbeat = client.heartbeat, None
        if heartbeat is not None:
            heartbeat.cancel()

    def find(self, clientID: str, connID: bytes) -> StreamingClient | None:
        return self.byConnection.get(connID) if connID else self.byID.get(clientID)

    def __len__(self) -> int:
        return len(self.byID)

    def __iter__(self) -> Iterator[StreamingClient]:
        return iter(list(self.byID.values()))


class StreamingContext:
    """The parts that handlers share; C{now} is in nanoseconds, a new inbox cannot be guessed."""

    def __init__(
        self,
        bus: IMessageBus,
        reactor: IReactorTime,
        settings: Streaming,
        subjects: RequestSubjects,
        store: IStreamStore,
        run: Run,
        monotonic: Callable[[], float],
        now: Callable[[], int],
        newInbox: Callable[[], bytes],
        turns: AccountTurns,
    ) -> None:
        self.bus = bus
        self.reactor = reactor
        self.settings = settings
        self.subjects = subjects
        self.run = run
        self.now = now
        self.newInbox = newInbox
        self.replies = Replies(bus)
        self.traffic = TrafficCounters()
        self.clients = Clients()
        self.deadlines = Deadlines(reactor, monotonic)
        self.inactivity = InactivityTimers(self.deadlines, run, self.delete)
        self.channels = Channels(store, settings, self.inactivity.created)
        self.ledger = Ledger(store.states(ledgerSpace(settings.cluster_id)), self.deadlines)
        self.delivery = ChannelDelivery(bus, self.deadlines, turns, self.ledger, self.traffic, run)
        self.redelivery = Redelivery(self.delivery, self.deadlines, turns, self.ledger, run)

    async def delete(self, channel: Channel) -> None:
        try:
            await self.channels.drop(channel)
        except StoreError as error:
            why = str(error)
            _log.error('Cannot delete channel "{name}": {why}', name=channel.name, why=why)
            self.inactivity.left(channel)
            return
        _log.info('Channel "{name}" has been deleted', name=channel.name)
        offline = list(channel.subscriptions)
        channel.groups.clear()
        await self.ledger.ended(offline)
