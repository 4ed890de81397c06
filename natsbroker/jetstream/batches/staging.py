"""
The checks of messages that are published in batches: in another order than those of other messages,
and with what the messages before them in the batch have changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from natsbroker.jetstream.contracts import PublishedStream
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.schedules.checks import ScheduleChecks
from natsbroker.jetstream.streams.counters import CounterState, CounterTotals, incrementOf
from natsbroker.jetstream.streams.duplicates import DuplicateWindow
from natsbroker.jetstream.streams.msgheaders import MessageHeaders, expectedSequence
from natsbroker.jetstream.streams.publishanswers import Arrived
from natsbroker.jetstream.streams.publishchecks import LONGEST_HEADERS, PublishChecks
from natsbroker.subjects.grammar import hasWildcard


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


class StoredBefore(Exception):
    """A message with the same id is in the stream."""

    def __init__(self, sequence: int) -> None:
        super().__init__(sequence)
        self.sequence = sequence


class BatchChecks(NamedTuple):
    """
    What the checks of batches need of one stream.

    @ivar usage: gives the messages and the bytes of the stream, with those being appended.
    """

    stream: PublishedStream
    checks: PublishChecks
    schedules: ScheduleChecks
    duplicates: DuplicateWindow
    counters: CounterTotals
    usage: Callable[[], tuple[int, int]]

    def checkRoom(self, message: Arrived) -> None:
        """
        Check a message of a batch against the limits of the account and of the server.

        @raise errors.JetStreamError: if there is no room for it.
        """
        if self.checks.room.isBounded:
            self.checks.room.check(self._sizeOf(message), self.usage()[1])

    def checkRoomOfAll(self, messages: list[Arrived]) -> None:
        """
        Check the messages that an atomic batch stores together. nats-server stores those for which
        there is room.

        @raise errors.JetStreamError: if there is no room for all of them.
        """
        if self.checks.room.isBounded:
            self.checks.room.check(0, self.usage()[1] + sum(map(self._sizeOf, messages)))

    def _sizeOf(self, message: Arrived) -> int:
        return self.stream.sizeOf(message.subject, message.headers, message.payload)

    def begin(self, isAtomic: bool) -> StagedChecks:
        """
        The checks of messages that are stored now.

        @param isAtomic: whether they are stored together, or not at all.
        """
        return StagedChecks(self, isAtomic)


class StagedChecks:
    """The checks of the messages of one batch, in their order."""

    def __init__(self, shared: BatchChecks, isAtomic: bool) -> None:
        self._isAtomic = isAtomic
        self._stream, self._checks, self._schedules = shared[:3]
        self._duplicates, self._counters = shared.duplicates, shared.counters
        self._messages, self._bytes = shared.usage()
        self._now = self._stream.account.now()
        self._ids: set[bytes] = set()
        self._subjects: dict[bytes, int] = {}
        self._staged: dict[bytes, bool] = {}
        self._expected: dict[bytes, int] = {}
        self._totals: dict[bytes, CounterState] = {}

    def checkAll(
        self, messages: list[Arrived], transformed: Callable[[bytes], bytes], following: int
    ) -> list[CheckedMessage]:
        """
        Check the messages of a batch, or some of them.

        @param transformed: gives the subject to store for the one published to.
        @param following: the sequence that the stream uses next.
        @raise StoredBefore: if a message that is not part of an atomic batch is a duplicate.
        """
        checked = [
            self._check(transformed(each.subject), each, sequence)
            for sequence, each in enumerate(messages, following)
        ]
        headers = {each.subject: each.headers for each in checked}
        for subject, state in self._totals.items():
            self._counters.stored(subject, state, headers[subject])
        return checked

    def forgetPatterns(self) -> None:
        """Forget what is known of patterns: it holds for this batch only."""
        for each in self._expected:
            if hasWildcard(each):
                self._checks.forget(each)

    def _check(self, subject: bytes, message: Arrived, sequence: int) -> CheckedMessage:
        headers, payload = message.headers, message.payload
        known = MessageHeaders(headers)
        if self._isAtomic and known.get(b"Nats-Expected-Last-Msg-Id"):
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
            found = self._duplicates.find(messageId, self._now)
            if found is not None and not self._isAtomic:
                raise StoredBefore(found)
            if found is not None or messageId in self._ids:
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
        """The rollup of a message, which must not remove messages of the batch."""
        rollup = self._checks.rollupOf(known)
        if rollup == b"sub" and subject in self._subjects:
            raise errors.STREAM_ROLLUP_FAILED(err="batch rollup sub invalid")
        if rollup == b"all" and self._subjects:
            raise errors.STREAM_ROLLUP_FAILED(err="batch rollup all invalid")
        return rollup

    def _checkRoom(self, subject: bytes, headers: bytes, payload: bytes, isRollup: bool) -> None:
        """Check that a stream that discards new messages has room for this one too."""
        self._messages += 1
        self._bytes += self._stream.sizeOf(subject, headers, payload)
        self._subjects[subject] = self._subjects.get(subject, 0) + 1
        self._checks.checkStagedRoom(
            subject, self._subjects[subject], (self._messages, self._bytes), isRollup
        )
