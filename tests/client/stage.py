"""
A client and a broker in memory, connected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred, fail

from natsbroker.client.bus import RETRY, RemoteBus
from natsbroker.client.client import Client
from natsbroker.client.connecting import connectInProcess
from natsbroker.client.options import ConnectOptions
from natsbroker.testing.memory import MemoryBroker


class Stage:
    """
    A broker, a remote bus connected to it, and another client.

    @ivar isDown: whether connections are refused.
    @ivar clients: the connections that the bus has made.
    @ivar heardOf: the servers that the bus knew at each attempt.
    """

    def __init__(self) -> None:
        self.broker = MemoryBroker(configText="max_payload: 1000")
        self.isDown = False
        self.clients: list[Client] = []
        self.heardOf: list[list[str]] = []
        self.bus = RemoteBus(self.broker.reactor, self.dial)
        self.prepared: list[Any] = []

    def dial(self, heardOf: Sequence[str]) -> Deferred[Client]:
        """Make a connection."""
        self.heardOf.append(list(heardOf))
        if self.isDown:
            return fail(ConnectionRefusedError("nobody there"))
        dialling = connectInProcess(self.broker.broker, ConnectOptions(name="bus"))
        return dialling.addCallback(self._dialled)

    def _dialled(self, client: Client) -> Client:
        self.clients.append(client)
        return client

    def start(self) -> None:
        """Connect the bus."""
        self.bus.startService()
        self.bus.whenPrepared().addBoth(self.prepared.append)
        self.settle()

    def settle(self) -> None:
        """Let all calls that are due happen."""
        self.broker.advance(0)
        self.broker.advance(0)

    def client(self) -> Client:
        """Another client of the broker."""
        clients: list[Client] = []
        connectInProcess(self.broker.broker).addCallback(clients.append)
        self.settle()
        return clients[0]

    def fail(self) -> None:
        """Let time pass until the bus gives up its first connection."""
        while not self.prepared:
            self.broker.advance(RETRY)

    def cut(self) -> None:
        """Lose the connection."""
        self.clients[-1].close()
        self.settle()
