"""
Sends stored messages to a receiver, many at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from natsbroker import hot
from natsbroker.interfaces import IMessageBus
from natsbroker.interfaces.records import Record
from natsbroker.wire.values import Message


class Sent(NamedTuple):
    """
    @ivar messages: how many were sent.
    @ivar size: their bytes with subject and acknowledgement subject.
    """

    messages: int
    size: int


class RecordSender:
    """
    Sends the messages of consumers through a bus. Short ways of the lane precede the bus.
    """

    def __init__(self, bus: IMessageBus) -> None:
        self._bus = bus
        self._publisher = hot.InternalPublisher(bus.matcher)

    def deliver(
        self,
        subject: bytes,
        records: Sequence[Record],
        prefix: bytes,
        number: int,
        pending: int,
        most: int,
        isShown: bool,
    ) -> Sent:
        """
        Deliver messages for the first time, until one has no receiver.

        @param subject: of the receiver, who sees the messages under the subjects of the stream.
        @param prefix: the acknowledgement subject without its numbers.
        @param number: the consumer sequence of the first message.
        @param pending: messages that the consumer has after the first one.
        @param most: stop before the message with which the size would exceed it.
        @param isShown: whether sizes count the subjects of the stream, and not C{subject}.
        """
        count, size = self._publisher.publishRecords(
            subject, records, prefix, number, pending, most, isShown
        )
        if count:
            return Sent(count, size)
        for record in records:
            left = max(pending - count, 0)
            numbers = (record.sequence, number + count, record.timestamp, left)
            ack = b"%b1.%d.%d.%d.%d" % (prefix, *numbers)
            body = record.headers + record.payload
            after = size + len(body) + len(ack) + len(record.subject if isShown else subject)
            if after > most:
                break
            message = Message(subject, body, ack, len(record.headers), streamSubject=record.subject)
            if not self._bus.publish(message):
                break
            count += 1
            size = after
        return Sent(count, size)

    def answer(
        self,
        subject: bytes,
        records: Sequence[Record],
        stream: bytes,
        pending: int,
        last: int,
        most: int,
    ) -> int:
        """
        Send messages as answers of a direct get that reads several, in the lane.

        @param pending: the messages that the request selects and that are not sent.
        @param last: the sequence of the message before.
        @param most: stop behind the message with which the subjects, headers and payloads reach it.
        @return: how many were sent; 0 leaves them to the readable path.
        """
        return self._publisher.publishAnswers(subject, records, stream, pending, last, most)
