"""
The order and the sending of deliveries.

Redeliveries precede new messages. With a limit of deliveries, a delivery is durably recorded before
it is sent, so that the limit holds over a crash. Later deliveries wait for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from natsbroker.interfaces.records import Record, RecordRun
from natsbroker.jetstream.consumers.core import ConsumerCore
from natsbroker.jetstream.consumers.recordbuffer import sequencesOf
from natsbroker.jetstream.model.consumerconfig import ReplayPolicy
from natsbroker.jetstream.recordsender import Sent

#: The most messages, and bytes of them, that one slice delivers.
SLICE = 4096
SLICE_BYTES = 1 << 20

#: The messages of a slice after which other work that waits comes first, and the most of one run.
SHORT_SLICE = 1024

#: Messages that are delivered at once although a slice would have to wait, and runs of one slice: a
#: message by itself costs as much as some dozens of a run.
FEW = 64

#: The work of a slice besides the bytes for outboxes; see L{natsbroker.pure.backlog}.
_COST = 512

#: The shortest gap between messages that a replay at the original pace keeps, in nanoseconds.
SHORTEST_GAP = 1_000_000


class _Held(NamedTuple):
    """A message or a status to send when the state is durable; C{sequence} is 0 for a status."""

    reply: bytes
    payload: bytes
    headers: bytes
    ack: bytes
    subject: bytes
    sequence: int


def withHeader(headers: bytes, name: bytes, value: bytes) -> bytes:
    """A header block with one more header at its end."""
    block = headers[:-2] if headers else b"NATS/1.0\r\n"
    return b"%b%b: %b\r\n\r\n" % (block, name, value)


def headersOnly(record: Record) -> Record:
    """A message without its payload, with a header for its size."""
    size = b"%d" % len(record.payload)
    headers = withHeader(record.headers, b"Nats-Msg-Size", size)
    return record._replace(headers=headers, payload=b"")


class ConsumerDeliverer:
    """
    The common part of deliveries to pull requests and to a deliver subject; subclasses choose the
    receiver.

    @ivar isAtEnd: whether the last attempt to deliver ended because there is no message to deliver
        now, and not because one is being read, has to wait, or exceeds C{max_ack_pending}.
    """

    def __init__(self, core: ConsumerCore) -> None:
        self.core = core
        self.isAtEnd = False
        self._isPumping = False
        self._isWaiting = False
        self._held: deque[_Held] = deque()
        self._heldCount = 0
        self._sliceBytes = 0
        self._sentCount = 0
        self._replayUntil = 0
        self._lastStamp = 0
        self._pacedSequence = 0
        self._pacedUntil = 0.0
        self._settled: list[int] = []
        core.pump = self.pump

    # Defined by subclasses.

    def canDeliver(self) -> bool:
        """Whether a message has a receiver now."""
        raise NotImplementedError

    def deliver(self, record: Record, deliveries: int, pending: int) -> bool:
        """
        Send one message, and count the delivery; false if no receiver takes it now.

        @param deliveries: of the message, this one included.
        @param pending: messages that the consumer still has after this one.
        """
        raise NotImplementedError

    def deliverRun(self, records: Sequence[Record], pending: int) -> int:
        """
        Send the first new messages together, count their deliveries and return how many. Decisions
        about single messages are left to L{deliver}.

        @param pending: messages that the consumer still has after the first one.
        """
        raise NotImplementedError

    def attemptEnded(self) -> None:
        """Called after an attempt to deliver that used less than a slice."""

    def applyConfig(self) -> None:
        """Use a changed configuration."""

    def end(self, status: bytes, isCounted: bool) -> None:
        """
        Stop the consumer. Waiting clients get a status, with the pending counts of their requests
        if C{isCounted}.
        """

    # The loop.

    def begin(self) -> None:
        """Begin to deliver."""
        core = self.core
        if core.config.replay_policy is ReplayPolicy.ORIGINAL:
            self._replayUntil = core.stream.last
            self._lastStamp = 0
        self.pump()

    def pump(self) -> None:
        """Deliver some messages now, and more when it is this consumer's turn."""
        if not self._isWaiting:
            self._pump(FEW if self.core.account.turns.isSpent else SLICE)

    def _pump(self, most: int) -> None:
        core = self.core
        if self._isPumping or not core.isServing:
            return
        core.stream.consumers.mayHold(core.owner)
        self._isPumping = True
        self._sliceBytes = delivered = runs = 0
        held = self._heldCount
        isOver = False
        try:
            while not isOver:
                runs += 1
                limit = min(most - delivered, SHORT_SLICE)
                count = self._deliverRun(limit) or self._deliverNext()
                if not count:
                    break
                delivered += count
                isOver = (
                    delivered >= most
                    or runs >= FEW
                    or self._sliceBytes >= SLICE_BYTES
                    or (delivered >= SHORT_SLICE and core.account.turns.isSpent)
                )
                if not self.canDeliver():
                    self.isAtEnd = core.isPaused
                    break
        finally:
            self._isPumping = False
        if delivered:
            self._finished()
        elif self._heldCount > held:
            self._releaseLater()  # A status for a request that gets no messages.
        if isOver:
            self._isWaiting = True
            core.account.run(self._deliverLater())
        else:
            self.attemptEnded()

    async def _deliverLater(self) -> None:
        try:
            await self.core.account.turns.turn(_COST)
        finally:
            self._isWaiting = False
        self._pump(SLICE)

    def _finished(self) -> None:
        core = self.core
        core.lastDelivered = core.account.now()
        core.lastActive = core.monotonic()
        core.writer.touched()
        if self._held:
            self._releaseLater()
        if self._settled:
            settled, self._settled = self._settled, []
            core.settled(settled)

    def _deliverRun(self, limit: int) -> int:
        """Deliver new messages together; 0 leaves the next one to L{_deliverNext}."""
        core = self.core
        pending = core.pending
        if (
            pending.queueLength
            or self._replayUntil
            or core.isReserving
            or core.config.headers_only
            or core.isPaused
            or not core.isServing
            or not core.cursor.isCounted
            or not self.canDeliver()
        ):
            return 0
        if core.maxPending:
            limit = min(limit, core.maxPending - len(pending.entries))
        records = core.cursor.upcoming(limit) if limit > 0 else None
        if not records:
            return 0
        count = self.deliverRun(records, core.cursor.numPending - 1)
        if core.settlesAtDelivery:
            self._settled += sequencesOf(records[:count])
        return count

    def _sendRun(
        self,
        replies: Sequence[bytes],
        records: Sequence[Record],
        pending: int,
        now: float,
        most: int,
        isShown: bool,
    ) -> Sent:
        core = self.core
        number = core.pending.delivered + 1
        most = min(most, SLICE_BYTES - self._sliceBytes)
        run = RecordRun(replies, records, core.ackPrefix, number, pending, most, isShown)
        sent = core.account.records.deliver(run)
        if sent.messages:
            self._sliceBytes += sent.size
            core.deliveredRun(records[: sent.messages], now)
        return sent

    def _deliverNext(self) -> bool:
        """Deliver one message, and return whether there may be more."""
        core = self.core
        self.isAtEnd = core.isPaused
        if core.isPaused or not core.isServing or not self.canDeliver():
            return False
        pending = core.pending
        if not core.cursor.isCounted and not core.cursor.count():
            return False
        if pending.queueLength:
            again = self._nextRedelivery()
            if again is not None:
                record, deliveries = again
                return self._deliver(record, deliveries, core.cursor.numPending)
            if pending.queueLength:
                return False
        if core.isPendingFull:
            return False
        upcoming = core.cursor.peek()
        if upcoming is None:
            self.isAtEnd = core.cursor.isAtEnd
            return False
        return self._deliver(upcoming, 1, core.cursor.numPending - 1)

    def _nextRedelivery(self) -> tuple[Record, int] | None:
        """
        The first message of the redelivery queue, with the number of its deliveries; C{None} if
        there is none, it is being read, or its first delivery is held.
        """
        core = self.core
        pending = core.pending
        while sequence := pending.nextQueued():
            deliveries = pending.counts.get(sequence, 0) + 2
            if core.maxDeliver and deliveries > core.maxDeliver:
                core.giveUp(sequence)
                core.cursor.forgetAgain(sequence)
                core.writer.touched()
                continue
            if sequence in core.unsent and any(held.sequence == sequence for held in self._held):
                # A single write would count both deliveries, so a crash after both would allow a
                # third.
                return None
            isKnown, record = core.cursor.again(sequence)
            if not isKnown:
                return None
            if record is not None:
                return record, deliveries
            core.gone(sequence)
            core.cursor.forgetAgain(sequence)
            core.writer.touched()
        return None

    def _deliver(self, record: Record, deliveries: int, pending: int) -> bool:
        core = self.core
        if self._replayUntil and not self._isDue(record):
            return False
        if core.config.headers_only:
            record = headersOnly(record)
        if not self.deliver(record, deliveries, pending):
            self.isAtEnd = True
            return False
        self._sliceBytes += len(record.payload)
        if core.settlesAtDelivery:
            self._settled.append(record.sequence)
        return True

    # The original pace.

    def _isDue(self, record: Record) -> bool:
        """Whether a message may be delivered now, at the pace in which messages were stored."""
        if record.sequence > self._replayUntil:
            self._replayUntil = 0
            return True
        gap = record.timestamp - self._lastStamp if self._lastStamp else 0
        if gap > SHORTEST_GAP and not self.isAfter(record.sequence, gap / 1e9):
            return False
        self._lastStamp = record.timestamp
        return True

    def isAfter(self, sequence: int, seconds: float) -> bool:
        """
        Whether C{seconds} have passed since the first call for a message. If not, set the timer
        that tries to deliver again when they have.
        """
        core = self.core
        now = core.monotonic()
        if self._pacedSequence != sequence:
            self._pacedSequence, self._pacedUntil = sequence, now + seconds
        if now + 1e-9 >= self._pacedUntil:
            return True
        core.timers.set(self.pump, self._pacedUntil)
        return False

    # Sending.

    def ackSubject(self, record: Record, deliveries: int, pending: int) -> bytes:
        core = self.core
        return core.ackFormat % (
            deliveries,
            record.sequence,
            core.pending.delivered + 1,
            record.timestamp,
            pending if pending > 0 else 0,
        )

    def send(self, reply: bytes, record: Record, ack: bytes) -> bool:
        """
        Send a message, or hold it until its delivery is recorded. Return whether it has a receiver
        now.
        """
        core = self.core
        if not core.isReserving:
            return core.account.send(reply, record.payload, record.headers, ack, record.subject) > 0
        if not core.account.bus.hasInterest(reply, isRequest=False):
            return False
        if record.sequence not in core.pending:
            core.unsent.add(record.sequence)
        self._hold(
            _Held(reply, record.payload, record.headers, ack, record.subject, record.sequence)
        )
        return True

    def _hold(self, held: _Held) -> None:
        self._held.append(held)
        self._heldCount += 1

    def heartbeat(self) -> bytes:
        """The header block of a heartbeat, without its last line."""
        lastConsumer, lastStream = self.core.pending.delivered, self.core.cursor.position - 1
        lines = b"Nats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n" % (lastConsumer, lastStream)
        return b"NATS/1.0 100 Idle Heartbeat\r\n" + lines

    def status(self, reply: bytes, headers: bytes, ack: bytes = b"") -> None:
        """Send a header block as a status behind the messages that are held."""
        if not self._held:
            self.core.account.send(reply, b"", headers, ack)
            return
        self._hold(_Held(reply, b"", headers, ack, b"", 0))
        if not self._isPumping:
            self._releaseLater()

    def _releaseLater(self) -> None:
        self.core.writer.whenDurable(partial(self._release, self._heldCount))

    def _release(self, count: int) -> None:
        """Send the messages and statuses that were held when the state was written."""
        core = self.core
        send: Callable[..., int] = core.account.send
        wasUnsent = len(core.unsent)
        while self._sentCount < count:
            self._sentCount += 1
            held = self._held.popleft()
            receivers = send(held.reply, held.payload, held.headers, held.ack, held.subject)
            if receivers:
                core.unsent.discard(held.sequence)
            elif held.sequence:
                core.pending.enqueue((held.sequence,))
        isKnown = len(core.unsent) < wasUnsent
        if isKnown:
            core.writer.touched()
        if core.pending.queueLength:
            core.pump()
        if isKnown:
            # At once, because after a crash before the write, the deliveries could exceed the
            # limit.
            core.writer.flush()
