"""
A connection between two protocols in one process, without sockets.

Promises: each end is a transport as Twisted's: what is written arrives in a later turn of the
reactor; a producer is paused while the other end does not take what was written; losing the
connection sends first.
Must never know: what the bytes mean.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import (
    IAddress,
    IConsumer,
    IProtocol,
    IPushProducer,
    IReactorTime,
    ITransport,
)
from twisted.python.failure import Failure
from zope.interface import implementer

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


@implementer(ITransport, IConsumer, IPushProducer)
class PipeEnd:
    """
    One end.

    @ivar disconnecting: whether it was asked to close.
    """

    def __init__(self, reactor: IReactorTime, protocol: IProtocol) -> None:
        self.other: PipeEnd = self
        self.disconnecting = False
        self._reactor = reactor
        self._protocol = protocol
        self._isConnected = True
        self._isReading = True
        self._onItsWay = bytearray()
        self._isScheduled = False
        self._producer: Any = None
        self._isPaused = False

    def write(self, data: bytes) -> None:
        """
        See L{ITransport.write}.
        """
        if not self._isConnected or self.disconnecting or not data:
            return
        self._onItsWay += data
        self._schedule()
        if self._producer is not None and len(self._onItsWay) > _FULL:
            self._isPaused = True
            self._producer.pauseProducing()

    def writeSequence(self, data: Any) -> None:
        """
        See L{ITransport.writeSequence}.
        """
        self.write(b"".join(data))

    def loseConnection(self) -> None:
        """
        See L{ITransport.loseConnection}.
        """
        if self._isConnected and not self.disconnecting:
            self.disconnecting = True
            self._isReading = False
            self._schedule()

    def abortConnection(self) -> None:
        """
        End without sending what waits.
        """
        if self._isConnected:
            self._onItsWay.clear()
            self._end(ConnectionAborted(), ConnectionLost())

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """
        See L{IConsumer.registerProducer}. Only streaming producers are supported.
        """
        if not streaming:
            raise NotImplementedError("only streaming producers are supported")
        if self._producer is not None:
            raise RuntimeError("a producer is registered already")
        if self._isConnected:
            self._producer = producer
        else:
            producer.stopProducing()

    def unregisterProducer(self) -> None:
        """
        See L{IConsumer.unregisterProducer}.
        """
        self._producer = None
        self._isPaused = False

    def pauseProducing(self) -> None:
        """
        See L{IPushProducer.pauseProducing}.
        """
        self._isReading = False

    def resumeProducing(self) -> None:
        """
        See L{IPushProducer.resumeProducing}.
        """
        if self._isConnected and not self.disconnecting:
            self._isReading = True
            self.other._schedule()

    def stopProducing(self) -> None:
        """
        See L{IPushProducer.stopProducing}.
        """
        self.loseConnection()

    def getPeer(self) -> IAddress:
        """
        See L{ITransport.getPeer}.
        """
        return PipeAddress()

    def getHost(self) -> IAddress:
        """
        See L{ITransport.getHost}.
        """
        return PipeAddress()

    def _schedule(self) -> None:
        if not self._isScheduled:
            self._isScheduled = True
            self._reactor.callLater(0, self._send)

    def _send(self) -> None:
        self._isScheduled = False
        if not self._isConnected:
            return
        other = self.other
        if other.disconnecting:
            # Nobody reads any more over there.
            self._onItsWay.clear()
        if self._onItsWay and other._isReading:
            data = bytes(self._onItsWay)
            self._onItsWay.clear()
            other._protocol.dataReceived(data)
        if self._onItsWay:
            return
        if self._isPaused:
            self._isPaused = False
            self._producer.resumeProducing()
        if self.disconnecting and self._isConnected:
            self._end(ConnectionDone(), ConnectionDone())

    def _end(self, ours: Exception, theirs: Exception) -> None:
        for end, reason in ((self, ours), (self.other, theirs)):
            end._isConnected = end._isReading = False
            self._reactor.callLater(0, end._lost, reason)

    def _lost(self, reason: Exception) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.stopProducing()
        self._protocol.connectionLost(Failure(reason))


def connectPipe(reactor: IReactorTime, one: IProtocol, other: IProtocol) -> None:
    """
    Connect two protocols. C{one} is told first.
    """
    first, second = PipeEnd(reactor, one), PipeEnd(reactor, other)
    first.other, second.other = second, first
    one.makeConnection(first)
    other.makeConnection(second)
