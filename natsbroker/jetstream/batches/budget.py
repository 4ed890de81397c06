"""
What atomic batches may use of the memory of a broker: their messages wait there for the commit.
"""

from __future__ import annotations

BATCHES = 1000
"""The most batches under way, as in nats-server."""

BYTES = 128 << 20
"""
The most bytes of their messages. nats-server keeps the messages of streams in files in files, and
has no bound.
"""


class BatchBudget:
    """
    The batches of all streams.

    @ivar batches: their number.
    @ivar size: the bytes of their messages.
    """

    def __init__(self, batches: int = BATCHES, size: int = BYTES) -> None:
        """
        @param batches: the most batches.
        @param size: the most bytes.
        """
        self._mostBatches = batches
        self._mostBytes = size
        self.batches = self.size = 0

    @property
    def isFull(self) -> bool:
        """
        Whether no batch can begin.
        """
        return self.batches >= self._mostBatches

    def allows(self, size: int) -> bool:
        """
        Tell whether there is room for a message.
        """
        return self.size + size <= self._mostBytes
