"""
What the transports that need no sockets have in common.

The protocol's side of a transport as Twisted's is: one streaming producer, which is
paused once when too much waits, resumed once when there is room, and told when the connection is
gone; whoever pauses the transport gets no input until it resumes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from twisted.internet.interfaces import IAddress, IConsumer, IPushProducer, ITransport
from zope.interface import implementer

__all__ = ["TransportEnd"]


@implementer(ITransport, IConsumer, IPushProducer)
class TransportEnd(ABC):
    """
    One end of a connection.

    @ivar connected: whether the protocol has it still.
    @ivar disconnecting: whether the protocol has asked to close.
    @ivar isReading: whether the protocol takes input.
    """

    def __init__(self, own: IAddress, peer: IAddress) -> None:
        """
        @param own: where this end is.
        @param peer: where the other is.
        """
        self.connected = False
        self.disconnecting = False
        self.isReading = False
        self._own = own
        self._peer = peer
        self._producer: Any = None
        self._isPaused = False

    @abstractmethod
    def write(self, data: bytes) -> None:
        """
        See L{ITransport.write}.
        """

    @abstractmethod
    def loseConnection(self) -> None:
        """
        See L{ITransport.loseConnection}.
        """

    @abstractmethod
    def _readOn(self) -> None:
        """
        The protocol takes input again.
        """

    def writeSequence(self, data: Iterable[bytes]) -> None:
        self.write(b"".join(data))

    def getPeer(self) -> Any:
        return self._peer

    def getHost(self) -> Any:
        return self._own

    # The producer that writes.

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """
        See L{IConsumer.registerProducer}. Only streaming producers are supported.
        """
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
        """
        Too much waits.
        """
        if self._producer is not None and not self._isPaused:
            self._isPaused = True
            self._producer.pauseProducing()

    def _drained(self) -> bool:
        """
        There is room.

        @return: whether somebody had waited for it.
        """
        isWaited, self._isPaused = self._isPaused, False
        if isWaited:
            self._producer.resumeProducing()
        return isWaited

    def _abandoned(self) -> None:
        """
        The connection is gone.
        """
        producer = self._producer
        self.unregisterProducer()
        if producer is not None:
            producer.stopProducing()

    # The transport as a producer.

    def pauseProducing(self) -> None:
        self.isReading = False

    def resumeProducing(self) -> None:
        if self.connected and not self.disconnecting:
            self.isReading = True
            self._readOn()

    def stopProducing(self) -> None:
        self.loseConnection()
