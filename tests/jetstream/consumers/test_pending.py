"""
The bookkeeping of pending messages, also against a model that computes everything from scratch.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from natsbroker.jetstream.consumers.pending import PendingAcks


def filled(count: int, wait: float = 10.0) -> PendingAcks:
    """
    Messages 1 to C{count}, delivered once at time 0.
    """
    pending = PendingAcks()
    for sequence in range(1, count + 1):
        pending.deliver(sequence, wait)
    return pending


def floors(pending: PendingAcks) -> tuple[int, int]:
    """
    The acknowledgement floor as consumer sequence and stream sequence.
    """
    return pending.floor, pending.floorStream


class TestFloors:
    """Where the acknowledgement floor is."""

    def test_outOfOrder(self) -> None:
        """Settling the oldest message moves the floor past messages that were settled earlier."""
        pending = filled(4)
        assert pending.settle(2)
        assert floors(pending) == (0, 0)
        assert pending.settle(1)
        assert floors(pending) == (2, 2)

    def test_gaps(self) -> None:
        """The floor's stream sequence is just below the oldest pending message."""
        pending = PendingAcks()
        for sequence in (5, 9, 20):
            pending.deliver(sequence, 1.0)
        pending.settle(5)
        assert floors(pending) == (1, 8)

    def test_staysWithoutSettling(self) -> None:
        """A delivery does not move the floor, even if no message is pending."""
        pending = filled(1)
        pending.settle(1)
        pending.deliver(10, 1.0)
        assert floors(pending) == (1, 1)

    def test_redelivered(self) -> None:
        """A redelivered message holds the floor below later messages."""
        pending = filled(2)
        pending.redeliver(1, 5.0)
        assert pending.delivered == 3
        pending.settle(1)
        assert floors(pending) == (1, 1)
        pending.settle(2)
        assert floors(pending) == (3, 2)

    def test_secondSettling(self) -> None:
        """Settling a message again has no effect."""
        pending = filled(1)
        assert [pending.settle(1), pending.settle(1)] == [True, False]

    def test_through(self) -> None:
        """Settling up to a sequence returns the messages that were still pending."""
        pending = filled(5)
        pending.settle(2)
        assert pending.settleThrough(4, 4) == [1, 3, 4]
        assert floors(pending) == (4, 4)
        assert list(pending.entries) == [5]

    def test_removeBefore(self) -> None:
        """Pending messages that the stream removes count as settled."""
        pending = filled(4)
        pending.redeliver(2, 5.0)
        assert pending.removeBefore(3) == [(1, 1, 0), (2, 2, 1)]
        assert floors(pending) == (2, 2)
        assert pending.removeBefore(3) == []
        assert pending.counts == {}

    def test_unacknowledged(self) -> None:
        """A delivery without acknowledgement moves the floor."""
        pending = PendingAcks()
        pending.unacknowledged(7)
        assert (pending.delivered, pending.deliveredStream, *floors(pending)) == (1, 7, 1, 7)

    def test_manySettledBehindOne(self) -> None:
        """The state does not grow with messages that are settled behind a pending one."""
        pending = filled(1)
        for sequence in range(2, 20_000):
            pending.deliver(sequence, float(sequence))
            pending.settle(sequence)
        assert len(pending._order) < 5000
        assert pending._tracked < 5000
        pending.settle(1)
        assert floors(pending) == (19_999, 19_999)

    def test_raiseFloor(self) -> None:
        """After a restore, the floor is raised to just below the oldest pending message."""
        pending = PendingAcks()
        pending.delivered, pending.deliveredStream = 9, 30
        pending.restored(20, 6, 1.0)
        pending.raiseFloor()
        assert floors(pending) == (5, 19)


