"""
A separate reactor with epoll, for tests with real sockets.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support import needsCompiled

if sys.platform == "linux":
    from twisted.internet.epollreactor import EPollReactor

#: The marks of tests with a poller.
POLLED = [
    needsCompiled,
    pytest.mark.skipif(sys.platform != "linux", reason="epoll is Linux's"),
]

#: How long anything may take on a busy machine, in seconds.
PATIENCE = 20.0


class RealReactor:
    def __init__(self) -> None:
        makeReactor: Any = EPollReactor
        self.reactor: Any = makeReactor()

    def until(self, condition: Callable[[], object]) -> None:
        """Run the reactor until a condition holds."""
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, "it never happened"
            self.reactor.iterate(0.01)
            self.iterated()

    def iterated(self) -> None:
        """Called after each iteration."""

    def end(self) -> list[Any]:
        """Release everything. Return the calls that were still scheduled."""
        for _ in range(3):
            self.reactor.iterate(0)
        for reader in self.reactor.removeAll():
            reader.connectionLost(None)
        left: list[Any] = self.reactor.getDelayedCalls()
        for call in left:
            call.cancel()
        self.reactor._poller.close()
        return left
