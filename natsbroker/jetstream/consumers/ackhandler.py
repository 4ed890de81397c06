"""The effects of acknowledgements on a consumer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from natsbroker.jetstream.consumers.acks import Ack, AckKind, DeliveredAs, parseAck, parseAckSubject
from natsbroker.jetstream.consumers.core import ConsumerCore
from natsbroker.jetstream.consumers.pull import Pull
from natsbroker.jetstream.model.consumerconfig import AckPolicy
from natsbroker.wire.values import AckRun, Message

#: Sampling in percent that includes every acknowledgement.
ALL = 100


class ConsumerAckHandler:
    """Handles acknowledgements. Answers to those that settle a message wait for its durability."""

    def __init__(self, core: ConsumerCore, request: Callable[[Sequence[Pull]], object]) -> None:
        """The handler; C{request} takes pull requests."""
        self._core = core
        self._request = request
        self._settled: list[int] = []
        self._late: list[int] = []
        self._replies: list[bytes] = []
        self._hasChanged = False
        self.sampling = 0
        self.applyConfig()

    def applyConfig(self) -> None:
        text = self._core.config.sample_freq.removesuffix("%")
        self.sampling = int(text) if text.isdigit() else 0

    def acknowledged(self, message: Message) -> None:
        delivery = parseAckSubject(message.subject)
        if delivery is None:
            return
        ack = parseAck(message.payload)
        kind, reply = ack.kind, message.reply
        if kind is AckKind.ACK:
            if self._settle(delivery, True):
                self._answerDurably(reply)
        elif kind is AckKind.NEXT:
            self._settle(delivery, True)
            if reply:
                self._request([(reply, b"", ack.request)])
        elif kind is AckKind.TERMINATE:
            self._terminate(delivery, ack.reason, reply)
        else:
            if kind is AckKind.NAK:
                self._nak(delivery, ack)
            elif kind is AckKind.PROGRESS:
                self._progress(delivery)
            if reply:
                self._core.account.send(reply)

    def acknowledgedRun(self, run: AckRun) -> None:
        """Handle acknowledgements that settle one delivery each, in order."""
        core = self._core
        last = max(run.sequences)
        isKnown = last < core.cursor.position or last <= core.pending.deliveredStream
        if core.acksAll or self.sampling or not isKnown:
            columns = (run.deliveries, run.sequences, run.numbers, run.replies)
            for deliveries, sequence, number, reply in zip(*columns, strict=True):
                if self._settle(DeliveredAs(deliveries, sequence, number), True):
                    self._answerDurably(reply)
            return
        settled = core.pending.settleRun(run.sequences)
        if settled:
            self._hasChanged = True
            self._settled += settled
            core.cursor.forgetRun(settled)
        if core.isRetaining and len(settled) < len(run.sequences):
            self._noteLate(set(run.sequences).difference(settled))
        self._replies += filter(None, run.replies)

    def finish(self) -> None:
        """
        End a batch of acknowledgements. Messages are removed from the stream before the state is
        written. In the other order, a killed process could leave messages behind that no consumer
        asks for.
        """
        if self._settled and self._replies:
            self._core.stream.together(self._finish)
        else:
            self._finish()
        self._core.lastActive = self._core.monotonic()

    def _finish(self) -> None:
        settled, self._settled = self._settled, []
        if settled:
            self._core.settled(settled)
        late, self._late = self._late, []
        if late:
            self._core.settledLate(late)
        self._note()
        replies, self._replies = self._replies, []
        if replies:
            self._core.writer.whenDurable(partial(self._answer, replies), isRelaxed=True)

    def _answer(self, replies: list[bytes]) -> None:
        account, place = self._core.account, 0
        publisher = account.records.publisher
        while (place := publisher.publishEmpty(replies, place)) < len(replies):
            account.bus.publishInternal(replies[place], b"")
            place += 1

    def _note(self) -> None:
        if self._hasChanged:
            self._hasChanged = False
            self._core.lastAcked = self._core.account.now()
            self._core.writer.touched()

    def _answerDurably(self, reply: bytes) -> None:
        """Answer once the state that the end of the batch writes is durable."""
        if reply:
            self._replies.append(reply)

    # Settling.

    def _settle(self, delivery: DeliveredAs, isSampled: bool) -> bool:
        """
        Settle a message, or with some policies all messages up to it. True if the client gets an
        answer.
        """
        core = self._core
        pending, sequence = core.pending, delivery.sequence
        if sequence >= core.cursor.position and sequence > pending.deliveredStream:
            return False
        if core.acksAll:
            self._settleThrough(delivery)
            return True
        if isSampled and self.sampling:
            self._sample(delivery)
        wasCounted = sequence in pending.counts
        if pending.settle(sequence) or wasCounted:
            self._settled.append(sequence)
            self._changed(sequence)
        else:
            self._noteLate((sequence,))
        return True

    def _noteLate(self, sequences: Iterable[int]) -> None:
        core = self._core
        if core.isRetaining:
            floor = core.pending.floorStream
            self._late += [sequence for sequence in sequences if sequence <= floor]

    def _settleThrough(self, delivery: DeliveredAs) -> None:
        pending, sequence = self._core.pending, delivery.sequence
        first = min(delivery.consumerSequence, pending.delivered)
        if first <= pending.floor or sequence <= pending.floorStream:
            return
        settled = pending.settleThrough(first, sequence)
        self._settled += settled
        for earlier in settled:
            self._core.cursor.forgetAgain(earlier)
        self._changed(sequence)

    def _changed(self, sequence: int) -> None:
        self._hasChanged = True
        self._core.cursor.forgetAgain(sequence)

    def confirmed(self, headers: bytes) -> None:
        """With C{flow_control}: settle what the answer to a flow control request confirms."""
        core = self._core
        if core.config.ack_policy is not AckPolicy.FLOW_CONTROL:
            return
        sequence = _numberIn(headers, b"Nats-Last-Stream")
        if sequence:
            number = _numberIn(headers, b"Nats-Last-Consumer")
            self._settle(DeliveredAs(1, sequence, number), False)
            self.finish()

    def _sample(self, delivery: DeliveredAs) -> None:
        core = self._core
        entry = core.pending.entries.get(delivery.sequence)
        if entry is None:
            return
        if self.sampling < ALL and core.random.randrange(ALL) > self.sampling:
            return
        redeliveries = core.pending.counts.get(delivery.sequence, 0)
        delay = core.monotonic() - (entry[1] - core.waitAfter(redeliveries))
        core.account.advise(
            f"METRIC.CONSUMER.ACK.{core.stream.name}.{core.name}",
            "metric.v1.consumer_ack",
            lambda: {
                "stream": core.stream.name,
                "consumer": core.name,
                "consumer_seq": delivery.consumerSequence,
                "stream_seq": delivery.sequence,
                "ack_time": round(max(delay, 0.0) * 1e9),
                "deliveries": delivery.deliveries,
            },
        )

    # The other kinds.

    def _terminate(self, delivery: DeliveredAs, reason: str, reply: bytes) -> None:
        isAnswered = self._settle(delivery, False)
        self._core.adviseTerminated(
            delivery.sequence, delivery.consumerSequence, delivery.deliveries, reason
        )
        if isAnswered:
            self._answerDurably(reply)

    def _nak(self, delivery: DeliveredAs, ack: Ack) -> None:
        core = self._core
        pending, sequence = core.pending, delivery.sequence
        if not pending.floor < delivery.consumerSequence <= pending.delivered:
            return
        if sequence not in pending:
            return
        fields: dict[str, Any] = {
            "consumer_seq": delivery.consumerSequence,
            "stream_seq": sequence,
            "deliveries": delivery.deliveries,
        }
        core.advise("MSG_NAKED", "nak", **fields)
        if ack.delay is None:
            pending.enqueue((sequence,))
        else:
            due = core.monotonic() + ack.delay / 1e9
            pending.postpone(sequence, due, False)
            core.watchPending(due)
            core.cursor.forgetAgain(sequence)
        core.writer.touched()

    def _progress(self, delivery: DeliveredAs) -> None:
        core = self._core
        pending = core.pending
        if delivery.sequence in pending and not pending.isQueued(delivery.sequence):
            redeliveries = core.pending.counts.get(delivery.sequence, 0)
            due = core.monotonic() + core.waitAfter(redeliveries)
            pending.postpone(delivery.sequence, due, core.isRegular)
            core.watchPending(due)
            core.writer.touched()


def _numberIn(headers: bytes, name: bytes) -> int:
    """The number in a header; 0 if there is none."""
    for line in headers.split(b"\r\n"):
        if line.startswith(name + b":"):
            text = line[len(name) + 1 :].strip()
            return int(text) if text.isdigit() else 0
    return 0
