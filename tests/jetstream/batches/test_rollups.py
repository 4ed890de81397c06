"""Tests for L{natsbroker.jetstream.batches.rollups}."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, fail

from natsbroker.interfaces.records import StoreFailed
from tests.jetstream.support import Stage
from tests.support import Names, onEach, using

KINDS = ["", "sub", "all"]


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(KINDS)), max_size=6), max_size=6
    )
)
def test_replaced(batches: list[list[tuple[str, str]]]) -> None:
    """
    A rollup removes the earlier messages of its subject or of the stream, also within its batch,
    and keeps later messages.
    """
    stage = Stage()
    stream = stage.stream(allow_rollup_hdrs=True)
    expected: list[tuple[int, str]] = []
    sequence = 0
    for batch in batches:
        for letter, kind in batch:
            sequence += 1
            headers = {"Nats_Rollup": kind} if kind else {}
            stage.send(f"s.{letter}".encode(), b"", b"", **headers)
            kept = [pair for pair in expected if kind == "sub" and pair[1] != letter]
            expected = [*(kept if kind else expected), (sequence, letter)]
        stage.settle()
    stored = [(number, subject.decode()[2:]) for number, subject, _ in stage.stored(stream)]
    assert stored == expected


def test_work() -> None:
    """Rollups of one subject delete at most one message each, and never search the stream."""
    stage = Stage()
    stream: Any = stage.stream(allow_rollup_hdrs=True)
    purges: list[bytes] = []
    removals: list[int] = []
    remove = stream.remove

    def removed(sequences: list[int], *more: Any) -> Deferred[int]:
        removals.append(len(sequences))
        result: Deferred[int] = remove(sequences, *more)
        return result

    stream.remove = removed
    stream.purge = lambda pattern, *more: purges.append(pattern)
    for _ in range(2):
        for number in range(300):
            stage.send(b"s.%d" % number, Nats_Rollup="sub")
        stage.settle()
    assert (purges, removals) == ([], [0, 300])
    assert stream.messages == 300


@onEach
def test_replacing(names: Names) -> None:
    """With max_msgs_per_subject 1, a rollup of a subject deletes nothing itself."""
    with using(names):
        stage = Stage()
        stream: Any = stage.stream(allow_rollup_hdrs=True, max_msgs_per_subject=1)
        stream.remove = stream.log.delete = None  # They are not asked.
        for kind in ("sub", "SUB"):
            for subject in (b"s.a", b"s.b"):
                stage.send(subject, Nats_Rollup=kind)
                stage.settle()
        assert [number for number, _, _ in stage.stored(stream)] == [3, 4]


def test_storeFails() -> None:
    """If the log cannot be asked, the publisher gets no acknowledgement."""
    stage = Stage()
    stream: Any = stage.stream(allow_rollup_hdrs=True)
    stream.log.subjects = lambda *more: fail(StoreFailed("no disk"))
    with pytest.raises(StoreFailed):
        stage.wait(stream.rollUp(1, [(b"s.a", 0), (b"s.b", 1)]))
    inbox = stage.inbox(b"_INBOX.a")
    stage.send(b"s.a", b"", b"_INBOX.a", Nats_Rollup="sub")
    stage.settle()
    assert inbox.got == []
