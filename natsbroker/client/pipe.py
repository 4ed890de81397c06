"""
A connection between two protocols in one process, without sockets.

Each end is a transport as Twisted's: what is written arrives in a later turn of the
reactor; a producer is paused while the other end does not take what was written; losing the
connection sends first.
"""

from __future__ import annotations

from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IAddress, IProtocol, IReactorTime
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker.client.transportend import TransportEnd

__all__ = ["PipeAddress", "PipeEnd", "connectPipe"]

#: More bytes on their way than these pause a producer.
_FULL = 1 << 16


@implementer(IAddress)
class PipeAddress:
    """
    Where the ends of a pipe are: in this process.
    """

    def __repr__(self) -> str:
        return "PipeAddress()"


class PipeEnd(TransportEnd):
    """
    One end.
    """

    def __init__(self, reactor: IReactorTime, protocol: IProtocol) -> None:
        super().__init__(PipeAddress(), PipeAddress())
        self.connected = self.isReading = True
        self.other: PipeEnd = self
        self._reactor = reactor
        self._protocol = protocol
        self._onItsWay = bytearray()
        self._isScheduled = False

    def write(self, data: bytes) -> None:
        if not self.connected or self.disconnecting or not data:
            return
        self._onItsWay += data
        self._schedule()
        if len(self._onItsWay) > _FULL:
            self._filled()

    def loseConnection(self) -> None:
        if self.connected and not self.disconnecting:
            self.disconnecting = True
            self.isReading = False
            self._schedule()

    def abortConnection(self) -> None:
        """
        End without sending what waits.
        """
        if self.connected:
            self._onItsWay.clear()
            self._end(ConnectionAborted(), ConnectionLost())

    def _readOn(self) -> None:
        self.other._schedule()

    def _schedule(self) -> None:
        if not self._isScheduled:
            self._isScheduled = True
            self._reactor.callLater(0, self._send)

    def _send(self) -> None:
        self._isScheduled = False
        if not self.connected:
            return
        other = self.other
        if other.disconnecting:
            # Nobody reads any more over there.
            self._onItsWay.clear()
        if self._onItsWay and other.isReading:
            data = bytes(self._onItsWay)
            self._onItsWay.clear()
            other._protocol.dataReceived(data)
        if self._onItsWay:
            return
        self._drained()
        if self.disconnecting and self.connected:
            self._end(ConnectionDone(), ConnectionDone())

    def _end(self, ours: Exception, theirs: Exception) -> None:
        for end, reason in ((self, ours), (self.other, theirs)):
            end.connected = end.isReading = False
            self._reactor.callLater(0, end._lost, reason)

    def _lost(self, reason: Exception) -> None:
        self._abandoned()
        self._protocol.connectionLost(Failure(reason))


def connectPipe(reactor: IReactorTime, one: IProtocol, other: IProtocol) -> None:
    """
    Connect two protocols. C{one} is told first.
    """
    first, second = PipeEnd(reactor, one), PipeEnd(reactor, other)
    first.other, second.other = second, first
    one.makeConnection(first)
    other.makeConnection(second)
