"""
Delete markers.
"""

from __future__ import annotations

import pytest
from twisted.internet.defer import fail, succeed

from natsbroker.interfaces.records import StoreFull
from natsbroker.jetstream.model.streamconfig import (
    RetentionPolicy,
    StorageType,
    SubjectTransformConfig,
)
from natsbroker.jetstream.streams.markers import isMarker, markerHeaders
from natsbroker.jetstream.streams.stream import Stream
from tests.jetstream.support import SECOND, Stage


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"Nats-Marker-Reason: MaxAge", True),
        (b"Nats-Marker-Reason:", False),
        (b"KV-Operation: PURGE", True),
        (b"KV-Operation: DEL", False),
        (b"A: b", False),
    ],
)
def test_isMarker(line: bytes, expected: bool) -> None:
    """A delete marker has a marker reason, or purges a key."""
    assert isMarker(b"NATS/1.0\r\n" + line + b"\r\n\r\n") is expected


@pytest.mark.parametrize(("ttl", "shown"), [(1, b"1s"), (90.9, b"1m30s"), (3600, b"1h0m0s")])
def test_markerHeaders(ttl: float, shown: bytes) -> None:
    """The time to live of a delete marker is written in whole seconds."""
    block = markerHeaders(round(ttl * SECOND))
    assert block == (
        b"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: "
        + shown
        + b"\r\nNats-Rollup: sub\r\n\r\n"
    )


def _stream(stage: Stage, **config: object) -> Stream:
    return stage.stream(
        **{
            "allow_msg_ttl": True,
            "allow_rollup_hdrs": True,
            "subject_delete_marker_ttl": 2 * SECOND,
            **config,
        }
    )


def _left(stage: Stage, stream: Stream) -> list[tuple[int, bytes, bool]]:
    matching = stage.wait(stream.read((), 1))
    return [
        (record.sequence, record.subject, isMarker(record.headers)) for record in matching.records
    ]


class TestEnds:
    """Markers that messages leave at their end."""

    @pytest.mark.parametrize("storage", list(StorageType))
    def test_maxAge(self, storage: StorageType) -> None:
        """
        With max_age, the last message of each subject leaves a marker. The marker expires without
        leaving another.
        """
        stage = Stage()
        stream = _stream(stage, storage=storage, max_age=SECOND)
        for subject in (b"s.a", b"s.b", b"s.a"):
            stage.publish(subject, b"x")
        stage.clock.advance(1)
        stage.settle()
        assert _left(stage, stream) == [(4, b"s.b", True), (5, b"s.a", True)]
        record = stage.wait(stream.get(4))
        assert record is not None
        assert (record.headers, record.payload) == (markerHeaders(2 * SECOND), b"")
        stage.clock.advance(1)
        stage.settle()
        assert (stream.messages, stream.last) == (0, 5)

    def test_timeToLive(self) -> None:
        """A message with a time to live leaves a marker if no other message has its subject."""
        stage = Stage()
        stream = _stream(stage)
        stage.publish(b"s.a", b"stays")
        stage.publish(b"s.a", b"x", Nats_TTL="2s")
        stage.publish(b"s.b", b"x", Nats_TTL="2s")
        stage.publish(b"s.c", b"x", Nats_TTL="2s", KV_Operation="PURGE")
        stage.clock.advance(2)
        stage.settle()
        assert _left(stage, stream) == [(1, b"s.a", False), (5, b"s.b", True)]
        stage.clock.advance(2)
        stage.settle()
        assert _left(stage, stream) == [(1, b"s.a", False)]

    def test_transform(self) -> None:
        """The subject of a marker is that of the stored message, not transformed again."""
        stage = Stage()
        stream = _stream(
            stage, subject_transform=SubjectTransformConfig(src="s.*", dest="t.{{wildcard(1)}}")
        )
        stage.publish(b"s.a", b"x", Nats_TTL="2s")
        stage.clock.advance(2)
        stage.settle()
        assert _left(stage, stream) == [(2, b"t.a", True)]

    def test_interest(self) -> None:
        """With interest retention, no marker is left if no consumer wants it."""
        stage = Stage()
        stream = _stream(stage, max_age=SECOND)
        stage.publish(b"s.a", b"x")
        stage.wait(
            stream.applyConfig(
                stream.config.__class__(
                    **{**vars(stream.config), "retention": RetentionPolicy.INTEREST}
                )
            )
        )
        stage.clock.advance(1)
        stage.settle()
        assert (stream.messages, stream.last) == (0, 1)

    def test_newerMessage(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A message that arrives while a marker is being made stays."""
        stage = Stage()
        stream = _stream(stage)
        stage.publish(b"s.a", b"old", Nats_TTL="2s")
        stale = [stage.wait(stream.log.subjects(b"s.a"))]
        stage.publish(b"s.a", b"new")
        asked = stream.log.subjects
        with monkeypatch.context() as patch:
            patch.setattr(
                stream.log,
                "subjects",
                lambda *wanted: succeed(stale.pop()) if stale else asked(*wanted),
            )
            stage.clock.advance(2)
            stage.settle()
        assert (2, b"s.a", b"new") in stage.stored(stream)

    def test_storeIsFull(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A message whose marker cannot be stored stays until it can."""
        stage = Stage()
        stream = _stream(stage, max_age=3 * SECOND)
        stage.publish(b"s.a", b"x", Nats_TTL="2s")
        stage.publish(b"s.b", b"x")
        with monkeypatch.context() as patch:
            patch.setattr(
                stream.log,
                "append",
                lambda batch: fail(StoreFull("full")) if batch else succeed(None),
            )
            for _ in range(4):
                stage.clock.advance(1)
                stage.settle()
        assert _left(stage, stream) == [(1, b"s.a", False), (2, b"s.b", False)]
        for _ in range(2):
            stage.clock.advance(1)
            stage.settle()
        assert sorted(entry[1:] for entry in _left(stage, stream)) == [
            (b"s.a", True),
            (b"s.b", True),
        ]
