"""
An established TCP connection of Twisted's whose bytes go through a hub from now on.

Promises: connecting, accepting, closing and the life of the protocol stay Twisted's; only reading
and writing are ours, by compiled buffers. Other transports are left as they are.
Must never know: what the bytes mean.
"""

from __future__ import annotations

from typing import Any

from twisted.internet import tcp
from twisted.python.failure import Failure

from natsbroker.net.joint import Conversation, Joint

__all__ = ["FastStream", "overHub"]


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

    def loseConnection(self) -> None:
        """
        Close when everything that waits was sent.
        """
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

    @param hub: a L{natsbroker.net.fast.Hub}; C{None} for Twisted's own ways.
    @return: what is to be used instead of the transport; the transport itself where it must stay.
    """
    if hub is None or type(transport) not in (tcp.Server, tcp.Client):
        return transport
    return FastStream(hub.poller, transport, conversation)
