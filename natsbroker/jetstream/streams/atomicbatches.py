"""
Atomic batches: messages that are stored together with their commit, or not at all.

The messages wait in memory, and are checked when the commit comes.
"""

from __future__ import annotations

from collections.abc import Callable

from natsbroker.jetstream.batches.openbatches import LONGEST_ID, OpenBatch, OpenBatches
from natsbroker.jetstream.batches.staging import StagedChecks
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.streams.msgheaders import MessageHeaders, expectedSequence, withHeader
from natsbroker.jetstream.streams.publishanswers import Arrived
from natsbroker.jetstream.streams.publishchecks import Candidate, PublishChecks
from natsbroker.jetstream.streams.streamcore import StreamCore
from natsbroker.wire.text import decoded


class _AtomicBatch(OpenBatch):
    """A batch under way; its messages have C{size} bytes."""

    def __init__(self) -> None:
        self.messages: list[Arrived] = []
        self.size = 0


class AtomicBatches(OpenBatches[_AtomicBatch]):
    """The batches of one stream."""

    def __init__(self, stream: StreamCore, checks: PublishChecks) -> None:
        self._budget = stream.account.batches
        super().__init__(stream, self._budget.atomic)
        self._checks = checks

    def take(
        self,
        message: Arrived,
        known: MessageHeaders,
        transformed: Callable[[bytes], bytes],
        following: int,
    ) -> list[Candidate]:
        """
        Take a message of a batch.

        @param transformed: gives the subject to store for the one published to.
        @param following: the sequence that the stream uses next.
        @return: all messages of the batch, if this one commits it; else nothing.
        @raise JetStreamError: if the message is refused.
        @raise natsbroker.jetstream.streams.subjectstates.SubjectUnknown: if a check of the commit
            needs the log first. The message can be taken again then.
        """
        batchId = known.get(b"Nats-Batch-Id")
        number = self._numberOf(message, batchId, known)
        commit = known.get(b"Nats-Batch-Commit")
        size = number - (commit == b"eob")
        batch = self._batches.get(batchId) or self._start(batchId, number, size)
        if commit not in (b"", b"1", b"eob"):
            self._forget(batchId)
            raise errors.ATOMIC_PUBLISH_INVALID_BATCH_COMMIT()
        message = self._withoutLevel(batchId, message)
        self._restartTimer(batchId, batch)
        if number != len(batch.messages) + 1 or size < 1:
            self._abandon(batchId, "incomplete")
            raise errors.ATOMIC_PUBLISH_INCOMPLETE_BATCH()
        if size > self._budget.maxMessages:
            self._abandon(batchId, "large")
            raise errors.ATOMIC_PUBLISH_TOO_LARGE_BATCH(size=self._budget.maxMessages)
        if not commit:
            self._keep(batchId, batch, message)
            return []
        messages = list(batch.messages)
        if commit == b"1":
            messages.append(message)
        staging = StagedChecks(self._checks, isAtomic=True)
        try:
            self._checkUse(messages)
            checked = staging.checkAll(messages, transformed, following)
        except JetStreamError:
            staging.forgetPatterns()
            self._forget(batchId)
            raise
        staging.forgetPatterns()
        self._forget(batchId)
        if commit == b"eob":
            last = checked[-1]
            last.headers = withHeader(last.headers, b"Nats-Batch-Commit", b"1")
        return checked

    def _checkUse(self, messages: list[Arrived]) -> None:
        """
        Check that the account and the server have room for all messages of a batch together.
        nats-server stores those for which there is room.
        """
        room = self._checks.room
        if room.isBounded:
            room.check(0, self._checks.usage()[1] + sum(map(self._checks.sizeOf, messages)))

    def stagedWith(self, message: Arrived) -> list[Arrived]:
        """All messages of a batch, if the message commits one; otherwise that message only."""
        if b"Nats-Batch-Commit" not in message.headers:
            return [message]
        batch = self._batches.get(MessageHeaders(message.headers).get(b"Nats-Batch-Id"))
        return [message] if batch is None else [*batch.messages, message]

    def _keep(self, batchId: bytes, batch: _AtomicBatch, message: Arrived) -> None:
        size = len(message.subject) + len(message.headers) + len(message.payload)
        if not self._budget.allows(size):
            self._abandon(batchId, "large")
            raise errors.ATOMIC_PUBLISH_TOO_MANY_INFLIGHT()
        batch.messages.append(message)
        batch.size += size
        self._budget.size += size

    def _numberOf(self, message: Arrived, batchId: bytes, known: MessageHeaders) -> int:
        self._checks.checkArrived(message)
        if not self._stream.config.allow_atomic:
            raise errors.ATOMIC_PUBLISH_DISABLED()
        if len(batchId) > LONGEST_ID:
            raise errors.ATOMIC_PUBLISH_INVALID_BATCH_ID()
        number = expectedSequence(known.get(b"Nats-Batch-Sequence"))
        if not 0 <= number < 1 << 64:
            raise errors.ATOMIC_PUBLISH_MISSING_SEQ()
        return number

    def _start(self, batchId: bytes, number: int, size: int) -> _AtomicBatch:
        if number != 1:
            if size > self._budget.maxMessages:
                raise errors.ATOMIC_PUBLISH_TOO_LARGE_BATCH(size=self._budget.maxMessages)
            raise errors.ATOMIC_PUBLISH_INCOMPLETE_BATCH()
        if self.isFull:
            raise errors.ATOMIC_PUBLISH_TOO_MANY_INFLIGHT()
        return self._begin(batchId, _AtomicBatch())

    def _forget(self, batchId: bytes) -> _AtomicBatch | None:
        batch = super()._forget(batchId)
        if batch is not None:
            self._budget.size -= batch.size
        return batch

    def _abandon(self, batchId: bytes, reason: str) -> None:
        super()._abandon(batchId, reason)
        self._stream.advise(
            "BATCH_ABANDONED", "stream_batch_abandoned", batch=decoded(batchId), reason=reason
        )
