"""
What batches may use of a broker: the messages of atomic ones wait in its memory for the commit.
"""

from __future__ import annotations

from typing import NamedTuple

BYTES = 128 << 20
"""
The most bytes of messages of atomic batches. nats-server keeps the messages of streams in files in
files, and has no bound.
"""

IDLE = 10.0
"""Seconds without a message after which a batch is abandoned, if the limits do not say."""


class BatchLimits(NamedTuple):
    """
    What the block C{limits { batch {} }} of the configuration sets; as in nats-server, what is not
    above zero is not set.

    @ivar perStream: open batches of a stream.
    @ivar total: open batches of the broker.
    @ivar messages: of an atomic batch.
    @ivar idle: seconds without a message after which a batch is abandoned.
    """

    perStream: int = 0
    total: int = 0
    messages: int = 0
    idle: float = 0.0


UNSET = BatchLimits()


class OpenLimit:
    """
    The open batches of one kind, of all streams.

    @ivar perStream: the most of a stream.
    @ivar open: their number.
    """

    def __init__(self, perStream: int, total: int, limits: BatchLimits = UNSET) -> None:
        """
        @param perStream: the most of a stream if the limits do not say.
        @param total: the same for all.
        """
        self._unsaid = perStream, total
        self.configure(limits)
        self.open = 0

    def configure(self, limits: BatchLimits) -> None:
        perStream, total = self._unsaid
        self.perStream = limits.perStream if limits.perStream > 0 else perStream
        self._total = limits.total if limits.total > 0 else total

    def allows(self, count: int) -> bool:
        """
        Tell whether a stream can begin a batch.

        @param count: its open batches.
        """
        return count < self.perStream and self.open < self._total


class BatchBudget:
    """
    The batches of all streams.

    @ivar atomic: the open atomic batches.
    @ivar fast: the open fast batches.
    @ivar messages: the most messages of an atomic batch.
    @ivar idle: seconds without a message after which a batch is abandoned.
    @ivar size: the bytes of the messages of atomic batches.
    """

    def __init__(self, limits: BatchLimits = UNSET, most: int = BYTES) -> None:
        """
        @param most: the most bytes.
        """
        self.atomic = OpenLimit(50, 1000)
        self.fast = OpenLimit(1000, 50_000)
        self._most = most
        self.size = 0
        self.configure(limits)

    def configure(self, limits: BatchLimits) -> None:
        """Use other limits for the batches to come."""
        self.atomic.configure(limits)
        self.fast.configure(limits)
        self.messages = limits.messages if limits.messages > 0 else 1000
        self.idle = limits.idle if limits.idle > 0 else IDLE

    def allows(self, size: int) -> bool:
        """Tell whether there is room for a message."""
        return self.size + size <= self._most
