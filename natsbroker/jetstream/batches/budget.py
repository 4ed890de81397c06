"""
The limits of batches in a broker. The messages of atomic batches wait in its memory for the commit.
As in nats-server, the C{jetstream} block sets only values above zero.
"""

from __future__ import annotations

from natsbroker.config.model import JetStream

BYTES = 128 << 20
"""
The most bytes of messages of atomic batches. nats-server has no bound: it keeps those of streams in
files on disk.
"""

IDLE = 10.0
"""Seconds without a message after which a batch is abandoned, if the configuration sets none."""


_UNSET = JetStream()


class OpenLimit:
    """
    The limit on open batches of one kind, for one stream and for all.

    @ivar open: the number of open batches in all streams.
    """

    def __init__(self, perStream: int, total: int, limits: JetStream = _UNSET) -> None:
        """C{perStream} and C{total} are the defaults where the limits set none."""
        self._defaults = perStream, total
        self.configure(limits)
        self.open = 0

    def configure(self, limits: JetStream) -> None:
        perStream, total = self._defaults
        self.perStream = max(limits.max_batch_inflight_per_stream, 0) or perStream
        self._total = max(limits.max_batch_inflight_total, 0) or total

    def allows(self, count: int) -> bool:
        """Whether a stream with C{count} open batches can begin one."""
        return count < self.perStream and self.open < self._total


class BatchBudget:
    """
    The batches of all streams.

    @ivar maxMessages: the most messages of one atomic batch.
    @ivar idle: seconds without a message after which a batch is abandoned.
    @ivar size: the bytes of the messages of all atomic batches that are open.
    """

    def __init__(self, limits: JetStream = _UNSET, most: int = BYTES) -> None:
        self.atomic = OpenLimit(50, 1000)
        self.fast = OpenLimit(1000, 50_000)
        self._most = most
        self.size = 0
        self.configure(limits)

    def configure(self, limits: JetStream) -> None:
        """Use other limits for the batches to come."""
        self.atomic.configure(limits)
        self.fast.configure(limits)
        self.maxMessages = max(limits.max_batch_size, 0) or 1000
        self.idle = max(limits.max_batch_timeout, 0.0) or IDLE

    def allows(self, size: int) -> bool:
        """Whether there is room for a message."""
        return self.size + size <= self._most
