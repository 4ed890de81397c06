"""Long answers, made in slices of time: clients are served in between."""

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
    """Makes answers in slices, and ends those that C{isWanted} refuses before a piece."""

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

    async def made(self, pieces: Iterable[Any]) -> list[bytes]:
        """The pieces that are no Deferreds; C{CancelledError} for an unwanted answer."""
        made: list[bytes] = []
        task = self._cooperator.cooperate(self._wanted(collected(pieces, made)))
        try:
            await task.whenDone()
        except CancelledError:
            task.stop()
            raise
        if not self.isWanted():
            raise CancelledError
        return made

    def _wanted(self, pieces: Iterator[T]) -> Iterator[T]:
        while self.isWanted():
            try:
                yield next(pieces)
            except StopIteration:
                return

    async def result(self, steps: Steps) -> Any:
        results: list[Any] = []

        def work() -> Generator[Pause, None, None]:
            results.append((yield from steps))

        await self.made(work())
        return results[0]


def _sliceEnd(seconds: Callable[[], float]) -> Callable[[], bool]:
    end = seconds() + SLICE
    return lambda: seconds() >= end
