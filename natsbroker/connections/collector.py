"""
Collecting what a batch brings a service that takes runs.

Who publishes much mostly publishes to one subject, with one reply subject. A service that takes
runs is spared an object for each message, and can ask once what concerns all of them. Everything
comes in order, and at the latest when the batch ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from natsbroker.wire.values import Message, Run


class Collector:
    """
    @cvar isBatcher: tells the compiled lane that it may deliver here by itself.
    """

    isBatcher = True

    def __init__(self, subscriber: Any, batch: Any, failed: Callable[[str], None]) -> None:
        """
        @param subscriber: its C{deliverRuns} gets what came, with the tags.
        @param batch: at whose end it is called.
        @param failed: called with a sentence while an exception is handled that it raised.
        """
        self._subscriber = subscriber
        self._batch = batch
        self._failed = failed
        self._runs: list[tuple[Run, Any]] = []

    def deliver(self, message: Message, tag: Any) -> None:
        runs = self._runs
        if runs:
            run, last = runs[-1]
            if (
                tag is last
                and message.origin is run.origin
                and message.subject == run.subject
                and message.reply == run.reply
                and message.headerLength == run.headerLength
            ):
                run.bodies.append(message.body)
                return
        else:
            self._batch.atEnd(self._deliverRuns)
        run = Run(
            message.subject, message.reply, [message.body], message.headerLength, message.origin
        )
        runs.append((run, tag))

    def subscriptionEnded(self, tag: Any) -> None:
        """
        The messages that came before are delivered first.
        """
        self._deliverRuns()
        self._subscriber.subscriptionEnded(tag)

    def _deliverRuns(self) -> None:
        runs, self._runs = self._runs, []
        if runs:
            try:
                self._subscriber.deliverRuns(runs)
            except BaseException:
                self._failed("A batch subscriber failed")
