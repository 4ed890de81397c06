"""The common values of all links of one kind; a reload replaces them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

from twisted.internet.defer import maybeDeferred
from twisted.internet.interfaces import IReactorTime

from natsbroker import hot
from natsbroker.accounts.registry import AccountRegistry
from natsbroker.auth.passwords import PasswordChecks
from natsbroker.clients.context import ClientContext
from natsbroker.config.model import Logging, Settings
from natsbroker.connections.listener import Opened
from natsbroker.connections.wheel import DeadlineWheel
from natsbroker.interfaces import IAuthorizer, IGatewayInterestPolicy, IMessageBus
from natsbroker.links.hostcluster import HostCluster


@dataclass(eq=False)
class LinkContext:
    """
    @ivar settings: as L{natsbroker.links.settingsmapper.linkSettings} makes them.
    @ivar checks: compare the passwords of peers.
    @ivar maxTraced: how many bytes of a payload are logged; 0 for all.
    @ivar poller: the L{natsbroker.connections.poller.SocketPoller} of plain TCP connections;
        C{None} for Twisted's transports.
    @ivar nextNumber: gives the number of a new link; see L{Connections.nextNumber
        <natsbroker.clients.context.Connections>}.
    """

    reactor: IReactorTime
    batch: hot.FlushBatch
    wheel: DeadlineWheel
    random: Random
    settings: Settings = field(default_factory=Settings)
    tracing: bool = False
    fastLane: bool = True
    maxTraced: int = 0
    checks: PasswordChecks = field(default_factory=lambda: PasswordChecks(maybeDeferred))
    poller: Any = None
    nextNumber: Callable[[], int] = field(default_factory=lambda: count(1).__next__)

    def useTracing(self, tracing: Logging) -> None:
        self.tracing = tracing.isTraced
        self.maxTraced = tracing.max_traced_msg_len


@dataclass(frozen=True, slots=True)
class LinkDependencies:
    """
    @ivar serverId: by which other members of clusters know this broker.
    @ivar hostId: by which clients and leafnodes know it; neighbours have one.
    @ivar clients: what is shared with client connections: batches, deadlines, tracing.
    @ivar checks: compare the passwords of peers.
    @ivar policy: makes the policy that decides which messages other clusters receive.
    @ivar systemBus: gives the bus of the system account; C{None} without one.
    @ivar authorizerFor: makes the authorizer of clients from settings; C{None} if the settings do
        not determine it.
    @ivar sockets: sockets that already listen, by the configuration key of their kind. Each kind
        takes out its own.
    @ivar hostCluster: the host's brokers, including this one; C{None} for a server of one broker.
    """

    reactor: Any
    settings: Settings
    clients: ClientContext
    accounts: AccountRegistry
    serverId: str
    hostId: str
    random: Random
    checks: PasswordChecks
    policy: Callable[[], IGatewayInterestPolicy]
    systemBus: Callable[[], IMessageBus | None]
    authorizerFor: Callable[[Settings], IAuthorizer | None]
    sockets: dict[str, Opened] = field(default_factory=dict)
    hostCluster: HostCluster | None = None
