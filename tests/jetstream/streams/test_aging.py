"""
Messages that are too old.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from natsbroker.jetstream.streams.aging import isExempt
from tests.jetstream.support import SECOND, Stage


@pytest.mark.parametrize(
    ("text", "expected"), [(b"never", True), (b"Never", True), (b"1s", False), (b"zork", False)]
)
def test_isExempt(text: bytes, expected: bool) -> None:
    """A message whose time to live is C{never} does not age."""
    assert isExempt(b"NATS/1.0\r\nNats-TTL: " + text + b"\r\n\r\n") is expected
    assert not isExempt(b"NATS/1.0\r\nA: " + text + b"\r\n\r\n")


def test_exempt() -> None:
    """Messages that never expire stay anywhere in the stream, and the others leave at max_age."""
    stage = Stage()
    stream = stage.stream(max_age=2 * SECOND, allow_msg_ttl=True)
    for ttl in ("never", "100s", "never", "100s"):
        stage.publish(b"s.a", b"x", Nats_TTL=ttl)
        stage.clock.advance(0.5)
    left = []
    for _ in range(4):
        stage.settle()
        left.append([record[0] for record in stage.stored(stream)])
        stage.clock.advance(0.5)
    assert left == [[1, 2, 3, 4], [1, 3, 4], [1, 3, 4], [1, 3]]
    stage.publish(b"s.a", b"y")
    stage.clock.advance(2)
    stage.settle()
    assert [record[0] for record in stage.stored(stream)] == [1, 3]


def test_changedAge() -> None:
    """A shorter max_age applies at once. Without one, messages stay."""
    stage = Stage()
    stream = stage.stream(max_age=100 * SECOND)
    stage.publish(b"s.a", b"1")
    stage.clock.advance(5)
    stage.publish(b"s.a", b"2")
    stage.wait(stream.applyConfig(replace(stream.config, max_age=4 * SECOND)))
    assert [record[0] for record in stage.stored(stream)] == [2]
    stage.wait(stream.applyConfig(replace(stream.config, max_age=0)))
    stage.clock.advance(1000)
    stage.settle()
    assert [record[0] for record in stage.stored(stream)] == [2]


def test_timeToLiveLater() -> None:
    """Messages age as before when the stream begins to allow times to live."""
    stage = Stage()
    stream = stage.stream(max_age=4 * SECOND)
    stage.publish(b"s.a", b"1")
    stage.wait(stream.applyConfig(replace(stream.config, allow_msg_ttl=True)))
    stage.clock.advance(1)
    stage.publish(b"s.a", b"2", Nats_TTL="never")
    stage.clock.advance(9)
    stage.settle()
    assert [record[0] for record in stage.stored(stream)] == [2]
