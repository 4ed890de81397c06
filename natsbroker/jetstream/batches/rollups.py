"""
What messages replace: those before them of their subject, or all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, FirstError, gatherResults, inlineCallbacks

from natsbroker.interfaces.records import SubjectTallies
from natsbroker.jetstream.contracts import PublishedStream

if TYPE_CHECKING:
    from collections.abc import Generator

TOGETHER = 16
"""The subjects that a log is asked about in one slice."""

ASKED = 2000
"""The cost of each: the question goes to a thread, and the answer comes back."""


@inlineCallbacks
def rollUp(
    stream: PublishedStream, first: int, rollups: Sequence[tuple[bytes, int]]
) -> Generator[Deferred[Any], Any, None]:
    """
    Remove what messages replace. Most replace nothing, or one message: these are removed together.

    @param rollups: subjects, empty for all, and the places of the messages behind C{first}.
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
