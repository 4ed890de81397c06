"""The messages that a rollup removes: all earlier ones of its subject, or of the stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from natsbroker.interfaces.records import Record
from natsbroker.jetstream.model.streamconfig import StreamConfig
from natsbroker.jetstream.streams.msgheaders import MessageHeaders

Rollups: TypeAlias = list[tuple[bytes, int]]
"""
The rollups of messages: a subject, or an empty one for the whole stream, and the place of the
message that replaces what is before it.
"""


def mayRollUp(config: StreamConfig) -> bool:
    """Whether messages may ask for rollups."""
    return config.allow_rollup_hdrs and not config.deny_purge


def isReplacing(config: StreamConfig) -> bool:
    """Whether each message replaces the earlier one on its subject, whatever headers it has."""
    return config.max_msgs_per_subject == 1 and not config.discard_new_per_subject


def rollupsOf(
    config: StreamConfig, subject: bytes, headers: bytes, rollup: bytes, place: int
) -> Rollups:
    """
    The messages that a message replaces, as a rollup or as the end of a schedule.

    @param rollup: C{sub}, C{all}, or empty.
    @param place: the place of the message in its batch.
    """
    rollups: Rollups = []
    if rollup == b"all" or (rollup and not isReplacing(config)):
        rollups.append((subject if rollup == b"sub" else b"", place))
    if b"Nats-Schedule-Next: purge" in headers and not config.deny_purge:
        schedule = MessageHeaders(headers).get(b"Nats-Scheduler")
        if schedule and config.allow_rollup_hdrs:
            rollups.append((schedule, place))
    return rollups


def rollupsIn(config: StreamConfig, records: Sequence[Record]) -> Rollups:
    """The rollups of stored messages, with their sequences as places."""
    rollups: Rollups = []
    for record in records if mayRollUp(config) else ():
        rollup = MessageHeaders(record.headers).get(b"Nats-Rollup").lower()
        kind = rollup if rollup in (b"sub", b"all") else b""
        rollups += rollupsOf(config, record.subject, record.headers, kind, record.sequence)
    return rollups
