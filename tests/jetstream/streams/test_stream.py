"""
Streams: reading, removing, retention by consumers.
"""

from __future__ import annotations

import pytest

from natsbroker.jetstream.streams.stream import consumerKeys, logName
from tests.jetstream.support import Stage, filled


class TestPurge:
    """Removing many messages."""

    def test_all(self) -> None:
        """An empty stream remembers its last sequence."""
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
        """A purge can be limited to a subject, to old messages, and to all but some."""
        stage = Stage()
        stream = stage.stream()
        filled(stage)
        stage.wait(stream.purge(pattern, before, keep))
        assert [each[0] for each in stage.stored(stream)] == left

    def test_beyondTheEnd(self) -> None:
        """A purge up to a later sequence moves the stream there."""
        stage = Stage()
        stream = stage.stream()
        filled(stage)
        stage.wait(stream.purge(b"", 50))
        assert (stream.first, stream.last) == (50, 49)
        assert stage.publish(b"s.a") == b'{"stream":"S","seq":50}'


def test_purgedWhenNew() -> None:
    """A purge of a stream that never had messages shows in its first sequence."""
    stage = Stage()
    stream = stage.stream()
    assert (stream.first, stream.last) == (0, 0)
    stage.wait(stream.purge())
    assert (stream.first, stream.last) == (1, 0)


def test_lastOfSubject() -> None:
    """What the limit of messages per subject has removed is not read from memory either."""
    stage = Stage()
    stream = stage.stream(max_msgs_per_subject=1)
    stream.watchers.append(lambda records: None)
    filled(stage)
    assert [each[0] for each in stage.stored(stream)] == [4, 5]


def test_names() -> None:
    """Accounts do not share logs, whatever their names; names can be long."""
    assert logName("A/B", "S") != logName("A", "B/S")
    assert len(logName("a" * 300, "s" * 300)) <= 400
    assert consumerKeys("S", "C") != consumerKeys("T", "C")
    assert all(len(each) < 300 for each in consumerKeys("s" * 300, "c" * 300))
