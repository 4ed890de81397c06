"""
The base of a peer's session: input is handled in turns, each of which has a share of work.

No exception escapes, not even one that is meant to end the process: it ends the session that
caused it and no other. A peer that fills an outbox that holds much has to wait, and so does one
whose share of work is used up: its input is not read, and what is left of it waits in the backlog.
What sessions say is not known here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from natsbroker import errors, hot
from natsbroker.connections.stall import Stall

__all__ = ["PeerSession"]

_log = Logger(namespace="natsbroker")


class PeerSession(ABC):
    """
    Our side of a conversation.

    @ivar decoder: the input.
    @ivar outbox: the output.
    @ivar reason: why the connection was closed; empty while it is open.
    @ivar _turn: collects what one chunk of input causes.
    @ivar _stall: the wait for a receiver that lags.
    @ivar _holds: how many reasons there are to read nothing.
    @ivar _isResting: whether input is left over.
    @ivar _isQueued: whether the backlog will go on with it.
    @ivar _steps: what is left to do for the last operation.
    @ivar _afterwards: the end of the connection, which waits until no input is left.
    """

    __slots__ = (
        "_afterwards",
        "_holds",
        "_isQueued",
        "_isResting",
        "_stall",
        "_steps",
        "_turn",
    )

    decoder: hot.Decoder
    outbox: hot.Outbox
    reason: str

    def _beginTurns(self, turn: hot.FlushBatch) -> None:
        """
        Called by the constructors of sessions.
        """
        self._turn = turn
        self._stall: Stall | None = None
        self._holds = 0
        self._isResting = self._isQueued = False
        self._steps: Iterator[object] | None = None
        self._afterwards: Callable[[], None] | None = None

    @abstractmethod
    def proceed(self) -> None:
        """
        Handle what is in the decoder.
        """

    @abstractmethod
    def _setReading(self, isWanted: bool) -> None:
        """
        Have the transport deliver input, or none.
        """

    @abstractmethod
    def close(self, error: errors.WireError, *arguments: str, abort: bool = False) -> None:
        """
        End the connection for a reason of ours.

        @param abort: whether what waits is thrown away.
        """

    @abstractmethod
    def _waitFor(self, outbox: hot.Outbox) -> None:
        """
        Something was put into an outbox that holds much: read nothing until it holds less, or it
        had its chance.
        """

    def _inTurn(self, call: Callable[..., None], *arguments: Any) -> None:
        turn = self._turn
        turn.enter()
        try:
            call(*arguments)
            if turn.congested is not None:
                outbox, turn.congested = turn.congested, None
                turn.atEnd(lambda: self._waitFor(outbox))
        except BaseException:
            turn.contain(self.internalFailure)
        try:
            turn.leave()
        except BaseException:
            _log.failure("{peer} - What its input caused failed", peer=str(self))

    def internalFailure(self) -> None:
        """
        Log the exception that is being handled, and end the connection.
        """
        try:
            _log.failure("{peer} - Internal failure", peer=str(self))
        finally:
            self.close(errors.INTERNAL)

    def outboxFailed(self) -> None:
        """
        Sending raised, which the turn has reported: cut the connection.
        """
        self.close(errors.INTERNAL, abort=True)

    # Input that is left over.

    def _mustRest(self) -> bool:
        """
        Go on with what is left of the last operation.

        @return: whether the turn's share of work is used up: what is left of the input, and of the
            operation, is handled later.
        """
        turn, steps = self._turn, self._steps
        if steps is not None:
            for _ in steps:
                if turn.isSpent:
                    break
            else:
                self._steps = None
        if turn.isSpent:
            self._rest()
            return True
        return False

    def _rest(self) -> None:
        if not self._isResting:
            self._isResting = True
            self._hold()
        self._queue()

    def _queue(self) -> None:
        if not self._isQueued:
            self._isQueued = True
            self._turn.backlog.add(self._goOn)

    def _goOn(self) -> None:
        """
        Handle what is left over, as far as another share goes.
        """
        self._isQueued = False
        if self._stall is not None and not self.reason:
            return
        self.proceed()
        if self._isQueued:
            return
        self._isResting = False
        afterwards, self._afterwards = self._afterwards, None
        if afterwards is None:
            self._release()
        else:
            self._holds -= 1
            afterwards()

    def _isDeferred(self, call: Callable[[], None]) -> bool:
        """
        Whether the end of the connection has to wait until no input is left, and is called then.
        """
        if self._isResting:
            self._afterwards = call
        return self._isResting

    def later(self, steps: Iterator[object]) -> None:
        """
        Use up an iterator before the next operation: what is left to do for this one.
        """
        self._steps = steps

    # Reading.

    def _hold(self) -> None:
        """
        Read nothing until everybody who asked for it has called L{_release}.
        """
        self._holds += 1
        if self._holds == 1:
            self._setReading(False)

    def _release(self) -> None:
        self._holds -= 1
        if not self._holds and not self.reason and self._afterwards is None:
            self._setReading(True)

    def _stallFor(self, reactor: IReactorTime, outbox: hot.Outbox) -> None:
        """
        Read nothing until an outbox holds less, or had its chance.
        """
        if outbox.pending > hot.FlushBatch.HIGH and not outbox.lagging:
            if self._stall is None and not self.reason:
                self._hold()
                self._stall = Stall(reactor, outbox, self._waited)

    def _waited(self) -> None:
        self._stall = None
        self._release()
        if self._isResting:
            self._queue()
