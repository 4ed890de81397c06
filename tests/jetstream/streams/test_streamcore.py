"""
The removal of many messages of a stream.
"""

from __future__ import annotations

import pytest

from tests.jetstream.support import Stage, filled


class TestPurge:
    """Removing many messages."""

    def test_all(self) -> None:
        """A purged stream keeps its last sequence."""
        stage = Stage()
        stream = stage.stream()
        filled(stage)
        assert stage.wait(stream.purge()) == 5
        assert (stream.first, stream.last, stream.messages) == (6, 5, 0)

    @pytest.mark.parametrize(
        ("pattern", "before", "keep", "left"),
        [
            (b"", 3, 0, [3, 4, 5]),
            (b"", 0, 2, [4, 5]),
            (b"", 0, 9, [1, 2, 3, 4, 5]),
            (b"s.a", 0, 0, [2, 4]),
            (b"s.a", 5, 0, [2, 4, 5]),
            (b"s.a", 50, 0, [2, 4]),
            (b"nothing", 50, 0, [1, 2, 3, 4, 5]),
            (b"s.a", 0, 1, [2, 4, 5]),
        ],
    )
    def test_some(self, pattern: bytes, before: int, keep: int, left: list[int]) -> None:
        """A purge can be limited by a subject, a sequence, and a number of messages to keep."""
        stage = Stage()
        stream = stage.stream()
        filled(stage)
        stage.wait(stream.purge(pattern, before, keep))
        assert [record[0] for record in stage.stored(stream)] == left

    def test_beyondTheEnd(self) -> None:
        """A purge up to a sequence beyond the end moves the stream to that sequence."""
        stage = Stage()
        stream = stage.stream()
        filled(stage)
        stage.wait(stream.purge(b"", 50))
        assert (stream.first, stream.last) == (50, 49)
        assert stage.publish(b"s.a") == b'{"stream":"S","seq":50}'


def test_purgedWhenNew() -> None:
    """The first sequence of a stream that never had messages becomes 1 by a purge."""
    stage = Stage()
    stream = stage.stream()
    assert (stream.first, stream.last) == (0, 0)
    stage.wait(stream.purge())
    assert (stream.first, stream.last) == (1, 0)
