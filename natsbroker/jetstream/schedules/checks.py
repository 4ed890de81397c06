"""
The checks of a published message that is a schedule or ends one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from natsbroker.interfaces.records import Record
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.schedules.patterns import scheduledTime, zoneOf
from natsbroker.jetstream.streams.expiry import parseTtl
from natsbroker.jetstream.streams.msgheaders import MessageHeaders
from natsbroker.jetstream.streams.streamcore import StreamCore
from natsbroker.jetstream.streams.subjectstates import SubjectUnknown
from natsbroker.subjects.grammar import isValidLiteral
from natsbroker.subjects.verdicts import testOf
from natsbroker.wire.schedules import SOURCE, TARGET

PATTERN = b"Nats-Schedule"
ZONE = b"Nats-Schedule-Time-Zone"
SCHEDULER = b"Nats-Scheduler"
NEXT = b"Nats-Schedule-Next"
PURGE = b"purge"

NOTHING_STAGED: Mapping[bytes, bool] = MappingProxyType({})


def scheduleOf(known: MessageHeaders, since: int) -> int | None:
    """
    The time at which a schedule is due first; C{None} for a message that is not a schedule.

    @param since: when it is stored, in nanoseconds since 1970.
    @raise errors.JetStreamError: if its time zone or its pattern is invalid.
    """
    zone = None
    if ZONE in known:
        try:
            zone = zoneOf(known.get(ZONE).decode("utf-8", "replace"))
        except ValueError:
            raise errors.MESSAGE_SCHEDULES_TIME_ZONE_INVALID() from None
    pattern = known.get(PATTERN)
    if not pattern:
        return None
    try:
        return scheduledTime(pattern.decode("utf-8", "replace"), zone, since).time
    except ValueError:
        raise errors.MESSAGE_SCHEDULES_PATTERN_INVALID() from None


class ScheduleChecks:
    """The checks of one stream."""

    def __init__(self, stream: StreamCore) -> None:
        self._stream = stream
        self._found: dict[bytes, bool] = {}
        self._known: tuple[str, ...] = ()
        self._isTaken = testOf(())

    def check(
        self, known: MessageHeaders, subject: bytes, staged: Mapping[bytes, bool] = NOTHING_STAGED
    ) -> bool:
        """
        Check the headers of a message that is not from a source.

        @param staged: the subjects of the batch that the message belongs to, and whether the last
            message of each is a schedule.
        @return: whether it is a schedule, which replaces the messages of its subject.
        @raise errors.JetStreamError: if it is refused.
        @raise SubjectUnknown: if the log must be asked first.
        """
        isSchedule = self._isSchedule(known, subject)
        if known.get(NEXT):
            self._checkEnd(known, subject, staged)
        elif known.get(SCHEDULER):
            raise errors.MESSAGE_SCHEDULES_SCHEDULER_INVALID()
        return isSchedule

    def _isSchedule(self, known: MessageHeaders, subject: bytes) -> bool:
        config = self._stream.config
        try:
            if scheduleOf(known, self._stream.account.now()) is None:
                return False
        except errors.JetStreamError:
            if config.allow_msg_schedules:
                raise
            raise errors.MESSAGE_SCHEDULES_DISABLED() from None
        if not config.allow_msg_schedules:
            raise errors.MESSAGE_SCHEDULES_DISABLED()
        ttl = known.get(b"Nats-Schedule-TTL")
        if ttl and not parseTtl(ttl):
            raise errors.MESSAGE_SCHEDULES_TTL_INVALID()
        if known.get(b"Nats-Schedule-Rollup") not in (b"", b"sub"):
            raise errors.MESSAGE_SCHEDULES_ROLLUP_INVALID()
        if ttl and not config.allow_msg_ttl:
            raise errors.MESSAGE_TTL_DISABLED()
        target = known.get(TARGET)
        if target == subject or not self._takes(target):
            raise errors.MESSAGE_SCHEDULES_TARGET_INVALID()
        source = known.get(SOURCE)
        if source and (source in (target, subject) or not self._takes(source)):
            raise errors.MESSAGE_SCHEDULES_SOURCE_INVALID()
        if known.get(b"Nats-Rollup").lower() not in (b"", b"sub"):
            raise errors.MESSAGE_SCHEDULES_ROLLUP_INVALID()
        return True

    def _takes(self, subject: bytes) -> bool:
        """Whether the stream has a subject."""
        subjects = self._stream.config.subjects
        if subjects is not self._known:
            self._known = subjects
            self._isTaken = testOf(tuple(pattern.encode() for pattern in subjects))
        return isValidLiteral(subject) and self._isTaken(subject)

    def _checkEnd(
        self, known: MessageHeaders, subject: bytes, staged: Mapping[bytes, bool]
    ) -> None:
        """
        Check that a message ends the schedule of another subject, if that subject has messages.
        """
        schedule = known.get(SCHEDULER)
        isOther = schedule != subject and isValidLiteral(schedule)
        if known.get(NEXT) != PURGE or not isOther:
            raise errors.MESSAGE_SCHEDULES_SCHEDULER_INVALID()
        if not self._stream.config.allow_msg_schedules:
            raise errors.MESSAGE_SCHEDULES_DISABLED()
        isSchedule = staged.get(schedule)
        if isSchedule is None:
            if schedule not in self._found:
                raise SubjectUnknown(schedule, partial(self._learn, schedule))
            isSchedule = self._found.pop(schedule)
        if not isSchedule:
            raise errors.MESSAGE_SCHEDULES_SCHEDULER_INVALID()

    def _learn(self, subject: bytes, last: Record | None) -> None:
        """Note, for the message that waits, whether a subject can end as a schedule."""
        self._found[subject] = last is None or bool(MessageHeaders(last.headers).get(PATTERN))
