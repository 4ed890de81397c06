"""
Atomic batches: messages that are stored together with their commit, or not at all.

The messages wait in memory, and are checked when the commit comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from natsbroker.jetstream.contracts import PublishedStream
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.schedules.checks import ScheduleChecks
from natsbroker.jetstream.streams.counters import CounterState, CounterTotals, incrementOf
from natsbroker.jetstream.streams.duplicates import DuplicateWindow
from natsbroker.jetstream.streams.msgheaders import (
    MessageHeaders,
    expectedSequence,
    needsNewerApi,
    withHeader,
    withoutHeader,
)
from natsbroker.jetstream.streams.publishanswers import Arrived
from natsbroker.jetstream.streams.publishchecks import LONGEST_HEADERS, PublishChecks
from natsbroker.streaming.deadlines import Deadline
from natsbroker.subjects.grammar import hasWildcard

SIZE = 1000
"""The most messages of a batch."""

BATCHES = 50
"""The most batches of a stream under way."""

IDLE = 10.0
"""Seconds without a message after which a batch is abandoned."""

_LONGEST_ID = 64


class CheckedMessage(NamedTuple):
    """
    A message of a batch that passed the checks.

    @ivar rollup: C{sub}, C{all}, or empty.
    """

    subject: bytes
    headers: bytes
    payload: bytes
    messageId: bytes
    rollup: bytes


class _AtomicBatch:
    """
    A batch under way.
    """

    def __init__(self) -> None:
        self.messages: list[Arrived] = []
        self.idle: Deadline | None = None


class AtomicBatches:
    """
    The batches of one stream.
    """

    def __init__(
        self,
        stream: PublishedStream,
        checks: PublishChecks,
        schedules: ScheduleChecks,
        duplicates: DuplicateWindow,
        counters: CounterTotals,
        usage: Callable[[], tuple[int, int]],
    ) -> None:
        """
        @param usage: gives the messages and the bytes of the stream, with those being appended.
        """
        self._stream = stream
        self._checks = checks
        self._schedules = schedules
        self._duplicates = duplicates
        self._counters = counters
        self._usage = usage
        self._batches: dict[bytes, _AtomicBatch] = {}

    def __len__(self) -> int:
        return len(self._batches)

    def close(self) -> None:
        """
        Forget all batches.
        """
        for batchId in list(self._batches):
            self._forget(batchId)

    def take(
        self,
        message: Arrived,
        known: MessageHeaders,
        transformed: Callable[[bytes], bytes],
        following: int,
    ) -> list[CheckedMessage]:
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
        message = self._withoutLevel(batchId, message, known)
        self._waitFor(batchId, batch)
        if number != len(batch.messages) + 1 or size < 1:
            raise self._abandoned(batchId, "incomplete", errors.ATOMIC_PUBLISH_INCOMPLETE_BATCH())
        if size > SIZE:
            error = errors.ATOMIC_PUBLISH_TOO_LARGE_BATCH(size=SIZE)
            raise self._abandoned(batchId, "large", error)
        if not commit:
            batch.messages.append(message)
            return []
        messages = list(batch.messages)
        if commit == b"1":
            messages.append(message)
        staging = _Staging(
            self._stream,
            self._checks,
            self._schedules,
            self._duplicates,
            self._counters,
            self._usage(),
        )
        try:
            checked = staging.checkAll(messages, transformed, following)
        except JetStreamError:
            staging.forgetPatterns()
            self._forget(batchId)
            raise
        staging.forgetPatterns()
        self._forget(batchId)
        if commit == b"eob":
            last = checked[-1]
            headers = withHeader(last.headers, b"Nats-Batch-Commit", b"1")
            checked[-1] = last._replace(headers=headers)
        return checked

    def _numberOf(self, message: Arrived, batchId: bytes, known: MessageHeaders) -> int:
        config = self._stream.config
        if config.sealed:
            raise errors.STREAM_SEALED()
        if 0 <= config.max_msg_size < len(message.headers) + len(message.payload):
            raise errors.STREAM_MESSAGE_EXCEEDS_MAXIMUM()
        if not config.allow_atomic:
            raise errors.ATOMIC_PUBLISH_DISABLED()
        if len(batchId) > _LONGEST_ID:
            raise errors.ATOMIC_PUBLISH_INVALID_BATCH_ID()
        number = expectedSequence(known.get(b"Nats-Batch-Sequence"))
        if not 0 <= number < 1 << 64:
            raise errors.ATOMIC_PUBLISH_MISSING_SEQ()
        return number

    def _start(self, batchId: bytes, number: int, size: int) -> _AtomicBatch:
        if number != 1:
            if size > SIZE:
                raise errors.ATOMIC_PUBLISH_TOO_LARGE_BATCH(size=SIZE)
            raise errors.ATOMIC_PUBLISH_INCOMPLETE_BATCH()
        if len(self._batches) >= BATCHES:
            raise errors.ATOMIC_PUBLISH_TOO_MANY_INFLIGHT()
        batch = self._batches[batchId] = _AtomicBatch()
        return batch

    def _withoutLevel(self, batchId: bytes, message: Arrived, known: MessageHeaders) -> Arrived:
        """
        Check the API level that a message asks for, which is not stored.
        """
        if not known.get(b"Nats-Required-Api-Level"):
            return message
        if needsNewerApi(message.headers):
            raise self._abandoned(batchId, "unsupported", errors.REQUIRED_API_LEVEL())
        headers = withoutHeader(message.headers, b"Nats-Required-Api-Level")
        return message._replace(headers=headers)

    def _waitFor(self, batchId: bytes, batch: _AtomicBatch) -> None:
        """
        Abandon a batch that gets no more messages.
        """
        if batch.idle is not None:
            batch.idle.cancel()

        def passed() -> None:
            batch.idle = None
            self._abandoned(batchId, "timeout", errors.ATOMIC_PUBLISH_INCOMPLETE_BATCH())

        batch.idle = self._stream.account.deadlines.after(IDLE, passed)

    def _forget(self, batchId: bytes) -> None:
        batch = self._batches.pop(batchId)
        if batch.idle is not None:
            batch.idle.cancel()

    def _abandoned(self, batchId: bytes, reason: str, error: JetStreamError) -> JetStreamError:
        """
        Forget a batch, and advise of it.

        @return: C{error}.
        """
        self._forget(batchId)
        name = self._stream.name
        self._stream.account.advise(
            f"ADVISORY.STREAM.BATCH_ABANDONED.{name}",
            "advisory.v1.stream_batch_abandoned",
            stream=name,
            batch=batchId.decode("utf-8", "replace"),
            reason=reason,
        )
        return error


class _Staging:
    """
    The checks of the messages of one batch, in their order.
    """

    def __init__(
        self,
        stream: PublishedStream,
        checks: PublishChecks,
        schedules: ScheduleChecks,
        duplicates: DuplicateWindow,
        counters: CounterTotals,
        usage: tuple[int, int],
    ) -> None:
        self._stream = stream
        self._checks = checks
        self._schedules = schedules
        self._duplicates = duplicates
        self._counters = counters
        self._messages, self._bytes = usage
        self._now = stream.account.now()
        self._ids: set[bytes] = set()
        self._subjects: dict[bytes, int] = {}
        self._staged: dict[bytes, bool] = {}
        self._expected: dict[bytes, int] = {}
        self._totals: dict[bytes, CounterState] = {}

    def checkAll(
        self, messages: list[Arrived], transformed: Callable[[bytes], bytes], following: int
    ) -> list[CheckedMessage]:
        checked = [
            self._check(transformed(each.subject), each, sequence)
            for sequence, each in enumerate(messages, following)
        ]
        headers = {each.subject: each.headers for each in checked}
        for subject, state in self._totals.items():
            self._counters.stored(subject, state, headers[subject])
        return checked

    def forgetPatterns(self) -> None:
        """
        Forget what is known of patterns: it holds for this batch only.
        """
        for each in self._expected:
            if hasWildcard(each):
                self._checks.forget(each)

    def _check(self, subject: bytes, message: Arrived, sequence: int) -> CheckedMessage:
        headers, payload = message.headers, message.payload
        known = MessageHeaders(headers)
        if known.get(b"Nats-Expected-Last-Msg-Id"):
            raise errors.ATOMIC_PUBLISH_UNSUPPORTED_HEADER_BATCH(header="Nats-Expected-Last-Msg-Id")
        if len(headers) > LONGEST_HEADERS:
            raise errors.STREAM_HEADER_EXCEEDS_MAXIMUM()
        config = self._stream.config
        increment = incrementOf(known, payload, config.allow_msg_counter)
        self._checks.checkStream(known)
        ttl = self._checks.ttlOf(known)
        if ttl is not None:
            if not config.allow_msg_ttl:
                raise errors.MESSAGE_TTL_DISABLED()
            headers = self._checks.withTtl(headers, ttl)
        messageId = self._idOf(known)
        self._checks.checkOrigin(known)
        if config.allow_msg_counter:
            if increment is None:
                raise errors.MESSAGE_INCR_MISSING()
            state = self._totals.get(subject)
            if state is None:
                state = self._counters.find(subject, self._stream.first)
            state = self._totals[subject] = state.plus(increment, sequence)
            headers, payload = state.stored(headers, config.max_msg_size)
        self._checkExpectations(known, subject, sequence)
        isSchedule = self._schedules.check(known, subject, self._staged)
        self._staged[subject] = isSchedule
        if isSchedule:
            known, headers = self._checks.asRollup(known, headers)
        rollup = self._rollupOf(known, subject)
        self._checkRoom(subject, headers, payload, bool(rollup))
        return CheckedMessage(subject, headers, payload, messageId, rollup)

    def _idOf(self, known: MessageHeaders) -> bytes:
        messageId = known.get(b"Nats-Msg-Id")
        if messageId:
            isOld = self._duplicates.find(messageId, self._now) is not None
            if isOld or messageId in self._ids:
                raise errors.ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE()
            self._ids.add(messageId)
        return messageId

    def _checkExpectations(self, known: MessageHeaders, subject: bytes, sequence: int) -> None:
        wanted = known.get(b"Nats-Expected-Last-Sequence")
        if wanted:
            if expectedSequence(wanted) != sequence - 1:
                raise errors.STREAM_WRONG_LAST_SEQUENCE(seq=sequence - 1)
            if self._subjects:
                raise errors.STREAM_WRONG_LAST_SEQUENCE_CONSTANT()
        other = known.get(b"Nats-Expected-Last-Subject-Sequence-Subject")
        wanted = known.get(b"Nats-Expected-Last-Subject-Sequence")
        if wanted:
            place = other or subject
            if place in self._subjects:
                raise errors.STREAM_WRONG_LAST_SEQUENCE_CONSTANT()
            last = self._expected.get(place)
            if last is None:
                last = self._expected[place] = self._checks.lastOf(place)
            if expectedSequence(wanted) != last:
                raise errors.STREAM_WRONG_LAST_SEQUENCE(seq=last)
        elif other:
            raise errors.STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID()

    def _rollupOf(self, known: MessageHeaders, subject: bytes) -> bytes:
        """
        The rollup of a message, which must not remove messages of the batch.
        """
        rollup = self._checks.rollupOf(known)
        if rollup == b"sub" and subject in self._subjects:
            raise errors.STREAM_ROLLUP_FAILED(err="batch rollup sub invalid")
        if rollup == b"all" and self._subjects:
            raise errors.STREAM_ROLLUP_FAILED(err="batch rollup all invalid")
        return rollup

    def _checkRoom(self, subject: bytes, headers: bytes, payload: bytes, isRollup: bool) -> None:
        """
        Check that a stream that discards new messages has room for this one too.
        """
        self._messages += 1
        self._bytes += self._stream.sizeOf(subject, headers, payload)
        self._subjects[subject] = self._subjects.get(subject, 0) + 1
        self._checks.checkStagedRoom(
            subject, self._subjects[subject], (self._messages, self._bytes), isRollup
        )
