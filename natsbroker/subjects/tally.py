"""
How many messages were published to some subjects.

Sums that only grow.
"""

from __future__ import annotations

__all__ = ["TrafficCounter"]


class TrafficCounter:
    """
    Sums over messages of clients.

    @ivar messages: how many there were.
    @ivar size: their headers and payloads, in bytes.
    @ivar copies: how many receivers of this broker they had, all together: plain subscriptions,
        and one member of each queue group.
    @ivar copiedSize: the bytes of these.
    """

    __slots__ = ("copiedSize", "copies", "messages", "size")

    def __init__(self) -> None:
        self.messages = 0
        self.size = 0
        self.copies = 0
        self.copiedSize = 0

    def add(self, messages: int, size: int, copies: int) -> None:
        """
        Count some messages.

        @param size: of all together, in bytes.
        @param copies: how many receivers each has.
        """
        self.messages += messages
        self.size += size
        self.copies += messages * copies
        self.copiedSize += size * copies
