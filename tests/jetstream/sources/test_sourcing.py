"""Sources: messages of other streams, with a header that names their origin."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.logger import capturedLogs, formatEvent

from natsbroker.jetstream.model.sourceconsumers import shortHash
from natsbroker.jetstream.sources.sourcing import withSource
from natsbroker.jetstream.streams.stream import Stream
from natsbroker.wire.timestamps import formatTime
from tests.jetstream.api.support import ApiStage
from tests.jetstream.support import filled


def sourced(stage: ApiStage, *sources: Any, **config: Any) -> Stream:
    """Create the stream C{T} with sources, and let it catch up."""
    answer = stage.ask("STREAM.CREATE.T", {"name": "T", "sources": list(sources), **config})
    assert "error" not in answer
    stage.clock.advance(0.1)
    stage.settle()
    return stage.jetstream.streams["T"]


def headersOf(stage: ApiStage, stream: Stream) -> list[bytes]:
    return [record.headers for record in stage.wait(stream.read((), 1)).records]


def identityOf(stage: ApiStage, name: str) -> bytes:
    return shortHash(formatTime(stage.jetstream.streams[name].created)).encode()


class TestStored:
    """The messages that a source stores."""

    def test_header(self) -> None:
        """Messages get new sequences and times, and C{Nats-Stream-Source} as the last header."""
        stage = ApiStage()
        stage.make()
        stage.publish(b"s.a", b"1")
        stage.publish(b"s.b", b"2", A="1")
        stage.clock.advance(5)
        target = sourced(stage, {"name": "S"})
        assert stage.stored(target) == [(1, b"s.a", b"1"), (2, b"s.b", b"2")]
        identity = identityOf(stage, "S")
        assert headersOf(stage, target) == [
            b"NATS/1.0\r\nNats-Stream-Source: S 1 > > s.a %b\r\n\r\n" % identity,
            b"NATS/1.0\r\nA: 1\r\nNats-Stream-Source: S 2 > > s.b %b\r\n\r\n" % identity,
        ]
        record = stage.wait(target.get(1))
        original = stage.wait(stage.jetstream.streams["S"].get(1))
        assert record is not None
        assert original is not None
        assert record.timestamp > original.timestamp

    def test_several(self) -> None:
        """A stream has its own subjects and several sources, also of one origin."""
        stage = ApiStage()
        stage.make()
        filled(stage)
        transform = {"src": "s.b", "dest": "z.b"}
        target = sourced(
            stage,
            {"name": "S", "filter_subject": "s.a", "opt_start_seq": 3},
            {"name": "S", "subject_transforms": [transform]},
            subjects=["t"],
        )
        stage.publish(b"t")
        subjects = [record[1] for record in stage.stored(target)]
        assert sorted(subjects) == [b"s.a", b"s.a", b"t", b"z.b", b"z.b"]
        shown = stage.ask("STREAM.INFO.T")["sources"]
        assert [source["seq"] for source in shown] == [5, 4]
        assert [source["lag"] for source in shown] == [0, 0]

    def test_chained(self) -> None:
        """A source of a stream that has sources itself names only the nearest origin."""
        stage = ApiStage()
        stage.make()
        stage.publish(b"s.a")
        sourced(stage, {"name": "S"})
        stage.ask("STREAM.CREATE.U", {"name": "U", "sources": [{"name": "T"}]})
        stage.settle()
        identity = identityOf(stage, "T")
        assert headersOf(stage, stage.jetstream.streams["U"]) == [
            b"NATS/1.0\r\nNats-Stream-Source: T 1 > > s.a %b\r\n\r\n" % identity
        ]


class TestResumption:
    """Going on after an end."""

    def test_newestHeader(self) -> None:
        """A source that is removed and added again continues after its newest message."""
        stage = ApiStage()
        stage.make()
        filled(stage)
        target = sourced(stage, {"name": "S", "filter_subject": "s.a"}, subjects=["t"])
        stage.ask("STREAM.UPDATE.T", {"name": "T", "subjects": ["t"]})
        stage.publish(b"s.a", b"new")
        for _ in range(3):
            stage.publish(b"t")
        stage.settle()
        assert target.last == 6
        source = {"name": "S", "filter_subject": "s.a"}
        stage.ask("STREAM.UPDATE.T", {"name": "T", "subjects": ["t"], "sources": [source]})
        stage.settle()
        assert stage.stored(target)[6:] == [(7, b"s.a", b"new")]

    def test_undisturbed(self) -> None:
        """An update does not disturb the sources that stay in the configuration."""
        stage = ApiStage()
        stage.make()
        stage.publish(b"s.a")
        target = sourced(stage, {"name": "S"})
        before = list(stage.jetstream.streams["S"].consumers)
        stage.ask("STREAM.UPDATE.T", {"name": "T", "sources": [{"name": "S"}], "max_msgs": 5})
        stage.publish(b"s.a")
        stage.settle()
        assert list(stage.jetstream.streams["S"].consumers) == before
        assert target.last == 2

    def test_createdAgain(self) -> None:
        """An origin that is created again is read from its first message."""
        stage = ApiStage()
        stage.make()
        filled(stage)
        target = sourced(stage, {"name": "S"})
        before = target.last
        stage.ask("STREAM.DELETE.S")
        stage.clock.advance(1)
        stage.make()
        stage.publish(b"s.a", b"new")
        settleFor(stage, 30)
        assert stage.stored(target)[before:] == [(before + 1, b"s.a", b"new")]


def settleFor(stage: ApiStage, seconds: int) -> None:
    for _ in range(2 * seconds):
        stage.clock.advance(0.5)
        stage.settle()


class TestRefused:
    """Messages that the stream refuses."""

    @pytest.mark.parametrize(
        "limits",
        [
            {"max_msgs": 2},
            {"max_msgs_per_subject": 1, "discard_new_per_subject": True},
        ],
    )
    def test_full(self, limits: dict[str, Any]) -> None:
        """When a full stream has room again, its source brings the refused messages in order."""
        stage = ApiStage()
        stage.make()
        filled(stage)
        origin = [record[1:] for record in stage.stored(stage.jetstream.streams["S"])]
        target = sourced(stage, {"name": "S"}, discard="new", **limits)
        entries: list[Any] = []
        for _ in range(len(origin)):
            entries += [record[1:] for record in stage.stored(target)]
            stage.ask("STREAM.PURGE.T")
            settleFor(stage, 3)
        assert entries == origin
        assert stage.ask("STREAM.INFO.T")["sources"][0]["lag"] == 0

    def test_waits(self) -> None:
        """A source repeats a message that the stream refuses, and logs the reason once."""
        stage = ApiStage()
        stage.make()
        bodies = [b"1", b"2" * 100, b"3"]
        for body in bodies:
            stage.publish(b"s.a", body)
        with capturedLogs() as events:
            target = sourced(stage, {"name": "S"}, max_msg_size=90)
            settleFor(stage, 10)
        shown = stage.ask("STREAM.INFO.T")["sources"][0]
        assert (target.messages, shown["seq"], shown["lag"]) == (1, 1, 2)
        assert [formatEvent(event) for event in events] == [
            'Error processing inbound source "S" for A > T: message size exceeds maximum allowed'
        ]
        stage.ask("STREAM.UPDATE.T", {"name": "T", "sources": [{"name": "S"}]})
        settleFor(stage, 3)
        assert [record[2] for record in stage.stored(target)] == bodies

    def test_workQueue(self) -> None:
        """
        Messages of a work queue leave it when the target has stored them. The source's consumer
        ends with the target.
        """
        stage = ApiStage()
        queue = stage.make(retention="workqueue")
        origin = stage.jetstream.streams["S"]
        assert "error" not in queue
        for number in range(6):
            stage.publish(b"s.a", b"%d" % number)
        target = sourced(stage, {"name": "S"}, max_msgs=3, discard="new")
        settleFor(stage, 10)
        assert (target.messages, len(origin.consumers)) == (3, 1)
        assert origin.messages >= 3
        stage.ask("STREAM.PURGE.T")
        settleFor(stage, 5)
        assert [record[2] for record in stage.stored(target)] == [b"3", b"4", b"5"]
        assert origin.messages == 0
        stage.ask("STREAM.DELETE.T")
        stage.settle()
        assert len(origin.consumers) == 0


class TestHeader:
    """The header."""

    def test_forOrigin(self) -> None:
        """
        Headers with expectations about the origin, and an earlier C{Nats-Stream-Source}, are
        removed.
        """
        block = b"NATS/1.0\r\nNats-Expected-Stream: S\r\n%bNats-Stream-Source: x\r\n\r\n"
        expected = b"NATS/1.0\r\n%bNats-Stream-Source: v\r\n\r\n"
        assert withSource(block % b"", b"v") == expected % b""
        kept = b"A: 1\r\nnats-expected-stream: S\r\n"
        assert withSource(block % kept, b"v") == expected % kept


def test_originIsCreatedAgain() -> None:
    """An origin that is deleted and created again is read from its first message."""
    stage = ApiStage()
    stage.make()
    target = sourced(stage, {"name": "S"})
    for body in (b"1", b"2"):
        stage.publish(b"s.a", body)
    identity = headersOf(stage, target)[-1].split(b" ")[-1].strip()
    assert len(identity) == 8
    stage.ask("STREAM.DELETE.S")
    stage.make()
    stage.publish(b"s.a", b"3")
    for _ in range(30):
        stage.clock.advance(1)
        stage.settle()
    assert [record[2] for record in stage.stored(target)] == [b"1", b"2", b"3"]