class TestRedelivery:
    """The redelivery queue and times."""

    def test_expired(self) -> None:
        """Messages that are due are returned once, ordered by sequence."""
        pending = PendingAcks()
        pending.deliver(1, 3.0)
        pending.deliver(2, 2.0)
        pending.deliver(3, 9.0)
        assert pending.nextDue() == 2.0
        assert pending.expired(3.0) == [1, 2]
        assert pending.expired(3.0) == []
        assert pending.nextDue() == 9.0

    def test_postponed(self) -> None:
        """A postponed message leaves the redelivery queue, and is due at its new time only."""
        pending = filled(2)
        pending.enqueue([1])
        pending.postpone(1, 20.0)
        assert pending.queue(9) == []
        assert pending.expired(10.0) == [2]
        assert pending.expired(20.0) == [1]

    def test_queueKeepsOrder(self) -> None:
        """The redelivery queue has each pending message once, in order, and no settled message."""
        pending = filled(4)
        pending.enqueue([3, 9])
        pending.enqueue([1, 3, 4])
        pending.settle(1)
        assert (pending.queue(9), pending.queue(1)) == ([3, 4], [3])
        assert pending.nextQueued() == 3
        pending.redeliver(3, 50.0)
        assert (pending.nextQueued(), pending.queueLength) == (4, 1)
        pending.settle(4)
        assert pending.nextQueued() == 0

    def test_nothingPending(self) -> None:
        """Without pending messages, no message is due."""
        pending = filled(2)
        pending.settle(1)
        pending.settle(2)
        assert pending.nextDue() is None
        assert pending.lastDue() == 0.0

    def test_shift(self) -> None:
        """Changed waits move the due times of messages, by their numbers of redeliveries."""
        pending = filled(4)
        pending.shift(lambda _: 5.0)
        assert pending.expired(14.9) == []
        pending.counts.update({2: 1, 3: 2})
        pending.shift(lambda count: [0.0, -3.0, 1.0][count])
        times = (11.9, 12.0, 15.0, 16.0)
        assert [pending.expired(moment) for moment in times] == [[], [2], [1, 4], [3]]

    def test_giveUp(self) -> None:
        """A message that is given up is not pending, but its deliveries stay counted."""
        pending = filled(2)
        pending.giveUp(1, 3)
        assert (list(pending.entries), pending.counts) == ([2], {1: 3})
        assert floors(pending) == (1, 1)

    def test_restart(self) -> None:
        """A restart forgets everything."""
        pending = filled(3)
        pending.restart(10)
        assert (pending.delivered, pending.deliveredStream, *floors(pending)) == (0, 9, 0, 9)
        assert pending.nextDue() is None


