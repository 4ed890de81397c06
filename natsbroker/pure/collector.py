"""
Collecting the messages of a batch for a service that takes runs.

A busy publisher mostly publishes to one subject, with one reply subject. A service that takes runs
needs no object for each message, and can check once for all of them. Messages come in order, at the
latest when the batch ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from natsbroker.wire.values import Message, Run


@dataclass(eq=False)
class Collector:
    """
    @cvar isBatcher: tells the compiled lane that it may deliver here by itself.
    @ivar subscriber: its C{deliverRuns} gets the messages, with the tags.
    @ivar batch: the batch at whose end the subscriber is called.
    @ivar steps: the steps of the subscriber, if it has some. Their C{cost} is that of a message
        with headers, or of each message if they are C{isIdle}. The lane knows headers that cost
        nothing. The C{cost} of a tag is counted for each message.
    @ivar failed: called with a sentence while an exception is handled that it raised.
    """

    isBatcher = True

    subscriber: Any
    batch: Any
    failed: Callable[[str], None]
    _runs: list[tuple[Run, Any]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.steps: Any = getattr(self.subscriber, "steps", None)

    def deliver(self, message: Message, tag: Any) -> None:
        runs = self._runs
        if tag is not None:
            self.batch.work += getattr(tag, "cost", 0)
        steps = self.steps
        if steps is not None and (message.headerLength or steps.isIdle):
            self.batch.work += steps.cost
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
            self.batch.atEnd(self.flush)
        run = Run(
            message.subject, message.reply, [message.body], message.headerLength, message.origin
        )
        runs.append((run, tag))

    def subscriptionEnded(self, tag: Any) -> None:
        """The end of a subscription. Earlier messages are delivered first."""
        self.flush()
        self.subscriber.subscriptionEnded(tag)

    def flush(self) -> None:
        runs, self._runs = self._runs, []
        if runs:
            try:
                self.subscriber.deliverRuns(runs)
            except BaseException:
                self.failed("A batch subscriber failed")
