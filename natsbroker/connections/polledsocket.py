"""
Where a socket and a conversation meet, if compiled buffers stand between them.

What a conversation says is sent, all of it before an orderly end; what the socket tells
becomes a call of the conversation; the end comes once, never from within something else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet import main
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from natsbroker import hot

__all__ = ["Conversation", "Joint"]


class Conversation(Protocol):
    """
    What is spoken over a connection: the session of a client, or a link.
    """

    decoder: hot.Decoder
    outbox: hot.Outbox

    def proceed(self) -> None:
        """
        There is input in the decoder.
        """

    def writeBlocked(self) -> None:
        """
        The socket did not take what waits now. Called again for what came to wait meanwhile, when
        it has taken that.
        """

    def writeProgressed(self) -> None:
        """
        The socket took everything.
        """

    def inputEnded(self) -> None:
        """
        The peer sends no more.
        """

    def internalFailure(self) -> None:
        """
        Log the exception that is being handled, and end the connection.
        """


class Joint:
    """
    One socket in a poller.
    """

    __slots__ = ("_connection", "_conversation", "_end", "_isEnding", "_isFinishing", "_reactor")

    def __init__(
        self,
        poller: Any,
        descriptor: int,
        conversation: Conversation,
        reactor: IReactorTime,
        end: Callable[[Failure], None],
    ) -> None:
        """
        @param poller: a L{hot.Poller}.
        @param end: ends the connection: L{forget} must have been called when the socket is closed.
        """
        self._conversation = conversation
        self._reactor = reactor
        self._end = end
        self._isFinishing = False
        self._isEnding = False
        self._connection: Any = hot.Connection(
            poller,
            descriptor,
            conversation.decoder,
            conversation.outbox,
            conversation.proceed,
            conversation.writeBlocked,
            self._unblocked,
            self._inputEnded,
            self._lost,
            conversation.internalFailure,
        )
        self._connection.watch()

    def relay(self, conversation: Conversation) -> None:
        """
        Read and write for another conversation from now on. What the one before has not sent stays
        in its outbox.
        """
        self._conversation = conversation
        self._connection.relay(
            conversation.decoder,
            conversation.outbox,
            conversation.proceed,
            conversation.writeBlocked,
        )

    def useLane(self, lane: Any) -> None:
        """
        The lane that the poller may take without asking; C{None} for none.
        """
        if self._connection is not None:
            self._connection.lane = lane

    def setReading(self, isWanted: bool) -> None:
        """
        Whether input is to be delivered.
        """
        if self._connection is not None:
            self._connection.setReading(isWanted)

    def finish(self) -> None:
        """
        End the connection when everything that waits was sent.
        """
        if self._isFinishing:
            return
        self._isFinishing = True
        self.setReading(False)
        if not self._conversation.outbox.pending:
            self._soon(main.CONNECTION_DONE)

    def forget(self) -> None:
        """
        Have nothing to do with the socket any more.
        """
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.forget()

    def _unblocked(self) -> None:
        self._conversation.writeProgressed()
        if self._isFinishing:
            self._soon(main.CONNECTION_DONE)

    def _inputEnded(self) -> None:
        self.setReading(False)
        self._conversation.inputEnded()

    def _lost(self) -> None:
        self.setReading(False)
        self._soon(main.CONNECTION_LOST)

    def _soon(self, reason: Exception) -> None:
        self._reactor.callLater(0, self._over, reason)

    def _over(self, reason: Exception) -> None:
        if not self._isEnding and self._connection is not None:
            self._isEnding = True
            self._end(Failure(reason))
