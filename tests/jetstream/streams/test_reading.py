"""
Reading a stream.
"""

from __future__ import annotations

import pytest

from tests.jetstream.support import Stage, filled


def test_read() -> None:
    """Messages are found by sequence, by pattern, and by place."""
    stage = Stage()
    stream = stage.stream()
    filled(stage)
    for clears in (False, True):
        found = stage.wait(stream.read((b"s.b",), 3))
        assert [each.sequence for each in found.records] == [4]
        assert found.next == 6
        if not clears:
            stream.change(stream.log.append([]))
    assert stage.wait(stream.get(3)) is not None
    assert stage.wait(stream.get(9)) is None
    last = stage.wait(stream.lastMatching(b"s.b"))
    assert last is not None and last.sequence == 4
    last = stage.wait(stream.lastMatching(b"s.*"))
    assert last is not None and last.sequence == 5
    following = stage.wait(stream.nextMatching(b"s.b", 3))
    assert following is not None and following.sequence == 4
    assert stage.wait(stream.lastPerSubject((b"s.*",))) == [4, 5]
    assert stage.wait(stream.countSubjects()) == 2


@pytest.mark.parametrize(
    ("filters", "sequence", "count"),
    [
        ((), 1, 4),
        ((), 3, 3),
        ((), 4, 2),
        ((), 6, 0),
        ((b"s.a",), 1, 3),
        ((b"s.a",), 2, 2),
        ((b"s.b",), 3, 1),
        ((b"s.a", b"s.b"), 2, 3),
    ],
)
def test_count(filters: tuple[bytes, ...], sequence: int, count: int) -> None:
    """Messages behind a sequence are counted, with gaps."""
    stage = Stage()
    stream = stage.stream()
    filled(stage)
    assert stage.wait(stream.remove([2])) == 1
    assert stage.wait(stream.count(filters, sequence)) == count


def test_gaps() -> None:
    """Gaps are the missing sequences between the first and the last message."""
    stage = Stage()
    stream = stage.stream()
    filled(stage)
    stage.wait(stream.remove([1, 3, 4]))
    assert stream.first == 2
    assert stage.wait(stream.deleted()) == [3, 4]
