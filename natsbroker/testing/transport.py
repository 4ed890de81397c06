"""
A connection without a socket, with both ends controlled by the test. It behaves towards its
protocol as a Twisted TCP transport does: nothing is called from within a call of the protocol.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.interfaces import IAddress, IProtocol, IReactorTime
from twisted.python.failure import Failure

from natsbroker.client.transports import TransportEnd

__all__ = ["BUFFER_SIZE", "MemoryTransport"]

#: More waiting bytes than these pause a producer, as in Twisted.
BUFFER_SIZE = 1 << 16


class MemoryTransport(TransportEnd):
    """
    The server's transport, with the methods of its peer (L{send}, L{take}, L{hangUp}, L{taking}).

    @ivar closed: the way it ended: C{""} while it is open, C{"lost"} if the server closed after all
        was taken, C{"aborted"} if it did not wait for that, C{"left"} if the peer ended it.
    """

    def __init__(
        self,
        clock: IReactorTime,
        protocol: IProtocol,
        peer: IAddress | None = None,
        host: IAddress | None = None,
        bufferSize: int = BUFFER_SIZE,
    ) -> None:
        super().__init__(
            host or IPv4Address("TCP", "127.0.0.1", 4222),
            peer or IPv4Address("TCP", "127.0.0.1", 50000),
        )
        self.isReading = True
        self._clock = clock
        self._protocol = protocol
        self._bufferSize = bufferSize
        self._waiting = bytearray()
        self._taken = bytearray()
        self._unread = bytearray()
        self._isTaking = True
        self._soon: set[Callable[[], None]] = set()
        self.closed = ""

    def connect(self) -> None:
        self.connected = True
        self._protocol.makeConnection(self)

    def send(self, data: bytes) -> None:
        if not self.connected or self.disconnecting:
            return
        if self._unread or not self.isReading:
            self._unread += data
        else:
            self._protocol.dataReceived(bytes(data))

    def take(self) -> bytes:
        taken = bytes(self._taken)
        self._taken.clear()
        return taken

    @property
    def taking(self) -> bool:
        return self._isTaking

    @taking.setter
    def taking(self, taking: bool) -> None:
        self._isTaking = taking
        self._later(self._send)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def hangUp(self) -> None:
        self._later(lambda: self._ended("left", ConnectionDone()))

    def write(self, data: bytes) -> None:
        if not self.connected or not data:
            return
        self._waiting += data
        self._later(self._send)
        if len(self._waiting) > self._bufferSize:
            self._filled()

    def loseConnection(self) -> None:
        if self.connected and not self.disconnecting:
            self.disconnecting = True
            self.isReading = False
            self._later(self._send)

    def abortConnection(self) -> None:
        if self.connected:
            self.disconnecting = True
            self.isReading = False
            self._waiting.clear()
            self._later(lambda: self._ended("aborted", ConnectionAborted()))

    def _readOn(self) -> None:
        if self._unread:
            self._later(self._read)

    def setTcpNoDelay(self, enabled: bool) -> None:
        """Nothing to do: there is no delay here."""

    def _later(self, call: Callable[[], None]) -> None:
        if call not in self._soon:
            self._soon.add(call)
            self._clock.callLater(0, self._run, call)

    def _run(self, call: Callable[[], None]) -> None:
        self._soon.discard(call)
        call()

    def _send(self) -> None:
        if not self.connected or not self._isTaking:
            return
        self._taken += self._waiting
        self._waiting.clear()
        if not self._drained() and self.disconnecting:
            self._ended("lost", ConnectionDone())

    def _read(self) -> None:
        if self.isReading and self._unread and self.connected:
            data = bytes(self._unread)
            self._unread.clear()
            self._protocol.dataReceived(data)

    def _ended(self, how: str, reason: Exception) -> None:
        if not self.connected:
            return
        self.connected = False
        self.isReading = False
        self.closed = how
        self._abandoned()
        self._protocol.connectionLost(Failure(reason))
