"""A reactor that records the calls of a process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.testing import MemoryReactorClock


class Reactor(MemoryReactorClock):
    """
    A reactor in memory that runs as long as the test's steps last.

    @ivar steps: called one after the other while it runs.
    """

    def __init__(self, *steps: Callable[[], object]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.steps = list(steps)
        self.stopped = 0
        self._fromThreads: list[Any] = []

    def callFromThread(self, call: Any, *arguments: Any) -> None:
        self._fromThreads.append((call, arguments))

    def run(self) -> None:
        """Run all steps, and after each one the calls that it caused."""
        for call, arguments, more in self.whenRunningHooks:
            call(*arguments, **more)
        for step in self.steps:
            if self.stopped:
                break
            step()
            calls, self._fromThreads = self._fromThreads, []
            for call, arguments in calls:
                call(*arguments)
            for _ in range(4):
                self.advance(0)

    def stop(self) -> None:
        """Stop."""
        self.stopped += 1
