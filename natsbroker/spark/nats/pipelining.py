"""
The loop that sends what there is room for: requests over one connection, many on their way at once,
each of which must be answered.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from natsbroker.spark.errors import TimedOut
from natsbroker.spark.nats.connection import BlockingConnection

#: How many bytes are collected before they are sent.
_CHUNK = 1 << 17


#: Told how many bytes of an answer are headers, and the bytes.
OnAnswer = Callable[[int, bytes], object]


class Pipeline:
    def __init__(
        self,
        connection: BlockingConnection,
        window: int,
        onOther: Callable[[bytes, bytes, bytes], object] = lambda subject, reply, body: None,
        keyOf: Callable[[bytes, bytes], bytes] = lambda subject, body: subject,
    ) -> None:
        """
        @param window: how many requests may wait for their answers.
        @param onOther: told the subject, the reply subject and the bytes of whatever else comes.
        @param keyOf: what request an answer belongs to, by its subject and its bytes.
        """
        self._connection = connection
        self._window = window
        self._onOther = onOther
        self._keyOf = keyOf
        self._waiting: dict[bytes, tuple[str, OnAnswer]] = {}
        self._pieces: list[bytes] = []
        self._size = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def send(
        self,
        what: str,
        onAnswer: OnAnswer,
        subject: bytes,
        payload: bytes,
        headers: bytes = b"",
        reply: bytes = b"",
        key: bytes = b"",
    ) -> None:
        """
        Send a request; waits while too many are on their way.

        @param what: what it is about, for errors.
        @param reply: where the answer comes; a subject of its own if it is not given.
        @param key: what C{keyOf} knows the answer by; by default its subject.
        """
        ownSubject, pieces = self._connection.composed(subject, payload, headers, reply)
        self._waiting[key or ownSubject] = what, onAnswer
        self._pieces += pieces
        self._size += len(headers) + len(payload)
        if self._size >= _CHUNK:
            self.flush()
        if len(self._waiting) >= self._window:
            self._collect(self._window // 2)

    def finish(self) -> None:
        self._collect(0)

    def rest(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """
        Send nothing new for so long; answers and what the server asks are taken.
        """
        self.flush()
        deadline = clock() + seconds
        while clock() < deadline:
            try:
                self._take(deadline)
            except TimedOut:
                return

    def flush(self) -> None:
        if self._pieces:
            self._connection.send(*self._pieces)
            self._pieces.clear()
            self._size = 0

    def _collect(self, left: int) -> None:
        self.flush()
        while len(self._waiting) > left:
            try:
                self._take(None)
            except TimedOut as error:
                what, _ = next(iter(self._waiting.values()))
                count = len(self._waiting)
                raise TimedOut(f"{what}: {count} messages were not acknowledged: {error}") from None

    def _take(self, deadline: float | None) -> None:
        subject, reply, headerLength, body = self._connection.anyMessage(deadline)
        found = self._waiting.pop(self._keyOf(subject, body), None)
        if found is None:
            self._onOther(subject, reply, body)
        else:
            found[1](headerLength, body)
