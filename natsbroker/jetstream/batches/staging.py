"""
The checks of messages in batches. They run in another order than for single messages, and count
what the messages before them in the batch have changed.
"""

from __future__ import annotations

from collections.abc import Callable

from natsbroker.jetstream.model import errors
from natsbroker.jetstream.streams.counters import CounterState
from natsbroker.jetstream.streams.msgheaders import MessageHeaders, expectedSequence
from natsbroker.jetstream.streams.publishanswers import Arrived
from natsbroker.jetstream.streams.publishchecks import Candidate, PublishChecks, StoredBefore
from natsbroker.subjects.grammar import hasWildcard


class StagedChecks:
    """The checks of one batch's messages, in their order; C{isAtomic} if all or none are stored."""

    def __init__(self, checks: PublishChecks, isAtomic: bool) -> None:
        self._isAtomic = isAtomic
        self._checks = checks
        self._config = checks.stream.config
        self._messages, self._bytes = checks.usage()
        self._now = checks.stream.account.now()
        self._ids: set[bytes] = set()
        self._subjects: dict[bytes, int] = {}
        self._staged: dict[bytes, bool] = {}
        self._expected: dict[bytes, int] = {}
        self._totals: dict[bytes, CounterState] = {}
        self._order = (
            self._checkSupported,
            checks.checkHeaderLength,
            checks.readIncrement,
            checks.checkStream,
            checks.readTtl,
            self._writeTtl,
            self._checkDuplicate,
            checks.checkOrigin,
            self._count,
            self._checkSequences,
            self._checkSchedule,
            self._readRollup,
            self._checkRoom,
        )

    def checkAll(
        self, messages: list[Arrived], transformed: Callable[[bytes], bytes], following: int
    ) -> list[Candidate]:
        """
        Check the messages of a batch, or some of them.

        @param transformed: returns the stored subject for a published one.
        @param following: the sequence that the stream uses next.
        @raise StoredBefore: if a message that is not part of an atomic batch is a duplicate.
        """
        checked = []
        for sequence, arrived in enumerate(messages, following):
            subject, known = transformed(arrived.subject), MessageHeaders(arrived.headers)
            message = Candidate(arrived, subject, known, sequence, self._now)
            for check in self._order:
                check(message)
            checked.append(message)
        headers = {message.subject: message.headers for message in checked}
        for subject, state in self._totals.items():
            self._checks.counters.stored(subject, state, headers[subject])
        return checked

    def forgetPatterns(self) -> None:
        """Forget the states of patterns, which are valid for this batch only."""
        for subject in self._expected:
            if hasWildcard(subject):
                self._checks.forget(subject)

    def _checkSupported(self, message: Candidate) -> None:
        if self._isAtomic and message.known.get(b"Nats-Expected-Last-Msg-Id"):
            raise errors.ATOMIC_PUBLISH_UNSUPPORTED_HEADER_BATCH(header="Nats-Expected-Last-Msg-Id")

    def _writeTtl(self, message: Candidate) -> None:
        if message.ttl is not None:
            if not self._config.allow_msg_ttl:
                raise errors.MESSAGE_TTL_DISABLED()
            self._checks.writeTtl(message)

    def _checkDuplicate(self, message: Candidate) -> None:
        try:
            self._checks.checkDuplicate(message)
        except StoredBefore:
            if not self._isAtomic:
                raise
            raise errors.ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE() from None
        if message.messageId in self._ids:
            raise errors.ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE()
        if message.messageId:
            self._ids.add(message.messageId)

    def _count(self, message: Candidate) -> None:
        if not self._config.allow_msg_counter:
            return
        if message.increment is None:
            raise errors.MESSAGE_INCR_MISSING()
        subject, checks = message.subject, self._checks
        state = self._totals.get(subject) or checks.counters.find(subject, checks.stream.first)
        self._totals[subject] = checks.addTo(state, message)

    def _checkSequences(self, message: Candidate) -> None:
        known, last = message.known, message.sequence - 1
        wanted = known.get(b"Nats-Expected-Last-Sequence")
        if wanted:
            if expectedSequence(wanted) != last:
                raise errors.STREAM_WRONG_LAST_SEQUENCE(seq=last)
            if self._subjects:
                raise errors.STREAM_WRONG_LAST_SEQUENCE_CONSTANT()
        other = known.get(b"Nats-Expected-Last-Subject-Sequence-Subject")
        wanted = known.get(b"Nats-Expected-Last-Subject-Sequence")
        if wanted:
            place = other or message.subject
            if place in self._subjects:
                raise errors.STREAM_WRONG_LAST_SEQUENCE_CONSTANT()
            expected = self._expected.get(place)
            if expected is None:
                expected = self._expected[place] = self._checks.lastOf(place)
            if expectedSequence(wanted) != expected:
                raise errors.STREAM_WRONG_LAST_SEQUENCE(seq=expected)
        elif other:
            raise errors.STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID()

    def _checkSchedule(self, message: Candidate) -> None:
        self._staged[message.subject] = self._checks.checkSchedule(message, self._staged)

    def _readRollup(self, message: Candidate) -> None:
        """Read the rollup of a message, which must not remove messages of the batch."""
        self._checks.readRollup(message)
        if message.rollup == b"sub" and message.subject in self._subjects:
            raise errors.STREAM_ROLLUP_FAILED(err="batch rollup sub invalid")
        if message.rollup == b"all" and self._subjects:
            raise errors.STREAM_ROLLUP_FAILED(err="batch rollup all invalid")

    def _checkRoom(self, message: Candidate) -> None:
        """Check that a stream that discards new messages has room for this one too."""
        subject = message.subject
        self._messages += 1
        self._bytes += self._checks.sizeOf(message)
        self._subjects[subject] = self._subjects.get(subject, 0) + 1
        self._checks.checkStagedRoom(
            subject, self._subjects[subject], (self._messages, self._bytes), bool(message.rollup)
        )
