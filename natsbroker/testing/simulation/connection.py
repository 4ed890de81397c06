"""
One connection of the simulated network: two ends, and a wire in each direction.

Towards its protocol an end behaves as a Twisted TCP transport does: nothing is called
from within a call of the protocol; a producer is paused while more waits than a socket takes, and
resumed when all of it has left; C{loseConnection} sends first, C{abortConnection} does not.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from twisted.internet import error
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import IConnector
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker.client.transportend import TransportEnd

if TYPE_CHECKING:
    from natsbroker.testing.simulation.network import Host, Network

__all__ = ["Connection", "Connector", "End"]

#: Bytes on the way at which a producer is paused.
_ROOM = 1 << 16

#: What may be on a wire behind all bytes.
_FINISHED = object()


class Wire:
    """
    One direction.

    @ivar waiting: how many bytes are on the way.
    """

    def __init__(self, network: Network, number: int, source: End, target: End) -> None:
        self._network = network
        self._number = number
        self.source = source
        self.target = target
        self.waiting = 0
        self._pieces: deque[tuple[float, Any]] = deque()
        self._last = 0.0
        self._isScheduled = False

    def send(self, data: bytes) -> None:
        """
        Put bytes on the way, in pieces.
        """
        network = self._network
        network.watch(self, data)
        position = 0
        while position < len(data):
            size = network.largest
            if size > 1 and network.random.random() < 0.3:
                size = network.random.randint(1, size)
            piece = data[position : position + size]
            position += len(piece)
            self._put(piece)
        self.waiting += len(data)

    def finish(self) -> None:
        """
        Nothing comes after this.
        """
        self._put(_FINISHED)

    def clear(self) -> None:
        """
        Lose what is on the way.
        """
        self._pieces.clear()
        self.waiting = 0

    def _put(self, piece: Any) -> None:
        network = self._network
        due = network.clock.seconds() + network.random.random() * network.latency
        if due < self._last:
            due = self._last
        self._last = due
        self._pieces.append((due, piece))
        if not self._isScheduled:
            self.carryOn()

    def carryOn(self) -> None:
        """
        Go on with what is on the way, if nothing stands against it.
        """
        if self._pieces and not self._isScheduled and self._isOpen():
            self._isScheduled = True
            self._network.clock.schedule(self._pieces[0][0], self._arrive)

    def _isOpen(self) -> bool:
        if not self.target.isReading:
            return False
        return not self._network.isHeld(self.source.host.address, self.target.host.address)

    def _arrive(self) -> None:
        self._isScheduled = False
        if not self._pieces or not self._isOpen():
            return
        _, piece = self._pieces.popleft()
        if piece is _FINISHED:
            self.target.ended(error.ConnectionDone())
            return
        self.waiting -= len(piece)
        self._network.carried(self._number, self.source.host.address, piece)
        self.target.take(piece)
        self.source.relieve()
        self.carryOn()


class End(TransportEnd):
    """
    One end, the transport of a protocol.
    """

    def __init__(self, host: Host, own: IPv4Address, peer: IPv4Address) -> None:
        super().__init__(own, peer)
        self.host = host
        self.protocol: Any = None
        self.connector: Connector | None = None
        self._connection: Any = None
        self._wire: Any = None
        self._back: Any = None

    def attach(self, connection: Connection, out: Wire, back: Wire) -> None:
        """
        Be an end of a connection.
        """
        self._connection = connection
        self._wire = out
        self._back = back

    def open(self, protocol: Any) -> None:
        """
        Let a protocol have it.
        """
        self.protocol = protocol
        self.connected = self.isReading = True
        protocol.makeConnection(self)
        self._back.carryOn()

    # What comes.

    def take(self, data: bytes) -> None:
        """
        Bytes have come.
        """
        if self.connected and self.host.isAlive and not self.disconnecting:
            self.protocol.dataReceived(data)

    def relieve(self) -> None:
        """
        Some of what was sent has been taken.
        """
        if not (self.connected and self.host.isAlive) or self._wire.waiting:
            return
        self._drained()
        if self.disconnecting and not self._wire.waiting:
            self._finished()

    def ended(self, reason: Exception) -> None:
        """
        The connection is over.
        """
        if not self.connected:
            return
        self.connected = self.isReading = False
        if self.host.isAlive:
            self._abandoned()
            failure = Failure(reason)
            self.protocol.connectionLost(failure)
            if self.connector is not None:
                self.connector.lost(failure)
        self._connection.endOver()

    # The protocol's side.

    def write(self, data: bytes) -> None:
        if not self.connected or not data or self.disconnecting:
            return
        self._wire.send(bytes(data))
        if self._wire.waiting > _ROOM:
            self._filled()

    def loseConnection(self) -> None:
        if self.connected and not self.disconnecting:
            self.disconnecting = True
            if self._wire.waiting <= _ROOM:
                self.host.network.clock.callLater(0, self._finished)

    def _finished(self) -> None:
        if self.connected:
            self._wire.finish()
            self._back.clear()
            self.ended(error.ConnectionDone())

    def abortConnection(self) -> None:
        if self.connected:
            self.disconnecting = True
            self.host.network.clock.callLater(0, self._connection.reset, self)

    def _readOn(self) -> None:
        self._back.carryOn()

    def setTcpNoDelay(self, enabled: bool) -> None:
        """
        There is no delay but the network's.
        """

    def setTcpKeepAlive(self, enabled: bool) -> None:
        """
        The network asks nobody whether he is there.
        """


class Connection:
    """
    Two ends and their wires.

    @ivar number: how many there were before it.
    @ivar ends: the addresses of its hosts.
    """

    def __init__(
        self,
        network: Network,
        number: int,
        dialler: Host,
        answerer: Host,
        own: IPv4Address,
        there: IPv4Address,
    ) -> None:
        self.number = number
        self.ends = (dialler.address, answerer.address)
        self._network = network
        self.dialler = End(dialler, own, there)
        self.answerer = End(answerer, there, own)
        self._wires = (
            Wire(network, number, self.dialler, self.answerer),
            Wire(network, number, self.answerer, self.dialler),
        )
        there_, back = self._wires
        self.dialler.attach(self, there_, back)
        self.answerer.attach(self, back, there_)

    def carryOn(self) -> None:
        for wire in self._wires:
            wire.carryOn()

    def reset(self, by: End | None = None) -> None:
        """
        End it at once; what is on the way is lost.

        @param by: the end that wants it, if it is one.
        """
        for wire in self._wires:
            wire.clear()
        for end in (self.dialler, self.answerer):
            if end is by:
                end.ended(error.ConnectionAborted())
            elif by is None:
                self._network.clock.callLater(0, end.ended, error.ConnectionLost())
            else:
                self._learn(end)

    def _learn(self, end: End) -> None:
        # The other end learns it from the network, when that carries it.
        other = self.answerer if end is self.dialler else self.dialler
        if self._network.isHeld(other.host.address, end.host.address):
            self._network.clock.callLater(0.1, self._learn, end)
        else:
            end.ended(error.ConnectionLost())

    def endOver(self) -> None:
        """
        One end is over.
        """
        if not (self.dialler.connected or self.answerer.connected):
            self._network.over(self)


@implementer(IConnector)
class Connector:
    """
    An attempt to connect.
    """

    def __init__(self, host: Host, destination: IPv4Address, factory: Any, timeout: float) -> None:
        self._host = host
        self._network = host.network
        self._destination = destination
        self._factory = factory
        self._timeout = timeout
        self._end: End | None = None
        self._isOver = False

    def connect(self) -> None:
        """
        Begin.
        """
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
        """
        The connection that was made is over.
        """
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
