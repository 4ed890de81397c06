"""
Sharing the broker's time between jobs and everybody else.

Long requests are done in steps that take a few milliseconds each. Between two steps the reactor
serves whoever else wants something, and for as long as the steps took nothing of the kind is done,
so that jobs have half of the time at most, however many there are.

One step at a time, in turn among all that wait; nobody can make others wait by asking for
much; after L{Budget.stop} nothing more is done.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Protocol

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from natsbroker.export.texts import TOO_MANY, Refusal

__all__ = ["SHARE", "Budget", "SteppedTask"]

_log = Logger(namespace="natsbroker.export")

#: How much of the time steps may take.
SHARE = 0.5

#: How many tasks may wait, and how many of one connection.
MOST = 256
MOST_EACH = 32


class SteppedTask(Protocol):
    """
    Something long.
    """

    async def step(self) -> bool:
        """
        Do a little of it.

        @return: whether it is done.
        """

    def failed(self) -> None:
        """
        A step raised something; the task is over.
        """


class Budget:
    """
    Does tasks, a step at a time.
    """

    def __init__(
        self, reactor: IReactorTime, worked: Callable[[], float], share: float = SHARE
    ) -> None:
        """
        @param worked: seconds of work that were done so far, that of others included, or seconds
            of a clock that nobody sets.
        @param share: how much of the time steps may take: more than 0, 1 for all of it.
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
        """
        Have something done.

        @param owner: for whom.
        @raise Refusal: if too much waits already.
        """
        if sum(self._counts.values()) >= MOST or self._counts[id(owner)] >= MOST_EACH:
            raise Refusal(TOO_MANY)
        self._counts[id(owner)] += 1
        self._queue.append((task, owner))
        self._plan(0)

    def stop(self) -> None:
        """
        Do nothing more.
        """
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
