"""
The mirror and the sources of a stream.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from natsbroker.jetstream.model.gojson import encode
from natsbroker.jetstream.model.streamconfig import External, StreamSource
from natsbroker.jetstream.sources.intake import AT_ONCE, DELAY, ENDED, StreamIntake
from natsbroker.steps import PIECE, finish
from tests.jetstream.api.support import ApiStage
from tests.jetstream.sources.test_origins import Origin
from tests.jetstream.support import SECOND, Stage


def test_external() -> None:
    """
    An external origin is requested under its API prefix, and delivers under its delivery prefix.
    """
    stage = Stage()
    origin = Origin(stage, b"hub.api")
    external = External("hub.api", "hub.deliver")
    stream = stage.stream(name="M", subjects=(), mirror=StreamSource("S", external=external))
    stage.settle()
    origin.answer()
    assert origin.target.startswith(b"hub.deliver.M.")
    origin.deliver(1, 1)
    assert stage.stored(stream) == [(1, b"o", b"x")]
    shown = stream.intake.mirrorInfo()
    assert shown is not None
    assert shown["external"] == {"api": "hub.api", "deliver": "hub.deliver"}


def test_none() -> None:
    """A stream without mirror and sources shows none."""
    intake = Stage().stream().intake
    assert (intake.mirrorInfo(), finish(intake.sourceInfos())) == (None, [])


def test_close() -> None:
    """A closed stream sends no requests."""
    stage = Stage()
    stream = stage.stream(name="M", subjects=(), sources=(StreamSource("S"), StreamSource("R")))
    assert [info["name"] for info in finish(stream.intake.sourceInfos())] == ["S", "R"]
    stream.close()
    origin = Origin(stage)
    stage.clock.pump([1.0] * 15)
    assert not origin.requests.got


def many(count: int, noun: str = "o") -> tuple[StreamSource, ...]:
    return tuple(StreamSource("S", filter_subject=f"{noun}.{number}") for number in range(count))


def test_changedSources() -> None:
    """An update keeps reading the sources that stay, and shows all in the new order."""
    stage = Stage()
    origin = Origin(stage)
    stream = stage.stream(name="M", subjects=(), sources=many(20))
    stage.clock.pump([DELAY] * 20)
    before = len(origin.requests.got)
    sources = (*many(1, "p"), *reversed(many(20)[1:]))
    stage.wait(stream.applyConfig(replace(stream.config, sources=sources)))
    stage.clock.pump([DELAY] * 20)
    names = [info["filter_subject"] for info in finish(stream.intake.sourceInfos())]
    assert names == [source.filter_subject for source in sources]
    assert bytes(finish(stream.intake.showing())) == encode(finish(stream.intake.sourceInfos()))
    assert len(origin.requests.got) == before + 1


def test_sourcesInSteps() -> None:
    """Thousands of sources start in steps. Closing the stream in between stops the rest."""
    stage = Stage()
    origin = Origin(stage)
    stream = stage.stream(name="M", subjects=())
    config = replace(stream.config, sources=many(3 * PIECE))
    applying = stream.intake.applying(config)
    for _ in range(10):
        next(applying)
    assert 0 < len(finish(stream.intake.sourceInfos())) < 3 * PIECE
    stream.close()
    assert sum(1 for _ in applying) == 0
    stage.clock.pump([1.0] * 15)
    assert not origin.requests.got and not finish(stream.intake.sourceInfos())


def test_endedInSteps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deleted stream stops reading its sources at once, and deletes their consumers in steps."""
    stage = Stage()
    origin = Origin(stage)
    stream = stage.stream(name="M", subjects=(), sources=many(5 * ENDED))
    stage.clock.pump([DELAY] * 100)
    assert len(origin.requests.got) == 5 * ENDED
    deleted = stage.inbox(b"$JS.API.CONSUMER.DELETE.S.*")
    steps: list[int] = []
    turns: Any = stage.jetstream.turns

    def worked() -> int:
        steps.append(len(deleted.got))
        return len(steps)

    turns.worked = worked
    stream.isDeleted = True
    stream.close()
    assert 0 < len(deleted.got) < 5 * ENDED
    asked = len(origin.requests.got)
    stage.settle()
    assert len(deleted.got) == 5 * ENDED and stream.intake.ended.called
    assert len(steps) >= 5
    stage.clock.pump([1.0] * 15)
    assert len(origin.requests.got) == asked


def test_manySources() -> None:
    """Of hundreds of sources, only some are requested at a time."""
    stage = Stage()
    origin = Origin(stage)
    sources = tuple(StreamSource("S", filter_subject=f"o.{number}") for number in range(200))
    stage.stream(name="M", subjects=(), sources=sources)
    stage.clock.pump([0.0, 0.0])
    assert len(origin.requests.got) == AT_ONCE
    stage.clock.pump([DELAY] * 200)
    assert len(origin.requests.got) == 200


