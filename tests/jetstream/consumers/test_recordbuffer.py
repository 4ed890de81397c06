"""
The records that a consumer has read, in parts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from natsbroker.interfaces.records import Record
from natsbroker.jetstream.consumers.recordbuffer import DROPPED, RecordBuffer, sequencesOf
from tests.storage.encodings import encodedRecords
from tests.support import COMPILED

#: How records come: from the lane, or decoded.
KINDS: list[Callable[[list[Record]], Sequence[Record]]] = [list]
if COMPILED is not None:
    KINDS.append(encodedRecords)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("extend"), st.integers(0, 5), st.sampled_from(KINDS)),
            st.tuples(st.just("drop"), st.integers(0, 5), st.none()),
            st.tuples(st.just("keep"), st.integers(1, 3), st.none()),
            st.tuples(st.just("remove"), st.integers(1, 40), st.none()),
            st.tuples(st.just("clear"), st.just(0), st.none()),
        ),
        max_size=20,
    )
)
def test_model(steps: list[tuple[str, int, Callable[[list[Record]], Sequence[Record]]]]) -> None:
    """
    A record buffer behaves like a list from whose beginning records are taken, however the records
    were added.
    """
    buffer, model, sequence = RecordBuffer(), list[Record](), 0
    for action, number, kind in steps:
        if action == "extend":
            added = [Record(sequence + index, 1, b"s", b"", b"p") for index in range(1, number + 1)]
            sequence += number
            buffer.extend(kind(added))
            model += added
        elif action == "drop":
            count = min(number, len(model))
            buffer.drop(count)
            del model[:count]
        elif action == "keep":
            buffer.keep(lambda record, step=number: record.sequence % step == 0)  # type: ignore[misc]
            model = [record for record in model if record.sequence % number == 0]
        elif action == "remove":
            rest = [record for record in model if record.sequence != number]
            assert buffer.remove(number) is (len(rest) < len(model))
            model = rest
        else:
            buffer.clear()
            model.clear()
        assert (len(buffer), list(buffer)) == (len(model), model)
        some = buffer.upcoming(3)
        assert list(some) == model[: len(some)] and bool(some) == bool(model)
        assert sequencesOf(some) == [record.sequence for record in some]
        if model:
            assert buffer.first == model[0]
            middle = model[len(model) // 2].sequence
            assert buffer.countBefore(middle) == len(model) // 2


def test_parts() -> None:
    """
    A buffer knows when it is between two added parts. Lists that follow each other are one part.
    """
    buffer = RecordBuffer()
    records = [Record(sequence, 1, b"s", b"", b"") for sequence in range(1, 5)]
    given = records[:2]
    buffer.extend(given)
    buffer.extend(records[2:])
    assert given == records[:2]
    assert list(buffer.upcoming(9)) == records
    states = []
    for count in (0, 3, 1):
        buffer.drop(count)
        states.append((buffer.isBetweenParts, len(buffer)))
    assert states == [(True, 4), (False, 1), (True, 0)]


def test_deliveredRecordsAreFreed() -> None:
    """A buffer that is never empty frees the records that were taken."""
    buffer = RecordBuffer()
    records = [Record(sequence, 1, b"s", b"", b"") for sequence in range(3 * DROPPED)]
    oldest = Record(0, 1, b"s", b"", b"")
    references = sys.getrefcount(oldest)
    buffer.extend([oldest])
    buffer.extend(records[:1])
    for record in records:
        buffer.extend([record])
        buffer.drop(1)
    left = sys.getrefcount(oldest)
    assert (len(buffer), left) == (2, references)
