"""
The connection of a socket with a session, with compiled buffers between them. Output is sent before
an orderly end. The end comes once, and never from within another call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet import main
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from natsbroker import hot

_DONE = Failure(main.CONNECTION_DONE)
_LOST = Failure(main.CONNECTION_LOST)


class PolledSession(Protocol):
    decoder: hot.Decoder
    outbox: hot.Outbox

    def proceed(self) -> None: ...

    def writeBlocked(self) -> None: ...

    def writeProgressed(self) -> None: ...

    def inputEnded(self) -> None: ...

    def internalFailure(self) -> None: ...


class PolledSocket:
    __slots__ = ("_connection", "_end", "_isEnding", "_isFinishing", "_reactor", "_session")

    def __init__(
        self,
        poller: Any,
        descriptor: int,
        session: PolledSession,
        reactor: IReactorTime,
        end: Callable[[Failure], None],
    ) -> None:
        """C{end} ends the connection: L{forget} must have been called when the socket is closed."""
        self._session: Any = session
        self._reactor = reactor
        self._end: Callable[[Failure], None] | None = end
        self._isFinishing = False
        self._isEnding = False
        self._connection: Any = hot.Connection(
            poller,
            descriptor,
            session.decoder,
            session.outbox,
            session.proceed,
            session.writeBlocked,
            self._unblocked,
            self._inputEnded,
            self._lost,
            session.internalFailure,
        )
        self._connection.watch()

    def relay(self, session: PolledSession) -> None:
        """Read and write for another session. The unsent output of the former one stays with it."""
        self._session = session
        self._connection.relay(
            session.decoder,
            session.outbox,
            session.proceed,
            session.writeBlocked,
        )

    def useLane(self, lane: Any) -> None:
        if self._connection is not None:
            self._connection.lane = lane

    def useFraming(self, framing: Any) -> None:
        if self._connection is not None:
            self._connection.framing = framing

    def useSeal(self, seal: Any) -> None:
        if self._connection is not None:
            self._connection.seal = seal

    def setReading(self, isWanted: bool) -> None:
        if self._connection is not None:
            self._connection.setReading(isWanted)

    def finish(self) -> None:
        if self._isFinishing or self._connection is None:
            return
        self._isFinishing = True
        self.setReading(False)
        if not self._session.outbox.pending:
            self._soon(_DONE)

    def end(self) -> None:
        self._soon(_DONE)

    def forget(self) -> None:
        self._session = self._end = None
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.forget()

    def _unblocked(self) -> None:
        self._session.writeProgressed()
        if self._isFinishing:
            self._soon(_DONE)

    def _inputEnded(self) -> None:
        self.setReading(False)
        self._session.inputEnded()

    def _lost(self) -> None:
        self.setReading(False)
        self._soon(_LOST)

    def _soon(self, reason: Failure) -> None:
        self._reactor.callLater(0, self._over, reason)

    def _over(self, reason: Failure) -> None:
        end = self._end
        if not self._isEnding and end is not None:
            self._isEnding = True
            end(reason)
