"""
Slowing a publisher down for a receiver that lags.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock

from natsbroker import hot
from natsbroker.connections.stall import PATIENCE, Stall
from tests.support import Names, onEach, using


class Slow:
    """
    A receiver that has stopped to take, and a publisher that waits for it.
    """

    def __init__(self) -> None:
        self.clock = Clock()
        self.events: list[str] = []
        turn = hot.FlushBatch(lambda call: self.clock.callLater(0, call))
        self.outbox: Any = hot.Outbox(turn, self, lambda data: None, 1 << 30)
        self.outbox.pause()
        self.outbox.write(b"x" * (hot.FlushBatch.HIGH + 1))
        self.clock.advance(0)
        self.stall = Stall(self.clock, self.outbox, lambda: self.events.append("resumed"))

    def outboxOverflowed(self) -> None:
        """Write it down."""
        self.events.append("overflowed")

    def outboxFailed(self) -> None:
        """Write it down."""
        self.events.append("failed")


@onEach
class TestStall:
    """One publisher's wait."""

    def test_relief(self, names: Names) -> None:
        """The publisher goes on when the receiver has caught up."""
        with using(names):
            slow = Slow()
            slow.clock.advance(PATIENCE / 2)
            assert slow.events == []
            slow.outbox.resume()
            assert slow.events == ["resumed"]
            assert not slow.outbox.lagging
            assert slow.clock.getDelayedCalls() == []

    def test_patienceEnds(self, names: Names) -> None:
        """The publisher goes on after a while, and nobody waits for that receiver any more."""
        with using(names):
            slow = Slow()
            slow.clock.advance(PATIENCE)
            assert slow.events == ["resumed"]
            assert slow.outbox.lagging

    def test_lateRelief(self, names: Names) -> None:
        """A receiver that catches up later may be waited for again; the publisher hears nothing."""
        with using(names):
            slow = Slow()
            slow.clock.advance(PATIENCE)
            slow.outbox.resume()
            assert slow.events == ["resumed"]
            assert not slow.outbox.lagging

    def test_receiverGone(self, names: Names) -> None:
        """The publisher goes on when the receiver is gone."""
        with using(names):
            slow = Slow()
            slow.outbox.close()
            assert slow.events == ["resumed"]
            assert slow.clock.getDelayedCalls() == []

    def test_ended(self, names: Names) -> None:
        """A wait that is ended resumes the publisher once and leaves no timer."""
        with using(names):
            slow = Slow()
            slow.stall.end()
            slow.stall.end()
            assert slow.clock.getDelayedCalls() == []
            slow.outbox.resume()
            assert slow.events == ["resumed"]
