"""
Delivery to a deliver subject.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from natsbroker.interfaces.records import Record
from natsbroker.jetstream.consumers.core import ConsumerCore, randomToken
from natsbroker.jetstream.consumers.deliverer import SLICE_BYTES, ConsumerDeliverer
from natsbroker.jetstream.consumers.push import FlowWindow, RateLimit
from natsbroker.jetstream.model.consumerconfig import AckPolicy

#: The largest message of a stream without C{max_msg_size}: what a rate limit lets through at once.
LARGEST_PAYLOAD = 1 << 20


class PushDeliverer(ConsumerDeliverer):
    """
    Delivers while the deliver subject has interest, as fast as the flow control window, the rate
    limit and the receivers permit. A receiver that lags would be cut as a slow consumer otherwise.

    @ivar isBound: whether the deliver subject has interest.
    @ivar bound: called when that changes.
    """

    def __init__(self, core: ConsumerCore, bound: Callable[[bool], object]) -> None:
        super().__init__(core)
        self.isBound = False
        self._bound = bound
        self._window = FlowWindow() if core.config.flow_control else None
        self._confirms = core.config.ack_policy is AckPolicy.FLOW_CONTROL
        self._limit = self._newLimit()
        self._bitsPerSecond = core.config.rate_limit_bps
        self._reserved = 0
        self._reservedFor = 0.0
        self._subject = core.config.deliver_subject.encode()
        self._unwatch: Callable[[], None] | None = None
        self._isHeld = False

    def _newLimit(self) -> RateLimit | None:
        core = self.core
        if not core.config.rate_limit_bps:
            return None
        largest = core.stream.config.max_msg_size
        burst = largest if largest > 0 else LARGEST_PAYLOAD
        return RateLimit(core.config.rate_limit_bps, burst, core.monotonic)

    def begin(self) -> None:
        super().begin()
        self._watch()
        self._restartHeartbeat()

    def applyConfig(self) -> None:
        core = self.core
        if core.config.rate_limit_bps != self._bitsPerSecond:
            self._bitsPerSecond = core.config.rate_limit_bps
            self._limit = self._newLimit()
        subject = core.config.deliver_subject.encode()
        if subject != self._subject:
            self._subject = subject
            core.pending.enqueue(sorted(core.pending.entries))
            if core.isServing:
                self._watch()

    def _watch(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
        group = self.core.config.deliver_group.encode()
        self._unwatch = self.core.account.watchInterest(self._subject, group, self._changed)

    def _changed(self, isBound: bool) -> None:
        isNew = isBound != self.isBound
        self.isBound = isBound
        if isNew:
            self._bound(isBound)
        if isBound:
            self.pump()

    # Delivery.

    def _pump(self, most: int) -> None:
        if not self._isHeld:
            super()._pump(most)

    def _finished(self) -> None:
        super()._finished()
        full = self.core.account.records.fullReceiver(self._subject)
        if full is not None and not self._isHeld:
            self._isHeld = True
            full.whenRelieved(self._relieved)

    def _relieved(self) -> None:
        """
        Deliver when it is this consumer's turn, because a receiver has room again and is being
        flushed.
        """
        self._isHeld = False
        if self.core.isServing:
            self.core.timers.set(self.pump, self.core.monotonic())

    def canDeliver(self) -> bool:
        return self.isBound and (self._window is None or not self._window.isStalled)

    def deliverRun(self, records: Sequence[Record], pending: int) -> int:
        core, window = self.core, self._window
        if self._limit is not None or self._confirms:
            return 0
        # A message that makes a flow control request due, or stalls the consumer, is sent by
        # itself.
        most = SLICE_BYTES if window is None else window.room
        sent = self._sendRun([self._subject], records, pending, core.monotonic(), most, False)
        if sent.messages:
            self._reserved = 0
            if window is not None:
                window.sent(sent.size)
            self._restartHeartbeat()
        return sent.messages

    def deliver(self, record: Record, deliveries: int, pending: int) -> bool:
        core = self.core
        ack = self.ackSubject(record, deliveries, pending)
        size = len(ack) + len(record.headers) + len(record.payload)
        if self._limit is not None and not self._isWithinRate(record, size + len(record.subject)):
            return False
        if not self.send(self._subject, record, ack):
            self._changed(False)
            return False
        core.delivered(record, deliveries - 1, core.monotonic())
        self._reserved = 0
        if self._window is not None:
            isDue = self._window.sent(len(self._subject) + size)
            if isDue or (self._confirms and core.isPendingFull and not self._window.request):
                self._requestFlow()
        if core.config.idle_heartbeat:
            self._restartHeartbeat()
        return True

    def _isWithinRate(self, record: Record, size: int) -> bool:
        """Whether the rate limit permits a message now. The tokens of a message are taken once."""
        if self._limit is None:
            return True
        if self._reserved != record.sequence:
            self._reserved = record.sequence
            self._reservedFor = self._limit.reserve(size)
        if self._reservedFor <= self.core.monotonic() + 1e-9:
            return True
        self.core.timers.set(self.pump, self._reservedFor)
        return False

    # Heartbeats.

    def _restartHeartbeat(self) -> None:
        core = self.core
        if core.config.idle_heartbeat:
            core.timers.set(self._idle, core.monotonic() + core.config.idle_heartbeat / 1e9)

    def _idle(self) -> None:
        core, window = self.core, self._window
        self._restartHeartbeat()
        if not self.isBound:
            return
        headers = self.heartbeat()
        if window is not None and window.request:
            headers += b"Nats-Consumer-Stalled: %b\r\n" % window.request
        self.status(self._subject, headers + b"\r\n")
        if self._confirms and core.pending.entries:
            if window is not None and not window.request:
                self._requestFlow()
        self.pump()

    # Flow control.

    def _requestFlow(self) -> None:
        core = self.core
        if self._window is None:
            return
        token = randomToken(core.random, 4)
        reply = f"$JS.FC.{core.stream.name}.{core.name}.{token}".encode()
        self._window.requested(reply)
        self.status(self._subject, b"NATS/1.0 100 FlowControl Request\r\n\r\n", reply)

    def answered(self, subject: bytes) -> bool:
        """Take an answer; true if it is that to the newest flow control request."""
        if self._window is None or not self._window.answered(subject):
            return False
        self.pump()
        return True

    # The end.

    def end(self, status: bytes, isCounted: bool) -> None:
        self.isBound = False
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
