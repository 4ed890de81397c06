"""
The last messages of a channel.
"""

from __future__ import annotations

from natsbroker.streaming.runs import StoredMessage
from natsbroker.streaming.tail import Tail


def stored(sequence: int, size: int = 1) -> StoredMessage:
    """A message."""
    return StoredMessage(sequence, 5, size, b"encoded")


class TestTail:
    """L{Tail}."""

    def test_get(self) -> None:
        """What was added is there, and nothing else."""
        tail = Tail()
        one = stored(1)
        tail.add([one])
        assert tail.get(1) is one
        assert tail.get(2) is None

    def test_following(self) -> None:
        """Messages come in order, up to the first one that is not here."""
        tail = Tail()
        tail.add(map(stored, (1, 2, 4)))
        assert [each.sequence for each in tail.following(1, 9)] == [1, 2]
        assert [each.sequence for each in tail.following(1, 1)] == [1]
        assert tail.following(3, 9) == []

    def test_trimMessages(self) -> None:
        """The oldest go when there are too many."""
        tail = Tail(mostMessages=2)
        for sequence in range(1, 5):
            tail.add([stored(sequence)])
        assert len(tail) == 4
        tail.trim()
        assert [tail.get(each) is not None for each in range(1, 5)] == [False, False, True, True]

    def test_trimBytes(self) -> None:
        """They go as well when they are too large."""
        tail = Tail(mostBytes=10)
        for sequence in (1, 2, 3):
            tail.add([stored(sequence, 5)])
        tail.trim()
        assert (len(tail), tail.get(1)) == (2, None)
        tail.add([stored(4, 11)])
        tail.trim()
        assert len(tail) == 0
