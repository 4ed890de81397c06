"""
The message ids of a stream's duplicate window.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from natsbroker.interfaces.records import Record
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.streams.msgheaders import MessageHeaders


class DuplicateWindow:
    def __init__(self, window: int) -> None:
        self.window = window
        self.last = b""
        self.isKnown = True
        self.sequences: dict[bytes, int] = {}
        self.began: Callable[[], object] | None = None
        self._order: deque[tuple[int, list[bytes], list[int]]] = deque()

    def find(self, messageId: bytes, now: int) -> int | None:
        """
        The sequence of an id at a time in nanoseconds since 1970; C{None} for a new id.
        L{errors.JetStreamError} if it is not known whether the id is new.
        """
        if not self.isKnown and self.window > 0:
            raise errors.STREAM_STORE_FAILED(err="what was stored before is not known yet")
        self.expire(now)
        return self.sequences.get(messageId)

    def _begin(self) -> None:
        began, self.began = self.began, None
        if began is not None:
            began()

    def add(self, messageId: bytes, sequence: int, timestamp: int) -> None:
        self._begin()
        if self.window > 0:
            self.sequences[messageId] = sequence
            if self._order and self._order[-1][0] == timestamp:
                self._order[-1][1].append(messageId)
                self._order[-1][2].append(sequence)
            else:
                self._order.append((timestamp, [messageId], [sequence]))

    def added(self, ids: list[bytes], sequences: list[int], timestamp: int) -> None:
        """Have ids expire that are already in C{sequences}."""
        self._begin()
        self._order.append((timestamp, ids, sequences))

    def read(self, records: Iterable[Record]) -> None:
        for record in records:
            messageId = b""
            if b"Nats-Msg-Id" in record.headers:
                messageId = MessageHeaders(record.headers).get(b"Nats-Msg-Id")
            if messageId:
                self.add(messageId, record.sequence, record.timestamp)
            self.last = messageId

    def forgetFrom(self, sequence: int) -> None:
        """Forget the ids of messages that could not be stored."""
        while self._order:
            _, ids, sequences = self._order[-1]
            while sequences and sequences[-1] >= sequence:
                sequences.pop()
                self.sequences.pop(ids.pop(), None)
            if sequences:
                return
            self._order.pop()

    def expire(self, now: int) -> None:
        """Forget the ids that are older than the window."""
        order = self._order
        while order and order[0][0] + self.window <= now:
            _, ids, sequences = order.popleft()
            for messageId, sequence in zip(ids, sequences, strict=True):
                if self.sequences.get(messageId) == sequence:
                    del self.sequences[messageId]

    def __len__(self) -> int:
        return len(self.sequences)
