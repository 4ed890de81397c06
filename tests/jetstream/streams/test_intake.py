"""
The mirror and the sources of a stream.
"""

from __future__ import annotations

from natsbroker.jetstream.model.streamconfig import External, StreamSource
from tests.jetstream.streams.test_origins import Origin
from tests.jetstream.support import Stage


def test_external() -> None:
    """An external origin is asked and delivers under its own prefixes."""
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
    """Most streams have neither."""
    intake = Stage().stream().intake
    assert (intake.mirrorInfo(), intake.sourceInfos()) == (None, [])


def test_close() -> None:
    """A closed stream asks for nothing."""
    stage = Stage()
    stream = stage.stream(name="M", subjects=(), sources=(StreamSource("S"), StreamSource("R")))
    assert [each["name"] for each in stream.intake.sourceInfos()] == ["S", "R"]
    stream.close()
    origin = Origin(stage)
    stage.clock.pump([1.0] * 15)
    assert not origin.requests.got
