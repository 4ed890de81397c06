"""
Long answers, made in slices of time: clients are served in between.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any

from twisted.internet.defer import CancelledError
from twisted.internet.task import Cooperator

from natsbroker.monitoring.answers import Pause, Steps, collected

#: Seconds of work on answers before the reactor runs.
SLICE = 0.002


class Slices:
    def __init__(self, clock: Any) -> None:
        """
        @param clock: the reactor.
        """
        self._cooperator = Cooperator(
            terminationPredicateFactory=lambda: _sliceEnd(clock.seconds),
            scheduler=lambda call: clock.callLater(0, call),
        )

    async def made(self, pieces: Iterable[Any]) -> list[bytes]:
        """
        @param pieces: of a body, some of them Deferreds.
        @return: the others.
        """
        made: list[bytes] = []
        task = self._cooperator.cooperate(collected(pieces, made))
        try:
            await task.whenDone()
        except CancelledError:
            task.stop()
            raise
        return made

    async def result(self, steps: Steps) -> Any:
        results: list[Any] = []

        def work() -> Generator[Pause, None, None]:
            results.append((yield from steps))

        await self.made(work())
        return results[0]


def _sliceEnd(seconds: Callable[[], float]) -> Callable[[], bool]:
    end = seconds() + SLICE
    return lambda: seconds() >= end
