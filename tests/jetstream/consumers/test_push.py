"""
The flow control window and the rate limit.
"""

from __future__ import annotations

from twisted.internet.task import Clock

from natsbroker.jetstream.consumers.push import FlowWindow, RateLimit

MIB = 1 << 20


class TestWindow:
    """The flow control window."""

    def test_halfFull(self) -> None:
        """
        A flow control request is due beyond half of the window, and not again before the answer.
        """
        window = FlowWindow()
        assert not window.sent(MIB)
        assert window.sent(1)
        window.requested(b"r")
        assert not window.sent(MIB - 2)
        assert not window.isStalled
        assert not window.sent(2)
        assert window.isStalled

    def test_answers(self) -> None:
        """An answer frees what was outstanding at its request, and doubles the window."""
        window = FlowWindow()
        window.sent(MIB + 1)
        window.requested(b"r")
        window.sent(10)
        assert not window.answered(b"x")
        assert window.answered(b"r")
        assert (window.outstanding, window.size, window.request) == (10, 4 * MIB, b"")
        assert not window.answered(b"r")

    def test_largest(self) -> None:
        """The window does not grow beyond 32 MiB."""
        window = FlowWindow()
        for _ in range(9):
            window.requested(b"r")
            window.answered(b"r")
        assert window.size == 32 * MIB


def test_rate() -> None:
    """A burst has no delay. Further messages wait for their tokens."""
    clock = Clock()
    limit = RateLimit(800, 50, clock.seconds)
    assert limit.reserve(50) == 0.0
    assert limit.reserve(25) == 0.25
    assert limit.reserve(25) == 0.5
    clock.advance(10)
    assert limit.reserve(50) == 10.0
    assert limit.reserve(10) == 10.1
