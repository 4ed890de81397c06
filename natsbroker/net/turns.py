"""
What a peer causes, within one turn.

Promises: nothing escapes; what fails ends the conversation with that peer and no other; whoever has
filled an outbox that holds much is told to wait.
Must never know: what peers say, or who they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from twisted.logger import Logger

from natsbroker import errors, hot

__all__ = ["TurnTaker"]

_log = Logger(namespace="natsbroker")


class TurnTaker(ABC):
    """
    Our side of a conversation.

    @ivar _turn: collects what one chunk of input causes.
    """

    __slots__ = ()

    _turn: hot.Turn

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
        except Exception:
            _log.failure("{peer} - Internal failure", peer=str(self))
            self.close(errors.INTERNAL)
        try:
            turn.leave()
        except Exception:
            _log.failure("{peer} - What its input caused failed", peer=str(self))
