"""The input of a client with a dialect, for the session that handles it."""

from __future__ import annotations

from collections import deque
from typing import Any

from natsbroker import errors
from natsbroker.wire import ops

#: The operation under which the session passes everything to the dialect.
OPERATION = -1


class DialectInput:
    """
    The decoder of a client with a dialect, with the counters and limits of a NATS decoder.

    @ivar dialect: set once the session is made.
    @ivar isHeld: whether no operation is to be taken.
    """

    def __init__(self, maxControlLine: int, maxPayload: int) -> None:
        self.dialect: Any = None
        self.isHeld = False
        self.heard = 0.0
        self.messages = self.messageBytes = 0
        self.maxControlLine = maxControlLine
        self.maxPayload = maxPayload
        self.authorized = self.announce = self.headers = False
        self._chunks: deque[bytes] = deque()
        self._unused = 0

    def append(self, data: bytes) -> None:
        self._chunks.append(bytes(data))

    def next(self) -> tuple[int, Any] | None:
        try:
            operation = self._read()
        except ValueError:
            return ops.FAULT, errors.UNKNOWN_OPERATION
        return None if operation is None else (OPERATION, operation)

    def _read(self) -> Any:
        """
        The next operation; C{None} if more input is needed.

        @raise ValueError: if an operation is too long.
        """
        while not self.isHeld:
            operation = self.dialect.next()
            if operation is not None:
                self._unused = 0
                return operation
            if 0 <= self.maxPayload < self._unused - self.maxControlLine:
                raise ValueError("an operation is too long")
            if not self._chunks:
                return None
            chunk = self._chunks.popleft()
            self._unused += len(chunk)
            self.dialect.feed(chunk)
        return None
