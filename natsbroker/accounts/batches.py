"""
Batches: what a turn brings a subscriber, in one call.

Everything comes, in order, and at the latest when the turn ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zope.interface import implementer

from natsbroker import hot
from natsbroker.interfaces import IBatchSubscriber, ISubscriber
from natsbroker.wire.values import Message

__all__ = ["Batcher", "passOn"]


def passOn(text: str) -> None:
    """
    Let the exception that is being handled go on.
    """
    raise


@implementer(ISubscriber)
class Batcher:
    """
    Collects what a turn brings a batch subscriber, which gets it in one call at the turn's end.

    @cvar isBatcher: tells the compiled lane that it may deliver here by itself.
    """

    isBatcher = True

    def __init__(
        self,
        subscriber: IBatchSubscriber,
        turn: hot.FlushBatch,
        failed: Callable[[str], None] = passOn,
    ) -> None:
        """
        @param turn: at whose end it gets what came.
        @param failed: called with a sentence while an exception is handled that it raised.
        """
        self._subscriber = subscriber
        self._turn = turn
        self._failed = failed
        self._messages: list[tuple[Message, Any]] = []

    def deliver(self, message: Message, tag: Any) -> None:
        """
        Keep a message for the turn's end.
        """
        if not self._messages:
            self._turn.atEnd(self._deliverMany)
        self._messages.append((message, tag))

    def subscriptionEnded(self, tag: Any) -> None:
        """
        Say so, after the messages that came before.
        """
        self._deliverMany()
        self._subscriber.subscriptionEnded(tag)

    def _deliverMany(self) -> None:
        messages, self._messages = self._messages, []
        if messages:
            try:
                self._subscriber.deliverMany(messages)
            except BaseException:
                self._failed("A batch subscriber failed")
