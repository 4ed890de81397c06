"""
One connection of the simulated network: two ends, each of which behaves towards its protocol as a
Twisted TCP transport does, a wire in each direction, and the medium of all wires.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from twisted.internet import error
from twisted.internet.address import IPv4Address
from twisted.python.failure import Failure

from natsbroker.client.transports import TransportEnd
from natsbroker.testing.simulation.clock import SimulatedClock

__all__ = ["Connection", "End", "Machine", "Medium", "Wire"]

#: Bytes on the way at which a producer is paused.
_ROOM = 1 << 16

#: The mark behind the last byte on a wire.
_FINISHED = object()


class Machine:
    def __init__(self, address: str) -> None:
        self.address = address
        self.isAlive = True


class Medium:
    """
    @ivar latency: the longest delay of a piece, in seconds.
    @ivar largest: the most bytes of a piece.
    @ivar watch: called with a wire and everything written to it, before it is on its way.
    @ivar trace: a digest of the carried bytes, their paths and times.
    """

    def __init__(self, clock: SimulatedClock, random: Random) -> None:
        self.clock = clock
        self.random = random
        self.latency = 0.005
        self.largest = 1 << 16
        self.watch: Callable[[Any, bytes], None] = lambda wire, data: None
        self._held: set[tuple[str, str]] = set()
        self._digest = hashlib.sha256()

    def carried(self, number: int, source: str, data: bytes) -> None:
        now = self.clock.seconds()
        self._digest.update(b"%d %b %.9f %d " % (number, source.encode(), now, len(data)))
        self._digest.update(data)

    @property
    def trace(self) -> str:
        return self._digest.hexdigest()

    def isHeld(self, source: str, target: str) -> bool:
        return (source, target) in self._held


class Wire:
    def __init__(self, medium: Medium, number: int, source: End, target: End) -> None:
        self._medium = medium
        self._number = number
        self.source = source
        self.target = target
        self.waiting = 0
        self._pieces: deque[tuple[float, Any]] = deque()
        self._last = 0.0
        self._isScheduled = False

    def send(self, data: bytes) -> None:
        medium = self._medium
        medium.watch(self, data)
        position = 0
        while position < len(data):
            size = medium.largest
            if size > 1 and medium.random.random() < 0.3:
                size = medium.random.randint(1, size)
            piece = data[position : position + size]
            position += len(piece)
            self._put(piece)
        self.waiting += len(data)

    def finish(self) -> None:
        self._put(_FINISHED)

    def clear(self) -> None:
        self._pieces.clear()
        self.waiting = 0

    def _put(self, piece: Any) -> None:
        medium = self._medium
        due = medium.clock.seconds() + medium.random.random() * medium.latency
        if due < self._last:
            due = self._last
        self._last = due
        self._pieces.append((due, piece))
        if not self._isScheduled:
            self.carryOn()

    def carryOn(self) -> None:
        if self._pieces and not self._isScheduled and self._isOpen():
            self._isScheduled = True
            self._medium.clock.schedule(self._pieces[0][0], self._arrive)

    def _isOpen(self) -> bool:
        if not self.target.isReading:
            return False
        return not self._medium.isHeld(self.source.host.address, self.target.host.address)

    def _arrive(self) -> None:
        self._isScheduled = False
        if not self._pieces or not self._isOpen():
            return
        _, piece = self._pieces.popleft()
        if piece is _FINISHED:
            self.target.ended(error.ConnectionDone())
            return
        self.waiting -= len(piece)
        self._medium.carried(self._number, self.source.host.address, piece)
        self.target.take(piece)
        self.source.relieve()
        self.carryOn()


class End(TransportEnd):
    def __init__(self, medium: Medium, host: Machine, own: IPv4Address, peer: IPv4Address) -> None:
        super().__init__(own, peer)
        self.host = host
        self._clock = medium.clock
        self.protocol: Any = None
        self.connector: Any = None
        self._connection: Any = None
        self._wire: Any = None
        self._back: Any = None

    def attach(self, connection: Connection, out: Wire, back: Wire) -> None:
        self._connection = connection
        self._wire = out
        self._back = back

    def open(self, protocol: Any) -> None:
        self.protocol = protocol
        self.connected = self.isReading = True
        protocol.makeConnection(self)
        self._back.carryOn()

    def take(self, data: bytes) -> None:
        if self.connected and self.host.isAlive and not self.disconnecting:
            self.protocol.dataReceived(data)

    def relieve(self) -> None:
        if not (self.connected and self.host.isAlive) or self._wire.waiting:
            return
        self._drained()
        if self.disconnecting and not self._wire.waiting:
            self._finished()

    def ended(self, reason: Exception) -> None:
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
                self._clock.callLater(0, self._finished)

    def _finished(self) -> None:
        if self.connected:
            self._wire.finish()
            self._back.clear()
            self.ended(error.ConnectionDone())

    def abortConnection(self) -> None:
        if self.connected:
            self.disconnecting = True
            self._clock.callLater(0, self._connection.reset, self)

    def _readOn(self) -> None:
        self._back.carryOn()

    def setTcpNoDelay(self, enabled: bool) -> None:
        """Nothing to do: only the network delays bytes."""

    def setTcpKeepAlive(self, enabled: bool) -> None:
        """Nothing to do: the network never checks whether a peer is there."""


class Connection:
    def __init__(
        self,
        medium: Medium,
        number: int,
        dialler: Machine,
        answerer: Machine,
        own: IPv4Address,
        there: IPv4Address,
        over: Callable[[Connection], object],
    ) -> None:
        self._over = over
        self.number = number
        self.ends = (dialler.address, answerer.address)
        self._medium = medium
        self.dialler = End(medium, dialler, own, there)
        self.answerer = End(medium, answerer, there, own)
        self._wires = (
            Wire(medium, number, self.dialler, self.answerer),
            Wire(medium, number, self.answerer, self.dialler),
        )
        there_, back = self._wires
        self.dialler.attach(self, there_, back)
        self.answerer.attach(self, back, there_)

    def carryOn(self) -> None:
        for wire in self._wires:
            wire.carryOn()

    def reset(self, by: End | None = None) -> None:
        for wire in self._wires:
            wire.clear()
        for end in (self.dialler, self.answerer):
            if end is by:
                end.ended(error.ConnectionAborted())
            elif by is None:
                self._medium.clock.callLater(0, end.ended, error.ConnectionLost())
            else:
                self._learn(end)

    def _learn(self, end: End) -> None:
        # The other end learns it from the network, when that carries it.
        other = self.answerer if end is self.dialler else self.dialler
        if self._medium.isHeld(other.host.address, end.host.address):
            self._medium.clock.callLater(0.1, self._learn, end)
        else:
            end.ended(error.ConnectionLost())

    def endOver(self) -> None:
        if not (self.dialler.connected or self.answerer.connected):
            self._over(self)
