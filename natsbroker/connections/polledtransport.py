"""
An established TCP connection of Twisted's whose bytes go through a hub from now on.

Connecting, accepting, closing and the life of the protocol stay Twisted's; only reading
and writing are ours, by compiled buffers. Other transports are left as they are.
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.internet import tcp
from twisted.python.failure import Failure

from natsbroker import hot
from natsbroker.connections.polledsocket import Conversation, Joint

__all__ = ["FastStream", "overHub", "relayed"]


class _Relay:
    """
    Hands what comes to a protocol, and sends what that writes, as a transport of Twisted's does.

    @ivar decoder: has what came.
    @ivar outbox: has what the socket did not take.
    """

    def __init__(self, protocol: Any, turn: hot.Turn) -> None:
        self._protocol = protocol
        self.decoder = hot.Decoder()
        # The protocol's own outbox counts what waits here towards its limit.
        self.outbox = hot.Outbox(turn, self, _nowhere, sys.maxsize)

    def proceed(self) -> None:
        self._protocol.dataReceived(self.decoder.take())

    def writeBlocked(self) -> None:
        self._protocol.pauseProducing()

    def writeProgressed(self) -> None:
        self._protocol.resumeProducing()

    def inputEnded(self) -> None:
        self._protocol.readConnectionLost()

    def internalFailure(self) -> None:
        self._protocol.link.internalFailure()

    def outboxOverflowed(self) -> None:
        """
        There is no limit that could be exceeded.
        """

    def outboxFailed(self) -> None:
        """
        Sending raised, which the turn has reported: cut the connection.
        """
        self._protocol.abort()


def _nowhere(data: bytes) -> None:
    """
    What is written after the end of a connection.
    """


class FastStream:
    """
    What a protocol uses instead of its transport.
    """

    def __init__(self, poller: Any, transport: Any, conversation: Conversation) -> None:
        """
        @param transport: connected, and with nothing written to it yet.
        """
        self._transport = transport
        self._outbox = conversation.outbox
        transport.stopReading()
        self._joint = Joint(
            poller, transport.fileno(), conversation, transport.reactor, self._ended
        )

    def write(self, data: bytes) -> None:
        """
        Send bytes behind what waits in the outbox.
        """
        if self._transport.connected:
            self._outbox.write(data)

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """
        The conversation is told directly what its outbox can take.
        """

    def unregisterProducer(self) -> None:
        """
        See L{registerProducer}.
        """

    def pauseProducing(self) -> None:
        """
        Deliver no input for now.
        """
        self._joint.setReading(False)

    def resumeProducing(self) -> None:
        """
        Deliver input again.
        """
        self._joint.setReading(True)

    def relay(self, protocol: Any, turn: hot.Turn) -> None:
        """
        Have a protocol do between the socket and the conversation what it likes: it gets all input,
        and what it writes is all that is sent.

        @param protocol: is paused and resumed as a producer.
        """
        relay = _Relay(protocol, turn)
        self._outbox = relay.outbox
        self._joint.relay(relay)

    @property
    def unsent(self) -> int:
        """
        How many bytes the socket has not taken.
        """
        return self._outbox.pending

    def loseConnection(self) -> None:
        """
        Close when everything that waits was sent.
        """
        self._outbox.flush()
        self._joint.finish()

    def abortConnection(self) -> None:
        """
        Close now.
        """
        self._joint.forget()
        self._transport.abortConnection()

    def _ended(self, reason: Failure) -> None:
        self._joint.forget()
        self._transport.connectionLost(reason)


def overHub(hub: Any, transport: Any, conversation: Conversation) -> Any:
    """
    Have a connection's bytes go through a hub.

    @param hub: a L{natsbroker.connections.poller.Hub}; C{None} for Twisted's own ways.
    @return: what is to be used instead of the transport; the transport itself where it must stay.
    """
    if hub is None or type(transport) not in (tcp.Server, tcp.Client):
        return transport
    return FastStream(hub.poller, transport, conversation)


def relayed(stream: Any, protocol: Any, turn: hot.Turn) -> Any:
    """
    Have a protocol stand between a connection and its conversation.

    @param stream: what L{overHub} gave.
    @return: what the protocol is to use from now on.
    """
    if isinstance(stream, FastStream):
        stream.relay(protocol, turn)
    return stream