class TestNamedConsumer:
    """A source or a mirror that reads through a durable consumer of the origin."""

    READERS = (("sources", lambda source: [source]), ("mirror", lambda source: source))

    @pytest.fixture(params=READERS, ids=lambda reader: reader[0])
    def reading(self, request: pytest.FixtureRequest) -> dict[str, Any]:
        """The configuration of the stream C{T} that reads C{S}."""
        key, many = request.param
        consumer = {"name": "C", "deliver_subject": "deliver.c"}
        return {"name": "T", key: many({"name": "S", "consumer": consumer})}

    def origin(self, stage: ApiStage, **fields: Any) -> None:
        """Create C{S} with interest retention, a flow control consumer, and three messages."""
        stage.make(retention="interest")
        config = {
            "durable_name": "C",
            "ack_policy": "flow_control",
            "deliver_subject": "deliver.c",
            "flow_control": True,
            "idle_heartbeat": SECOND,
            "max_ack_pending": 100,
            **fields,
        }
        body = {"stream_name": "S", "config": config}
        assert "error" not in stage.ask("CONSUMER.DURABLE.CREATE.S.C", body)
        for byte in b"abc":
            stage.publish(b"s.x", bytes((byte,)))

    def wait(self, stage: ApiStage, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            stage.clock.advance(0.1)
            stage.settle()

    def payloads(self, stage: ApiStage) -> list[bytes]:
        stream = stage.jetstream.streams["T"]
        return [record[2] for record in stage.stored(stream)]

    def test_read(self, reading: dict[str, Any]) -> None:
        """Stored messages are acknowledged at the next heartbeat, and then leave the origin."""
        stage = ApiStage()
        self.origin(stage)
        assert "error" not in stage.ask("STREAM.CREATE.T", reading)
        self.wait(stage, 0.5)
        assert self.payloads(stage) == [b"a", b"b", b"c"]
        assert stage.jetstream.streams["S"].messages == 3
        self.wait(stage, 1.5)
        assert stage.jetstream.streams["S"].messages == 0
        stage.publish(b"s.x", b"d")
        self.wait(stage, 2)
        assert self.payloads(stage) == [b"a", b"b", b"c", b"d"]
        assert stage.jetstream.streams["S"].messages == 0

    def test_reset(self, reading: dict[str, Any]) -> None:
        """Messages that are delivered again after a reset of the consumer are not stored again."""
        stage = ApiStage()
        self.origin(stage)
        stage.ask("STREAM.CREATE.T", reading)
        self.wait(stage, 0.5)
        assert stage.ask("CONSUMER.RESET.S.C")["reset_seq"] == 1
        self.wait(stage, 0.1)
        stage.publish(b"s.x", b"d")
        self.wait(stage, 2)
        assert self.payloads(stage) == [b"a", b"b", b"c", b"d"]
        assert stage.jetstream.streams["S"].messages == 0

    def test_startedAgain(self, reading: dict[str, Any]) -> None:
        """A reader that restarts before its first acknowledgement stores no message twice."""
        stage = ApiStage()
        self.origin(stage)
        stage.ask("STREAM.CREATE.T", reading)
        self.wait(stage, 0.5)
        stream = stage.jetstream.streams["T"]
        stream.intake.close()
        stage.publish(b"s.x", b"d")
        stream.intake = StreamIntake(stream)
        finish(stream.intake.applying(stream.config))
        self.wait(stage, 3)
        assert self.payloads(stage) == [b"a", b"b", b"c", b"d"]
        assert stage.jetstream.streams["S"].messages == 0

    def test_otherPolicy(self, reading: dict[str, Any]) -> None:
        """
        A consumer without flow control acknowledgements is not read, and the info of the stream has
        the error.
        """
        stage = ApiStage()
        self.origin(stage, ack_policy="explicit")
        stage.ask("STREAM.CREATE.T", reading)
        self.wait(stage, 0.5)
        info = stage.ask("STREAM.INFO.T")
        shown = info.get("mirror") or info["sources"][0]
        assert shown["error"]["err_code"] == (10214 if "mirror" in reading else 10217)
        assert self.payloads(stage) == []

    def test_missing(self, reading: dict[str, Any]) -> None:
        """A source begins to read when its named consumer is created."""
        stage = ApiStage()
        stage.make(name="S")
        stage.ask("STREAM.CREATE.T", reading)
        self.wait(stage, 1)
        stage.ask("STREAM.DELETE.S")
        self.origin(stage)
        self.wait(stage, 25)
        assert self.payloads(stage) == [b"a", b"b", b"c"]
