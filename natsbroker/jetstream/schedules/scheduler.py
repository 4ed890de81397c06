"""
Publishes scheduled messages when they are due.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from natsbroker.interfaces.records import Record, StoreError
from natsbroker.jetstream.consumers.cursor import fetchRecords
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.schedules.checks import (
    NEXT,
    PATTERN,
    PURGE,
    SCHEDULER,
    ZONE,
    scheduleOf,
)
from natsbroker.jetstream.schedules.duequeue import DueMessage, DueQueue
from natsbroker.jetstream.schedules.patterns import scheduledTime, zoneOf
from natsbroker.jetstream.streams.msgheaders import MessageHeaders
from natsbroker.jetstream.streams.streamcore import StreamCore
from natsbroker.wire.schedules import SOURCE, TARGET
from natsbroker.wire.timestamps import formatTime, parseTime

if TYPE_CHECKING:
    from collections.abc import Generator

PAUSE = 0.25
"""Seconds between two looks at what is due, at least, as in nats-server."""

RETRY = 2_000_000_000
"""Nanoseconds after which a message that was not stored is published again."""

TOGETHER = 64
"""The schedules whose messages are appended together: a few milliseconds of work."""

COST = 500
"""The cost of publishing the message of a schedule; see L{natsbroker.pure.backlog}."""

NOTE = 500
"""The cost of reading a schedule."""

_NOT_COPIED = (
    b"Nats-Schedule",
    b"Nats-Expected-",
    b"Nats-Msg-Id:",
    b"Nats-TTL:",
    b"Nats-Rollup:",
)
"""The prefix of the headers of a schedule that its messages do not have."""

_log = Logger(namespace="natsbroker.jetstream")


def producedHeaders(schedule: Record, origin: Record, following: bytes) -> bytes:
    """
    The header block of the message of a schedule.

    @param origin: where other headers come from: the schedule, or the last message of its source.
    @param following: when the schedule is due next, or L{PURGE}.
    """
    known = MessageHeaders(schedule.headers)
    lines = (origin.headers or b"NATS/1.0\r\n\r\n").split(b"\r\n")[:-2]
    lines = [line for line in lines if not line.startswith(_NOT_COPIED)]
    lines += [SCHEDULER + b": " + schedule.subject, NEXT + b": " + following]
    ttl, rollup = known.get(b"Nats-Schedule-TTL"), known.get(b"Nats-Schedule-Rollup")
    if ttl:
        lines.append(b"Nats-TTL: " + ttl)
    if rollup:
        lines.append(b"Nats-Rollup: " + rollup)
    return b"\r\n".join([*lines, b"", b""])


class MessageScheduler:
    """
    The schedules of one stream.

    The next times are in memory only. They follow from the messages: from the pattern and the time
    of a schedule, or from C{Nats-Schedule-Next} of a message that it produced. So a restart loses
    nothing, and a schedule that was due meanwhile is published once.
    """

    def __init__(self, stream: StreamCore) -> None:
        self._stream = stream
        self._known: dict[bytes, DueMessage] = {}
        self._readUpTo: int = stream.last
        self._queue = DueQueue(stream, self._publishAll, PAUSE)

    def __len__(self) -> int:
        return len(self._known)

    def stored(self, records: Sequence[Record]) -> None:
        """Note the schedules among messages that became durable, and those that end."""
        for record in records:
            if b"Nats-Schedule" in record.headers:
                self._note(record, MessageHeaders(record.headers))
            elif self._known:
                self._known.pop(record.subject, None)
        self._queue.schedule()

    def _note(self, record: Record, known: MessageHeaders) -> None:
        scheduler = known.get(SCHEDULER)
        try:
            first = scheduleOf(known, record.timestamp)
        except JetStreamError:
            first = None  # A source or a snapshot can have brought the message.
        if first is not None:
            self._add(DueMessage(first, record.sequence, record.subject))
        elif not scheduler:
            self._known.pop(record.subject, None)
        following = known.get(NEXT)
        if following == PURGE:
            ended = self._known.pop(scheduler, None)
            if ended is not None and record.sequence <= self._readUpTo:
                # A crash came between the message and the removal of its schedule. The schedule
                # would be due again when the message is gone.
                self._stream.publisher.rollUpAgain([record])
        elif following and scheduler in self._known:
            try:
                time = int(parseTime(following.decode("latin-1")))
            except ValueError:
                return
            self._add(self._known[scheduler]._replace(time=time))

    def _add(self, schedule: DueMessage) -> None:
        self._known[schedule.subject] = schedule
        self._queue.add(schedule)

    def _isKnown(self, schedule: DueMessage) -> bool:
        return self._known.get(schedule.subject) == schedule

    def close(self) -> None:
        """Publish nothing more."""
        self._queue.close()

    def _publishAll(self, due: list[DueMessage], now: int) -> Generator[Deferred[Any], Any, None]:
        due = sorted(filter(self._isKnown, due), key=attrgetter("sequence"))
        try:
            for place in range(0, len(due), TOGETHER):
                yield from self._publishSome(due[place : place + TOGETHER], now)
            yield self._stream.settle()
        except StoreError as error:
            name, why = self._stream.name, str(error)
            _log.error("Schedules of stream {name} have to wait: {why}", name=name, why=why)
        for message in filter(self._isKnown, due):
            self._add(message._replace(time=now + RETRY))

    def _publishSome(self, due: list[DueMessage], now: int) -> Generator[Deferred[Any], Any, None]:
        """Publish the messages of some schedules, and remove together what they replace."""
        stream: Any = self._stream
        records = yield ensureDeferred(fetchRecords(stream, [message.sequence for message in due]))

        def lasts() -> dict[bytes, int]:
            # If there were a later message on its subject, the scheduler would know it.
            there = (
                message for message in due if message.sequence in records and self._isKnown(message)
            )
            return {message.subject: message.sequence for message in there}

        yield stream.publisher.learn(lasts)
        yield stream.account.turns.take(COST * len(due))
        for message in due:
            schedule = records.get(message.sequence)
            if schedule is None:
                self._forget(message)
            else:
                yield from self._publish(message, schedule, now)
        yield stream.publisher.flush()

    def _publish(
        self, due: DueMessage, schedule: Record, now: int
    ) -> Generator[Deferred[Any], Any, None]:
        stream = self._stream
        known = MessageHeaders(schedule.headers)
        zone = zoneOf(known.get(ZONE).decode("utf-8", "replace")) if ZONE in known else None
        pattern = known.get(PATTERN).decode("utf-8", "replace")
        try:
            following = scheduledTime(pattern, zone, due.time, now)
        except ValueError:
            # The pattern matches no further time.
            self._forget(due)
            return
        origin = schedule
        source = known.get(SOURCE)
        if source:
            origin = (yield stream.lastMatching(source)) or schedule
        shown = formatTime(following.time).encode() if following.isRepeated else PURGE
        headers = producedHeaders(schedule, origin, shown)
        target = known.get(TARGET)
        stream.publisher.takeIf(target, headers, origin.payload, due.subject, due.sequence)

    def _forget(self, due: DueMessage) -> None:
        if self._isKnown(due):
            del self._known[due.subject]
