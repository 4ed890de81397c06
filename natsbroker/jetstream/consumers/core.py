"""The common part of a consumer: its configuration, positions, timers and durable state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from random import Random
from typing import Any

from twisted.logger import Logger

from natsbroker.interfaces.records import Record
from natsbroker.jetstream.consumers.acks import ackFormat
from natsbroker.jetstream.consumers.cursor import RecordCursor
from natsbroker.jetstream.consumers.pending import PendingAcks
from natsbroker.jetstream.consumers.recordbuffer import sequencesOf
from natsbroker.jetstream.consumers.state import ConsumerState, DamagedState, stateKey
from natsbroker.jetstream.consumers.statewriter import StateWriter
from natsbroker.jetstream.consumers.timers import ConsumerTimers
from natsbroker.jetstream.contracts import ConsumerStream
from natsbroker.jetstream.model.consumerconfig import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
)
from natsbroker.jetstream.model.streamconfig import RetentionPolicy

_log = Logger(namespace="natsbroker.jetstream")

#: Seconds by which a redelivery may be late.
TOGETHER = 0.001

#: Seconds until a redelivery where C{ack_wait} is unset, as with flow control acknowledgements.
#: Lost ones are replaced with the next heartbeat, or the reader resets the consumer.
UNLIMITED_WAIT = 79200.0

#: The reason in advisories about a message that the stream has removed.
REMOVED = "Unacknowledged message was deleted"

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def randomToken(random: Random, length: int) -> str:
    return "".join(random.choices(_DIGITS, k=length))


def filtersOf(config: ConsumerConfig) -> tuple[bytes, ...]:
    """The patterns of the messages that a consumer delivers; empty for all."""
    if config.filter_subject:
        return (config.filter_subject.encode(),)
    return tuple([subject.encode() for subject in config.filter_subjects])


class ConsumerCore:
    """
    @ivar pending: the delivered messages.
    @ivar cursor: the messages that were not delivered.
    @ivar pump: delivers what can be delivered; the consumer's delivery sets it.
    @ivar ackFormat: see L{natsbroker.jetstream.consumers.acks.ackFormat}.
    @ivar ackPrefix: the acknowledgement subjects without their numbers.
    @ivar needsAcks: whether deliveries are pending until they are acknowledged.
    @ivar acksAll: whether an acknowledgement settles the deliveries before it.
    @ivar maxDeliver: deliveries of one message; 0 for any number.
    @ivar maxPending: messages that may be pending; 0 for any number.
    @ivar isReserving: whether deliveries are recorded durably before they are sent, because a crash
        must not lead to more deliveries than C{maxDeliver}.
    @ivar unsent: the pending messages whose deliveries are recorded, of which none is sent yet.
    @ivar passedOver: the sequence up to which messages may have been left out, because the filters
        changed or a reset moved ahead.
    @ivar isServing: whether the consumer has started and not ended.
    @ivar lastDelivered: when the last message was delivered, in nanoseconds since 1970, or 0.
    @ivar lastAcked: likewise for the last acknowledgement that was accepted.
    @ivar lastActive: when a client last did something, by the monotonic clock.
    """

    def __init__(
        self, stream: ConsumerStream, name: str, config: ConsumerConfig, random: Random
    ) -> None:
        self.stream = stream
        self.account = stream.account
        self.name = name
        self.random = random
        self.pending = PendingAcks()
        self.pump: Callable[[], object] = _nothing
        self.owner: Any = None
        self.cursor = RecordCursor(stream, filtersOf(config), self._ready, self._queue)
        self.timers = ConsumerTimers(self.account.deadlines)
        self.monotonic = self.account.deadlines.now
        self.ackFormat = ackFormat(stream.name, name)
        self.ackPrefix = f"$JS.ACK.{stream.name}.{name}.".encode()
        self.start = 0
        # Consumers of mirrors and sources are created again. A consumer in memory ends with its
        # broker, but moves on with a stream that brokers share.
        isKept = not config.direct and (stream.isShared or not config.mem_storage)
        states, key = stream.states if isKept else None, stateKey(stream.name, name)
        self.writer = StateWriter(
            states, key, self._encoded, self.account.deadlines, stream.together
        )
        self.unsent: set[int] = set()
        self.passedOver = 0
        self.isPaused = False
        self.isServing = False
        self.lastDelivered = 0
        self.lastAcked = 0
        self.lastActive = self.monotonic()
        self._waits: tuple[float, ...] = ()
        self.applyConfig(config)

    def applyConfig(self, config: ConsumerConfig) -> None:
        self.config = config
        policy = config.ack_policy
        self.needsAcks = policy is not AckPolicy.NONE
        self.acksAll = policy in (AckPolicy.ALL, AckPolicy.FLOW_CONTROL)
        self.maxDeliver = max(config.max_deliver, 0)
        self.maxPending = max(config.max_ack_pending, 0) if self.needsAcks else 0
        self.isReserving = self.maxDeliver > 0 and self.needsAcks and self.writer.isKept
        self.settlesAtDelivery = not self.needsAcks and self.isRetaining
        previous, self._waits = self._waits, _waitsOf(config)
        if previous and self._waits != previous:
            self._rescheduled(previous)

    @property
    def isRetaining(self) -> bool:
        """Whether the stream removes messages that its consumers have settled."""
        return self.stream.config.retention is not RetentionPolicy.LIMITS

    @property
    def isPendingFull(self) -> bool:
        """Whether new messages wait for acknowledgements."""
        return 0 < self.maxPending <= len(self.pending.entries)

    def passOver(self) -> None:
        """Mark all unsettled messages up to here as passed over: not all of them were delivered."""
        last = max(self.pending.deliveredStream, self.cursor.position - 1)
        self.passedOver = max(self.passedOver, last)

    def settled(self, sequences: Collection[int]) -> None:
        """Let the stream remove messages that are acknowledged or terminated."""
        if sequences and self.isRetaining:
            self.stream.settled(self.owner, sequences)

    def settledLate(self, sequences: Collection[int]) -> None:
        """
        Let the stream remove settled messages behind the floor, which a reset moved past them.
        """
        if sequences and self.isRetaining:
            self.stream.settledLate(sequences)

    def _ready(self) -> None:
        if self.isServing:
            self.pump()

    def _queue(self, limit: int) -> list[int]:
        return self.pending.queue(limit)

    # Time.

    def waitAfter(self, redeliveries: int) -> float:
        """Seconds until a message is due again, by the number of its redeliveries so far."""
        return _waitIn(self._waits, redeliveries)

    @property
    def isRegular(self) -> bool:
        """Whether messages that are delivered later are mostly due later."""
        return len(self._waits) == 1

    def _rescheduled(self, previous: Sequence[float]) -> None:
        """Make pending messages due as if they had been delivered with the present waits."""
        self.pending.shift(lambda count: self.waitAfter(count) - _waitIn(previous, count))
        due = self.pending.nextDue()
        if due is not None:
            self.watchPending(due)
        self.writer.touched()

    def watchPending(self, due: float) -> None:
        """Look at pending messages when one is due."""
        # Messages that are due at almost the same time are handled together, some a little late.
        when = due + TOGETHER
        known = self.timers.timeOf(self.ackWaitPassed)
        if known is None or when < known:
            self.timers.set(self.ackWaitPassed, when)

    def ackWaitPassed(self) -> None:
        """Queue the pending messages that are due. Give up those that had their last delivery."""
        pending = self.pending
        expired = pending.expired(self.monotonic())
        if self.maxDeliver == 1 or (self.maxDeliver and pending.counts):
            expired = [sequence for sequence in expired if not self._givesUpAtExpiry(sequence)]
        pending.enqueue(expired)
        due = pending.nextDue()
        if due is not None:
            self.watchPending(due)
        self.writer.touched()
        self.pump()

    def _givesUpAtExpiry(self, sequence: int) -> bool:
        """
        Give up a message that is known to have no delivery left. As in nats-server this happens
        with C{max_deliver} 1, or after a reduction of it.
        """
        if max(self.pending.counts.get(sequence, 0), 1) < self.maxDeliver:
            return False
        self.giveUp(sequence)
        return True

    def giveUp(self, sequence: int) -> None:
        """
        Stop delivering a pending message, and publish an advisory about it. The message may have
        had more deliveries than a reduced C{max_deliver}.
        """
        deliveries = self.pending.counts.get(sequence, 0) + 1
        self.advise("MAX_DELIVERIES", "max_deliver", stream_seq=sequence, deliveries=deliveries)
        self.pending.giveUp(sequence, deliveries)

    # Advisories.

    def advise(self, event: str, kind: str, **fields: Any) -> None:
        """Publish an advisory; C{event} follows C{$JS.EVENT.ADVISORY.CONSUMER.}, without names."""
        subject = f"ADVISORY.CONSUMER.{event}.{self.stream.name}.{self.name}"
        names = {"stream": self.stream.name, "consumer": self.name}
        self.account.advise(subject, f"advisory.v1.{kind}", lambda: {**names, **fields})

    def adviseTerminated(
        self, sequence: int, consumerSequence: int, deliveries: int, reason: str
    ) -> None:
        fields: dict[str, Any] = {
            "consumer_seq": consumerSequence,
            "stream_seq": sequence,
            "deliveries": deliveries,
        }
        if reason:
            fields["reason"] = reason
        self.advise("MSG_TERMINATED", "terminated", **fields)

    # Messages that the stream removed.

    def gone(self, sequence: int, isPurge: bool = False) -> None:
        """
        Take note that a message was removed from the stream. A pending one counts as terminated,
        without an advisory after a purge.
        """
        entry = self.pending.entries.get(sequence)
        deliveries = self.pending.counts.get(sequence, 0) + 1
        self.pending.settle(sequence)
        if entry is not None:
            self.lastAcked = self.account.now()
            if not isPurge:
                self.adviseTerminated(sequence, entry[0], deliveries, REMOVED)

    def goneBefore(self, sequence: int, isPurge: bool) -> None:
        """
        Take note that all messages below a sequence were removed. After a purge the consumer
        continues there without advisories.
        """
        pending = self.pending
        for gone, first, redeliveries in pending.removeBefore(sequence):
            self.lastAcked = self.account.now()
            if not isPurge:
                self.adviseTerminated(gone, first, redeliveries + 1, REMOVED)
        if isPurge and pending.deliveredStream < sequence - 1:
            pending.deliveredStream = sequence - 1
            if not pending.entries:
                pending.floor = pending.delivered
        if isPurge and pending.floorStream < sequence - 1:
            pending.floorStream = sequence - 1

    # The durable state.

    def _encoded(self) -> bytes:
        pending, cursor = self.pending, self.cursor
        self.unsent.intersection_update(pending.entries)
        offset = (self.account.now() - round(self.monotonic() * 1e9)) // 1_000_000 + 1
        return ConsumerState(
            pending.delivered,
            pending.deliveredStream,
            pending.floor,
            pending.floorStream,
            self.start,
            cursor.resume if cursor.resume > pending.deliveredStream else 0,
            list(pending.entries),
            [first for first, _ in pending.entries.values()],
            [int(due * 1e3) + offset for _, due in pending.entries.values()],
            pending.counts,
            list(self.unsent),
        ).encode()

    async def restore(self, value: bytes | None) -> bool:
        """
        Take up the state of an earlier run; false if there is none. After a power cut the state can
        be ahead of its stream, and messages can be missing. Positions are then set back to the end
        of the stream, and pending messages outside of it are dropped.
        """
        if value is None:
            return False
        try:
            state = ConsumerState.decode(value)
        except DamagedState as error:
            name, why = f"{self.stream.name} > {self.name}", str(error)
            _log.error("Consumer {name} starts from the beginning: {why}", name=name, why=why)
            return False
        first, last = max(self.stream.first, 1), self.stream.last
        end = max(last, state.start)
        pending = self.pending
        pending.restart(1)
        pending.delivered = state.delivered
        pending.deliveredStream = min(state.deliveredStream, end)
        pending.floor = min(state.floor, state.delivered)
        pending.floorStream = min(state.floorStream, pending.deliveredStream)
        self.start = state.start
        self._restorePending(state, first, last)
        position = max(pending.deliveredStream + 1, 1)
        skip: list[int] = []
        if state.resume >= position:
            lasts = await self.stream.lastPerSubject(self.cursor.filters)
            skip = [sequence for sequence in lasts if position <= sequence <= state.resume]
        self.cursor.restart(position, state.resume, skip)
        return True

    def _restorePending(self, state: ConsumerState, first: int, last: int) -> None:
        pending, now, wall = self.pending, self.monotonic(), self.account.now() // 1_000_000
        longest = max(self._waits)
        for sequence, number, due in zip(state.sequences, state.firsts, state.dues, strict=True):
            if first <= sequence <= last and sequence > pending.floorStream:
                wait = min(max((due - wall) / 1e3, 0.0), longest)
                pending.restored(sequence, min(number, pending.delivered), now + wait)
        pending.counts.update(
            (sequence, count)
            for sequence, count in state.counts.items()
            if first <= sequence <= last
        )
        self._allowUnsent(state.unsent)
        pending.raiseFloor()
        soonest = pending.nextDue()
        if soonest is not None:
            self.watchPending(soonest)

    def _allowUnsent(self, sequences: Sequence[int]) -> None:
        """
        Allow one more delivery of messages whose deliveries were counted, but perhaps not sent, by
        processes that have ended. C{max_deliver} 1 asks for at most one delivery: then none is
        allowed.
        """
        pending = self.pending
        self.unsent = set(sequences).intersection(pending.entries)
        for sequence in self.unsent:
            if 1 < self.maxDeliver <= pending.counts.get(sequence, 0) + 1:
                pending.counts[sequence] = self.maxDeliver - 2
                if self.maxDeliver == 2:
                    del pending.counts[sequence]

    async def position(self) -> None:
        """
        Begin where the deliver policy says.

        @raise natsbroker.interfaces.records.StoreError: if the stream cannot be read.
        """
        stream, policy = self.stream, self.config.deliver_policy
        first, last = max(stream.first, 1), stream.last
        position, resume, skip = first, 0, []
        if policy is DeliverPolicy.NEW:
            position = last + 1
        elif policy is DeliverPolicy.BY_START_SEQUENCE:
            position = max(self.config.opt_start_seq, first)
        elif policy is DeliverPolicy.BY_START_TIME and self.config.opt_start_time is not None:
            started = await stream.sequenceAt(int(self.config.opt_start_time))
            position = min(max(started, first), last + 1)
        elif policy is DeliverPolicy.LAST and not self.cursor.filters:
            position = max(last, first)
        elif policy is DeliverPolicy.LAST_PER_SUBJECT and stream.config.max_msgs_per_subject == 1:
            position = first  # Every message is the last of its subject.
        elif policy in (DeliverPolicy.LAST, DeliverPolicy.LAST_PER_SUBJECT):
            sequences = await stream.lastPerSubject(self.cursor.filters)
            if policy is DeliverPolicy.LAST:
                position = max(max(sequences, default=first), first)
            else:
                # Messages stored meanwhile come after C{resume}, from where all are delivered.
                skip, resume = [sequence for sequence in sequences if sequence <= last], last
                position = max(skip[0] if skip else last, first)
        self.begin(position, resume, skip)

    def begin(self, position: int, resume: int = 0, skip: list[int] | None = None) -> None:
        """Begin at a sequence, with nothing delivered."""
        self.start = position - 1
        self.pending.restart(position)
        self.unsent.clear()
        self.cursor.restart(position, resume, skip or ())
        self.lastDelivered = self.lastAcked = 0

    # Delivery.

    def delivered(self, record: Record, redeliveries: int, now: float) -> None:
        """Count a delivery; C{redeliveries} includes this one."""
        pending, sequence = self.pending, record.sequence
        due = now + self.waitAfter(redeliveries)
        if redeliveries:
            pending.redeliver(sequence, due, self.isRegular)
            self.cursor.forgetAgain(sequence)
        else:
            self.cursor.take(sequence)
            if not self.needsAcks:
                pending.unacknowledged(sequence)
                return
            pending.deliver(sequence, due, self.isRegular)
        self.watchPending(due)

    def deliveredRun(self, records: Sequence[Record], now: float) -> None:
        """Count the first deliveries of messages that L{RecordCursor.upcoming} gave."""
        pending, last = self.pending, records[-1].sequence
        self.cursor.takeRun(len(records), last)
        if not self.needsAcks:
            pending.unacknowledgedRun(len(records), last)
            return
        due = now + self.waitAfter(0)
        pending.deliverRun(sequencesOf(records), due, self.isRegular)
        self.watchPending(due)


def _waitsOf(config: ConsumerConfig) -> tuple[float, ...]:
    """Seconds until a message is due again, by its redeliveries; the last for any more."""
    if config.backoff:
        return tuple([wait / 1e9 for wait in config.backoff])
    return (config.ack_wait / 1e9 or UNLIMITED_WAIT,)


def _waitIn(waits: Sequence[float], redeliveries: int) -> float:
    return waits[min(redeliveries, len(waits) - 1)]


def _nothing() -> None:
    """Do nothing, as the pump of a consumer that has no pump yet."""
