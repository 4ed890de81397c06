"""
Messages with a time to live.
"""

from __future__ import annotations

import pytest
from twisted.internet.defer import fail

from natsbroker.interfaces.records import StoreFailed
from natsbroker.jetstream.model.streamconfig import StorageType
from natsbroker.jetstream.streams.expiry import NEVER, SECOND, parseTtl
from natsbroker.jetstream.streams.stream import Stream
from tests.jetstream.support import Stage


@pytest.mark.parametrize(
    ("text", "ttl"),
    [
        (b"1", SECOND),
        (b"01", SECOND),
        (b"1.5s", 3 * SECOND // 2),
        (b"1500ms", 3 * SECOND // 2),
        (b"+2s", 2 * SECOND),
        (b"1h", 3600 * SECOND),
        (b"never", NEVER),
        (b"NEVER", NEVER),
        (b"0", 0),
        (b"-1", 0),
        (b"500ms", 0),
        (b"1e9", 0),
        (b"abc", 0),
        (b"1.5", 0),
        (b"9" * 5000, 0),
    ],
)
def test_parseTtl(text: bytes, ttl: int) -> None:
    """A time to live is a number of seconds, a duration of at least one second, or C{never}."""
    assert parseTtl(text) == ttl


@pytest.mark.parametrize("storage", list(StorageType))
def test_expires(storage: StorageType) -> None:
    """Messages are removed in the order of their ends. Those without an end stay."""
    stage = Stage()
    stream = stage.stream(storage=storage, allow_msg_ttl=True)
    for ttl in ("3", "1", "never", "2"):
        stage.publish(b"s.a", b"x", Nats_TTL=ttl)
    stage.publish(b"s.a")
    left = []
    for _ in range(3):
        stage.clock.advance(1)
        stage.settle()
        left.append([record[0] for record in stage.stored(stream)])
    assert left == [[1, 3, 4, 5], [1, 3, 5], [3, 5]]


def test_timerOfFirst() -> None:
    """Messages that end later than others set no timer; one that ends before them does."""
    stage = Stage()
    stream = stage.stream(allow_msg_ttl=True)
    stage.publish(b"s.a", b"x", Nats_TTL="9")
    before = [call.getTime() for call in stage.clock.getDelayedCalls()]
    for _ in range(3):
        stage.publish(b"s.a", b"x", Nats_TTL="20")
    assert [call.getTime() for call in stage.clock.getDelayedCalls()] == before
    stage.publish(b"s.a", b"x", Nats_TTL="2")
    stage.clock.advance(2)
    stage.settle()
    assert [record[0] for record in stage.stored(stream)] == [1, 2, 3, 4]
    stage.clock.advance(7)
    stage.settle()
    assert [record[0] for record in stage.stored(stream)] == [2, 3, 4]


@pytest.mark.parametrize("length", [1, 500])
def test_otherHeaders(length: int) -> None:
    """The time to live is found in short header blocks and in long ones."""
    stage = Stage()
    stream = stage.stream(allow_msg_ttl=True)
    for _ in range(2):
        stage.publish(b"s.a", b"x", Nats_TTL="2", X_Other="x" * length)
    stage.clock.advance(2)
    stage.settle()
    assert stream.messages == 0


def test_afterRestart() -> None:
    """After a restart, messages expire at their original times."""
    stage = Stage()
    stream = stage.stream(allow_msg_ttl=True)
    stage.publish(b"s.a", b"x", Nats_TTL="2")
    stage.publish(b"s.a", b"x", Nats_TTL="9")
    stream.close()
    stage.clock.advance(5)
    stage.settle()
    again = Stream(stage.jetstream, stream.config, 1, stream.log)
    stage.wait(again.applyConfig(again.config))
    assert [record[0] for record in stage.stored(again)] == [2]
    stage.clock.advance(4)
    stage.settle()
    assert again.messages == 0


def test_storeFails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A removal that fails is tried again."""
    stage = Stage()
    stream = stage.stream(allow_msg_ttl=True)
    stage.publish(b"s.a", b"x", Nats_TTL="1")
    with monkeypatch.context() as patch:
        patch.setattr(stream.log, "delete", lambda _: fail(StoreFailed("broken")))
        stage.clock.advance(1)
        stage.settle()
    assert stream.messages == 1
    stage.clock.advance(1)
    stage.settle()
    assert stream.messages == 0


def test_refusals() -> None:
    """
    A time to live is refused by a stream that does not allow it, and by every stream if it is
    invalid.
    """
    stage = Stage()
    stage.stream(name="S")
    stage.stream(name="T", subjects=("t",), allow_msg_ttl=True)
    assert stage.errorOf(stage.publish(b"s.a", Nats_TTL="1"))[0] == 10166
    assert stage.errorOf(stage.publish(b"s.a", Nats_TTL="0"))[0] == 10165
    assert stage.errorOf(stage.publish(b"t", Nats_TTL="zork"))[0] == 10165


@pytest.mark.parametrize(
    ("ttl", "limit", "headers"),
    [
        ("1", -1, b"B: c\r\nNats-TTL: 5\r\n"),
        ("10s", -1, b"Nats-TTL: 10s\r\nB: c\r\n"),
        ("never", -1, b"Nats-TTL: never\r\nB: c\r\n"),
        ("1", 1, b"Nats-TTL: 1\r\nB: c\r\n"),
    ],
)
def test_markerTime(ttl: str, limit: int, headers: bytes) -> None:
    """A time to live that is shorter than that of delete markers is raised to the latter."""
    stage = Stage()
    stream = stage.stream(
        allow_msg_ttl=True, subject_delete_marker_ttl=5 * SECOND, max_msgs_per_subject=limit
    )
    stage.publish(b"s.a", b"x", Nats_TTL=ttl, B="c")
    record = stage.wait(stream.get(1))
    assert record is not None
    assert record.headers == b"NATS/1.0\r\n" + headers + b"\r\n"
