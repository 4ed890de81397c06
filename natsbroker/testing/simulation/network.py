"""
A network in memory, in which hosts dial each other, with everything that goes wrong with networks.

A connection keeps the order of its bytes, in pieces of any size and after any delay; what
one host sends another is held, as long as a test wants, in one direction or both; connections are
reset, hosts die. Each choice comes from one seeded source, so a run can be repeated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort, IReactorTCP, IReactorTime
from zope.interface import implementer

from natsbroker.testing.simulation.clock import SimulatedClock
from natsbroker.testing.simulation.connection import Connection, Connector, Wire

__all__ = ["Host", "Network"]

#: The first port of a host for outgoing connections.
_EPHEMERAL = 40_000


@implementer(IListeningPort)
class _Port:
    """
    A port that is listened on.
    """

    def __init__(self, host: Host, port: int, factory: Any) -> None:
        self.host = host
        self.port = port
        self.factory = factory

    def startListening(self) -> None:
        """
        Nothing to do: the port listens from its creation.
        """

    def stopListening(self) -> None:
        if self.host.ports.pop(self.port, None) is not None:
            self.factory.doStop()

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", self.host.address, self.port)


@implementer(IReactorTCP, IReactorTime)
class Host:
    """
    One machine, as the reactor of what runs on it.

    @ivar address: its address.
    @ivar isAlive: whether anything runs on it.
    @ivar ports: what is listened on, by number.
    """

    def __init__(self, network: Network, address: str) -> None:
        self.network = network
        self.address = address
        self.isAlive = True
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
        """
        See L{IReactorTime.getDelayedCalls}; those of all hosts.
        """
        return self.network.clock.getDelayedCalls()

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> _Port:
        port = port or self.freePort()
        if port in self.ports:
            raise CannotListenError(interface, port, OSError(98, "Address already in use"))
        listening = self.ports[port] = _Port(self, port, factory)
        factory.doStart()
        return listening

    def connectTCP(
        self,
        host: str,
        port: int,
        factory: Any,
        timeout: float = 30,
        bindAddress: Any = None,
    ) -> Connector:
        connector = Connector(self, IPv4Address("TCP", host, port), factory, timeout)
        connector.connect()
        return connector

    def freePort(self) -> int:
        """
        A port that nobody has used.
        """
        self._nextPort += 1
        return self._nextPort

    def die(self) -> None:
        """
        Stop everything that runs here at once; peers learn it from the network.
        """
        self.isAlive = False
        for port in self.ports.values():
            port.factory.doStop()
        self.ports.clear()
        self.network.reset(self.address)


class Network:
    """
    All hosts and what is between them.

    @ivar clock: the time of all of them.
    @ivar random: what is left to chance.
    @ivar latency: the longest delay of a piece, in seconds.
    @ivar largest: the most bytes of a piece.
    @ivar connections: all that are not over.
    @ivar watch: called with everything that is written, before it is on its way.
    """

    def __init__(self, clock: SimulatedClock, random: Random) -> None:
        self.clock = clock
        self.random = random
        self.latency = 0.005
        self.largest = 1 << 16
        self.connections: dict[int, Connection] = {}
        self.watch: Callable[[Wire, bytes], None] = _nobody
        self._hosts: dict[str, Host] = {}
        self._held: set[tuple[str, str]] = set()
        self._number = 0
        self._digest = hashlib.sha256()

    def host(self, address: str) -> Host:
        """
        Begin with a new machine at an address, or with the one that is there.
        """
        found = self._hosts.get(address)
        if found is None or not found.isAlive:
            found = self._hosts[address] = Host(self, address)
        return found

    def at(self, address: str) -> Host | None:
        """
        The machine at an address that runs, or C{None}.
        """
        found = self._hosts.get(address)
        return found if found is not None and found.isAlive else None

    # Connections.

    def join(self, dialler: Host, answerer: Host, port: _Port, own: IPv4Address) -> Connection:
        """
        Make the connection between two hosts. See L{Connector}.
        """
        self._number += 1
        there = IPv4Address("TCP", answerer.address, port.port)
        connection = Connection(self, self._number, dialler, answerer, own, there)
        self.connections[self._number] = connection
        return connection

    def over(self, connection: Connection) -> None:
        """
        A connection has ended for both.
        """
        self.connections.pop(connection.number, None)

    def between(self, one: str, other: str = "") -> Iterator[Connection]:
        """
        The connections between two hosts, or all of one.
        """
        for connection in list(self.connections.values()):
            ends = connection.ends
            if one in ends and (not other or other in ends):
                yield connection

    def carried(self, number: int, source: str, data: bytes) -> None:
        """
        Note what was carried: the trace of a run is the sum of it.
        """
        now = self.clock.seconds()
        self._digest.update(b"%d %b %.9f %d " % (number, source.encode(), now, len(data)))
        self._digest.update(data)

    @property
    def trace(self) -> str:
        """
        What distinguishes this run from every other: equal only if the same bytes took the same
        ways at the same times.
        """
        return self._digest.hexdigest()

    # What goes wrong.

    def hold(self, source: str, target: str) -> None:
        """
        Carry nothing from one host to another until L{release}; nothing is lost.
        """
        self._held.add((source, target))

    def release(self, source: str, target: str) -> None:
        """
        Carry on with what was held.
        """
        if (source, target) in self._held:
            self._held.discard((source, target))
            for connection in self.between(source, target):
                connection.carryOn()

    def isHeld(self, source: str, target: str) -> bool:
        """
        Whether nothing is carried from one host to another.
        """
        return (source, target) in self._held

    def heal(self) -> None:
        """
        Carry on everywhere.
        """
        for source, target in sorted(self._held):
            self.release(source, target)

    def reset(self, one: str, other: str = "") -> None:
        """
        Reset the connections between two hosts, or all of one; what is on its way is lost.
        """
        for connection in self.between(one, other):
            connection.reset()


def _nobody(wire: Wire, data: bytes) -> None:
    """
    An observer that does nothing.
    """
