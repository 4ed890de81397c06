"""
The checks of a published message, and the order in which nats-server makes them.

A check looks at one L{Candidate} and notes its findings there. It raises a
L{JetStreamError<natsbroker.jetstream.model.errors.JetStreamError>} for a message to refuse, and
C{SubjectUnknown} if the log must be read first; then all checks of the message run again. No check
changes anything but the candidate, except for L{PublishChecks.count}, which is the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TypeAlias

from natsbroker.jetstream.batches.rollups import mayRollUp
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.streamconfig import DiscardPolicy, StreamConfig
from natsbroker.jetstream.schedules.checks import NOTHING_STAGED, ScheduleChecks
from natsbroker.jetstream.streams.counters import CounterState, CounterTotals, incrementOf
from natsbroker.jetstream.streams.duplicates import DuplicateWindow
from natsbroker.jetstream.streams.expiry import SECOND, parseTtl
from natsbroker.jetstream.streams.msgheaders import (
    MessageHeaders,
    expectedSequence,
    withHeader,
)
from natsbroker.jetstream.streams.publishanswers import Arrived
from natsbroker.jetstream.streams.publishkeys import isLimited
from natsbroker.jetstream.streams.storageuse import StorageUse
from natsbroker.jetstream.streams.streamcore import StreamCore
from natsbroker.jetstream.streams.subjectstates import SubjectStates
from natsbroker.wire.text import decoded

LONGEST_HEADERS = 65535
"""Bytes of a header block (nats-server's file store has two bytes for the length)."""

_UNSIGNED = (1 << 64) - 1
"""The number that stands for an invalid value."""

_FULL_MESSAGES = "maximum messages exceeded"
_FULL_BYTES = "maximum bytes exceeded"
_FULL_SUBJECT = "maximum messages per subject exceeded"

NO_HEADERS = MessageHeaders(b"")
"""The headers of a message that has none which JetStream understands."""


def isTooLong(config: StreamConfig, size: int) -> bool:
    """
    Whether a message is larger than a stream permits.

    @param size: of headers and payload.
    """
    return 0 <= config.max_msg_size < size


def leastTtl(config: StreamConfig) -> int:
    """The fewest seconds to live with which messages are stored as they come; 0 for none."""
    return max(-(-_raisedTtl(config) // SECOND), 1) if config.allow_msg_ttl else 0


def _raisedTtl(config: StreamConfig) -> int:
    """The nanoseconds to which a shorter time to live is raised; 0 if it stays as it is."""
    return 0 if config.max_msgs_per_subject == 1 else config.subject_delete_marker_ttl


class StoredBefore(Exception):
    """Raised for a message whose id is in the stream already."""

    def __init__(self, sequence: int) -> None:
        super().__init__(sequence)
        self.sequence = sequence


class Candidate:
    """
    A message that is being checked, and what the checks have found.

    @ivar subject: the subject to store. Like C{headers} and C{payload}, it may change during the
        checks.
    @ivar known: its headers; L{NO_HEADERS} if JetStream understands none of them.
    @ivar isSourced: whether it comes from another stream, which may allow more than this one.
    @ivar sequence: the sequence that it gets; not set if it has no headers.
    @ivar now: its time, in nanoseconds since 1970.
    @ivar rollup: C{sub}, C{all}, or empty.
    @ivar ttl: see L{parseTtl}; C{None} without.
    @ivar increment: of a counter; C{None} without.
    """

    # Most messages keep these defaults.
    messageId = rollup = b""
    ttl: int | None = None
    increment: Decimal | None = None

    def __init__(
        self, arrived: Arrived, subject: bytes, known: MessageHeaders, sequence: int, now: int
    ) -> None:
        self.arrived = arrived
        self.subject = subject
        self.headers = arrived.headers
        self.payload = arrived.payload
        self.known = known
        self.isSourced = arrived.isSourced
        self.sequence = sequence
        self.now = now

    @property
    def isCopied(self) -> bool:
        """Whether the message comes from a mirror's origin, which has removed duplicates."""
        origin = self.arrived.origin
        return origin is not None and origin.delivery is not None


Check: TypeAlias = Callable[[Candidate], object]


def _needed(*checks: tuple[bool, Check]) -> list[Check]:
    return [check for isNeeded, check in checks if isNeeded]


class PublishChecks:
    """
    The checks of one stream.

    @ivar usage: gives the messages and the bytes of the stream, with those being appended.
    @ivar room: the room that the limits of the account and of the server leave.
    @ivar counters: the totals of the stream's counters.
    """

    def __init__(
        self,
        stream: StreamCore,
        duplicates: DuplicateWindow,
        subjects: SubjectStates,
        usage: Callable[[], tuple[int, int]],
    ) -> None:
        """The checks; C{subjects} has the last sequences of the stream's subjects."""
        self.stream = stream
        self.usage = usage
        self.room = StorageUse(stream)
        self.counters = CounterTotals()
        self._duplicates = duplicates
        self._subjects = subjects
        self._schedules = ScheduleChecks(stream)
        # A check is made if the header block contains the text beside it.
        self._ofHeaders: tuple[tuple[bytes, Check], ...] = (
            (b"Nats-Incr", self.readIncrement),
            (b"Nats-Expected-Stream", self.checkStream),
            (b"Nats-TTL", self.readTtl),
            (b"Nats-Expected-Last-S", self.checkSequences),
            (b"Nats-Schedule", self.checkSchedule),
            (b"Nats-Stream-Source", self.checkOrigin),
            (b"Nats-Msg-Id", self.checkDuplicate),
            (b"Nats-Expected-Last-Msg-Id", self.checkLastId),
            (b"Nats-Rollup", self.readRollup),
        )
        self.applyConfig()

    def applyConfig(self) -> None:
        """Leave out the checks that always pass with the configuration of the stream."""
        config = self.stream.config
        self.room.applyConfig()
        self._ofAll = _needed(
            (config.sealed, self.checkSealed),
            (config.max_msg_size >= 0, self.checkLength),
        )
        self._ofStored = _needed(
            (isLimited(config), self.checkRoom),
            (self.room.isBounded, self.checkUse),
        )

    # The orders.

    def checkMessage(self, message: Candidate) -> None:
        """
        Check the publisher's expectations, whether or not there is a consumer for the message.

        @raise StoredBefore: for a duplicate.
        """
        for check in self._ofAll:
            check(message)
        if message.headers:
            self.checkHeaderLength(message)
        if message.known is not NO_HEADERS:
            for name, check in self._ofHeaders:
                if name in message.headers:
                    check(message)
        if message.increment is None and self.stream.config.allow_msg_counter:
            raise errors.MESSAGE_INCR_MISSING()

    def checkStored(self, message: Candidate) -> None:
        """Check rules that matter only for a message that is stored."""
        if message.ttl is not None:
            self.writeTtl(message)
        for check in self._ofStored:
            check(message)

    def checkArrived(self, message: Arrived) -> None:
        """Check a message of a batch when it arrives. Other checks follow before it is stored."""
        self.checkSealed(message)
        self.checkLength(message)
        self.checkUse(message)

    # The checks.

    def checkSealed(self, message: Arrived | Candidate) -> None:
        if self.stream.config.sealed:
            raise errors.STREAM_SEALED()

    def checkLength(self, message: Arrived | Candidate) -> None:
        if isTooLong(self.stream.config, len(message.headers) + len(message.payload)):
            raise errors.STREAM_MESSAGE_EXCEEDS_MAXIMUM()

    def checkHeaderLength(self, message: Candidate) -> None:
        if len(message.headers) > LONGEST_HEADERS:
            raise errors.STREAM_HEADER_EXCEEDS_MAXIMUM()

    def readIncrement(self, message: Candidate) -> None:
        isCounter = self.stream.config.allow_msg_counter
        message.increment = incrementOf(
            message.known, message.payload, isCounter, message.isSourced
        )

    def checkStream(self, message: Candidate) -> None:
        """Check that the publisher names this stream."""
        expected = message.known.get(b"Nats-Expected-Stream")
        if expected and expected != self.stream.name.encode():
            raise errors.STREAM_NOT_MATCH()

    def readTtl(self, message: Candidate) -> None:
        """Read the time to live of a message. L{writeTtl} refuses an invalid one later."""
        text = message.known.get(b"Nats-TTL")
        if not text:
            return
        ttl = parseTtl(text)
        if not ttl or self.stream.config.allow_msg_ttl:
            message.ttl = ttl
        elif not message.isSourced:
            raise errors.MESSAGE_TTL_DISABLED()

    def writeTtl(self, message: Candidate) -> None:
        """
        Lengthen the time to live of a message to that of delete markers, so that a marker does not
        outlive the next message.
        """
        ttl = message.ttl
        if not ttl:
            raise errors.MESSAGE_TTL_INVALID()
        config = self.stream.config
        if not 0 < ttl < _raisedTtl(config):
            return
        lines = [
            line for line in message.headers.split(b"\r\n") if not line.startswith(b"Nats-TTL:")
        ]
        lines.insert(-2, b"Nats-TTL: %d" % (config.subject_delete_marker_ttl // SECOND))
        message.headers = b"\r\n".join(lines)

    def checkSequences(self, message: Candidate) -> None:
        """Check that the stream has the last sequences that the publisher expects."""
        known, last = message.known, message.sequence - 1
        other = known.get(b"Nats-Expected-Last-Subject-Sequence-Subject")
        wanted = known.get(b"Nats-Expected-Last-Subject-Sequence")
        if wanted:
            lastOfSubject = self.lastOf(other or message.subject)
            if expectedSequence(wanted) != lastOfSubject:
                raise _mismatch("last sequence by subject", wanted, lastOfSubject)
        elif other:
            raise errors.STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID()
        wanted = known.get(b"Nats-Expected-Last-Sequence")
        if wanted and expectedSequence(wanted) != last:
            raise _mismatch("last sequence", wanted, last)

    def lastOf(self, subject: bytes) -> int:
        """
        The last sequence of a subject, or of the subjects that a pattern matches; 0 for none.

        @raise natsbroker.jetstream.streams.subjectstates.SubjectUnknown: if the log must be asked.
        """
        last = self._subjects.find(subject).last
        return last if last >= self.stream.first else 0

    def checkSchedule(
        self, message: Candidate, staged: Mapping[bytes, bool] = NOTHING_STAGED
    ) -> bool:
        """
        @param staged: the subjects of the message's batch, and whether the last message of each is
            a schedule.
        @return: whether this message is a schedule. Then it replaces the earlier message on its
            subject.
        """
        isSchedule = not message.isSourced and self._schedules.check(
            message.known, message.subject, staged
        )
        if isSchedule and not message.known.get(b"Nats-Rollup"):
            message.headers = withHeader(message.headers, b"Nats-Rollup", b"sub")
            message.known = MessageHeaders(message.headers)
        return isSchedule

    def checkOrigin(self, message: Candidate) -> None:
        """Refuse a message that claims to come from another stream, unless it does."""
        if not message.isSourced and message.known.get(b"Nats-Stream-Source"):
            raise errors.MESSAGE_SOURCE_HDR_NOT_ALLOWED()

    def checkDuplicate(self, message: Candidate) -> None:
        """
        Note the id of a message.

        @raise StoredBefore: if the window has it.
        """
        messageId = message.messageId = message.known.get(b"Nats-Msg-Id")
        if messageId and not message.isCopied:
            sequence = self._duplicates.find(messageId, message.now)
            if sequence is not None:
                raise StoredBefore(sequence)

    def checkLastId(self, message: Candidate) -> None:
        """Check that the last message has the id that the publisher expects."""
        wanted = message.known.get(b"Nats-Expected-Last-Msg-Id")
        if wanted and wanted != self._duplicates.last:
            last = decoded(self._duplicates.last)
            error = errors.STREAM_WRONG_LAST_MSG_ID(id=last)
            error.traced = f'last msgid mismatch: "{decoded(wanted)}" vs "{last}"'
            raise error

    def readRollup(self, message: Candidate) -> None:
        """Read the rollup that a message asks for."""
        rollup = message.known.get(b"Nats-Rollup")
        if not rollup:
            return
        if not mayRollUp(self.stream.config):
            if message.isSourced:
                return
            raise errors.STREAM_ROLLUP_FAILED(err="rollup not permitted")
        message.rollup = rollup.lower()
        if message.rollup not in (b"sub", b"all"):
            shown = decoded(rollup)
            raise errors.STREAM_ROLLUP_FAILED(err=f'rollup value invalid: "{shown}"')

    def checkRoom(self, message: Candidate) -> None:
        """Check that a stream that discards new messages has room for one more."""
        config = self.stream.config
        if config.max_msgs_per_subject > 0:
            state = self._subjects.find(message.subject, True)
            if state.messages >= config.max_msgs_per_subject:
                if config.discard_new_per_subject:
                    raise errors.STREAM_STORE_FAILED(err=_FULL_SUBJECT)
                return
        messages, size = self.usage()
        self._checkTotals(messages + 1, size + self.sizeOf(message))

    def checkUse(self, message: Arrived | Candidate) -> None:
        """Check a message against the limits of the account and of the server."""
        if self.room.isNear():
            self.room.check(self.sizeOf(message), self.usage()[1])

    def count(self, message: Candidate) -> None:
        """Add the increment of a message to its counter."""
        state = self.counters.find(message.subject, self.stream.first)
        state = self.addTo(state, message)
        # From here on, the message must not be judged again, because it would be counted twice.
        self.counters.stored(message.subject, state, message.headers)

    def addTo(self, state: CounterState, message: Candidate) -> CounterState:
        """
        Replace the payload of a message by the counter's total after it.

        @return: the total.
        """
        if message.isSourced and message.payload:
            known = MessageHeaders(message.headers)
            state, increment = state.merged(
                known, message.subject, message.payload, message.sequence
            )
            line = str(increment).encode()
            message.headers = withHeader(message.headers, b"Nats-Incr", line)
        else:
            state = state.plus(message.increment or Decimal(0), message.sequence)
        message.headers, message.payload = state.stored(message.headers)
        self.checkLength(message)
        return state

    def sizeOf(self, message: Arrived | Candidate) -> int:
        return self.stream.sizeOf(message.subject, message.headers, message.payload)

    def forget(self, subject: bytes) -> None:
        """Forget what is known of a subject or a pattern."""
        self._subjects.forget(subject)

    def _checkTotals(self, messages: int, size: int) -> None:
        config = self.stream.config
        if 0 < config.max_msgs < messages:
            raise errors.STREAM_STORE_FAILED(err=_FULL_MESSAGES)
        if 0 < config.max_bytes < size:
            raise errors.STREAM_STORE_FAILED(err=_FULL_BYTES)

    def checkStagedRoom(
        self, subject: bytes, more: int, usage: tuple[int, int], isRollup: bool
    ) -> None:
        """
        Check that a stream that discards new messages has room for a part of a batch.

        @param more: the number of messages of the subject in that part.
        @param usage: messages and bytes of the stream with that part.
        @param isRollup: whether the last of them replaces the older ones of its subject.
        """
        config = self.stream.config
        if config.discard is not DiscardPolicy.NEW:
            return
        self._checkTotals(*usage)
        limit = config.max_msgs_per_subject
        if config.discard_new_per_subject and limit > 0 and not isRollup:
            if self._subjects.find(subject, True).messages + more > limit:
                raise errors.STREAM_STORE_FAILED(err=_FULL_SUBJECT)


def _mismatch(what: str, wanted: bytes, last: int) -> JetStreamError:
    """
    The error of an unexpected sequence. C{what} names the sequence in traces, as in nats-server.
    """
    error = errors.STREAM_WRONG_LAST_SEQUENCE(seq=last)
    error.traced = f"{what} mismatch: {expectedSequence(wanted) & _UNSIGNED} vs {last}"
    return error
