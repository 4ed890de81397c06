"""Long answers, made in slices of time. Clients are served between two slices."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from copy import copy
from typing import Any, TypeVar

from twisted.internet.defer import CancelledError
from twisted.internet.task import Cooperator

from natsbroker.monitoring.answers import Pause, Steps, collected

T = TypeVar("T")

#: Seconds of work on answers before the reactor runs.
SLICE = 0.002


class Slices:
    """Makes answers in slices of time, and stops once C{isWanted} returns false."""

    def __init__(self, clock: Any) -> None:
        self.isWanted: Callable[[], bool] = lambda: True
        self._cooperator = Cooperator(
            terminationPredicateFactory=lambda: _sliceEnd(clock.seconds),
            scheduler=lambda call: clock.callLater(0, call),
        )

    def whileWanted(self, isWanted: Callable[[], bool]) -> Slices:
        slices = copy(self)
        slices.isWanted = isWanted
        return slices

    async def collect(self, pieces: Iterable[Any]) -> list[bytes]:
        """Collect the pieces of an answer; C{CancelledError} if the answer is no longer wanted."""
        answer: list[bytes] = []
        task = self._cooperator.cooperate(self._wanted(collected(pieces, answer)))
        try:
            await task.whenDone()
        except CancelledError:
            task.stop()
            raise
        if not self.isWanted():
            raise CancelledError
        return answer

    def _wanted(self, pieces: Iterator[T]) -> Iterator[T]:
        while self.isWanted():
            try:
                yield next(pieces)
            except StopIteration:
                return

    async def result(self, steps: Steps) -> Any:
        """The result of work in steps, done in slices."""
        results: list[Any] = []

        def work() -> Generator[Pause, None, None]:
            results.append((yield from steps))

        await self.collect(work())
        return results[0]


def _sliceEnd(seconds: Callable[[], float]) -> Callable[[], bool]:
    end = seconds() + SLICE
    return lambda: seconds() >= end