class PendingMachine(RuleBasedStateMachine):
    """Any sequence of operations has the same result as a naive model."""

    def __init__(self) -> None:
        super().__init__()
        self.pending = PendingAcks()
        self.now = 0.0
        self.next = 1
        self.entries: dict[int, list[float]] = {}
        self.counts: dict[int, int] = {}
        self.queue: list[int] = []
        self.floor = (0, 0)
        self.delivered = (0, 0)

    def settled(self, sequence: int) -> None:
        """Remove a message from the model, and move its floor as nats-server does."""
        first = int(self.entries.pop(sequence)[0])
        if sequence in self.queue:
            self.queue.remove(sequence)
        if not self.entries:
            self.floor = self.delivered
        elif first == self.floor[0] + 1:
            oldest = min(self.entries)
            self.floor = (int(self.entries[oldest][0]) - 1, oldest - 1)

    @rule(gap=st.integers(0, 3), wait=st.sampled_from([1.0, 2.0, 7.0]), regular=st.booleans())
    def deliver(self, gap: int, wait: float, regular: bool) -> None:
        """Deliver a message."""
        sequence = self.next + gap
        self.next = sequence + 1
        self.pending.deliver(sequence, self.now + wait, regular)
        self.delivered = (self.delivered[0] + 1, sequence)
        self.entries[sequence] = [self.delivered[0], self.now + wait]

    @precondition(lambda self: self.queue)
    @rule(wait=st.sampled_from([1.0, 3.0]))
    def redeliver(self, wait: float) -> None:
        """Deliver the first message of the queue again."""
        sequence = self.pending.nextQueued()
        assert sequence == self.queue[0]
        self.pending.redeliver(sequence, self.now + wait)
        self.queue.remove(sequence)
        self.counts[sequence] = self.counts.get(sequence, 0) + 1
        self.delivered = (self.delivered[0] + 1, self.delivered[1])
        self.entries[sequence][1] = self.now + wait

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        """Acknowledge one message."""
        sequence = data.draw(st.sampled_from(sorted(self.entries)))
        assert self.pending.settle(sequence)
        self.counts.pop(sequence, None)
        self.settled(sequence)

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def giveUp(self, data: st.DataObject) -> None:
        """Give up one message."""
        sequence = data.draw(st.sampled_from(sorted(self.entries)))
        self.pending.giveUp(sequence, 5)
        self.counts[sequence] = 5
        self.settled(sequence)

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def through(self, data: st.DataObject) -> None:
        """Acknowledge all messages up to one."""
        sequence = data.draw(st.sampled_from(sorted(self.entries)))
        first = int(self.entries[sequence][0])
        gone = [known for known in sorted(self.entries) if known <= sequence]
        assert self.pending.settleThrough(first, sequence) == gone
        for settled in gone:
            del self.entries[settled]
        self.queue = [later for later in self.queue if later > sequence]
        self.counts = {later: n for later, n in self.counts.items() if later > sequence}
        self.floor = (first, sequence)

    @rule(ahead=st.integers(0, 12))
    def removeBefore(self, ahead: int) -> None:
        """The stream removes its oldest messages."""
        before = self.floor[1] + ahead
        gone = [sequence for sequence in sorted(self.entries) if sequence < before]
        removed = self.pending.removeBefore(before)
        assert [removal[0] for removal in removed] == gone
        assert [removal[2] for removal in removed] == [
            self.counts.get(sequence, 0) for sequence in gone
        ]
        if gone:
            last = int(self.entries[gone[-1]][0])
            for sequence in gone:
                del self.entries[sequence]
                self.counts.pop(sequence, None)
            self.queue = [sequence for sequence in self.queue if sequence >= before]
            if self.entries:
                oldest = min(self.entries)
                first = int(self.entries[oldest][0]) - 1
                self.floor = (max(last, first), oldest - 1)
            else:
                self.floor = self.delivered

    @precondition(lambda self: self.entries)
    @rule(data=st.data(), wait=st.sampled_from([0.0, 0.5, 4.0]), regular=st.booleans())
    def postpone(self, data: st.DataObject, wait: float, regular: bool) -> None:
        """Postpone a message."""
        sequence = data.draw(st.sampled_from(sorted(self.entries)))
        self.pending.postpone(sequence, self.now + wait, regular)
        self.entries[sequence][1] = self.now + wait
        if sequence in self.queue:
            self.queue.remove(sequence)

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def nak(self, data: st.DataObject) -> None:
        """Queue one message."""
        sequence = data.draw(st.sampled_from(sorted(self.entries)))
        self.pending.enqueue([sequence])
        if sequence not in self.queue:
            self.queue.append(sequence)

    @rule(seconds=st.sampled_from([0.5, 1.0, 5.0]))
    def passTime(self, seconds: float) -> None:
        """Let time pass, and queue what is due."""
        self.now += seconds
        due = [
            sequence
            for sequence, (_, when) in sorted(self.entries.items())
            if when <= self.now and sequence not in self.queue
        ]
        expired = self.pending.expired(self.now)
        assert expired == due
        self.pending.enqueue(expired)
        self.queue += due

    @invariant()
    def same(self) -> None:
        """Everything is as in the model."""
        pending = self.pending
        assert {sequence: first for sequence, (first, _) in pending.entries.items()} == {
            sequence: first for sequence, (first, _) in self.entries.items()
        }
        assert floors(pending) == self.floor
        assert (pending.delivered, pending.deliveredStream) == self.delivered
        assert pending.queue(1 << 30) == self.queue
        assert {n: c for n, c in pending.counts.items() if n in self.entries} == {
            n: c for n, c in self.counts.items() if n in self.entries
        }

    @invariant()
    def nextDue(self) -> None:
        """The next time is that of the message that is due first and not queued."""
        times = [when for sequence, (_, when) in self.entries.items() if sequence not in self.queue]
        assert self.pending.nextDue() == min(times, default=None)


