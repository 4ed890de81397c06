"""
The common part of atomic and fast batches while they are open.
"""

from __future__ import annotations

from functools import partial
from typing import Generic, TypeVar

from natsbroker.jetstream.batches.budget import OpenLimit
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.streams.msgheaders import needsNewerApi, withoutHeader
from natsbroker.jetstream.streams.publishanswers import Arrived
from natsbroker.jetstream.streams.streamcore import StreamCore
from natsbroker.runtime.deadlines import Deadline

LONGEST_ID = 64


class OpenBatch:
    """An open batch; C{timer} ends it if it gets no more messages."""

    timer: Deadline | None = None


Batch = TypeVar("Batch", bound=OpenBatch)


class OpenBatches(Generic[Batch]):
    """The batches of one kind in one stream."""

    def __init__(self, stream: StreamCore, limit: OpenLimit) -> None:
        """The batches of a stream; C{limit} counts those of this kind in all streams."""
        self._stream = stream
        self._limit = limit
        self._idle = stream.account.batches.idle
        self._batches: dict[bytes, Batch] = {}

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def isFull(self) -> bool:
        """Whether no batch can begin."""
        return not self._limit.allows(len(self._batches))

    def _begin(self, batchId: bytes, batch: Batch) -> Batch:
        """Count a batch that begins."""
        self._limit.open += 1
        self._batches[batchId] = batch
        return batch

    def close(self) -> None:
        """Forget all batches."""
        for batchId in list(self._batches):
            self._forget(batchId)

    def _withoutLevel(self, batchId: bytes, message: Arrived) -> Arrived:
        """
        The message without the header of its required API level, which is checked and not stored.
        """
        if b"Nats-Required-Api-Level" not in message.headers:
            return message
        if needsNewerApi(message.headers):
            self._abandon(batchId, "unsupported")
            raise errors.REQUIRED_API_LEVEL()
        headers = withoutHeader(message.headers, b"Nats-Required-Api-Level")
        return message._replace(headers=headers)

    def _restartTimer(self, batchId: bytes, batch: Batch) -> None:
        """Restart the idle time of a batch that got a message. After this time, it is abandoned."""
        if batch.timer is not None:
            batch.timer.cancel()
        passed = partial(self._abandon, batchId, "timeout")
        batch.timer = self._stream.account.deadlines.after(self._idle, passed)

    def _abandon(self, batchId: bytes, reason: str) -> None:
        """End a batch that cannot be committed."""
        self._forget(batchId)

    def _forget(self, batchId: bytes) -> Batch | None:
        batch = self._batches.pop(batchId, None)
        if batch is not None:
            self._limit.open -= 1
            if batch.timer is not None:
                batch.timer.cancel()
        return batch
