"""
A stream with its parts.
"""

from __future__ import annotations

from natsbroker.jetstream.streams.stream import consumerKeys
from tests.jetstream.support import Stage, filled


def test_lastOfSubject() -> None:
    """A message that the limit per subject has removed is not read from memory either."""
    stage = Stage()
    stream = stage.stream(max_msgs_per_subject=1)
    stream.watchers.append(lambda records: None)
    filled(stage)
    assert [record[0] for record in stage.stored(stream)] == [4, 5]


def test_names() -> None:
    """Streams do not share keys of consumers; names can be long."""
    assert consumerKeys("S", "C") != consumerKeys("T", "C")
    assert all(len(key) < 300 for key in consumerKeys("s" * 300, "c" * 300))
