"""
Batches under way.
"""

from __future__ import annotations

import pytest

from natsbroker.config.model import JetStream
from natsbroker.jetstream.batches.budget import IDLE, OpenLimit
from natsbroker.jetstream.batches.openbatches import OpenBatch, OpenBatches
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.streams.publishanswers import Arrived
from tests.jetstream.support import Stage


class _Batches(OpenBatches[OpenBatch]):
    """Batches that note why they end."""

    def __init__(self, stage: Stage) -> None:
        self.limit = OpenLimit(1, 9, JetStream(max_batch_inflight_per_stream=2))
        super().__init__(stage.stream(), self.limit)
        self.reasons: list[str] = []

    def take(self, batchId: bytes, headers: bytes = b"") -> bytes:
        batch = self._batches.get(batchId) or self._begin(batchId, OpenBatch())
        self._restartTimer(batchId, batch)
        return self._withoutLevel(batchId, Arrived(b"s.a", b"", headers, b"", False)).headers

    def _abandon(self, batchId: bytes, reason: str) -> None:
        super()._abandon(batchId, reason)
        self.reasons.append(reason)


def test_idle() -> None:
    """A batch is abandoned when it gets no message for its idle time."""
    stage = Stage()
    batches = _Batches(stage)
    batches.take(b"a")
    batches.take(b"b")
    stage.clock.advance(IDLE - 1)
    batches.take(b"b")
    stage.clock.advance(1)
    assert len(batches) == 1
    stage.clock.advance(IDLE - 1)
    assert batches.reasons == ["timeout", "timeout"]
    assert len(batches) == 0


def test_level() -> None:
    """The header for the API level is removed. An unknown level ends the batch."""
    batches = _Batches(Stage())
    block = b"NATS/1.0\r\nA: b\r\nNats-Required-Api-Level: %b\r\n\r\n"
    assert batches.take(b"a", block % b"1") == b"NATS/1.0\r\nA: b\r\n\r\n"
    with pytest.raises(JetStreamError):
        batches.take(b"a", block % b"99")
    assert batches.reasons == ["unsupported"]


def test_limit() -> None:
    """The batches of all streams are counted together."""
    stage = Stage()
    batches = _Batches(stage)
    batches.take(b"a")
    assert (batches.limit.open, batches.isFull) == (1, False)
    batches.take(b"b")
    assert (batches.limit.open, batches.isFull) == (2, True)
    batches.close()
    assert (batches.limit.open, batches.isFull) == (0, False)


def test_close() -> None:
    """A stream that closes leaves no timers."""
    stage = Stage()
    batches = _Batches(stage)
    batches.take(b"a")
    batches.close()
    stage.clock.advance(IDLE)
    assert batches.reasons == []
