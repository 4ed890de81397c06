"""
A TCP or UNIX connection of Twisted's whose bytes go through a poller. Connecting, accepting,
closing and the life of the protocol stay Twisted's. Other transports are left as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from twisted.internet import tcp, unix
from twisted.python.failure import Failure

from natsbroker import hot
from natsbroker.connections.polledsocket import PolledSession, PolledSocket


class AdoptedServer(tcp.Server):
    """
    The transport of a connection that another process accepted.

    @ivar ended: called once, when the connection has ended.
    """

    def __init__(self, ended: Callable[[], object], *arguments: Any) -> None:
        self.ended = ended
        super().__init__(*arguments)

    def connectionLost(self, reason: Failure) -> None:
        super().connectionLost(reason)
        self.ended()


#: The transports whose sockets a poller can have.
_POLLED = frozenset({tcp.Server, tcp.Client, unix.Server, unix.Client, AdoptedServer})


class _Relay:
    """Hands input to a protocol and sends its output, like one of Twisted's transports."""

    def __init__(self, protocol: Any, batch: hot.FlushBatch) -> None:
        self._protocol = protocol
        self._receive: Callable[[bytes], None] = protocol.dataReceived
        self._inputEnded: Callable[[], None] = protocol.readConnectionLost
        self.batch = batch
        self.decoder = hot.Decoder()
        # The protocol's own outbox counts the bytes that wait here towards its limit.
        self.outbox = hot.Outbox(batch, self, _nowhere, sys.maxsize)

    def insert(self, receive: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        """Hand input to a layer below the protocol; C{ended} is called when the input ends."""
        self._receive, self._inputEnded = receive, ended

    def proceed(self) -> None:
        self._receive(self.decoder.take())

    def writeBlocked(self) -> None:
        self._protocol.pauseProducing()

    def writeProgressed(self) -> None:
        self._protocol.resumeProducing()

    def inputEnded(self) -> None:
        self._inputEnded()

    def internalFailure(self) -> None:
        self._protocol.internalFailure()

    def outboxOverflowed(self) -> None:
        """There is no limit that could be exceeded."""

    def outboxFailed(self) -> None:
        self._protocol.abort()


def _nowhere(data: bytes) -> None:
    """Drop bytes that are written after the end of a connection."""


class PolledTransport:
    def __init__(self, poller: Any, transport: Any, session: PolledSession) -> None:
        """C{transport} is connected, and nothing is written to it yet."""
        self._transport = transport
        self.session: Any = session
        self.outbox = session.outbox
        transport.stopReading()
        self._socket = PolledSocket(
            poller, transport.fileno(), session, transport.reactor, self._ended
        )

    def write(self, data: bytes) -> None:
        if self._transport.connected:
            self.outbox.write(data)

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """The outbox informs the session itself."""

    def unregisterProducer(self) -> None:
        """Nothing to do, as in L{registerProducer}."""

    def pauseProducing(self) -> None:
        self._socket.setReading(False)

    def resumeProducing(self) -> None:
        self._socket.setReading(True)

    def relay(self, protocol: Any, batch: hot.FlushBatch) -> None:
        """Put a protocol between socket and session, paused and resumed as a producer."""
        relay = _Relay(protocol, batch)
        self.outbox = relay.outbox
        self._socket.relay(relay)

    @property
    def isClient(self) -> bool:
        return isinstance(self._transport, tcp.Client)

    def insert(self, layer: Any) -> None:
        """
        Put a protocol below that of L{pollStream}. It gets all input, and the end of the
        connection.
        """
        self._transport.protocol = layer
        self.session.insert(layer.dataReceived, self._socket.end)

    def useSeal(self, seal: Any) -> None:
        self._socket.useSeal(seal)

    def useLane(self, lane: Any) -> None:
        self._socket.useLane(lane)

    def useFraming(self, framing: Any) -> None:
        """Let a C{hot.FrameLane} take input apart, and the protocol take the rest."""
        self._socket.useFraming(framing)

    def sendFramesOf(self, outbox: Any) -> None:
        """Send a compiled outbox's output as WebSocket frames, without the protocol."""
        outbox.frameInto(self.outbox)

    @property
    def unsent(self) -> int:
        return self.outbox.pending

    def loseConnection(self) -> None:
        self.outbox.flush()
        self._socket.finish()

    def abortConnection(self) -> None:
        self._socket.forget()
        self._transport.abortConnection()

    def _ended(self, reason: Failure) -> None:
        self._socket.forget()
        self._transport.connectionLost(reason)
        self.session = None


def pollTransport(poller: Any, transport: Any, session: PolledSession) -> Any:
    """
    The polled transport, or the transport itself if it cannot be polled. With a poller of C{None},
    nothing is polled.
    """
    if poller is None or type(transport) not in _POLLED:
        return transport
    return PolledTransport(poller.sockets, transport, session)


def pollStream(poller: Any, transport: Any, protocol: Any, batch: hot.FlushBatch) -> Any:
    """As L{pollTransport}, for a protocol that stands between the socket and a session to come."""
    if poller is None or type(transport) not in _POLLED:
        return transport
    return PolledTransport(poller.sockets, transport, _Relay(protocol, batch))


def relayed(stream: Any, protocol: Any, batch: hot.FlushBatch) -> Any:
    """The transport for a protocol that stands between L{pollTransport}'s and its session."""
    if isinstance(stream, PolledTransport):
        stream.relay(protocol, batch)
    return stream


def unsentBy(transport: Any) -> int:
    """
    The unsent bytes of a transport and the layers above it, encrypted ones for TLS. It is 0 if the
    transport keeps them elsewhere. (nats-server's C{max_pending} counts all that is unsent.)
    """
    while not hasattr(transport, "dataBuffer"):
        if isinstance(transport, PolledTransport):
            return transport.unsent
        transport = getattr(transport, "transport", None)
        if transport is None:
            return 0
    waiting: int = getattr(transport, "_tempDataLen", 0)
    return len(transport.dataBuffer) - int(transport.offset) + waiting
