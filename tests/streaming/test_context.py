"""Tests for L{natsbroker.streaming.context}."""

from __future__ import annotations

from natsbroker.streaming.context import StreamingContext
from natsbroker.streaming.names import Subjects
from natsbroker.streaming.settings import Streaming
from tests.streaming.support import Stage


def test_creationHasNoEffects() -> None:
    """A context subscribes to nothing, starts no timer and reads nothing from the store."""
    stage = Stage()
    before = len(stage.account), stage.clock.getDelayedCalls()
    service = stage.service
    context = StreamingContext(
        stage.bus,
        stage.clock,
        Streaming(),
        Subjects("test-cluster"),
        stage.store,
        service.run,
        stage.clock.seconds,
        lambda: 0,
        lambda: b"_INBOX.x",
    )
    assert (len(context.clients), len(context.channels)) == (0, 0)
    assert (len(stage.account), stage.clock.getDelayedCalls()) == before
