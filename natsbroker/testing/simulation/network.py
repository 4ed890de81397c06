"""
A network in memory. Data between hosts is delayed, split and held, connections are reset, and hosts
die. Each choice comes from one seeded source, so a run can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from twisted.internet import error
from twisted.internet.address import IPv4Address
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IConnector, IListeningPort, IReactorTCP, IReactorTime
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker.testing.simulation.clock import SimulatedClock
from natsbroker.testing.simulation.connection import Connection, End, Machine, Medium

__all__ = ["Host", "Network"]

#: The first port of a host for outgoing connections.
_EPHEMERAL = 40_000


@implementer(IListeningPort)
class _Port:
    def __init__(self, host: Host, port: int, factory: Any) -> None:
        self.host = host
        self.port = port
        self.factory = factory

    def startListening(self) -> None:
        """Nothing to do: the port listens from its creation."""

    def stopListening(self) -> None:
        if self.host.ports.pop(self.port, None) is not None:
            self.factory.doStop()

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", self.host.address, self.port)


@implementer(IReactorTCP, IReactorTime)
class Host(Machine):
    def __init__(self, network: Network, address: str) -> None:
        super().__init__(address)
        self.network = network
        self.ports: dict[int, _Port] = {}
        self._nextPort = _EPHEMERAL

    def seconds(self) -> float:
        return self.network.clock.seconds()

    def callLater(
        self, delay: float, callable: Callable[..., Any], *args: object, **kw: object
    ) -> Any:
        return self.network.clock.callLater(delay, self._run, callable, args, kw)

    def _run(self, call: Callable[..., Any], arguments: Any, keywords: Any) -> None:
        if self.isAlive:
            call(*arguments, **keywords)

    def getDelayedCalls(self) -> Any:
        return self.network.clock.getDelayedCalls()

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> _Port:
        port = port or self.freePort()
        if port in self.ports:
            raise CannotListenError(interface, port, OSError(98, "Address already in use"))
        listening = self.ports[port] = _Port(self, port, factory)
        factory.doStart()
        return listening

    def connectTCP(
        self, host: str, port: int, factory: Any, timeout: float = 30, bindAddress: Any = None
    ) -> Connector:
        connector = Connector(self, IPv4Address("TCP", host, port), factory, timeout)
        connector.connect()
        return connector

    def freePort(self) -> int:
        self._nextPort += 1
        return self._nextPort

    def die(self) -> None:
        """Stop everything that runs here at once. Peers notice it by the network."""
        self.isAlive = False
        for port in self.ports.values():
            port.factory.doStop()
        self.ports.clear()
        self.network.reset(self.address)


@implementer(IConnector)
class Connector:
    def __init__(self, host: Host, destination: IPv4Address, factory: Any, timeout: float) -> None:
        self._host = host
        self._network = host.network
        self._destination = destination
        self._factory = factory
        self._timeout = timeout
        self._end: End | None = None
        self._isOver = False

    def connect(self) -> None:
        self._factory.doStart()
        self._factory.startedConnecting(self)
        self._giveUp = self._host.callLater(self._timeout, self._fail, error.TimeoutError())
        self._soon(self._knock)

    def _soon(self, call: Any) -> None:
        network = self._network
        network.clock.callLater(network.random.random() * network.latency, self._ifAlive, call)

    def _ifAlive(self, call: Any) -> None:
        if self._host.isAlive and not self._isOver:
            call()

    def _knock(self) -> None:
        own, there = self._host.address, self._destination.host
        if self._network.isHeld(own, there) or self._network.isHeld(there, own):
            self._network.clock.callLater(0.5, self._ifAlive, self._knock)
            return
        answerer = self._network.at(there)
        port = None if answerer is None else answerer.ports.get(self._destination.port)
        if answerer is None or port is None:
            self._fail(error.ConnectionRefusedError())
            return
        self._isOver = True
        self._giveUp.cancel()
        own_ = IPv4Address("TCP", own, self._host.freePort())
        connection = self._network.join(self._host, answerer, port, own_)
        self._end = connection.dialler
        self._end.connector = self
        for end, protocol in (
            (connection.answerer, port.factory.buildProtocol(own_)),
            (connection.dialler, self._factory.buildProtocol(self._destination)),
        ):
            if protocol is None:
                connection.reset()
            else:
                end.open(protocol)

    def _fail(self, reason: Exception) -> None:
        if not self._isOver:
            self._isOver = True
            if self._giveUp.active():
                self._giveUp.cancel()
            self._factory.clientConnectionFailed(self, Failure(reason))
            self._factory.doStop()

    def lost(self, reason: Failure) -> None:
        self._factory.clientConnectionLost(self, reason)
        self._factory.doStop()

    def stopConnecting(self) -> None:
        self._fail(error.UserError())

    def disconnect(self) -> None:
        if self._end is not None:
            self._end.loseConnection()
        else:
            self.stopConnecting()

    def getDestination(self) -> IPv4Address:
        return self._destination


class Network(Medium):
    def __init__(self, clock: SimulatedClock, random: Random) -> None:
        super().__init__(clock, random)
        self.connections: dict[int, Connection] = {}
        self._hosts: dict[str, Host] = {}
        self._number = 0

    def host(self, address: str) -> Host:
        host = self._hosts.get(address)
        if host is None or not host.isAlive:
            host = self._hosts[address] = Host(self, address)
        return host

    def at(self, address: str) -> Host | None:
        host = self._hosts.get(address)
        return host if host is not None and host.isAlive else None

    def join(self, dialler: Host, answerer: Host, port: _Port, own: IPv4Address) -> Connection:
        self._number += 1
        there = IPv4Address("TCP", answerer.address, port.port)
        connection = Connection(self, self._number, dialler, answerer, own, there, self.over)
        self.connections[self._number] = connection
        return connection

    def over(self, connection: Connection) -> None:
        self.connections.pop(connection.number, None)

    def between(self, one: str, other: str = "") -> Iterator[Connection]:
        for connection in list(self.connections.values()):
            ends = connection.ends
            if one in ends and (not other or other in ends):
                yield connection

    def hold(self, source: str, target: str) -> None:
        """Carry nothing from one host to another until L{release}; nothing is lost."""
        self._held.add((source, target))

    def release(self, source: str, target: str) -> None:
        if (source, target) in self._held:
            self._held.discard((source, target))
            for connection in self.between(source, target):
                connection.carryOn()

    def heal(self) -> None:
        for source, target in sorted(self._held):
            self.release(source, target)

    def reset(self, one: str, other: str = "") -> None:
        """Reset the connections between two hosts, or all of one; what is on its way is lost."""
        for connection in self.between(one, other):
            connection.reset()
