"""
Tests for L{natsbroker.accounts.batches}.
"""

from __future__ import annotations

from typing import Any

from natsbroker import hot
from natsbroker.accounts.batches import Batcher
from natsbroker.wire.values import Message
from tests.support import BatchRecorder


def test_oneCall() -> None:
    """The messages of a turn come in one call when it ends, in order."""
    recorder = BatchRecorder()
    batch = hot.FlushBatch(lambda call: None)
    batcher = Batcher(recorder, batch)
    batch.enter()
    for body in (b"a", b"b"):
        batcher.deliver(Message(b"x", body), b"1")
    assert recorder.batches == []
    batch.leave()
    assert recorder.batches == [[b"a", b"b"]]


def test_endedSubscription() -> None:
    """When a subscription ends, earlier messages are delivered first."""
    recorder = BatchRecorder()
    later: list[Any] = []
    batcher = Batcher(recorder, hot.FlushBatch(later.append))
    batcher.deliver(Message(b"x", b"a"), b"1")
    batcher.subscriptionEnded(b"1")
    assert (recorder.batches, recorder.ended) == ([[b"a"]], [b"1"])
    later[0]()
    assert recorder.batches == [[b"a"]]
