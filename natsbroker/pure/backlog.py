"""
The work that is left when a batch's share is used up, and the choice of the work that is done next.

A broker has one thread: while it works for one peer, all others wait. So work is counted, as the
operations that are done and the receivers that are looked at, and a batch ends when it has used up
its share. The remaining work waits here, and is served round robin. Each entry has a share. After
every round the reactor handles sockets and timers.

The unit of work is the cost of putting a short message into one outbox in the compiled lane: about
a tenth of a microsecond. Some work takes longer than its count, so a batch on the readable path
also ends after some processor time. With a clock that stands still, the same input gives the same
batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

#: The work of one batch, and of one round of the backlog: some milliseconds.
SHARE = 32768

#: The least work of a batch where many share a round.
LEAST = 512

#: Seconds of the processor after which a batch leaves the rest for later, whatever its work.
LONGEST_BATCH = 0.003

#: The work between two looks at the time: some operations on the readable path.
LOOK = 256

#: Outside of batches nothing is limited.
UNLIMITED = 1 << 62

#: Receivers of one message from which on it may be delivered in several batches.
DIVISIBLE = 128

# The costs of the kinds of work.

#: An operation on the readable path.
FRAME = 48

#: A receiver that is looked at on the readable path.
RECEIVER = 16

#: A subscription that is made or ended.
SUBSCRIPTION = 16

#: A subject that a router is asked about, in addition to each entry and each shape of wildcards.
LOOK_UP = 32

#: An operation that is answered with an error and noted in the log.
VIOLATION = 512

#: A message whose way is traced, besides each byte of its events.
TRACED = 1500

#: A CONNECT: an authorizer is asked.
LOGIN = 1024

#: An outbox that is flushed: mostly a system call.
FLUSH = 32

#: The binary logarithm of how many bytes cost as much as a receiver in the compiled lane.
BYTES = 11


class WorkBudget(Protocol):
    """The batch whose shares are given out: see L{natsbroker.pure.outbox.FlushBatch}."""

    work: int
    round: int

    @property
    def isSpent(self) -> bool: ...

    def enter(self) -> None: ...

    def leave(self) -> None: ...

    def renew(self) -> None: ...


@dataclass(eq=False, slots=True)
class WorkQueue:
    batch: WorkBudget
    schedule: Callable[[Callable[[], None]], object]
    _isScheduled: bool = field(default=False, init=False)
    _entries: deque[Callable[[], None]] = field(default_factory=deque, init=False)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Callable[[], None]) -> None:
        """Call a function once, as a batch of its own, after all work that already waits."""
        self._entries.append(entry)
        if not self._isScheduled:
            self._isScheduled = True
            self.schedule(self._serve)

    def exhaust(self, steps: Iterator[object]) -> None:
        """
        Use up an iterator, partly later. A step that raises is skipped: its exception is handled
        elsewhere.
        """
        batch = self.batch
        batch.enter()
        try:
            for _ in steps:
                if batch.isSpent:
                    self.add(partial(self.exhaust, steps))
                    break
        except BaseException:
            self.add(partial(self.exhaust, steps))
            raise
        finally:
            batch.leave()

    def _serve(self) -> None:
        batch, entries = self.batch, self._entries
        self._isScheduled = False
        batch.renew()
        try:
            for _ in range(len(entries)):
                if batch.work >= batch.round:
                    break
                entries.popleft()()
        finally:
            if entries and not self._isScheduled:
                self._isScheduled = True
                self.schedule(self._serve)
