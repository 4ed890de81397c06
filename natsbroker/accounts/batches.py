"""Batches: the messages of a flush batch for a subscriber."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zope.interface import implementer

from natsbroker import hot
from natsbroker.interfaces import IBatchSubscriber, ISubscriber
from natsbroker.wire.values import Message


def passOn(text: str) -> None:
    raise


@implementer(ISubscriber)
class Batcher:
    """
    Collects a flush batch's messages for a batch subscriber, in order and in one call.

    @cvar isBatcher: the compiled lane may deliver here by itself.
    """

    isBatcher = True

    def __init__(
        self,
        subscriber: IBatchSubscriber,
        batch: hot.FlushBatch,
        failed: Callable[[str], None] = passOn,
    ) -> None:
        """C{failed} is called with a sentence while an exception of the subscriber is handled."""
        self.subscriber = subscriber
        self._batch = batch
        self._failed = failed
        self._cost: int = getattr(subscriber, "cost", 0)
        self._messages: list[tuple[Message, Any]] = []

    def deliver(self, message: Message, tag: Any) -> None:
        if not self._messages:
            self._batch.atEnd(self.flush)
        self._batch.work += self._cost
        self._messages.append((message, tag))

    def subscriptionEnded(self, tag: Any) -> None:
        self.flush()
        self.subscriber.subscriptionEnded(tag)

    def flush(self) -> None:
        messages, self._messages = self._messages, []
        if messages:
            try:
                self.subscriber.deliverMany(messages)
            except BaseException:
                self._failed("A batch subscriber failed")
