"""
A pool of threads whose work the test runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred


class Threads:
    """
    A pool of threads whose calls the test runs.

    @ivar calls: the waiting calls, with their results' Deferreds.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[[], bool], Deferred[bool]]] = []

    def __call__(self, call: Callable[..., bool], *arguments: Any) -> Deferred[bool]:
        result: Deferred[bool] = Deferred()
        self.calls.append((lambda: call(*arguments), result))
        return result

    def run(self) -> None:
        """Run the oldest call."""
        call, result = self.calls.pop(0)
        result.callback(call())
