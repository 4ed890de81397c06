"""
Sends stored messages to a receiver, many at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from natsbroker import hot
from natsbroker.interfaces import IMessageBus
from natsbroker.interfaces.records import RecordRun
from natsbroker.pure.outbox import Outbox
from natsbroker.wire.values import Message


class Sent(NamedTuple):
    """The number of messages that were sent, and their bytes with both subjects."""

    messages: int
    size: int


class RecordSender:
    """Sends the messages of consumers: through the lane's C{publisher} if it can, else the bus."""

    def __init__(self, bus: IMessageBus) -> None:
        self._bus = bus
        self.publisher = hot.InternalPublisher(bus.matcher)

    def fullReceiver(self, subject: bytes) -> Outbox | None:
        """
        The connection to wait for before more is sent. If all receivers of a subject have many
        bytes to send, it is the one with the fewest. C{None} if a receiver keeps up, or has no
        outbox.
        """
        match = self._bus.matcher.match(subject)
        least, fewest = None, 0
        for receiver in (*match.plain, *match.links, *_members(match.groups)):
            outbox = getattr(receiver, "original", receiver).outbox
            pending = 0 if outbox is None else outbox.pending
            if pending <= hot.FlushBatch.HIGH:
                return None
            if least is None or pending < fewest:
                least, fewest = outbox, pending
        return least

    def deliver(self, run: RecordRun) -> Sent:
        """Deliver messages for the first time, until one has no receiver."""
        count, size = self.publisher.publishRecords(run)
        if count:
            return Sent(count, size)
        isShared = len(run.subjects) == 1
        for record in run.records:
            subject = run.subjects[0 if isShared else count]
            left = max(run.pending - count, 0)
            numbers = (record.sequence, run.number + count, record.timestamp, left)
            ack = b"%b1.%d.%d.%d.%d" % (run.prefix, *numbers)
            body = record.headers + record.payload
            after = size + len(body) + len(ack) + len(record.subject if run.isShown else subject)
            if after > run.most:
                break
            message = Message(subject, body, ack, len(record.headers), streamSubject=record.subject)
            if not self._bus.publish(message):
                break
            count += 1
            size = after
        return Sent(count, size)


def _members(groups: Iterable[Any]) -> Iterator[Any]:
    return chain.from_iterable((*here, *there) for _, here, there in groups)
