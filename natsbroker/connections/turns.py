"""
Turns: the order in which the slices of long work are done.

Work that is done in slices waits here for each slice: answers of many messages, lists, searches,
purges, snapshots, redeliveries, work that is due. The backlog of the flush batch serves some slices
each time the reactor comes round, so sockets, timers and signals come first. Accounts take turns,
and in each account its connections. The oldest work of a connection goes first, so that at most one
unfinished answer of each connection is in memory. A long task goes behind those that have just
begun.

Work that fills the outbox of a receiver continues when the outbox has drained, or after some time.
Work for which no client waits any more ends.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from typing import Any, NamedTuple

from twisted.internet.defer import CancelledError, Deferred, ensureDeferred, succeed
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from natsbroker import hot
from natsbroker.connections.peersession import Stall
from natsbroker.interfaces import ITurns
from natsbroker.pure.backlog import SHARE

SLICE = SHARE // 8
"""The cost of a slice in the flush batch: less than a millisecond in most cases."""

LEVEL = 64
"""The number of slices after which a task goes behind tasks of its connection that had fewer."""


class WorkEnded(CancelledError):
    """The result of the work has no receiver any more."""


@dataclass(eq=False, slots=True)
class Task:
    """
    Long work, from its beginning to its end.

    @ivar number: the order in which tasks began.
    @ivar origin: who asked for it.
    @ivar isWanted: asked before each slice; C{None} for work that goes on in any case.
    @ivar slices: how many it has had.
    """

    number: int
    origin: object
    isWanted: Callable[[], bool] | None
    slices: int = field(default=0, init=False)


class _Waiter(NamedTuple):
    level: int
    number: int
    order: int
    task: Task
    turn: Deferred[None] | Callable[[], object]
    cost: int


_TASK: ContextVar[Task] = ContextVar("natsbroker task")
"""The task of the running coroutine. Coroutines that it awaits belong to it too."""


class Turns:
    """The turns of one process."""

    def __init__(
        self,
        reactor: IReactorTime,
        batch: hot.FlushBatch,
        worked: Callable[[], float],
    ) -> None:
        """C{worked} gives the seconds of the reactor thread's work."""
        self._reactor = reactor
        self._batch = batch
        self.worked = worked
        # By account, then by origin. The first one is next; one that was served is appended.
        self._waiting: dict[str, dict[object, list[_Waiter]]] = {}
        self._counts: Counter[str] = Counter()
        self._queued = 0
        self._tasks = 0
        self._order = 0
        self._isPlanned = False
        self._isServing = False
        self._isStopped = False

    def of(self, account: str) -> AccountTurns:
        return AccountTurns(self, account)

    def count(self, account: str) -> int:
        """The number of tasks that wait."""
        return self._counts[account]

    def begin(
        self,
        work: Coroutine[Any, Any, Any],
        origin: object = None,
        isWanted: Callable[[], bool] | None = None,
    ) -> Deferred[Any]:
        """Run a coroutine, and what it awaits, as a task."""
        token = _TASK.set(self._newTask(origin, isWanted))
        try:
            return ensureDeferred(work)
        finally:
            _TASK.reset(token)

    def queue(
        self,
        account: str,
        begin: Callable[[], object],
        origin: object,
        isWanted: Callable[[], bool] | None,
        cost: int,
    ) -> None:
        """Begin a task when its turn comes; at once if a slice need not wait."""
        task = self._newTask(origin, isWanted)
        if self.isSpent:
            self._order += 1
            self._counts[account] += 1
            self._add(account, _Waiter(0, task.number, self._order, task, begin, cost))
            return
        self.spend(cost)
        token = _TASK.set(task)
        try:
            begin()
        finally:
            _TASK.reset(token)

    def _newTask(self, origin: object, isWanted: Callable[[], bool] | None) -> Task:
        self._tasks += 1
        return Task(self._tasks, origin, isWanted)

    @property
    def isSpent(self) -> bool:
        """Whether a slice would have to wait."""
        batch = self._batch
        # After the time of a batch is over, its round has no room left either.
        return bool(self._waiting) or batch.isSpent or batch.work >= batch.round

    def take(self, account: str, cost: int) -> Deferred[None]:
        """
        Wait for a slice of a cost, in the units of L{natsbroker.pure.backlog}. L{WorkEnded} for a
        task that nobody wants any more.
        """
        if self.isSpent or self._isStopped:
            return self.turn(account, cost)
        self.spend(cost)
        return succeed(None)

    def turn(self, account: str, cost: int) -> Deferred[None]:
        """Wait for a slice of a cost (L{natsbroker.pure.backlog}), or L{WorkEnded}."""
        task = _TASK.get(None) or _BACKGROUND
        turn: Deferred[None] = Deferred()
        self._order += 1
        waiter = _Waiter(task.slices // LEVEL, task.number, self._order, task, turn, cost)
        self._counts[account] += 1
        outbox = self._batch.congested if self._isServing else None
        if outbox is not None:
            Stall(self._reactor, outbox, partial(self._add, account, waiter))
        else:
            self._add(account, waiter)
        return turn

    def spend(self, cost: int) -> None:
        """Count work that exceeded its slice."""
        self._batch.work += cost

    def stop(self) -> None:
        """End all work: that which waits, and any that asks for a slice later."""
        self._isStopped = True
        waiting, self._waiting = self._waiting, {}
        self._queued = 0
        for owners in waiting.values():
            for waiters in owners.values():
                for waiter in waiters:
                    _giveUp(waiter.turn)

    def _add(self, account: str, waiter: _Waiter) -> None:
        if self._isStopped:
            _giveUp(waiter.turn)
            return
        owners = self._waiting.setdefault(account, {})
        heappush(owners.setdefault(waiter.task.origin, []), waiter)
        self._queued += 1
        self._plan()

    def _plan(self) -> None:
        if self._waiting and not self._isPlanned:
            self._isPlanned = True
            self._batch.backlog.add(self._serve)

    def _next(self) -> tuple[str, _Waiter]:
        account = next(iter(self._waiting))
        owners = self._waiting.pop(account)
        origin = next(iter(owners))
        waiters = owners.pop(origin)
        waiter = heappop(waiters)
        self._queued -= 1
        if waiters:
            owners[origin] = waiters
        if owners:
            self._waiting[account] = owners
        return account, waiter

    def _serve(self) -> None:
        self._isPlanned = False
        batch = self._batch
        batch.enter()
        self._isServing = True
        try:
            # A publisher that starts to wait again in this loop gets a later turn.
            for _ in range(self._queued):
                if batch.isSpent:
                    break
                self._resume(*self._next())
        finally:
            self._isServing = False
            self._plan()
            batch.leave()

    def _resume(self, account: str, waiter: _Waiter) -> None:
        batch = self._batch
        self._counts[account] -= 1
        if not self._counts[account]:
            del self._counts[account]
        task, turn = waiter.task, waiter.turn
        if isinstance(turn, Deferred) and turn.called:
            return
        task.slices += 1
        # Outboxes that an earlier slice has filled do not delay this one.
        batch.congested = None
        isWanted = task.isWanted is None or task.isWanted()
        if isWanted:
            self.spend(waiter.cost)
        if isinstance(turn, Deferred):
            if isWanted:
                turn.callback(None)
            else:
                turn.errback(WorkEnded())
        elif isWanted:
            token = _TASK.set(task)
            batch.contain(turn)
            _TASK.reset(token)
        batch.congested = None


def _giveUp(turn: Deferred[None] | Callable[[], object]) -> None:
    """Give a turn up."""
    if isinstance(turn, Deferred):
        turn.cancel()


_BACKGROUND = Task(0, None, None)
"""The broker's own work, which no task asks for."""


@implementer(ITurns)
class AccountTurns:
    """The turns of one account; see L{Turns}."""

    def __init__(self, turns: Turns, account: str) -> None:
        self._turns = turns
        self._account = account
        self.worked = turns.worked

    @property
    def waiting(self) -> int:
        return self._turns.count(self._account)

    def begin(
        self,
        work: Coroutine[Any, Any, Any],
        origin: object = None,
        isWanted: Callable[[], bool] | None = None,
    ) -> Deferred[Any]:
        return self._turns.begin(work, origin, isWanted)

    def queue(
        self,
        begin: Callable[[], object],
        origin: object = None,
        isWanted: Callable[[], bool] | None = None,
        cost: int = SLICE,
    ) -> None:
        self._turns.queue(self._account, begin, origin, isWanted, cost)

    def take(self, cost: int = SLICE) -> Deferred[None]:
        return self._turns.take(self._account, cost)

    def turn(self, cost: int = SLICE) -> Deferred[None]:
        return self._turns.turn(self._account, cost)

    @property
    def isSpent(self) -> bool:
        return self._turns.isSpent

    def spend(self, cost: int) -> None:
        self._turns.spend(cost)


def turnsOn(reactor: IReactorTime, batch: hot.FlushBatch | None = None) -> Turns:
    """The turns of a service without the broker's batch: it has a batch of its own."""
    if batch is None:
        batch = hot.FlushBatch(lambda call: reactor.callLater(0, call), None, workedOf(reactor))
    return Turns(reactor, batch, workedOf(reactor))


def workedOf(reactor: IReactorTime) -> Callable[[], float]:
    """
    A function that gives the seconds of this thread's work. With a clock of tests, that clock gives
    them too: then the same input gives the same turns.
    """
    return time.thread_time if reactor.seconds is time.time else reactor.seconds
