"""
The deliveries of a consumer that are not acknowledged.

Two sequences number a delivery: the stream sequence of the message, and the consumer sequence,
which rises with every delivery. A floor is the sequence up to which all deliveries are settled. As
in nats-server it moves when a message is settled, not when one is delivered.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice, repeat, takewhile
from math import inf

#: Timers and the order drop settled messages when these are more than this number and over half.
_MANY = 1024


class PendingAcks:
    """
    The unacknowledged deliveries of one consumer. Only operations that settle or list many messages
    take longer with more of them.

    @ivar delivered: the consumer sequence of the last delivery.
    @ivar deliveredStream: the stream sequence of the newest message that was delivered.
    @ivar floor: the acknowledgement floor, as a consumer sequence.
    @ivar floorStream: the acknowledgement floor, as a stream sequence.
    @ivar entries: by stream sequence: the consumer sequence of the first delivery, and the time at
        which the message is due again.
    @ivar counts: by stream sequence: the redeliveries, also of messages at the limit of deliveries.
    """

    def __init__(self) -> None:
        self.restart(1)

    def restart(self, sequence: int) -> None:
        """Forget all deliveries. The next message has this stream sequence."""
        self.delivered = 0
        self.floor = 0
        self.deliveredStream = self.floorStream = max(sequence - 1, 0)
        self.entries: dict[int, tuple[int, float]] = {}
        self.counts: dict[int, int] = {}
        self._order: deque[int] = deque()
        self._queued: OrderedDict[int, None] = OrderedDict()
        self._batches: deque[tuple[float, list[int]]] = deque()
        self._newest: list[int] = []
        self._newestDue = 0.0
        self._heap: list[tuple[float, int]] = []
        self._tracked = 0
        self._below = 0

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def lowest(self) -> float:
        """A stream sequence below which none is pending."""
        return self._order[0] if self._order else inf

    def __contains__(self, sequence: object) -> bool:
        return sequence in self.entries

    # Deliveries.

    def unacknowledged(self, sequence: int) -> None:
        """Count the delivery of a message that needs no acknowledgement."""
        self.delivered += 1
        self.floor = self.delivered
        self.deliveredStream = self.floorStream = sequence

    def unacknowledgedRun(self, count: int, last: int) -> None:
        """Count deliveries of such messages up to the sequence C{last}."""
        self.delivered += count
        self.floor = self.delivered
        self.deliveredStream = self.floorStream = last

    def deliver(self, sequence: int, due: float, isRegular: bool = True) -> None:
        """
        Count the first delivery of a message, whose sequence is above that of all before.

        @param due: when it is delivered again if it is not acknowledged.
        @param isRegular: whether messages that are delivered later are mostly due later.
        """
        self.delivered += 1
        self.deliveredStream = sequence
        self.entries[sequence] = (self.delivered, due)
        self._order.append(sequence)
        self._track(sequence, due, isRegular)

    def deliverRun(self, sequences: Sequence[int], due: float, isRegular: bool = True) -> None:
        """Count the first deliveries of messages in order."""
        count = len(sequences)
        if not count:
            return
        firsts = range(self.delivered + 1, self.delivered + count + 1)
        self.delivered += count
        self.deliveredStream = sequences[-1]
        self.entries.update(zip(sequences, zip(firsts, repeat(due)), strict=False))
        self._order.extend(sequences)
        self._track(sequences[0], due, isRegular)
        if isRegular and self._batches and due == self._newestDue:
            self._tracked += count - 1
            self._newest.extend(islice(sequences, 1, None))
        else:
            for sequence in islice(sequences, 1, None):
                self._track(sequence, due, isRegular)

    def redeliver(self, sequence: int, due: float, isRegular: bool = True) -> None:
        """Count another delivery of a pending message. It keeps its first consumer sequence."""
        self.delivered += 1
        self.counts[sequence] = self.counts.get(sequence, 0) + 1
        self.postpone(sequence, due, isRegular)

    def restored(self, sequence: int, first: int, due: float) -> None:
        """
        Add a pending message of an earlier run, in order of the stream sequences; C{first} is the
        consumer sequence of its first delivery.
        """
        self.entries[sequence] = (first, due)
        self._order.append(sequence)
        self._track(sequence, due, False)

    def postpone(self, sequence: int, due: float, isRegular: bool = True) -> None:
        """Change the time of a pending message's redelivery, and take it out of the queue."""
        self.entries[sequence] = (self.entries[sequence][0], due)
        self._queued.pop(sequence, None)
        self._track(sequence, due, isRegular)

    def shift(self, secondsAfter: Callable[[int], float]) -> None:
        """
        Make all pending messages due later. The seconds depend on the number of redeliveries.
        Negative seconds make them due earlier.
        """
        counts = self.counts
        self.entries = {
            sequence: (first, due + secondsAfter(counts.get(sequence, 0)))
            for sequence, (first, due) in self.entries.items()
        }
        self._rebuildTimers()

    # Settling.

    def settle(self, sequence: int) -> bool:
        """Remove a message that is acknowledged, terminated or gone; true if it was pending."""
        entry = self.entries.pop(sequence, None)
        self.counts.pop(sequence, None)
        self._queued.pop(sequence, None)
        if entry is None:
            return False
        self._moveFloor(entry[0], sequence)
        return True

    def settleRun(self, sequences: Sequence[int]) -> list[int]:
        """
        Remove acknowledged messages in order. Return those that were pending or had a count of
        redeliveries.
        """
        order, entries = self._order, self.entries
        count = len(sequences)
        isOldest = (
            count
            and not self.counts
            and not self._queued
            and order
            and order[0] == sequences[0]
            and order[0] in entries
            and entries[order[0]][0] == self.floor + 1
            and list(islice(order, count)) == sequences
        )
        if not isOldest:
            return [sequence for sequence in sequences if self._isSettled(sequence)]
        # The usual case, in which the floor moves: the oldest messages, in their order.
        taken = [entries.pop(sequence, None) for sequence in sequences]
        settled = [
            sequence for sequence, entry in zip(sequences, taken, strict=True) if entry is not None
        ]
        first = next(entry[0] for entry in reversed(taken) if entry is not None)
        for _ in range(count):
            order.popleft()
        self._moveFloorUp(first, settled[-1])
        return settled

    def _isSettled(self, sequence: int) -> bool:
        wasCounted = sequence in self.counts
        return self.settle(sequence) or wasCounted

    def giveUp(self, sequence: int, redeliveries: int) -> None:
        """Remove one message that reached the limit of deliveries. Its count stays."""
        self.counts[sequence] = redeliveries
        self._queued.pop(sequence, None)
        entry = self.entries.pop(sequence, None)
        if entry is not None:
            self._moveFloor(entry[0], sequence)

    def settleThrough(self, first: int, sequence: int) -> list[int]:
        """
        Remove all messages up to one, and return the sequences of those that were pending; the
        consumer sequence C{first} becomes the floor.
        """
        self.floor, self.floorStream = first, sequence
        settled = self._takeThrough(sequence)
        self._forgetCounts(sequence + 1)
        return settled

    def removeBefore(self, sequence: int) -> list[tuple[int, int, int]]:
        """
        Remove the messages below a sequence, which the stream has no more.

        @return: of those that were pending: the stream sequence, the consumer sequence of the first
            delivery, and the redeliveries.
        """
        removed: list[tuple[int, int, int]] = []
        if self._order and self._order[0] < sequence:
            known = self.entries
            firsts = {
                passed: known[passed][0]
                for passed in takewhile(sequence.__gt__, self._order)
                if passed in known
            }
            taken = self._takeThrough(sequence - 1)
            removed = [(passed, firsts[passed], self.counts.pop(passed, 0)) for passed in taken]
            if taken:
                self._moveFloorUp(firsts[taken[-1]], taken[-1])
        # Counts of messages that are not pending are rare, so their search may wait.
        if sequence - self._below > len(self.counts):
            self._below = sequence
            self._forgetCounts(sequence)
        return removed

    def raiseFloor(self) -> None:
        """Move the floor to just below the oldest pending message, after all were restored."""
        if not self.entries:
            self._moveFloorUp(0, 0)
        elif self._order[0] - 1 > self.floorStream:
            first = self.entries[self._order[0]][0]
            self.floor = max(self.floor, min(first - 1, self.delivered))
            self.floorStream = self._order[0] - 1

    def _takeThrough(self, sequence: int) -> list[int]:
        order, entries, taken = self._order, self.entries, []
        while order and order[0] <= sequence:
            one = order.popleft()
            if entries.pop(one, None) is not None:
                self._queued.pop(one, None)
                taken.append(one)
        return taken

    def _forgetCounts(self, below: int) -> None:
        if self.counts:
            for old in [counted for counted in self.counts if counted < below]:
                del self.counts[old]

    def _moveFloor(self, first: int, sequence: int) -> None:
        if not self.entries or first == self.floor + 1:
            self._moveFloorUp(first, sequence)
        elif len(self._order) > _MANY and len(self._order) > 2 * len(self.entries):
            self._order = deque(unsettled for unsettled in self._order if unsettled in self.entries)

    def _moveFloorUp(self, first: int, sequence: int) -> None:
        """Move the floor to just below the oldest pending message."""
        order, entries = self._order, self.entries
        if not entries:
            order.clear()
            self.floor, self.floorStream = self.delivered, self.deliveredStream
            return
        while order[0] not in entries:
            order.popleft()
        self.floor = max(first, entries[order[0]][0] - 1)
        self.floorStream = max(sequence, order[0] - 1)

    # Redelivery.

    def enqueue(self, sequences: Iterable[int]) -> None:
        """Put pending messages behind those of the redelivery queue."""
        for sequence in sequences:
            if sequence in self.entries and sequence not in self._queued:
                self._queued[sequence] = None

    def isQueued(self, sequence: int) -> bool:
        return sequence in self._queued

    @property
    def queueLength(self) -> int:
        return len(self._queued)

    def nextQueued(self) -> int:
        """The first message of the redelivery queue; 0 if it is empty."""
        return next(iter(self._queued), 0)

    def queue(self, limit: int) -> list[int]:
        return list(islice(self._queued, limit))

    # Time.

    def expired(self, now: float) -> list[int]:
        """
        The pending messages that are due and not queued yet, by stream sequence. Each is given once
        for a due time.
        """
        due: set[int] = set()
        while self._batches and self._batches[0][0] <= now:
            batch = self._batches.popleft()[1]
            self._tracked -= len(batch)
            due.update(batch)
        while self._heap and self._heap[0][0] <= now:
            self._tracked -= 1
            due.add(heappop(self._heap)[1])
        entries, queued = self.entries, self._queued
        return sorted(
            sequence
            for sequence in due
            if sequence in entries and sequence not in queued and entries[sequence][1] <= now
        )

    def nextDue(self) -> float | None:
        """The time of the next pending message; C{None} if none is pending."""
        while self._batches and not self._isLive(*self._batches[0]):
            self._tracked -= len(self._batches.popleft()[1])
        while self._heap and not self._isLive(self._heap[0][0], (self._heap[0][1],)):
            self._tracked -= 1
            heappop(self._heap)
        times = [timers[0][0] for timers in (self._batches, self._heap) if timers]
        return min(times) if times else None

    def lastDue(self) -> float:
        """The time of the last pending message; 0 if none is pending."""
        return max((due for _, due in self.entries.values()), default=0.0)

    def _isLive(self, when: float, sequences: Iterable[int]) -> bool:
        entries, queued = self.entries, self._queued
        return any(
            sequence in entries and sequence not in queued and entries[sequence][1] == when
            for sequence in sequences
        )

    def _track(self, sequence: int, due: float, isRegular: bool) -> None:
        """Remember when a message is due: rising times in batches, all others in a heap."""
        self._tracked += 1
        if not isRegular:
            heappush(self._heap, (due, sequence))
        elif self._batches and due == self._newestDue:
            self._newest.append(sequence)
        elif not self._batches or due > self._newestDue:
            self._newest = [sequence]
            self._newestDue = due
            self._batches.append((due, self._newest))
        else:
            heappush(self._heap, (due, sequence))
        if self._tracked > _MANY and self._tracked > 3 * len(self.entries):
            self._rebuildTimers()

    def _rebuildTimers(self) -> None:
        self._batches.clear()
        self._heap = [(due, sequence) for sequence, (_, due) in self.entries.items()]
        heapify(self._heap)
        self._tracked = len(self._heap)
