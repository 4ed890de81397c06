"""
The checks of a published message that look at its headers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from natsbroker.interfaces.records import Record
from natsbroker.jetstream.contracts import PublishedStream
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.streamconfig import DiscardPolicy
from natsbroker.jetstream.streams.duplicates import DuplicateWindow
from natsbroker.jetstream.streams.expiry import SECOND, parseTtl
from natsbroker.jetstream.streams.msgheaders import (
    MessageHeaders,
    expectedSequence,
    withHeader,
)
from natsbroker.jetstream.streams.storageuse import StorageUse
from natsbroker.jetstream.streams.subjectstates import SubjectStates
from natsbroker.wire.text import decoded

LONGEST_HEADERS = 65535
"""Bytes of a header block (nats-server's file store has two bytes for the length)."""

_UNSIGNED = (1 << 64) - 1
"""A value that is no number is the largest one."""

Rollups: TypeAlias = list[tuple[bytes, int]]
"""What messages replace; see L{PublishChecks.rollupsOf}."""

_FULL_MESSAGES = "maximum messages exceeded"
_FULL_BYTES = "maximum bytes exceeded"
_FULL_SUBJECT = "maximum messages per subject exceeded"


class PublishChecks:
    """
    The checks of one stream. Each raises a
    L{JetStreamError<natsbroker.jetstream.model.errors.JetStreamError>} for a message to refuse.

    @ivar room: what the limits of the account and of the server leave.
    """

    def __init__(
        self, stream: PublishedStream, duplicates: DuplicateWindow, subjects: SubjectStates
    ) -> None:
        """
        @param duplicates: the stream's message ids.
        @param subjects: the last sequences of the stream's subjects.
        """
        self._stream = stream
        self._duplicates = duplicates
        self._subjects = subjects
        self.room = StorageUse(stream)

    def checkSize(self, headers: int, payload: int) -> None:
        """
        Check that a message is not too long.

        @param headers: the bytes of its header block.
        @param payload: the bytes of its payload.
        """
        if 0 <= self._stream.config.max_msg_size < headers + payload:
            raise errors.STREAM_MESSAGE_EXCEEDS_MAXIMUM()
        if headers > LONGEST_HEADERS:
            raise errors.STREAM_HEADER_EXCEEDS_MAXIMUM()

    def checkStream(self, known: MessageHeaders) -> None:
        """Check that the publisher means this stream."""
        expected = known.get(b"Nats-Expected-Stream")
        if expected and expected != self._stream.name.encode():
            raise errors.STREAM_NOT_MATCH()

    def ttlOf(self, known: MessageHeaders, isSourced: bool = False) -> int | None:
        """
        How long a message lives; see L{parseTtl}.

        @param isSourced: whether it comes from another stream, which may allow what this one does
            not allow.
        @return: C{None} without the header. A value that is none is refused by L{withTtl}, after
            other checks.
        """
        text = known.get(b"Nats-TTL")
        if not text:
            return None
        ttl = parseTtl(text)
        if ttl and not self._stream.config.allow_msg_ttl:
            if isSourced:
                return None
            raise errors.MESSAGE_TTL_DISABLED()
        return ttl

    def withTtl(self, headers: bytes, ttl: int) -> bytes:
        """
        The headers that are stored of a message with a time to live: the time is at least that of
        delete markers, so that a marker does not live longer than what it marks.
        """
        if not ttl:
            raise errors.MESSAGE_TTL_INVALID()
        config = self._stream.config
        if not 0 < ttl < config.subject_delete_marker_ttl or config.max_msgs_per_subject == 1:
            return headers
        lines = [each for each in headers.split(b"\r\n") if not each.startswith(b"Nats-TTL:")]
        lines.insert(-2, b"Nats-TTL: %d" % (config.subject_delete_marker_ttl // SECOND))
        return b"\r\n".join(lines)

    def checkSequences(self, known: MessageHeaders, subject: bytes, last: int) -> None:
        """
        Check that the stream has the last sequences that the publisher expects.

        @param last: the last sequence of the stream, with messages that are being appended.
        """
        other = known.get(b"Nats-Expected-Last-Subject-Sequence-Subject")
        wanted = known.get(b"Nats-Expected-Last-Subject-Sequence")
        if wanted:
            found = self.lastOf(other or subject)
            if expectedSequence(wanted) != found:
                raise _mismatch("last sequence by subject", wanted, found)
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
        return last if last >= self._stream.first else 0

    def checkOrigin(self, known: MessageHeaders, isSourced: bool = False) -> None:
        """Check that the message does not claim to come from another stream, unless it does."""
        if not isSourced and known.get(b"Nats-Stream-Source"):
            raise errors.MESSAGE_SOURCE_HDR_NOT_ALLOWED()

    def checkLastId(self, known: MessageHeaders) -> None:
        """Check that the last message has the id that the publisher expects."""
        wanted = known.get(b"Nats-Expected-Last-Msg-Id")
        if wanted and wanted != self._duplicates.last:
            last = decoded(self._duplicates.last)
            error = errors.STREAM_WRONG_LAST_MSG_ID(id=last)
            error.traced = f'last msgid mismatch: "{decoded(wanted)}" vs "{last}"'
            raise error

    def rollupOf(self, known: MessageHeaders, isSourced: bool = False) -> bytes:
        """
        The rollup that a message asks for: C{sub}, C{all}, or empty.

        @param isSourced: whether it comes from another stream, which may allow what this one does
            not allow.
        """
        rollup = known.get(b"Nats-Rollup")
        if not rollup:
            return b""
        config = self._stream.config
        if not config.allow_rollup_hdrs or config.deny_purge:
            if isSourced:
                return b""
            raise errors.STREAM_ROLLUP_FAILED(err="rollup not permitted")
        kind = rollup.lower()
        if kind not in (b"sub", b"all"):
            shown = decoded(rollup)
            raise errors.STREAM_ROLLUP_FAILED(err=f'rollup value invalid: "{shown}"')
        return kind

    def rollupsOf(self, subject: bytes, headers: bytes, rollup: bytes, place: int) -> Rollups:
        """
        What a message replaces: by a rollup, and as the end of a schedule.

        @param rollup: C{sub}, C{all}, or empty.
        @param place: the message's in its batch.
        """
        found = [(subject if rollup == b"sub" else b"", place)] if rollup else []
        config = self._stream.config
        if b"Nats-Schedule-Next: purge" in headers and not config.deny_purge:
            schedule = MessageHeaders(headers).get(b"Nats-Scheduler")
            if schedule and config.allow_rollup_hdrs:
                found.append((schedule, place))
        return found

    def rollupsIn(self, records: Sequence[Record]) -> Rollups:
        """What stored messages replace, with their sequences as places."""
        found: Rollups = []
        config = self._stream.config
        for each in records if config.allow_rollup_hdrs and not config.deny_purge else ():
            rollup = MessageHeaders(each.headers).get(b"Nats-Rollup").lower()
            kind = rollup if rollup in (b"sub", b"all") else b""
            found += self.rollupsOf(each.subject, each.headers, kind, each.sequence)
        return found

    def asRollup(self, known: MessageHeaders, headers: bytes) -> tuple[MessageHeaders, bytes]:
        """The headers of a schedule, which replaces the one before on its subject."""
        if not known.get(b"Nats-Rollup"):
            headers = withHeader(headers, b"Nats-Rollup", b"sub")
            known = MessageHeaders(headers)
        return known, headers

    def forget(self, subject: bytes) -> None:
        """Forget what is known of a subject or a pattern."""
        self._subjects.forget(subject)

    def checkRoom(self, subject: bytes, size: int, usage: tuple[int, int]) -> None:
        """
        Check that a stream that discards new messages has room for one more.

        @param size: of the message.
        @param usage: messages and bytes of the stream, with those being appended.
        """
        config = self._stream.config
        if config.max_msgs_per_subject > 0:
            state = self._subjects.find(subject, True)
            if state.messages >= config.max_msgs_per_subject:
                if config.discard_new_per_subject:
                    raise errors.STREAM_STORE_FAILED(err=_FULL_SUBJECT)
                return
        self._checkTotals(usage[0] + 1, usage[1] + size)

    def _checkTotals(self, messages: int, size: int) -> None:
        config = self._stream.config
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
        config = self._stream.config
        if config.discard is not DiscardPolicy.NEW:
            return
        self._checkTotals(*usage)
        limit = config.max_msgs_per_subject
        if config.discard_new_per_subject and limit > 0 and not isRollup:
            if self._subjects.find(subject, True).messages + more > limit:
                raise errors.STREAM_STORE_FAILED(err=_FULL_SUBJECT)


def _mismatch(what: str, wanted: bytes, found: int) -> JetStreamError:
    """
    @param what: the sequence, as nats-server calls it in traces.
    """
    error = errors.STREAM_WRONG_LAST_SEQUENCE(seq=found)
    error.traced = f"{what} mismatch: {expectedSequence(wanted) & _UNSIGNED} vs {found}"
    return error
