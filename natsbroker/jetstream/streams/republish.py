"""
Republishing: copies of stored messages, for subscribers that need no consumer.
"""

from __future__ import annotations

from functools import partial
from random import randrange

from natsbroker.interfaces.records import Entry
from natsbroker.jetstream.model.streamconfig import Republish
from natsbroker.jetstream.streams.publishanswers import StreamBatch
from natsbroker.jetstream.streams.streamcore import StreamCore
from natsbroker.jetstream.streams.subjectstates import SubjectStates
from natsbroker.subjects.transforms import SubjectTransform
from natsbroker.wire.timestamps import formatTime


def republisherOf(stream: StreamCore, subjects: SubjectStates) -> StreamRepublisher | None:
    """
    The republisher of a stream; C{None} if it republishes nothing. As in nats-server, an empty
    destination is accepted and has no effect.
    """
    republish = stream.config.republish
    if republish is None or not republish.dest:
        return None
    return StreamRepublisher(stream, subjects, republish)


class StreamRepublisher:
    """Publishes copies of the messages of one stream."""

    def __init__(self, stream: StreamCore, subjects: SubjectStates, republish: Republish) -> None:
        """The republisher; C{subjects} has the last sequences of subjects."""
        self._stream = stream
        self._subjects = subjects
        self._isHeadersOnly = republish.headers_only
        self._transform = SubjectTransform((republish.src or ">").encode(), republish.dest.encode())

    def prepare(self, subject: bytes) -> None:
        """
        Make sure that the last sequence of a subject is known if its messages are republished.

        @raise natsbroker.jetstream.streams.subjectstates.SubjectUnknown: if the log must be asked
            first.
        """
        if self._transform.apply(subject, randrange) is not None:
            self._subjects.find(subject)

    def add(self, batch: StreamBatch, subject: bytes) -> None:
        """Have the last message of a batch republished when it is stored."""
        target = self._transform.apply(subject, randrange)
        if target is not None:
            last = self._subjects.lastOf(subject)
            last = last if last >= self._stream.first else 0
            batch.copies.append((len(batch.entries) - 1, partial(self._publish, target, last)))

    def _publish(self, target: bytes, last: int, sequence: int, entry: Entry) -> None:
        """Publish a copy. Headers that name its origin follow those of the original."""
        stream = self._stream
        subject, headers, payload, timestamp = entry
        block = (
            b"%bNats-Stream: %b\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\n"
            b"Nats-Time-Stamp: %b\r\nNats-Last-Sequence: %d\r\n%b\r\n"
        ) % (
            headers[4 if stream.isInFile else 0 : -2] or b"NATS/1.0\r\n",
            stream.name.encode(),
            subject,
            sequence,
            formatTime(timestamp).encode(),
            last,
            b"Nats-Msg-Size: %d\r\n" % len(payload) if self._isHeadersOnly else b"",
        )
        stream.account.send(target, b"" if self._isHeadersOnly else payload, block)
