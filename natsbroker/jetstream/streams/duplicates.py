"""
The message ids of a stream's duplicate window.
"""

from __future__ import annotations

from collections import deque


class DuplicateWindow:
    """
    The message ids stored within the window, with their sequences.

    @ivar window: nanoseconds; 0 remembers nothing.
    @ivar last: the id of the message stored last, if that had one; else empty.
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self.last = b""
        self._sequences: dict[bytes, int] = {}
        self._order: deque[tuple[int, bytes, int]] = deque()

    def find(self, messageId: bytes, now: int) -> int | None:
        """
        The sequence that an id was stored with; C{None} if it is new.

        @param now: nanoseconds since 1970.
        """
        self._expire(now)
        return self._sequences.get(messageId)

    def add(self, messageId: bytes, sequence: int, timestamp: int) -> None:
        if self.window > 0:
            self._sequences[messageId] = sequence
            self._order.append((timestamp, messageId, sequence))

    def forgetFrom(self, sequence: int) -> None:
        """
        Forget the ids of messages that were not stored after all.
        """
        while self._order and self._order[-1][2] >= sequence:
            _, messageId, _ = self._order.pop()
            self._sequences.pop(messageId, None)

    def _expire(self, now: int) -> None:
        order = self._order
        while order and order[0][0] + self.window <= now:
            _, messageId, sequence = order.popleft()
            if self._sequences.get(messageId) == sequence:
                del self._sequences[messageId]

    def __len__(self) -> int:
        return len(self._sequences)
