"""
A share of the broker's time for long requests, which are done in steps of a few milliseconds: after
each step nothing of the kind is done for as long as it took. Requests take turns.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Protocol

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from natsbroker.export.requests import Reason, Refusal

_log = Logger(namespace="natsbroker.export")

SHARE = 0.5
"""The part of the time that steps may take."""

MOST = 256
"""The most tasks that may wait."""

MOST_EACH = 32
"""The most tasks of one connection that may wait."""


class SteppedTask(Protocol):
    async def step(self) -> bool:
        """
        @return: whether the task is done.
        """

    def failed(self) -> None:
        """
        A step raised an exception; there will be no other.
        """


class Budget:
    def __init__(
        self, reactor: IReactorTime, worked: Callable[[], float], share: float = SHARE
    ) -> None:
        """
        @param worked: returns the process's seconds of work so far, or a monotonic time.
        @param share: the part of the time that steps may take: more than 0, 1 for all of it.
        """
        self._reactor = reactor
        self._worked = worked
        self._rest = 1 / share - 1
        self._queue: deque[tuple[SteppedTask, object]] = deque()
        self._counts: Counter[int] = Counter()
        self._timer: IDelayedCall | None = None
        self._step: Deferred[bool] | None = None
        self._isStopped = False

    def add(self, task: SteppedTask, owner: object) -> None:
        if sum(self._counts.values()) >= MOST or self._counts[id(owner)] >= MOST_EACH:
            raise Refusal(Reason.TOO_MANY)
        self._counts[id(owner)] += 1
        self._queue.append((task, owner))
        self._plan(0)

    def stop(self) -> None:
        self._isStopped = True
        self._queue.clear()
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        step, self._step = self._step, None
        if step is not None:
            step.cancel()

    def _plan(self, pause: float) -> None:
        if self._queue and self._timer is None and self._step is None:
            self._timer = self._reactor.callLater(pause, self._next)

    def _next(self) -> None:
        self._timer = None
        task, owner = self._queue.popleft()
        begun = self._worked()
        self._step = step = ensureDeferred(task.step())
        step.addBoth(self._stepped, task, owner, begun)

    def _stepped(
        self, result: bool | Failure, task: SteppedTask, owner: object, begun: float
    ) -> None:
        self._step = None
        if self._isStopped:
            return
        if isinstance(result, Failure):
            _log.failure("A request of a job failed", result)
            task.failed()
        if result is False:
            self._queue.append((task, owner))
        else:
            self._counts[id(owner)] -= 1
            self._counts += Counter()
        self._plan((self._worked() - begun) * self._rest)
