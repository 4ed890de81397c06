"""
Damaged streams and consumers.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import fail

from natsbroker.interfaces.records import StoreFailed
from natsbroker.jetstream.damage import LostState, Unreadable, readConfig
from natsbroker.jetstream.model.streamconfig import StreamConfig
from natsbroker.jetstream.statecopies import CopiedStates
from natsbroker.jetstream.streams.stream import Stream, consumerKeys, keyOf
from tests.jetstream.api.support import ApiStage
from tests.jetstream.streams.test_recovery import restarted

_GOOD = b'{"created":1,"config":{"name":"S","subjects":["s.>"]}}'


def _filled(**config: Any) -> ApiStage:
    """Two streams with a message and a consumer each."""
    stage = ApiStage()
    for name in "ST":
        stage.make(name=name, subjects=[f"{name}.>"], **config)
        stage.publish(f"{name}.a".encode(), b"1")
        consumer = {"durable_name": "d", "ack_policy": "explicit"}
        stage.ask(f"CONSUMER.DURABLE.CREATE.{name}.d", {"stream_name": name, "config": consumer})
    return stage


def _put(stage: ApiStage, key: bytes, value: bytes) -> None:
    stage.wait(stage.jetstream.states.put(key, value))


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (b"zork", ""),
        (b"[]", ""),
        (b'{"created":1}', ""),
        (b'{"created":1,"config":{"name":"S","zork":1}}', "S"),
        (b'{"created":1,"config":{"name":"S","max_msgs":"x"}}', "S"),
        (b'{"config":{"name":"S"}}', "S"),
        (b'{"created":null,"name":"c","config":{"ack_policy":"all"}}', "c"),
    ],
)
def test_unreadable(value: bytes, name: str) -> None:
    """An unreadable configuration gives the name of its stream if that can be read."""
    with pytest.raises(Unreadable, match="cannot be read") as caught:
        readConfig(value, StreamConfig)
    assert caught.value.name == name


def test_readable() -> None:
    """A readable value gives the configuration of the stream."""
    document, config = readConfig(_GOOD, StreamConfig)
    assert (document["created"], config.name) == (1, "S")


def test_lostState() -> None:
    """Lost values count for their own space of state, or for all if the space is unknown."""
    lost = LostState()
    lost.stateDamaged("a", b"k", "broken")
    assert (lost.isIn("a"), lost.isIn("b")) == (True, False)
    lost.stateDamaged("", b"", "broken")
    assert lost.isIn("b")


@pytest.mark.parametrize("value", [b"zork", b'{"created":1,"config":{"name":"S","zork":1}}'])
def test_otherStreamsServe(value: bytes) -> None:
    """A stream with an unreadable configuration gets an error of its own. Other streams work."""
    stage = _filled()
    _put(stage, keyOf(b"stream", "S"), value)
    restarted(stage)
    assert stage.ask("STREAM.NAMES")["streams"] == ["T"]
    assert stage.ask("STREAM.INFO.T")["state"]["messages"] == 1
    assert stage.ask("CONSUMER.INFO.T.d")["num_pending"] == 1
    for request in ("STREAM.INFO.S", "CONSUMER.INFO.S.d"):
        assert stage.failure(request) == (500, 10194)
    assert stage.ask("STREAM.CREATE.S", {"name": "S"})["error"]["err_code"] == 10194
    assert list(stage.jetstream.damaged) == ["S"]
    _put(stage, keyOf(b"stream", "S"), _GOOD)
    restarted(stage)
    assert stage.ask("STREAM.INFO.S")["state"]["messages"] == 1
    assert stage.ask("CONSUMER.INFO.S.d")["num_pending"] == 1


def test_lostConfiguration(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream whose configuration the store has lost keeps its messages."""
    stage = _filled()
    value = stage.wait(stage.jetstream.states.load())[keyOf(b"stream", "S")]
    stage.wait(stage.jetstream.states.delete(keyOf(b"stream", "S")))

    def watch(watcher: Any) -> Any:
        watcher.stateDamaged("jetstream/A", keyOf(b"stream", "S"), "broken")
        return lambda: None

    with monkeypatch.context() as patch:
        patch.setattr(stage.files, "watch", watch)
        restarted(stage)
    assert stage.jetstream.damaged == {"S": "its configuration is lost"}
    _put(stage, keyOf(b"stream", "S"), value)
    restarted(stage)
    assert stage.ask("STREAM.INFO.S")["state"]["messages"] == 1


def test_deleted() -> None:
    """A damaged stream and its consumers can be deleted and created again."""
    stage = _filled()
    _put(stage, keyOf(b"stream", "S"), b"zork")
    restarted(stage)
    assert stage.ask("STREAM.DELETE.S") == {
        "type": "io.nats.jetstream.api.v1.stream_delete_response",
        "success": True,
    }
    assert stage.failure("STREAM.INFO.S") == (404, 10059)
    assert consumerKeys("S", "d")[0] not in stage.wait(stage.jetstream.states.load())
    assert stage.make()["state"]["messages"] == 0
    assert list(stage.jetstream.streams) == ["T", "S"]


def test_cannotStart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream whose log cannot be read counts as damaged. Other streams work."""
    stage = _filled()
    configured = Stream.applyConfig

    def broken(stream: Stream, config: Any) -> Any:
        return fail(StoreFailed("broken")) if stream.name == "S" else configured(stream, config)

    with monkeypatch.context() as patch:
        patch.setattr(Stream, "applyConfig", broken)
        restarted(stage)
    assert stage.jetstream.damaged == {"S": "broken"}
    assert stage.ask("STREAM.INFO.T")["state"]["messages"] == 1


def test_damagedConsumer() -> None:
    """
    A consumer with an unreadable configuration is missing, and messages that it may need stay.
    """
    stage = _filled(retention="interest")
    stage.publish(b"S.a", b"2")
    _put(stage, consumerKeys("S", "d")[0], b"zork")
    restarted(stage)
    assert stage.failure("CONSUMER.INFO.S.d") == (404, 10014)
    assert stage.ask("STREAM.INFO.S")["state"]["messages"] == 1


def test_damagedConsumerDeleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer with an unreadable configuration can be deleted, or created again."""
    stage = _filled()
    for name in ("d", "e"):
        _put(stage, consumerKeys("S", name)[0], b"zork")
    restarted(stage)
    with monkeypatch.context() as broken:
        broken.setattr(CopiedStates, "change", lambda self, changes: fail(StoreFailed("broken")))
        assert stage.failure("CONSUMER.DELETE.S.d")[0] == 503
    assert stage.ask("CONSUMER.DELETE.S.d")["success"]
    assert stage.failure("CONSUMER.DELETE.S.d") == (404, 10014)
    assert consumerKeys("S", "d")[0] not in stage.wait(stage.jetstream.states.load())
    config = {"durable_name": "e", "ack_policy": "explicit"}
    made = stage.ask("CONSUMER.DURABLE.CREATE.S.e", {"stream_name": "S", "config": config})
    assert made["num_pending"] == 1
    assert stage.ask("CONSUMER.DELETE.S.e")["success"]
    assert stage.failure("CONSUMER.DELETE.S.e") == (404, 10014)
