"""
What messages replace: those before them of their subject, or all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from twisted.internet.defer import Deferred, FirstError, gatherResults, inlineCallbacks

from natsbroker.interfaces.records import Record, SubjectTallies
from natsbroker.jetstream.contracts import PublishedStream
from natsbroker.jetstream.model.streamconfig import StreamConfig
from natsbroker.jetstream.streams.msgheaders import MessageHeaders

if TYPE_CHECKING:
    from collections.abc import Generator

Rollups: TypeAlias = list[tuple[bytes, int]]
"""Subjects, empty for all, and the places of the messages that replace what is before them."""

TOGETHER = 16
"""The subjects that a log is asked about in one slice."""

ASKED = 2000
"""The cost of each: the question goes to a thread, and the answer comes back."""


def rollupsOf(
    config: StreamConfig, subject: bytes, headers: bytes, rollup: bytes, place: int
) -> Rollups:
    """
    What a message replaces: by a rollup, and as the end of a schedule.

    @param rollup: C{sub}, C{all}, or empty.
    @param place: the message's in its batch.
    """
    found = [(subject if rollup == b"sub" else b"", place)] if rollup else []
    if b"Nats-Schedule-Next: purge" in headers and not config.deny_purge:
        schedule = MessageHeaders(headers).get(b"Nats-Scheduler")
        if schedule and config.allow_rollup_hdrs:
            found.append((schedule, place))
    return found


def rollupsIn(config: StreamConfig, records: Sequence[Record]) -> Rollups:
    """What stored messages replace, with their sequences as places."""
    found: Rollups = []
    for record in records if config.allow_rollup_hdrs and not config.deny_purge else ():
        rollup = MessageHeaders(record.headers).get(b"Nats-Rollup").lower()
        kind = rollup if rollup in (b"sub", b"all") else b""
        found += rollupsOf(config, record.subject, record.headers, kind, record.sequence)
    return found


@inlineCallbacks
def rollUp(
    stream: PublishedStream, first: int, rollups: Sequence[tuple[bytes, int]]
) -> Generator[Deferred[Any], Any, None]:
    """
    Remove what messages replace. Most replace nothing, or one message: these are removed together.

    @param first: what the places of the messages are counted from.
    """
    # The last message of a subject replaces what the ones before it replace.
    stops = {subject: first + place for subject, place in rollups}
    if b"" in stops:
        yield stream.purge(b"", stops.pop(b""))
    subjects = list(stops)
    single: list[int] = []
    for place in range(0, len(subjects), TOGETHER):
        asked = subjects[place : place + TOGETHER]
        yield stream.account.turns.take(ASKED * len(asked))
        asking = [stream.log.subjects(each) for each in asked]
        try:
            found: list[SubjectTallies] = yield gatherResults(asking, consumeErrors=True)
        except FirstError as error:
            error.subFailure.raiseException()
        for subject, tallies in zip(asked, found, strict=True):
            tally = tallies.get(subject)
            if tally is None or tally.first >= stops[subject]:
                continue
            if tally.count <= 2 and tally.last >= stops[subject]:
                single.append(tally.first)
            else:
                yield stream.purge(subject, stops[subject])
    yield stream.remove(single)
