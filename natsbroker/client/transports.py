"""Transports without sockets: a base, and a pipe between protocols in one process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
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

__all__ = ["PipeAddress", "PipeEnd", "TransportEnd", "connectPipe"]


@implementer(ITransport, IConsumer, IPushProducer)
class TransportEnd(ABC):
    """
    One end of a connection, for one streaming producer: it is paused once when too much waits, and
    resumed once when there is room.

    @ivar connected: whether the protocol still has the connection.
    @ivar disconnecting: whether the protocol has asked to close it.
    @ivar isReading: whether the protocol takes input.
    """

    def __init__(self, own: IAddress, peer: IAddress) -> None:
        self.connected = False
        self.disconnecting = False
        self.isReading = False
        self._own = own
        self._peer = peer
        self._producer: Any = None
        self._isPaused = False

    @abstractmethod
    def write(self, data: bytes) -> None: ...

    @abstractmethod
    def loseConnection(self) -> None: ...

    @abstractmethod
    def _readOn(self) -> None:
        """Deliver input that waited while the protocol was paused."""

    def writeSequence(self, data: Iterable[bytes]) -> None:
        self.write(b"".join(data))

    def getPeer(self) -> Any:
        return self._peer

    def getHost(self) -> Any:
        return self._own

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        if self._producer is not None:
            raise RuntimeError("a producer is registered already")
        if not streaming:
            raise NotImplementedError("only streaming producers are supported")
        if self.connected:
            self._producer = producer
        else:
            producer.stopProducing()

    def unregisterProducer(self) -> None:
        self._producer = None
        self._isPaused = False

    def _filled(self) -> None:
        if self._producer is not None and not self._isPaused:
            self._isPaused = True
            self._producer.pauseProducing()

    def _drained(self) -> bool:
        isWaited, self._isPaused = self._isPaused, False
        if isWaited:
            self._producer.resumeProducing()
        return isWaited

    def _abandoned(self) -> None:
        producer = self._producer
        self.unregisterProducer()
        if producer is not None:
            producer.stopProducing()

    def pauseProducing(self) -> None:
        self.isReading = False

    def resumeProducing(self) -> None:
        if self.connected and not self.disconnecting:
            self.isReading = True
            self._readOn()

    def stopProducing(self) -> None:
        self.loseConnection()


_FULL = 1 << 16
"""The number of waiting bytes above which a producer is paused."""


@implementer(IAddress)
class PipeAddress:
    def __repr__(self) -> str:
        return "PipeAddress()"


class PipeEnd(TransportEnd):
    """One end of a pipe. Written bytes arrive in a later turn of the reactor."""

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
            # The peer reads no more.
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
    first, second = PipeEnd(reactor, one), PipeEnd(reactor, other)
    first.other, second.other = second, first
    one.makeConnection(first)
    other.makeConnection(second)