TestPendingMachine = PendingMachine.TestCase


def everything(pending: PendingAcks) -> tuple[object, ...]:
    """
    All that can be asked.
    """
    positions = (pending.delivered, pending.deliveredStream, *floors(pending))
    due = (pending.nextDue(), pending.lastDue(), pending.queue(100))
    return positions, list(pending.entries.items()), pending.counts, due


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.integers(1, 6), st.booleans()),
        st.tuples(st.just("settle"), st.lists(st.integers(0, 8), min_size=1, max_size=6)),
        st.tuples(st.just("oldest"), st.integers(1, 4)),
        st.tuples(st.just("redeliver"), st.integers(0, 8)),
        st.tuples(st.just("enqueue"), st.integers(0, 8)),
        st.tuples(st.just("unacknowledged"), st.integers(1, 3)),
        st.tuples(st.just("expire"), st.integers(1, 9)),
    ),
    max_size=12,
)


class TestRuns:
    """Runs of messages have the same effect as the messages one by one."""

    @given(STEPS)
    def test_sameAsSingly(self, steps: list[tuple[object, ...]]) -> None:
        """All results are the same as for single messages."""
        runs, singly = PendingAcks(), PendingAcks()
        now, last = 0.0, 0
        for name, argument, *more in steps:
            now += 1
            known = list(singly.entries)
            if name == "deliver":
                assert isinstance(argument, int)
                sequences = list(range(last + 2, last + 2 + argument))
                last = sequences[-1]
                runs.deliverRun(sequences, now + 5, bool(more[0]))
                for sequence in sequences:
                    singly.deliver(sequence, now + 5, bool(more[0]))
            elif name == "unacknowledged" and not known:
                assert isinstance(argument, int)
                sequences = list(range(last + 1, last + 1 + argument))
                last = sequences[-1]
                runs.unacknowledgedRun(len(sequences), sequences[-1])
                for sequence in sequences:
                    singly.unacknowledged(sequence)
            elif name in ("settle", "oldest"):
                if isinstance(argument, list):
                    wanted = [
                        known[number % len(known)] if known else number for number in argument
                    ]
                else:
                    assert isinstance(argument, int)
                    wanted = known[:argument] or [1]
                settled = []
                for sequence in wanted:
                    wasCounted = sequence in singly.counts
                    if singly.settle(sequence) or wasCounted:
                        settled.append(sequence)
                assert runs.settleRun(wanted) == settled
            elif name == "expire":
                assert isinstance(argument, int)
                assert runs.expired(now + argument) == singly.expired(now + argument)
            elif known and isinstance(argument, int):
                one = known[argument % len(known)]
                for pending in (runs, singly):
                    if name == "redeliver":
                        pending.redeliver(one, now + 5)
                    else:
                        pending.enqueue([one])
            assert everything(runs) == everything(singly)

    def test_emptyRuns(self) -> None:
        """No message changes nothing."""
        pending = filled(2)
        pending.deliverRun([], 1.0)
        assert pending.settleRun([]) == []
        assert everything(pending) == everything(filled(2))

    def test_settledBefore(self) -> None:
        """A run may contain messages that are already settled."""
        pending = filled(5)
        pending.settle(2)
        assert pending.settleRun([1, 2, 3]) == [1, 3]
        assert floors(pending) == (3, 3)
